"""Provider events: what a provider session emits. The driver turns them into session events, and nobody else does.

Every event is a frozen Struct, tagged by `type`, and may carry `from_history`: then it changes no state, wakes nobody
and is numbered silently; `time` says when it happened, in ms since the epoch, where the history knows. `turn_id` stands
where a translator knows or can mint one; the pump gives an event without one to the active run.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from ._details import (
    Json,
    JsonObject,
    Mode,
    PermissionRequest,
    PermissionResponse,
    TodoItem,
    ToolDetail,
    ToolStatus,
    Usage,
)
from ._wire import decode_wire


class _Event(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True, kw_only=True):
    """Base of the events; fields that all of them share."""

    from_history: bool = False
    time: int | None = None


class _TurnEvent(_Event, frozen=True, kw_only=True):
    """Base of the events that belong to a turn."""

    turn_id: str | None = None


class SessionStarted(_Event, frozen=True, tag="session_started"):
    """The provider revealed or changed its native session id."""

    native_id: str


class TurnStarted(_TurnEvent, frozen=True, tag="turn_started"):
    """A turn began: a duplicate of ours, or one that the provider started by itself."""


class TurnCompleted(_TurnEvent, frozen=True, tag="turn_completed"):
    """Terminal: the turn is done. Without usage the latest one stays. `max_tokens`: the answer was cut by its limit."""

    usage: Usage | None = None
    max_tokens: bool = False


class TurnFailed(_TurnEvent, frozen=True, tag="turn_failed"):
    """Terminal: the turn failed. `diagnostic` is more text for a person, for example the tail of stderr."""

    error: str
    code: str | None = None
    diagnostic: str | None = None
    usage: Usage | None = None


class TurnCanceled(_TurnEvent, frozen=True, tag="turn_canceled"):
    """Terminal: the turn was interrupted."""

    reason: str
    usage: Usage | None = None


class StepBoundary(_TurnEvent, frozen=True, tag="step_boundary"):
    """The provider starts its next model request (only from providers that reveal them)."""


class TextDelta(_TurnEvent, frozen=True, tag="text_delta"):
    """A piece of the answer, to be appended."""

    text: str
    message_id: str | None = None


class ReasoningDelta(_TurnEvent, frozen=True, tag="reasoning_delta"):
    """A piece of thinking text, to be appended."""

    text: str
    message_id: str | None = None


class MessageDone(_TurnEvent, frozen=True, tag="message_done"):
    """A message is finished. `text` is the whole of it: only the suffix that was not streamed is still to be shown.

    `reasoning` says which of the two streams of that id is meant; `interrupted`, that the rest will never come.
    """

    message_id: str
    text: str | None = None
    reasoning: bool = False
    interrupted: bool = False


class _ToolEvent(_TurnEvent, frozen=True, kw_only=True):
    """Base of the tool events. `name` is the provider's name; the name of an MCP tool is `mcp__<server>__<tool>`.

    `output` is what the model was given. `raw` is the structured result, where the provider has one: normalisation
    reads `input` and `raw`, or `output` if there is no `raw`. `detail` is what the translator itself knows better
    (absent: the driver asks the normalisation hook). `error` is present exactly when `status` is failed.
    """

    call_id: str
    name: str
    input: Json = None
    output: Json = None
    raw: Json = None
    detail: ToolDetail | None = None
    status: ToolStatus = "running"
    error: str | None = None


class ToolStarted(_ToolEvent, frozen=True, tag="tool_started"):
    """A tool call began; its input may still be growing."""


class ToolProgress(_ToolEvent, frozen=True, tag="tool_progress"):
    """More is known of a running call; the latest one wins."""


class ToolFinished(_ToolEvent, frozen=True, tag="tool_finished"):
    """A call ended; `status` is terminal."""

    status: ToolStatus = "completed"


class Todo(_TurnEvent, frozen=True, tag="todo"):
    """The whole todo list."""

    items: tuple[TodoItem, ...]


class PermissionRequested(_TurnEvent, frozen=True, tag="permission_requested"):
    """The provider asks and waits."""

    request: PermissionRequest


class PermissionResolved(_Event, frozen=True, tag="permission_resolved"):
    """A question is closed: by our answer, or withdrawn by the provider (`by` = system)."""

    request_id: str
    response: PermissionResponse
    by: Literal["user", "system"] = "user"


class Idle(_Event, frozen=True, tag="idle"):
    """The provider says that nothing runs."""


class UsageUpdated(_TurnEvent, frozen=True, tag="usage"):
    """New numbers; the latest ones win. Numbers that are absent keep their value."""

    usage: Usage


class ConfigChanged(_Event, frozen=True, tag="config_changed"):
    """Mode, offered modes, model or thinking level changed; None = as before."""

    mode: str | None = None
    modes: tuple[Mode, ...] | None = None
    model: str | None = None
    thinking: str | None = None


class UserEcho(_TurnEvent, frozen=True, tag="user_echo"):
    """A user message as the provider stored it: an acknowledgement of ours, or one that was typed elsewhere."""

    text: str
    provider_message_id: str
    client_message_id: str | None = None

    @property
    def repeats(self) -> str | None:
        """The id of our message that it repeats; a blank one counts as none."""
        return (self.client_message_id or "").strip() or None


SubAgentItem = TextDelta | ReasoningDelta | ToolStarted | ToolProgress | ToolFinished | UserEcho
"""What may stand in the line of a provider-owned sub-agent."""


class SubAgent(_TurnEvent, frozen=True, tag="subagent"):
    """News of a sub-agent that the provider owns.

    `upsert` is sticky: an absent field keeps its value. `item` appends to the child's line. `remove` forgets it.
    `call_id` is the tool call of the parent that started the child.
    """

    action: Literal["upsert", "item", "remove"]
    child_id: str
    call_id: str | None = None
    title: str | None = None
    agent_type: str | None = None
    prompt: str | None = None
    model: str | None = None
    background: bool | None = None
    status: Literal["running", "completed", "failed", "canceled"] | None = None
    item: SubAgentItem | None = None


class Compaction(_TurnEvent, frozen=True, tag="compaction"):
    """The provider begins (`start`) or ends (`end`) to shorten its context; `summary` is what replaced it."""

    phase: Literal["start", "end"]
    trigger: Literal["auto", "manual"] | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    summary: str | None = None
    error: str | None = None


class Notice(_Event, frozen=True, tag="notice"):
    """A line for the person at the screen."""

    message: str
    level: Literal["info", "warning", "error"] = "info"
    code: str | None = None


class Raw(_TurnEvent, frozen=True, tag="raw"):
    """A message of the provider that nobody here knows. `kind` names it, for example by its type."""

    kind: str
    payload: Json = None


ProviderEvent = (
    SessionStarted
    | TurnStarted
    | TurnCompleted
    | TurnFailed
    | TurnCanceled
    | StepBoundary
    | TextDelta
    | ReasoningDelta
    | MessageDone
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | Todo
    | PermissionRequested
    | PermissionResolved
    | Idle
    | UsageUpdated
    | ConfigChanged
    | UserEcho
    | SubAgent
    | Compaction
    | Notice
    | Raw
)
"""Anything a provider session emits."""

TERMINAL = (TurnCompleted, TurnFailed, TurnCanceled)
"""The events that end a turn, for `isinstance`."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ProviderEvent)


def encode_event(event: ProviderEvent) -> bytes:
    """`event` as one line of JSON without a line feed."""
    return _encoder.encode(event)


def decode_event(line: bytes | str | JsonObject) -> ProviderEvent:
    """The event in `line` (JSON text, or an object that was decoded already). Unknown fields are ignored.

    Raises:
        msgspec.ValidationError: the JSON is not a provider event.
        ValueError: it is not JSON.
    """
    if isinstance(line, dict):
        return _convert(line)
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _convert(decode_wire(line))


def _convert(value: Json) -> ProviderEvent:
    event: ProviderEvent = msgspec.convert(value, ProviderEvent)  # msgspec types the union as Any
    return event
