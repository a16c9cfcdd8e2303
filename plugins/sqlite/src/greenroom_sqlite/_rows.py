"""Events as rows: where each stands, and the checksum over everything that it says.

The key of a row is `session number << 32 | slot`. Slot 0 holds a copy of the header,
event `seq` stands in slot `seq + 1`: one integer key keeps a session together, finds
a page of it in O(log n), and lets a page that is found alone be put in its place.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias
from zlib import crc32

import msgspec

from greenroom.sessions import FOLDED_TYPES, Event, SessionDamaged, Surface
from greenroom.sessions.vocabulary import CORE_DECODERS, event_key

from ._schema import REPAIR_HINT

SLOT_BITS: Final = 32
MAX_SLOT: Final = (1 << SLOT_BITS) - 1

IGNORABLE, APPEND, EXTRA, FOLDED = 1, 2, 4, 8
"""Bits of `flags`. FOLDED is the highest, as the partial index covers `flags >= 8`."""

Row: TypeAlias = tuple[int, int, int, int, int, bytes, bytes | None]
"""id, time, type, flags, crc, raw, extra."""

COLUMNS: Final = "id, time, type, flags, crc, raw, extra"
_SIGN, _SPAN, _MASK = 1 << 31, 1 << 32, (1 << 32) - 1
_MARKS: Final = IGNORABLE | APPEND | EXTRA
_CHUNK: Final = 128
"""Rows per statement: each step gives up the interpreter's lock, which a busy loop takes 5 ms to give back."""

_PLACE: Final = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * _CHUNK)
_INSERT_CHUNK: Final = f"INSERT INTO events ({COLUMNS}) VALUES {_PLACE}"  # noqa: S608 - constants only
INSERT: Final = f"INSERT INTO events ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - constants only
INSERT_KEY: Final = "INSERT INTO keys VALUES (?, ?, ?, ?)"
SELECT: Final = f"SELECT {COLUMNS} FROM events"  # noqa: S608 - constants only

_pack: Final = struct.Struct("<QqB").pack
_pack_entry: Final = struct.Struct("<QI").pack


class _Extra(msgspec.Struct, frozen=True, omit_defaults=True):
    """What few events have: a replacement, and the seqs that an event stands for."""

    replace: Surface | None = None
    sources: tuple[int, ...] | None = None


_encode_extra: Final = msgspec.json.Encoder().encode
_decode_extra: Final = msgspec.json.Decoder(_Extra).decode


def first_id(number: int) -> int:
    """The key of event 0; event `seq` has this plus `seq`."""
    return (number << SLOT_BITS) + 1


def crc_base(session_id: str, type_name: str) -> int:
    """What the checksum of an event begins with: its session and its type, by name."""
    return crc32(f"{session_id}\0{type_name}\0".encode())


def header_crc(session_id: str, header: bytes) -> int:
    """The checksum of a header, as SQLite stores it."""
    return signed(crc32(header, crc_base(session_id, "")))


def signed(crc: int) -> int:
    """Fit 32 bits into four bytes of SQLite's signed integers."""
    return crc if crc < _SIGN else crc - _SPAN


Folded: TypeAlias = tuple[int, int]
"""Seq and type of an event in the partial index."""


def fold(crc: int, entries: Iterable[Folded]) -> int:
    """Continue the checksum over the entries of the partial index, in the order of the log.

    Raises TypeError or struct.error for what can be no entry.
    """
    for entry in entries:
        crc = crc32(_pack_entry(*entry), crc)
    return crc


def is_indexed(type_name: str) -> bool:
    """Whether the partial index covers the type: what resume folds, and every type of a plugin (it may fold it)."""
    return type_name in FOLDED_TYPES or type_name not in CORE_DECODERS


def row_crc(row: Row, base: int) -> int | None:
    """The checksum of a row under a base, as SQLite stores it; None if its values have no checksum."""
    key, time, _, flags, _, raw, extra = row
    try:
        return signed(crc32(extra or b"", crc32(raw, crc32(_pack((key & MAX_SLOT) - 1, time, flags), base))))
    except (TypeError, struct.error):
        return None


