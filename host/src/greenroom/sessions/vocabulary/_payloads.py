"""The data of every session event of the host, one frozen Struct each."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from greenroom.providers._details import PermissionRequest, PermissionResponse, TodoItem, ToolDetail, Usage
from greenroom.sessions.vocabulary._content import (
    Count,
    JsonObject,
    JsonValue,
    LongText,
    Message,
    Name,
    Ordinal,
    Source,
    Status,
    ToolRequest,
)

Target: TypeAlias = Literal["next-turn", "next-step"]


class Trigger(Struct, frozen=True, omit_defaults=True):
    """Why a turn was opened. `kind` is registered; an unknown one is kept as data on reading."""

    kind: Name
    source: Source | None = None


class Reason(Struct, frozen=True, omit_defaults=True):
    """Why a turn ended. `kind` is registered and says which of the other fields it needs."""

    kind: Name
    cause: str | None = None
    by: str | None = None
    reason: str | None = None
    message: str | None = None
    code: str | None = None
    diagnostic: str | None = None
    data: JsonValue = None


class TurnStart(Struct, frozen=True):
    """A turn opens; the number is the last one plus one."""

    turn: Ordinal
    trigger: Trigger


class TurnAccepted(Struct, frozen=True, gc=False):
    """The provider has taken our input; `provider_turn` is its own id of the turn."""

    turn: Ordinal
    provider_turn: Name


class TurnEnd(Struct, frozen=True, omit_defaults=True):
    """A turn closes, exactly once."""

    turn: Ordinal
    reason: Reason
    usage: Usage | None = None


class StepStart(Struct, frozen=True, omit_defaults=True, gc=False):
    """A step opens: one model answer and the tool calls it asks for."""

    turn: Ordinal
    step: Ordinal
    provider_turn: str | None = None


class StepEnd(Struct, frozen=True, omit_defaults=True, gc=False):
    """A step closes; none of its calls is left unanswered."""

    turn: Ordinal
    step: Ordinal
    provider_turn: str | None = None


class UserMessage(Struct, frozen=True, omit_defaults=True):
    """Input that opened or joined the turn as a prompt."""

    message: Message
    client_message_id: str | None = None


class ContextMessage(Struct, frozen=True):
    """Injected context: notices, catalogues, background results, a compaction summary."""

    message: Message


class SteeringMessage(Struct, frozen=True):
    """Input that joined a running turn."""

    message: Message


class UserAcknowledged(Struct, frozen=True, gc=False):
    """The id that the provider gave to one of our messages."""

    message_id: Name
    provider_message_id: Name


class HeaderSection(Struct, frozen=True, gc=False):
    """A section of the system prompt, as it was handed over, with the plugin that owns it."""

    name: Name
    owner: Name
    text: LongText


class HeaderTool(Struct, frozen=True):
    """A tool as the model was told about it, with the plugin that owns it."""

    name: Name
    owner: Name
    schema: JsonObject


class RequestHeader(Struct, frozen=True, omit_defaults=True):
    """What we hand to the model or CLI: sections, tools and configuration with their owners."""

    reason: Literal["initial", "resume", "change"]
    reveals_steps: bool
    sections: tuple[HeaderSection, ...] = ()
    tools: tuple[HeaderTool, ...] = ()
    config: JsonObject = {}


class RequestContext(Struct, frozen=True, omit_defaults=True, gc=False):
    """Which model runs, and its context window in tokens; written when it changes."""

    provider: Name
    model: Name
    context_window: Ordinal | None = None


class AssistantMessage(Struct, frozen=True, omit_defaults=True):
    """A piece of the model's text; pieces share `message_id`, the last one is final."""

    turn: Ordinal
    step: Ordinal
    text: LongText
    message_id: str | None = None
    final: bool = False
    interrupted: bool = False
    requests: tuple[ToolRequest, ...] = ()


class AssistantReasoning(Struct, frozen=True, omit_defaults=True, gc=False):
    """A piece of the model's thinking, like the pieces of its text."""

    turn: Ordinal
    step: Ordinal
    text: LongText
    message_id: str | None = None
    final: bool = False
    interrupted: bool = False


