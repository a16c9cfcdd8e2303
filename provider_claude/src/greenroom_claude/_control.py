"""Requests of the agent to its host: questions that wait for an answer, and how an answer is written."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.providers import (
    JsonObject,
    PermissionAction,
    PermissionAllow,
    PermissionDeny,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    PermissionResponse,
    ProviderError,
    ProviderEvent,
    Raw,
)

from ._state import State
from ._wire import Frame, object_at, objects_at, text_at

Kind = str
_ALLOW = PermissionAction("allow", "Allow", "allow", "primary")
_ALWAYS = PermissionAction("allow_always", "Always allow", "allow", "secondary")
_DENY = PermissionAction("deny", "Deny", "deny", "danger")
_PLAN = (
    PermissionAction("reject", "Keep planning", "deny", "secondary"),
    PermissionAction("implement", "Implement", "allow", "primary"),
)
_PLAN_BYPASS = PermissionAction("implement_resume", "Implement without further questions", "allow", "danger")
_MODE_OF_ACTION = {"implement": "acceptEdits", "implement_resume": "bypassPermissions"}
_HOST_ONLY = frozenset({"hook_callback", "mcp_message"})


class MalformedAnswer(ProviderError):
    """Raised when an answer does not fit its question; the question stays open."""


def control_request(state: State, frame: Frame) -> list[ProviderEvent]:
    """A request of the agent. Callbacks of hooks and MCP messages are for the session, not for a client."""
    ident, request = frame["request_id"], frame["request"]
    subtype = request["subtype"]
    if subtype in _HOST_ONLY:
        return []
    reader = QUESTIONS.get(subtype)
    if reader is None or not isinstance(ident, str):
        return [Raw(kind=f"control_request/{subtype}", payload=frame, turn_id=state.turn_id)]
    if ident in state.questions:
        return []
    question = reader(state, ident, request)
    state.questions[ident] = (question, request)
    return [PermissionRequested(request=question, turn_id=state.turn_id)]


def _can_use_tool(state: State, ident: str, request: JsonObject) -> PermissionRequest:
    name, given = text_at(request, "tool_name") or "tool", object_at(request, "input")
    suggestions = tuple(objects_at(request, "permission_suggestions"))
    if name == "ExitPlanMode":
        bypass = (_PLAN_BYPASS,) if state.mode_before_plan == "bypassPermissions" else ()
        return PermissionRequest(
            id=ident,
            name=name,
            kind="plan",
            title="Plan",
            description=text_at(given, "plan") or _planned(state, text_at(request, "tool_use_id")),
            input=given,
            actions=_PLAN + bypass,
            call_id=text_at(request, "tool_use_id"),
        )
    asks = name == "AskUserQuestion" and isinstance(given.get("questions"), list)
    always = (_ALWAYS,) if suggestions and request.get("suppress_always_allow_rule") is not True else ()
    return PermissionRequest(
        id=ident,
        name=name,
        kind="question" if asks else "mode" if name == "EnterPlanMode" else "tool",
        title=text_at(request, "title", "display_name"),
        description=text_at(request, "decision_reason") or text_at(request, "description"),
        input=given,
        suggestions=suggestions,
        actions=() if asks else (_ALLOW, *always, _DENY),
        call_id=text_at(request, "tool_use_id"),
    )


def _planned(state: State, call_id: str | None) -> str | None:
    """The plan in the call itself: the question leaves it out unless the agent also wrote it into a file."""
    call = state.calls.get(call_id or "")
    return text_at(call.input, "plan") if call else None


def _elicitation(_: State, ident: str, request: JsonObject) -> PermissionRequest:
    return PermissionRequest(
        id=ident,
        name="elicitation",
        kind="other",
        title=text_at(request, "mcp_server_name"),
        description=text_at(request, "message"),
        input={key: request[key] for key in ("mode", "url", "requested_schema", "property_order") if key in request},
        actions=(PermissionAction("accept", "Accept", "allow", "primary"), _DENY),
    )


def _dialog(_: State, ident: str, request: JsonObject) -> PermissionRequest:
    return PermissionRequest(
        id=ident,
        name=text_at(request, "dialog_kind") or "dialog",
        kind="other",
        title=text_at(request, "title"),
        description=text_at(request, "message"),
        input={key: value for key, value in request.items() if key != "subtype"},
        actions=(_ALLOW, _DENY),
    )


QUESTIONS: dict[str, Callable[[State, str, JsonObject], PermissionRequest]] = {
    "can_use_tool": _can_use_tool,
    "elicitation": _elicitation,
    "request_user_dialog": _dialog,
}
"""Subtype of a request that a person answers to what reads it."""


def control_cancel(state: State, frame: Frame) -> list[ProviderEvent]:
    """The agent withdraws a question."""
    return _resolve(state, text_at(frame, "request_id"), PermissionDeny(message="withdrawn"), system=True)


def control_response(state: State, frame: Frame) -> list[ProviderEvent]:
    """An echo of our own answer. Answers to our requests are the session's business."""
    body = object_at(frame, "response")
    return answered(state, body) if text_at(body, "request_id") in state.questions else []