class TypeCodes:
    """The numbers of types in this file.

    Attributes:
        rollbacks: how often numbers were given in a transaction that came to nothing: whoever remembers some
            has to ask again when it has changed.
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self.rollbacks = 0
        self.connection: sqlite3.Connection | None = None

    def roll_back(self) -> None:
        """The transaction is undone, and with it perhaps a new type."""
        self._codes.clear()
        self.rollbacks += 1

    def of(self, name: str) -> int:
        """The number of a type; a new one is written in the running transaction."""
        code = self._codes.get(name)
        if code is None:
            connection = self.connection
            if connection is None:
                raise RuntimeError("a type is asked for outside a transaction")
            code = self._codes[name] = number_type(connection, name)
        return code


def type_crc(code: int, name: str) -> int:
    """The checksum of a type's name, as SQLite stores it."""
    return signed(crc32(f"{code}\0{name}".encode()))


def number_type(connection: sqlite3.Connection, name: str) -> int:
    """The number of a type in the file, which is given now if it is new. Raises SessionDamaged."""
    row = connection.execute("SELECT code, crc FROM types WHERE name = ?", (name,)).fetchone()
    if row is None:
        code = int(connection.execute("SELECT COALESCE(MAX(code), 0) + 1 FROM types").fetchone()[0])
        connection.execute("INSERT INTO types VALUES (?, ?, ?)", (code, name, type_crc(code, name)))
        return code
    if type_crc(row[0], name) != row[1]:
        raise lost_name()
    return int(row[0])


def lost_name(session_id: str | None = None) -> SessionDamaged:
    """The error of a type whose name is damaged: its events are whole, and the name stands in an index as well."""
    return SessionDamaged(
        "the table of types is damaged; the events are whole", session_id=session_id, hint=REPAIR_HINT
    )


class Encoder:
    """Turns events of one session into rows. Its caches live as long as the lease."""

    def __init__(self, number: int, session_id: str, codes: TypeCodes) -> None:
        self._first, self._session, self._codes = first_id(number), session_id, codes
        self._kinds: dict[str, tuple[int, int, int]] = {}
        self._rollbacks = codes.rollbacks

    def rows(self, events: Sequence[Event]) -> tuple[list[object], list[Folded]]:
        """The parameters of all rows, one behind the other, and the entries of the index."""
        if self._rollbacks != self._codes.rollbacks:
            self._kinds.clear()
            self._rollbacks = self._codes.rollbacks
        flat: list[object] = []
        folded: list[Folded] = []
        add, kinds, first = flat.extend, self._kinds, self._first
        for event in events:
            seq, time, raw = event.seq, event.time, event.raw
            code, flags, base = kinds.get(event.type) or self._kind(event.type)
            if flags:
                folded.append((seq, code))
            extra = None
            if event.ignorable or event.surface is not None or event.sources is not None:
                more, extra = _marks(event)
                flags |= more
            crc = crc32(raw, crc32(_pack(seq, time, flags), base))
            if extra is not None:
                crc = crc32(extra, crc)
            add((first + seq, time, code, flags, crc if crc < _SIGN else crc - _SPAN, raw, extra))
        return flat, folded

    def types(self, events: Iterable[Event]) -> frozenset[int]:
        """The types of the events as a session's row notes them: the code twice, plus 1 where one is needed."""
        found = {(event.type, event.ignorable) for event in events}
        return frozenset(self._kinds[name][0] << 1 | (not ignorable) for name, ignorable in found)

    def _kind(self, name: str) -> tuple[int, int, int]:
        kind = (self._codes.of(name), FOLDED if is_indexed(name) else 0, crc_base(self._session, name))
        self._kinds[name] = kind
        return kind


def _marks(event: Event) -> tuple[int, bytes | None]:
    flags = IGNORABLE if event.ignorable else 0
    replace = event.surface
    if replace == "append":
        flags, replace = flags | APPEND, None
    if replace is None and event.sources is None:
        return flags, None
    return flags | EXTRA, _encode_extra(_Extra(replace, event.sources))


def insert(connection: sqlite3.Connection, flat: list[object]) -> None:
    """Write rows from their parameters."""
    step = _CHUNK * 7
    whole = len(flat) - len(flat) % step
    for start in range(0, whole, step):
        connection.execute(_INSERT_CHUNK, flat[start : start + step])
    if whole < len(flat):
        connection.executemany(INSERT, [flat[at : at + 7] for at in range(whole, len(flat), 7)])


