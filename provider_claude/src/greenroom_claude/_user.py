"""Frames of type `user`: results of tools, echoes of prompts, and what the agent writes in the user's name."""

from __future__ import annotations

from greenroom.providers import (
    Json,
    JsonObject,
    Notice,
    ProviderEvent,
    ToolFinished,
    ToolStarted,
    ToolStatus,
    UserEcho,
)

from . import _tasks, _todos, _turns
from ._state import State
from ._wire import (
    INTERRUPTED,
    Frame,
    content_blocks,
    is_noise,
    is_result,
    local_output,
    objects_at,
    result_text,
    text_at,
    user_text,
)


def user(state: State, frame: Frame) -> list[ProviderEvent]:
    """Read a `user` frame."""
    if text_at(frame, "parent_tool_use_id"):
        return state.agents.items(frame)
    blocks = list(content_blocks(frame["message"]))
    results = [block for block in blocks if is_result(block)]
    if results:
        return [event for block in results for event in tool_result(state, frame, block)]
    text = user_text(frame["message"])
    ident = text_at(frame, "uuid")
    notification = _tasks.from_text(text, ident)
    if notification:
        return hold(state, notification.events(state.turn_id))
    if text is not None and text.startswith(INTERRUPTED) and state.turn:
        state.turn.aborted = True
        return []
    if frame.get("isSynthetic") is True or frame.get("isMeta") is True:
        return _turns.end_compaction(state, summary=text) if state.boundary else []
    return _said(state, frame, text, ident)


def _said(state: State, frame: Frame, text: str | None, ident: str | None) -> list[ProviderEvent]:
    printed = local_output(text) if text else None
    if printed is not None:
        return [Notice(message=printed)] if printed else []
    ours = ident is not None and ident in state.sent
    if ident is not None and (ours or frame.get("isReplay") is True):
        _turns.echoed(state, ident)
    if ident is None or (text is None and not ours) or (text is not None and is_noise(text)):
        return []
    return [
        UserEcho(
            text=text or "",
            provider_message_id=ident,
            client_message_id=ident if ours else None,
            turn_id=state.turn_id,
        )
    ]


def hold(state: State, events: list[ToolStarted | ToolFinished]) -> list[ProviderEvent]:
    """`events` now if a turn runs, else when the turn begins that they cause."""
    if state.turn is not None:
        return [*events]
    state.held += events
    return []


def tool_result(state: State, frame: Frame, block: JsonObject) -> list[ProviderEvent]:
    """The result of a call. One without an id is dropped; one of a call that is past settles it."""
    ident = text_at(block, "tool_use_id")
    if not ident:
        return []
    call = state.finish_call(ident)
    name, given = (call.name, call.input) if call else ("tool", {})
    text, raw = result_text(block.get("content")), frame.get("tool_use_result")
    status = _status(state, frame, block, raw)
    child = state.agents.by_call.get(ident)
    event = ToolFinished(
        call_id=ident,
        name=name,
        input=given,
        output=text,
        raw=raw if isinstance(raw, dict | list) else None,
        detail=child.detail() if child else None,
        status=status,
        error=(text or "the tool failed without a word") if status == "failed" else None,
        turn_id=state.turn_id,
    )
    todos = _todos.todo_event(state, name, given, raw) if status == "completed" and name in _todos.NAMES else []
    return [event, *todos]


def _status(state: State, frame: Frame, block: JsonObject, raw: Json) -> ToolStatus:
    if block.get("is_error") is not True:
        return "completed"
    metas = [meta for meta in objects_at(frame, "tool_result_meta") if meta.get("id") == block.get("tool_use_id")]
    rejected = any(text_at(meta, "non_execution_kind") == "user-rejected" for meta in metas)
    if rejected or raw == "User rejected tool use" or (state.turn is not None and state.turn.aborted):
        return "canceled"
    return "failed"
