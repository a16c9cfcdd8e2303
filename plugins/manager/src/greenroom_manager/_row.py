"""A record as the store keeps it: JSON with a version, in which what we do not know survives a change."""

from __future__ import annotations

from typing import Final

import msgspec

from greenroom.agents import AgentRecord
from greenroom.errors import GreenroomError

VERSION: Final = 1
"""Written into each row. It is raised only if an older reader could misread what a row says."""

_encoder: Final = msgspec.json.Encoder()
_raw: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_record: Final = msgspec.json.Decoder(AgentRecord)


class _Head(msgspec.Struct):
    version: int = VERSION


_head: Final = msgspec.json.Decoder(_Head)


class UnreadableRecord(GreenroomError):
    """Raised when a record was written by a newer greenroom, or is damaged; the other records are not touched by it.

    Attributes:
        newer: it is whole, and only a newer greenroom knows how to read it.
    """

    def __init__(self, message: str, *, hint: str | None = None, newer: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.newer = newer


def damaged(agent_id: str, why: object) -> UnreadableRecord:
    """The error for a record that nobody can read."""
    return UnreadableRecord(
        f"the record of agent {agent_id} cannot be read: {why}",
        hint=f"`greenroom agents delete {agent_id}` removes it with its session",
    )


def decode(agent_id: str, value: bytes) -> AgentRecord:
    """Read a row.

    Raises:
        UnreadableRecord: a newer version wrote it, or it is no record.
    """
    try:
        version = _head.decode(value).version
        if version > VERSION:
            raise UnreadableRecord(
                f"the record of agent {agent_id} has version {version}, this greenroom reads up to {VERSION}",
                hint="upgrade greenroom",
                newer=True,
            )
        return _record.decode(value)
    except msgspec.MsgspecError as error:
        raise damaged(agent_id, error) from error


def encode(record: AgentRecord, before: bytes | None = None) -> bytes:
    """Write a row; fields of `before` that we do not know, or whose value is the same, stay as they were."""
    new = _raw.decode(_encoder.encode(record))
    kept: dict[str, msgspec.Raw] = {}
    if before is not None:
        old, raw = _record.decode(before), _raw.decode(before)
        same = {name for name in record.__struct_fields__ if getattr(old, name) == getattr(record, name)}
        kept = {name: value for name, value in raw.items() if name in same or name not in record.__struct_fields__}
    return _encoder.encode({"version": VERSION, **new, **kept})