class ToolCall(Struct, frozen=True):
    """A tool call starts to run."""

    turn: Ordinal
    step: Ordinal
    call_id: Name
    name: Name
    input: JsonValue
    detail: ToolDetail


class ToolUpdate(Struct, frozen=True):
    """What is known of a running call; the latest wins."""

    call_id: Name
    detail: ToolDetail


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """How a tool call ended."""

    turn: Ordinal
    step: Ordinal
    call_id: Name
    status: Status
    detail: ToolDetail
    error: str | None = None
    output: LongText | None = None

    def __post_init__(self) -> None:
        _error_exactly_when_failed(self.status, self.error)


class ToolSettled(Struct, frozen=True, omit_defaults=True):
    """The late result of a call that was closed as unknown."""

    call_id: Name
    status: Status
    detail: ToolDetail
    error: str | None = None
    output: LongText | None = None

    def __post_init__(self) -> None:
        _error_exactly_when_failed(self.status, self.error)


def _error_exactly_when_failed(status: str, error: str | None) -> None:
    if (status == "failed") != (error is not None):
        raise ValueError("a tool call has an error exactly when its status is failed")


class TodoWrite(Struct, frozen=True):
    """The whole list; the latest is the current one."""

    items: tuple[TodoItem, ...]


class PermissionAsked(Struct, frozen=True, omit_defaults=True):
    """The provider asks for a decision."""

    request: PermissionRequest
    turn: Ordinal | None = None


class PermissionAnswered(Struct, frozen=True):
    """The decision, and who made it: user, hook:<plugin>, policy or system."""

    request_id: Name
    response: PermissionResponse
    by: Name


class UsageUpdated(Struct, frozen=True):
    """Tokens and cost so far; the latest wins."""

    usage: Usage


class CompactionStart(Struct, frozen=True, omit_defaults=True, gc=False):
    """A compaction begins; its bracket lies wholly inside one turn."""

    trigger: Name
    tokens_before: Count | None = None


class CompactionEnd(Struct, frozen=True, omit_defaults=True, gc=False):
    """A compaction is over, with an error if it failed."""

    trigger: Name
    tokens_before: Count | None = None
    tokens_after: Count | None = None
    error: str | None = None


class Notice(Struct, frozen=True, omit_defaults=True, gc=False):
    """Something for people, not for the model."""

    level: Literal["info", "warning", "error"]
    message: str
    code: str | None = None


class ProviderSessionId(Struct, frozen=True, gc=False):
    """The provider's own id of the conversation, revealed or changed."""

    native_id: Name


class AgentConfig(Struct, frozen=True, omit_defaults=True):
    """Only what changed; a label or feature that is None was removed."""

    mode: Name | None = None
    model: Name | None = None
    thinking: Name | None = None
    title: str | None = None
    features: JsonObject | None = None
    labels: dict[str, str | None] | None = None


class InboxSpliced(Struct, frozen=True, omit_defaults=True):
    """`removed` messages left the list at `start`, `inserted` took their place."""

    target: Target
    start: Count
    removed: Count = 0
    inserted: tuple[Message, ...] = ()
    outcome: Literal["canceled"] | None = None


class SubagentUpserted(Struct, frozen=True, omit_defaults=True):
    """Fields are sticky: an absent one keeps its last value."""

    child_id: Name
    call_id: str | None = None
    title: str | None = None
    agent_type: str | None = None
    status: Literal["running", "completed", "failed", "canceled", "unknown"] | None = None
    native_id: str | None = None


class SubagentItem(Struct, frozen=True):
    """Something a sub-agent of the provider did."""

    child_id: Name
    item: JsonObject


class SubagentRemoved(Struct, frozen=True, gc=False):
    """A sub-agent of the provider is gone."""

    child_id: Name


class SessionRecast(Struct, frozen=True, gc=False):
    """The timeline starts a new epoch and shows the old line only up to `keep_before`."""

    epoch: Name
    reason: Literal["rewind", "rehydrate", "repair"]
    keep_before: Count


class SeedEnd(Struct, frozen=True, gc=False):
    """Everything before this event was inherited or restored; the last one wins."""


class RawMessage(Struct, frozen=True):
    """A message of the provider that its translator does not know, capped at 64 KiB."""

    provider: Name
    kind: str
    payload: JsonValue
