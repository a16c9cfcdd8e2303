"""What an event of the log is for the timeline: a row, a patch of an older row, a border."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from greenroom.sessions import Event, Vocabulary, event_key
from greenroom.sessions.vocabulary import (
    CORE_DECODERS,
    CORE_TYPES,
    JsonObject,
    JsonValue,
    ToolSettled,
    UserAcknowledged,
)
from greenroom.timeline import Row

Part: TypeAlias = Literal["row", "patch", "reset"]

MESSAGES: Final = frozenset({"user/message", "context/message", "steering/message"})
CALLS: Final = frozenset({"tool/call"})
PATCHABLE: Final = MESSAGES | CALLS
"""Rows that a later event may say more about; their key names them in the patch."""
FACTS: Final = (
    "session/recast",
    "subagent/removed",
    "subagent/upserted",
    "tool/settled",
    "user/acknowledged",
)
"""Types of which every event is read when a line is opened, from the store's index."""
BORDERS: Final = frozenset({"turn/start", "session/recast"})
"""No entry lies on both sides: pieces and calls belong to one turn, and ids may come again in a later one."""

_FAILURES: Final = frozenset({"error", "interrupted"})
_encode: Final = msgspec.json.Encoder().encode


class _Reason(msgspec.Struct, gc=False):
    kind: str


class _End(msgspec.Struct):
    reason: _Reason


_end: Final = msgspec.json.Decoder(_End).decode
_CORE: Final[Mapping[str, Part | None]] = {
    kind.name: kind.timeline for kind in CORE_TYPES if kind.timeline != "row-on-failure"
}


class Roles:
    """Tells the part of an event from the vocabulary, which changes while plugins come and go."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._entries = vocabulary.entries

    def may_show(self, type_name: str) -> bool:
        """Whether events of a type are rows; of `turn/end` only some are."""
        entry = self._entries.get(type_name)
        return type_name == "turn/end" or (entry is not None and entry.kind.timeline == "row")

    def part(self, event: Event) -> Part | None:
        """The event's part, None for one that is not shown: also a turn that ended well."""
        kind = event.type
        if kind in _CORE:
            return _CORE[kind]
        if kind == "turn/end":
            return "row" if _failed(event.raw) else None
        return "row" if self.may_show(kind) else None  # a plugin's patch would not say which row it is for


def _failed(end: bytes) -> bool:
    if b"error" not in end and b"interrupted" not in end:
        return False  # nearly always, and ten times cheaper than to decode it
    return _end(end).reason.kind in _FAILURES


def row_of(event: Event) -> Row:
    """The event as a row, without patches."""
    return Row(event.seq, event.time, event.type, Raw(event.raw))


def row_key(type_name: str, item: bytes) -> str | None:
    """What patches call a row: the kind of its id and the id; None if there can be none."""
    if type_name not in PATCHABLE:
        return None
    return ("call " if type_name == "tool/call" else "message ") + str(event_key(type_name, item))


def id_of(key: str) -> str:
    """The id in a key, by which stores find events."""
    return key.partition(" ")[2]


def _acknowledged(data: UserAcknowledged) -> tuple[str, JsonObject]:
    return f"message {data.message_id}", {"provider_message_id": data.provider_message_id}


def _settled(data: ToolSettled) -> tuple[str, JsonObject]:
    fields: JsonObject = {"status": data.status, "detail": msgspec.to_builtins(data.detail), "error": data.error}
    if data.output is not None:
        fields["output"] = msgspec.to_builtins(data.output)
    return f"call {data.call_id}", fields


# What a decoder gives has the type that its name says, which the table cannot.
_KEYED: Final[Mapping[str, Callable[[JsonValue], tuple[str, JsonObject]]]] = {
    "user/acknowledged": _acknowledged,
    "tool/settled": _settled,
}
PATCH_TYPES: Final = frozenset({*_KEYED, "subagent/upserted", "subagent/item", "subagent/removed"})


def keyed_patch(type_name: str, item: bytes) -> tuple[str, JsonObject]:
    """The key of the row that a patch is for, and what it says; not for sub-agents, which are known by their child."""
    return _KEYED[type_name](CORE_DECODERS[type_name](item))


def child_patch(type_name: str, item: bytes) -> tuple[str, str | None, JsonObject]:
    """The child that an event of a sub-agent is about, its parent's call if that is said, and the patch."""
    data = CORE_DECODERS[type_name](item)
    if type_name == "subagent/removed":
        return data.child_id, None, {"children": {data.child_id: None}}
    if type_name == "subagent/item":
        return data.child_id, None, {"children": {data.child_id: {"items": [data.item]}}}
    fields = {name: value for name, value in msgspec.structs.asdict(data).items() if value is not None}
    call = fields.pop("call_id", None)
    del fields["child_id"]
    return data.child_id, call, {"children": {data.child_id: fields}}


def raw(fields: JsonObject) -> Raw:
    """Fields as JSON."""
    return Raw(_encode(fields))
