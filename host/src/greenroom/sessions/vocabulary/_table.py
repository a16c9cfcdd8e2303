"""The event types of the host: the one table that every rule about them derives from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec
from pydantic import BaseModel

from greenroom.sessions.vocabulary import _payloads as p
from greenroom.sessions.vocabulary._content import JsonValue

Enclosure: TypeAlias = Literal["opens", "closes", "turn", "step", "free"]
"""`opens` and `closes` a turn (the host's own two); inside an open turn; inside an open step; anywhere."""

TimelineRole: TypeAlias = Literal["row", "row-on-failure", "patch", "reset"]
"""What an event is for a client: a row, a row if it tells of a failure, a patch of an older row, a new start."""


@dataclass(frozen=True, slots=True)
class EventType:
    """A type of event: its model and everything that is decided by type.

    Attributes:
        name: `<plugin>/<name>`; the host's own types are reserved.
        model: a frozen `msgspec.Struct` or a pydantic model.
        enclosure: where it may stand.
        ignorable: a reader without the type skips it instead of refusing the session.
        timeline: its part in the timeline, None for none.
        surface: model-visible: every event carries a surface operation.
        folded: resuming a session, or showing any page of it, needs every event of the type (a patch may stand
            anywhere behind its row), so stores index it.
        key: dotted path of the call, message or child id by which `find` finds it.
        owner: the plugin that registered it, None for the host's own types.
    """

    name: str
    model: type[msgspec.Struct | BaseModel]
    enclosure: Enclosure = "turn"
    ignorable: bool = True
    timeline: TimelineRole | None = None
    surface: bool = False
    folded: bool = False
    key: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class TriggerKind:
    """A reason to open a turn."""

    name: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class EndReason:
    """A way in which a turn ends, with the fields of `Reason` that it needs."""

    name: str
    needs: tuple[str, ...] = ()
    owner: str | None = None


def _core(
    name: str,
    model: type[msgspec.Struct],
    enclosure: Enclosure,
    timeline: TimelineRole | None = None,
    *,
    surface: bool = False,
    folded: bool = False,
    key: str | None = None,
    ignorable: bool = False,
) -> EventType:
    return EventType(name, model, enclosure, ignorable, timeline, surface, folded, key)


CORE_TYPES: Final = (
    _core("turn/start", p.TurnStart, "opens", folded=True),
    _core("turn/accepted", p.TurnAccepted, "turn"),
    _core("turn/end", p.TurnEnd, "closes", "row-on-failure", folded=True),
    _core("step/start", p.StepStart, "turn"),
    _core("step/end", p.StepEnd, "turn"),
    _core("user/message", p.UserMessage, "turn", "row", surface=True, key="message.id"),
    _core("context/message", p.ContextMessage, "turn", "row", surface=True, key="message.id"),
    _core("steering/message", p.SteeringMessage, "turn", "row", surface=True, key="message.id"),
    _core("user/acknowledged", p.UserAcknowledged, "free", "patch", folded=True, key="message_id"),
    _core("request/header", p.RequestHeader, "free", folded=True),
    _core("request/context", p.RequestContext, "free", folded=True),
    _core("assistant/message", p.AssistantMessage, "step", "row", surface=True, key="message_id"),
    _core("assistant/reasoning", p.AssistantReasoning, "step", "row"),
    _core("tool/call", p.ToolCall, "step", "row", key="call_id"),
    _core("tool/update", p.ToolUpdate, "step", "row", key="call_id"),
    _core("tool/result", p.ToolResult, "step", "row", surface=True, key="call_id"),
    _core("tool/settled", p.ToolSettled, "free", "patch", folded=True, key="call_id"),
    _core("todo/write", p.TodoWrite, "turn", "row"),
    _core("permission/asked", p.PermissionAsked, "free", folded=True),
    _core("permission/answered", p.PermissionAnswered, "free", folded=True),
    _core("usage/updated", p.UsageUpdated, "free"),
    _core("compaction/start", p.CompactionStart, "turn", "row"),
    _core("compaction/end", p.CompactionEnd, "turn", "row"),
    _core("notice", p.Notice, "free", "row"),
    _core("provider/session", p.ProviderSessionId, "free", folded=True),
    _core("agent/config", p.AgentConfig, "free", folded=True),
    _core("inbox/spliced", p.InboxSpliced, "free", folded=True),
    _core("subagent/upserted", p.SubagentUpserted, "free", "patch", folded=True, key="child_id"),
    _core("subagent/item", p.SubagentItem, "free", "patch", key="child_id"),
    _core("subagent/removed", p.SubagentRemoved, "free", "patch", folded=True, key="child_id"),
    _core("session/recast", p.SessionRecast, "free", "reset", folded=True),
    _core("session/seed-end", p.SeedEnd, "free", folded=True),
    _core("raw", p.RawMessage, "free", ignorable=True),
)

OUTSIDE_WHEN_STRICT: Final = frozenset({"turn/start", "inbox/spliced", "session/seed-end", "session/recast"})
"""The only types that may stand outside a turn when `enclosure = "strict"`."""

CORE_TRIGGERS: Final = tuple(
    TriggerKind(name) for name in ("message", "injection", "autonomous", "import", "command", "compaction")
)

CORE_REASONS: Final = (
    EndReason("completed"),
    EndReason("aborted", ("cause",)),
    EndReason("blocked", ("by", "reason")),
    EndReason("error", ("message", "code")),
    EndReason("max_tokens"),
    EndReason("interrupted"),
)

ABORT_CAUSES: Final = ("user", "parent", "hook", "replaced", "provider", "disposed")
"""The causes of `aborted`; `hook` and `provider` carry a `reason`."""

CORE_DECODERS: Final[Mapping[str, Callable[[bytes], JsonValue]]] = MappingProxyType(
    {kind.name: msgspec.json.Decoder(kind.model).decode for kind in CORE_TYPES}
)

FOLDED_TYPES: Final = frozenset(kind.name for kind in CORE_TYPES if kind.folded)
"""What a resume reads of the whole log, and what a store's partial index covers."""


class _MessageIds(msgspec.Struct):
    class Inner(msgspec.Struct):
        id: str

    message: Inner


class _MessageId(msgspec.Struct):
    message_id: str | None = None


class _CallId(msgspec.Struct):
    call_id: str


class _ChildId(msgspec.Struct):
    child_id: str


_MESSAGE: Final = msgspec.json.Decoder(_MessageIds).decode
_MESSAGE_ID: Final = msgspec.json.Decoder(_MessageId).decode
_CALL_ID: Final = msgspec.json.Decoder(_CallId).decode
_CHILD_ID: Final = msgspec.json.Decoder(_ChildId).decode

_KEYS: Final[Mapping[str, Callable[[bytes], str | None]]] = {
    "message.id": lambda raw: _MESSAGE(raw).message.id,
    "message_id": lambda raw: _MESSAGE_ID(raw).message_id,
    "call_id": lambda raw: _CALL_ID(raw).call_id,
    "child_id": lambda raw: _CHILD_ID(raw).child_id,
}

CORE_KEYS: Final = MappingProxyType({kind.name: _KEYS[kind.key] for kind in CORE_TYPES if kind.key})


def event_key(type_name: str, raw: bytes) -> str | None:
    """The call or message id by which a store's `find` finds an event of the host's types, if it has one.

    A pure function of the stored bytes, so that an index can be rebuilt from them.
    """
    extract = CORE_KEYS.get(type_name)
    return extract(raw) if extract is not None else None
