"""Frames of type `system`, by subtype, and the small frames beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from greenroom.providers import (
    Compaction,
    ConfigChanged,
    Idle,
    JsonObject,
    Notice,
    ProviderEvent,
    Raw,
    SessionStarted,
    TurnCanceled,
)

from . import _tasks, _turns
from ._state import State
from ._subagents import AGENT_TASKS
from ._usage import stated_usage
from ._user import hold
from ._wire import Frame, int_at, object_at, objects_at, session_id, text_at

Handler = Callable[[State, Frame], list[ProviderEvent]]
_LEVELS: dict[str, Literal["info", "warning", "error"]] = {"warning": "warning", "error": "error"}


def system(state: State, frame: Frame) -> list[ProviderEvent]:
    """Read a `system` frame."""
    subtype = frame["subtype"]
    handler = SYSTEM.get(subtype)
    if handler is None:
        return [Raw(kind=f"system/{subtype}", payload=frame, turn_id=state.turn_id)]
    return handler(state, frame)


def silent(_: State, __: Frame) -> list[ProviderEvent]:
    """A known frame that says nothing to a client."""
    return []


def _init(state: State, frame: Frame) -> list[ProviderEvent]:
    events = native_session(state, session_id(frame))
    model, mode = text_at(frame, "model"), text_at(frame, "permissionMode")
    if model and model != state.model:
        state.model = model
        events.append(ConfigChanged(model=model))
    return events + _mode(state, mode) + _turns.init(state, frame)


def native_session(state: State, ident: str | None) -> list[ProviderEvent]:
    """The session id of the agent; a change in the middle of a turn is a notice, not a failure."""
    if not ident or ident == state.native_id:
        return []
    known, state.native_id = state.native_id, ident
    events: list[ProviderEvent] = [SessionStarted(native_id=ident)]
    if known is not None:
        events.insert(0, Notice(message="The agent switched to another session.", code="session_changed"))
    return events


def _mode(state: State, mode: str | None) -> list[ProviderEvent]:
    if not mode or mode == state.mode:
        return []
    if mode == "plan":
        state.mode_before_plan = state.mode
    state.mode = mode
    return [ConfigChanged(mode=mode)]


def _status(state: State, frame: Frame) -> list[ProviderEvent]:
    events = _mode(state, text_at(frame, "permissionMode"))
    result = text_at(frame, "compact_result")
    if text_at(frame, "status") == "compacting" and not state.compacting:
        state.compacting = True
        events.append(Compaction(phase="start", turn_id=state.turn_id))
    elif result is not None and result != "success" and state.compacting:
        state.compacting = False
        error = text_at(frame, "compact_error") or result
        events.append(Compaction(phase="end", error=error, turn_id=state.turn_id))
    return events


def _compact_boundary(state: State, frame: Frame) -> list[ProviderEvent]:
    data = object_at(frame, "compact_metadata", "compactMetadata", "compactMetaData")
    events: list[ProviderEvent] = []
    if not state.compacting:
        state.compacting = True
        events.append(Compaction(phase="start", turn_id=state.turn_id))
    state.boundary = compaction(data)
    return events


def compaction(data: JsonObject) -> Compaction:
    """The end of a compaction, from its metadata in each of its spellings."""
    return Compaction(
        phase="end",
        trigger="manual" if text_at(data, "trigger") == "manual" else "auto",
        tokens_before=int_at(data, "pre_tokens", "preTokens"),
        tokens_after=int_at(data, "post_tokens", "postTokens"),
    )


def _task_started(state: State, frame: Frame) -> list[ProviderEvent]:
    return state.agents.started(frame) if text_at(frame, "task_type") in AGENT_TASKS else []


def _task_progress(state: State, frame: Frame) -> list[ProviderEvent]:
    of_child = text_at(frame, "tool_use_id") or text_at(frame, "subagent_type")
    return [] if of_child else stated_usage(state, frame)


def _task_updated(state: State, frame: Frame) -> list[ProviderEvent]:
    return state.agents.status(frame)


def _task_notification(state: State, frame: Frame) -> list[ProviderEvent]:
    events = state.agents.status(frame)
    if text_at(frame, "tool_use_id") in state.calls:
        return events  # work in the foreground: its call is about to say the same
    notification = _tasks.from_frame(frame)
    if text_at(frame, "status") == "stopped" and state.turn is None:
        return [*events, Notice(message=f"Stopped: {notification.summary}", code="task_stopped")]
    return events + hold(state, notification.events(state.turn_id))


def _background_tasks(state: State, frame: Frame) -> list[ProviderEvent]:
    state.background = objects_at(frame, "tasks")
    return []


def _api_retry(_: State, frame: Frame) -> list[ProviderEvent]:
    attempt, most = int_at(frame, "attempt"), int_at(frame, "max_retries")
    status = int_at(frame, "error_status")
    why = text_at(frame, "error") or "the request failed"
    message = f"Trying again ({attempt} of {most}): {why}" + (f" ({status})" if status else "")
    return [Notice(level="warning", message=message, code="api_retry")]


def _permission_denied(_: State, frame: Frame) -> list[ProviderEvent]:
    name = text_at(frame, "tool_name") or "tool"
    message = f"{name} was denied: {text_at(frame, 'message') or 'no reason given'}"
    return [Notice(level="warning", message=message, code="permission_denied")]


def _told(state: State, frame: Frame) -> list[ProviderEvent]:
    subtype = text_at(frame, "subtype") or "notice"
    message = text_at(frame, "content", "message", "text", "reason")
    if not message:
        return [Raw(kind=f"system/{subtype}", payload=frame, turn_id=state.turn_id)]
    return [Notice(level=_LEVELS.get(text_at(frame, "level") or "", "info"), message=message, code=subtype)]


def _hook_response(_: State, frame: Frame) -> list[ProviderEvent]:
    if text_at(frame, "outcome") in {None, "success", "cancelled"}:
        return []
    said = text_at(frame, "stderr") or text_at(frame, "output") or ""
    name = text_at(frame, "hook_name") or "hook"
    return [Notice(level="warning", message=f"The hook {name} failed. {said}".strip(), code="hook_failed")]


def _session_state(_: State, frame: Frame) -> list[ProviderEvent]:
    return [Idle()] if text_at(frame, "state") == "idle" else []


SYSTEM: dict[str, Handler] = {
    "init": _init,
    "status": _status,
    "compact_boundary": _compact_boundary,
    "task_started": _task_started,
    "task_progress": _task_progress,
    "task_updated": _task_updated,
    "task_notification": _task_notification,
    "background_tasks_changed": _background_tasks,
    "api_retry": _api_retry,
    "permission_denied": _permission_denied,
    "hook_response": _hook_response,
    "session_state_changed": _session_state,
    **dict.fromkeys(
        (
            "informational",
            "local_command_output",
            "notification",
            "model_refusal_fallback",
            "model_refusal_no_fallback",
            "session_writes_lost",
        ),
        _told,
    ),
    **dict.fromkeys(
        (
            "commands_changed",
            "control_request_progress",
            "elicitation_complete",
            "files_persisted",
            "hook_progress",
            "hook_started",
            "memory_recall",
            "plugin_install",
            "session_title_changed",
            "thinking_tokens",
            "worker_shutting_down",
        ),
        silent,
    ),
}
"""Subtype of a `system` frame to what reads it."""


def command_lifecycle(state: State, frame: Frame) -> list[ProviderEvent]:
    """How far the agent is with a message that was written to it."""
    prompt, stage = text_at(frame, "command_uuid"), text_at(frame, "state")
    state.names_prompts = True
    if prompt is None:
        return []
    if stage == "started":
        return _turns.begin(state, prompt)
    if stage == "cancelled" and prompt in state.sent:
        return _cancelled(state, prompt)
    return []


def _cancelled(state: State, prompt: str) -> list[ProviderEvent]:
    """A prompt that will not be answered. If it is the open turn's own, that is the end of the turn."""
    if state.turn is not None and state.turn.id == prompt:
        return _turns.close(state, TurnCanceled(turn_id=prompt, reason="interrupted"))
    if state.sent.pop(prompt) or (state.turn is not None and prompt in state.turn.prompts):
        return []
    return [TurnCanceled(turn_id=prompt, reason="taken back")]


def rate_limit(_: State, frame: Frame) -> list[ProviderEvent]:
    """News of the account's limits; only what a person should know."""
    info = object_at(frame, "rate_limit_info")
    status = text_at(info, "status")
    if status in {None, "allowed"}:
        return []
    used = info.get("utilization")
    share = f", {used:.0%} used" if isinstance(used, float) and 0 <= used <= 1 else ""
    window = (text_at(info, "rateLimitType") or "usage").replace("_", " ")
    level: Literal["warning", "error"] = "error" if status == "rejected" else "warning"
    return [Notice(level=level, message=f"Rate limit ({window}): {status}{share}", code="rate_limit")]


def conversation_reset(state: State, frame: Frame) -> list[ProviderEvent]:
    """The conversation was cleared; it goes on under another id."""
    events = native_session(state, text_at(frame, "new_conversation_id"))
    state.messages.clear()
    state.todos.clear()
    return [event for event in events if not isinstance(event, Notice)] + [
        Notice(message="The conversation was cleared.", code="cleared")
    ]


def auth_status(_: State, frame: Frame) -> list[ProviderEvent]:
    """The state of the login; only a problem is said."""
    error = text_at(frame, "error")
    return [Notice(level="error", message=error, code="auth")] if error else []