class Decoder:
    """Turns rows of one session back into events, believing nothing."""

    def __init__(self, number: int, session_id: str, names: Mapping[int, str]) -> None:
        self._first, self._session, self._names = first_id(number), session_id, names
        self._bases: dict[int, tuple[str, int]] = {}

    def events(self, rows: Iterable[Row], wanted: Iterable[int]) -> list[Event]:
        """The events of the rows, as far as they go; each must be the one that is wanted in its place.

        A page whose pointers are damaged may give a whole row twice and another never, so each place is looked at.
        Raises SessionDamaged with the first seq that is missing or wrong.
        """
        found: list[Event] = []
        add, bases, first, seq = found.append, self._bases, self._first, 0
        try:
            for seq, (key, time, code, flags, crc, raw, extra) in zip(wanted, rows, strict=False):
                if key - first != seq:
                    raise self.damaged(seq, "is missing")
                name, base = bases.get(code) or self._base(code)
                value = crc32(raw, crc32(_pack(seq, time, flags), base))
                if extra is not None:
                    value = crc32(extra, value)
                if value != crc & _MASK:
                    raise self.damaged(seq, "does not match its checksum")
                if flags & _MARKS:
                    add(_marked(seq, time, name, raw, flags, extra))
                else:
                    add(Event(seq, time, name, raw))
        except (TypeError, KeyError, struct.error):  # a damaged value has another type or is out of range
            raise self.damaged(seq, "does not match its checksum") from None
        return found

    def _base(self, code: int) -> tuple[str, int]:
        name = self._names[code]
        self._bases[code] = (name, crc_base(self._session, name))
        return self._bases[code]

    def damaged(self, seq: int, what: str) -> SessionDamaged:
        """The error that names the session and the seq."""
        return SessionDamaged(
            f"event {seq} of session {self._session} {what}",
            session_id=self._session,
            seq=seq,
            hint=f"`greenroom sessions verify {self._session}` says more, `repair` keeps what is whole before it",
        )


def _marked(seq: int, time: int, name: str, raw: bytes, flags: int, extra: bytes | None) -> Event:
    surface: Surface | None = "append" if flags & APPEND else None
    sources = None
    if flags & EXTRA and extra is not None:
        parts = _decode_extra(extra)
        surface, sources = parts.replace or surface, parts.sources
    return Event(seq, time, name, raw, bool(flags & IGNORABLE), surface, sources)


def key_hash(key: str) -> int:
    """What the table of keys holds of a call or message id; rows are compared with the id itself."""
    return signed(crc32(key.encode()))


Span: TypeAlias = tuple[int, int, int]
"""Hash of a key, first and last seq."""

_pack_span: Final = struct.Struct("<iqq").pack


def sum_spans(crc: int, spans: Iterable[Span]) -> int:
    """Continue the checksum over rows of the table of keys, in whatever order they come."""
    for span in spans:
        crc += crc32(_pack_span(*span))
    return crc & 0xFFFFFFFF


SPAN_GAP: Final = 64
"""A span of a key that would hold more foreign events than this in a row is two."""


def key_of(event: Event) -> str | None:
    """The call or message id that the event carries; None also if its payload is not what its type says."""
    try:
        return event_key(event.type, event.raw)
    except msgspec.DecodeError:  # a store keeps what it is given: an import, say, from a later version
        return None


def key_spans(events: Iterable[Event]) -> list[Span]:
    """The runs of events that carry a call or message id.

    A table of spans is a tenth of one of events, as the pieces of a message are written in one batch.
    """
    done: list[Span] = []
    spans: dict[str, list[int]] = {}
    for event in events:
        key = key_of(event)
        if key is None:
            continue
        span, seq = spans.get(key), event.seq
        if span is not None and seq - span[1] <= SPAN_GAP:
            span[1] = seq
        else:
            if span is not None:
                done.append((key_hash(key), span[0], span[1]))
            spans[key] = [seq, seq]
    done.extend((key_hash(key), first, last) for key, (first, last) in spans.items())
    return done
