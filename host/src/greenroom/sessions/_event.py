"""The envelope of an event and the header of a session: what the log keeps and stores write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from greenroom.sessions._errors import EventRefused, NoSessionId, SessionDamaged, UnreadableSession
from greenroom.sessions.vocabulary import CORE_DECODERS, JsonValue

FORMAT_VERSION: Final = 1
"""Raised only if an older reader could misread the envelope, the header, core semantics or the surface."""

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Replace(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Takes the place of the surface's events from `replace[0]` to `replace[1]`, both included."""

    replace: tuple[int, int]


Surface: TypeAlias = Literal["append"] | Replace
"""How a model-visible event changes what the model sees: it follows, or it stands for others."""


class Event(Struct, frozen=True, gc=False):
    """One fact of a session, immutable.

    `seq` is dense from 0. `time` is in milliseconds since the epoch and never used
    for ordering. `raw` is the payload's JSON, encoded once: the same bytes stand in
    the store and go to subscribers. `sources` are the seqs that a model-visible event
    stands for, None when that is not known.
    """

    seq: int
    time: int
    type: str
    raw: bytes
    ignorable: bool = False
    surface: Surface | None = None
    sources: tuple[int, ...] | None = None

    @property
    def data(self) -> JsonValue:
        """The payload, decoded anew: a frozen Struct for the host's types, plain JSON for a plugin's.

        `Vocabulary.decode(event)` gives the plugin's own model.
        """
        return CORE_DECODERS.get(self.type, _plain)(self.raw)


_plain: Final = msgspec.json.Decoder().decode


class _Line(Struct, frozen=True, omit_defaults=True):
    """An event as one JSON object, the form of exports and of the wire."""

    seq: Annotated[int, Meta(ge=0)]
    time: Annotated[int, Meta(ge=0)]
    type: Annotated[str, Meta(min_length=1)]
    data: msgspec.Raw
    ignorable: bool = False
    surface: Surface | None = None
    sources: tuple[Annotated[int, Meta(ge=0)], ...] | None = None


_encode_line: Final = msgspec.json.Encoder().encode
_decode_line: Final = msgspec.json.Decoder(_Line).decode


def event_to_json(event: Event) -> bytes:
    """The event as one line of JSON, without a line end; the payload's bytes stand in it as they are."""
    return _encode_line(
        _Line(event.seq, event.time, event.type, msgspec.Raw(event.raw), event.ignorable, event.surface, event.sources)
    )


def event_from_json(line: bytes | str) -> Event:
    """The event that a line of JSON holds. Raises EventRefused when its envelope is malformed.

    The payload is checked to be JSON, not against its type: the reader may not know it.
    """
    try:
        parts = _decode_line(line)
        raw = bytes(parts.data)
        _plain(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EventRefused(f"not an event: {error}") from error
    return Event(parts.seq, parts.time, parts.type, raw, parts.ignorable, parts.surface, parts.sources)


class Header(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is fixed when a session is created; it stands outside the log.

    `created_at` is in milliseconds since the epoch, `cwd` is absolute, `epoch` names
    the session's first line, `seed_length` counts the events inherited by a fork, and
    `delegation_depth` survives a resume, so that a budget of recursion cannot be reset.
    Raises ValueError (in a decoder: msgspec.ValidationError) on a value out of its range.
    """

    id: str
    epoch: str
    created_at: Annotated[int, Meta(ge=0)]
    version: Annotated[int, Meta(ge=1)] = FORMAT_VERSION
    cwd: str | None = None
    provider: str | None = None
    parent_session: str | None = None
    seed_length: Annotated[int, Meta(ge=0)] | None = None
    origin: Literal["subagent", "import", "fork"] | None = None
    delegation_depth: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        check_id(self.id)
        if not self.epoch:
            raise ValueError("a header needs an epoch")
        if self.cwd is not None and not Path(self.cwd).is_absolute():
            raise ValueError(f"the working directory {self.cwd!r} of session {self.id} is not absolute")


def check_id(value: str) -> str:
    """The id itself, if it is one: 1 to 128 letters, digits, dots, dashes, underscores. Raises NoSessionId."""
    if not _ID.fullmatch(value) or value in (".", ".."):
        raise NoSessionId(f"{value!r} is no session id: 1 to 128 of A-Z a-z 0-9 . _ -")
    return value


def header_to_json(header: Header) -> bytes:
    """The header as JSON; `version` always stands in it."""
    fields = msgspec.to_builtins(header)
    return msgspec.json.encode({"version": header.version, **fields})


def header_from_json(data: bytes | Mapping[str, JsonValue], *, place: str = "the store") -> Header:
    """The header that the bytes (or the fields) hold; the version is looked at before anything else.

    `place` says where it stands, for the message. Raises UnreadableSession for another
    version, SessionDamaged for anything that is no header.
    """
    try:
        fields = data if isinstance(data, Mapping) else msgspec.json.decode(data)
        version = fields.get("version") if isinstance(fields, Mapping) else None
        if type(version) is int and version > FORMAT_VERSION:
            raise UnreadableSession(
                f"the session in {place} has format {version}, this greenroom reads {FORMAT_VERSION}",
                hint="upgrade greenroom",
            )
        if type(version) is not int or version < FORMAT_VERSION:
            raise SessionDamaged(f"the header in {place} has no usable version: {version!r}")
        return msgspec.convert(fields, Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SessionDamaged(f"the header in {place} is malformed: {error}") from error
