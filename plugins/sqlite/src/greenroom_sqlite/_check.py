"""Verify: a session against its checksums, its indexes against its events, its events against the rules."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from greenroom.sessions import Event, Finding, SessionDamaged, UnreadableSession, misfit
from greenroom.sessions.vocabulary import CORE_TYPES

from ._file import is_damage
from ._rows import crc_base, first_id, header_crc, is_indexed, key_of, row_crc, sum_spans
from ._schema import DATABASE_ERRORS
from ._state import State, find_row, from_row, not_found
from ._tail import index_entries, indexed_codes, key_rows, last_slot, rows_between, stream, type_names

_MOST: Final = 20
"""Findings of one kind; more say nothing new."""


@dataclass(slots=True)
class Scan:
    """What a look at everything found.

    Attributes:
        state: the session's row, or what could be said without it.
        whole: how many events are whole, counted from the first.
        row_wrong, header_wrong, index_wrong, keys_wrong: what a repair has to write anew.
        other_names: the events are whole, but the table of types is not.
    """

    state: State
    findings: list[Finding] = field(default_factory=list)
    whole: int = 0
    row_wrong: bool = False
    header_wrong: bool = False
    index_wrong: bool = False
    keys_wrong: bool = False
    other_names: bool = False

    def note(self, code: str, text: str, *, seq: int | None = None) -> None:
        """Add an error."""
        self.findings.append(Finding(code, text, seq=seq))


def verify(connection: sqlite3.Connection, session_id: str) -> Sequence[Finding]:
    """See SessionStore.verify."""
    return scan(connection, session_id).findings


def scan(connection: sqlite3.Connection, session_id: str) -> Scan:
    """Look at everything. Raises SessionNotFound, and sqlite3.Error where it is not about damage."""
    found = _row(connection, session_id)
    _header(connection, found)
    rules = Rules()
    if not {code >> 1 for code in found.state.types} <= type_names(connection).keys():
        found.other_names = True
        found.note("types", "the table of types has lost the name of a type that occurs")
    try:
        for events in stream(connection, found.state):
            found.whole += len(events)
            rules.feed(events)
    except SessionDamaged as error:
        seq = error.seq if error.seq is not None else found.whole
        found.note("event", str(error.args[0]), seq=seq)
        if _named_otherwise(connection, found.state, seq):
            found.other_names = True
            found.note("types", "the event is whole, but the table of types has lost or changed its name", seq=seq)
    found.findings.extend(rules.findings)
    _beside(connection, found, rules.indexed)
    return found


def _row(connection: sqlite3.Connection, session_id: str) -> Scan:
    row = find_row(connection, session_id)
    if row is None:
        raise not_found(session_id)
    try:
        state = from_row(row)
        if not state.next_seq:
            raise not_found(session_id)
        return Scan(state)
    except SessionDamaged as error:
        number, header = row[0], row[2]
        if not isinstance(number, int):
            raise
        found = Scan(State(number, session_id, header if isinstance(header, bytes) else b"", 0), row_wrong=True)
        found.note("row", str(error.args[0]))
        found.state.next_seq = last_slot(connection, number)
        found.state.header_crc = row[3] if isinstance(row[3], int) else 0
        return found


def _header(connection: sqlite3.Connection, found: Scan) -> None:
    state, copy = found.state, None
    try:
        copy = header_copy(connection, state)
    except DATABASE_ERRORS as error:
        if not is_damage(error):
            raise
        found.note("page", f"the copy of the header stands on a damaged page: {error}")
    try:
        state.read_header()
    except UnreadableSession as error:
        found.note("version", str(error))
    except SessionDamaged as error:
        found.header_wrong = True
        found.note("header", str(error.args[0]))
    if copy is None:
        found.header_wrong = True
        found.findings.append(Finding("header-copy", "the copy of the header is damaged or missing", "warning"))


def header_copy(connection: sqlite3.Connection, state: State) -> bytes | None:
    """The header from its slot in front of the events, if it is whole. Raises sqlite3.DatabaseError."""
    row = connection.execute("SELECT crc, raw FROM events WHERE id = ?", (first_id(state.number) - 1,)).fetchone()
    if row is None or not isinstance(row[1], bytes) or header_crc(state.id, row[1]) != row[0]:
        return None
    return row[1]


def _beside(connection: sqlite3.Connection, found: Scan, folded: list[tuple[int, str]]) -> None:
    """The indexes, the rows behind the tail, and the blobs."""
    state = found.state
    try:
        whole = found.whole == state.next_seq and not found.other_names
        if whole and _named_entries(connection, state) != folded:
            found.index_wrong = True
            found.note("index", "the index by type does not match the events")
        spans = key_rows(connection, state.number)
        if not found.row_wrong and (len(spans), sum_spans(0, spans)) != (state.keys, state.keys_crc):
            found.keys_wrong = True
            found.note("keys", "the index by call and message id does not match the events")
        if last_slot(connection, state.number) > state.next_seq:
            found.row_wrong = True
            found.note("beyond", "there are events behind the tail that the row names", seq=state.next_seq)
        for sha256, data in connection.execute("SELECT sha256, data FROM blobs WHERE session = ?", (state.number,)):
            if hashlib.sha256(data).hexdigest() != sha256:
                found.note("blob", f"blob {sha256} does not match its name")
    except (*DATABASE_ERRORS, TypeError, struct.error) as error:  # the latter: a damaged value has another type
        if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
            raise
        found.index_wrong = found.keys_wrong = True
        found.note("page", f"an index or a blob stands on a damaged page: {error}")


def _named_entries(connection: sqlite3.Connection, state: State) -> list[tuple[int, str]]:
    codes = indexed_codes(connection, state)
    return [(seq, codes[code]) for seq, code in index_entries(connection, state, codes)]


def _named_otherwise(connection: sqlite3.Connection, state: State, seq: int) -> bool:
    """Whether the event's checksum is right under the name of another type: then the name is what was lost."""
    try:
        rows = rows_between(connection, state.number, seq, seq + 1)
        names = {*type_names(connection).values(), *_ALL}
    except DATABASE_ERRORS:
        return False
    return any(row_crc(row, crc_base(state.id, name)) == row[4] for row in rows for name in names)