def answered(state: State, body: JsonObject) -> list[ProviderEvent]:
    """Our answer to a question is on its way, or was echoed."""
    answer = object_at(body, "response")
    word = text_at(answer, "behavior") or text_at(answer, "action")
    response: PermissionResponse
    if word in {"allow", "accept"}:
        changed = object_at(answer, "updatedInput", "content") or None
        response = PermissionAllow(
            updated_input=changed, updated_permissions=tuple(objects_at(answer, "updatedPermissions"))
        )
    else:
        stops = answer.get("interrupt") is True
        state.interrupting = state.interrupting or stops
        response = PermissionDeny(message=text_at(answer, "message") or text_at(body, "error"), interrupt=stops)
    return _resolve(state, text_at(body, "request_id"), response, system=False)


def _resolve(state: State, ident: str | None, response: PermissionResponse, *, system: bool) -> list[ProviderEvent]:
    if ident is None or state.questions.pop(ident, None) is None:
        return []
    return [PermissionResolved(request_id=ident, response=response, by="system" if system else "user")]


def answer_body(question: PermissionRequest, request: JsonObject, response: PermissionResponse) -> JsonObject:
    """What the agent expects as the answer to `request`.

    Raises:
        MalformedAnswer: the answer does not fit the question.
    """
    if text_at(request, "subtype") == "elicitation":
        if isinstance(response, PermissionAllow):
            return {"action": "accept", "content": response.updated_input or {}}
        return {"action": "cancel" if response.interrupt else "decline"}
    if isinstance(response, PermissionDeny):
        body: JsonObject = {"behavior": "deny", "message": response.message or "The user said no."}
        return {**body, "interrupt": True} if response.interrupt else body
    given = question.input or {}
    changed = given if response.updated_input is None else response.updated_input
    if question.kind == "question":
        changed = _with_answers(given, changed)
    permissions = list(response.updated_permissions)
    if response.action == "allow_always" and not permissions:
        permissions = list(question.suggestions)
    mode = _MODE_OF_ACTION.get(response.action or "") if question.kind == "plan" else None
    if mode:
        permissions.append({"type": "setMode", "mode": mode, "destination": "session"})
    body = {"behavior": "allow", "updatedInput": changed}
    return {**body, "updatedPermissions": permissions} if permissions else body


def _with_answers(given: JsonObject, changed: JsonObject) -> JsonObject:
    """The input with its `answers`, each under the text of its question; a header names its question as well."""
    questions = objects_at(given, "questions")
    names = {text_at(q, key): text_at(q, "question") for key in ("header", "question") for q in questions}
    answers = object_at(changed, "answers")
    if not answers:
        raise MalformedAnswer("the answer to a question needs `answers`", hint="map each question to a text")
    out = {}
    for key, value in answers.items():
        text = names.get(key)
        if text is None:
            asked = ", ".join(filter(None, names))
            raise MalformedAnswer(f"nothing was asked that is called {key!r}", hint=f"asked: {asked}")
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ", ".join(value)  # noqa: PLW2901 - the wire wants one text for several choices
        if not isinstance(value, str):
            raise MalformedAnswer(f"the answer to {key!r} is no text")
        out[text] = value
    return {**given, "answers": out}