_ALL: Final = tuple(kind.name for kind in CORE_TYPES)


_INSIDE, _OPENS, _CLOSES, _CALLS, _INDEXED = 1, 2, 4, 8, 16
_MARK: Final = {"turn": _INSIDE, "step": _INSIDE, "opens": _OPENS, "closes": _INSIDE | _CLOSES, "free": 0}
_CALL_TYPES: Final = frozenset({"tool/call", "tool/result", "step/end", "turn/end"})
_MARKS: Final = {
    kind.name: _MARK[kind.enclosure]
    | (_CALLS if kind.name in _CALL_TYPES else 0)
    | (_INDEXED if is_indexed(kind.name) else 0)
    for kind in CORE_TYPES
}


class Rules:
    """What a log should look like: reported, never refused; a log may be older than a rule.

    Attributes:
        indexed: seq and type of what the index by type should hold.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.indexed: list[tuple[int, str]] = []
        self._open = False
        self._calls: dict[str, int] = {}
        self._strays = self._misfits = 0

    def feed(self, events: Iterable[Event]) -> None:
        """Look at events in order. Where a plugin's type may stand, only the plugin knows."""
        marks = _MARKS
        for event in events:
            mark = marks.get(event.type, _INDEXED)
            if mark & _INSIDE and not self._open:
                self._stray(event)
            if mark > _INSIDE:
                self._notable(event, mark)
            wrong = misfit(event)
            if wrong is not None:
                self._misfits += 1
                self.findings.extend((wrong,) if self._misfits <= _MOST else ())

    def _notable(self, event: Event, mark: int) -> None:
        if mark & _INDEXED:
            self.indexed.append((event.seq, event.type))
        if mark & _CALLS:
            self._call(event)
        if mark & _OPENS:
            self._open = True
        elif mark & _CLOSES:
            self._open = False

    def _stray(self, event: Event) -> None:
        self._strays += 1
        if self._strays <= _MOST:
            text = f"{event.type} stands outside a turn"
            self.findings.append(Finding("stray", text, "warning", event.seq))

    def _call(self, event: Event) -> None:
        key = key_of(event)
        if event.type == "tool/call" and key is not None:
            self._calls[key] = event.seq
        elif event.type == "tool/result" and key is not None:
            self._calls.pop(key, None)
        elif self._calls:
            for call, seq in self._calls.items():
                text = f"tool call {call} has no result when its step ends"
                self.findings.append(Finding("unanswered", text, "warning", seq))
            self._calls = {}
