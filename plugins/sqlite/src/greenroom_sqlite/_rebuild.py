"""Repair of the file: a new one is made of everything in the old one's pages that carries the right checksum."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeGuard

from filelock import Timeout

from greenroom.errors import GreenroomError
from greenroom.sessions import SessionDamaged, SessionOwned
from greenroom.sessions.vocabulary import CORE_TYPES

from ._batch import header_row
from ._liveness import Liveness
from ._ownership import next_token, owned
from ._pages import Cell, Pages, Value
from ._reader import header_id, mail_crc
from ._records import record_crc
from ._rows import (
    INSERT,
    INSERT_KEY,
    MAX_SLOT,
    SLOT_BITS,
    Row,
    crc_base,
    header_crc,
    insert,
    key_spans,
    number_type,
    row_crc,
    type_crc,
)
from ._schema import PAGE_SIZE, connect
from ._state import State, from_row
from ._swap import alone, settle, swap
from ._tail import cut, derive, last_slot, stream

_SESSION_COLUMNS: Final = 21
_EVENT_COLUMNS: Final = 7


@dataclass(frozen=True, slots=True)
class Rescued:
    """What became of one session: events kept, and events that are known to be lost."""

    session_id: str
    kept: int
    lost: int


@dataclass(frozen=True, slots=True)
class FileReport:
    """What a repair of the file brought back, and where the old one is kept."""

    sessions: tuple[Rescued, ...]
    records: int
    backup: str | None
    dry_run: bool = False


@dataclass(slots=True)
class _Found:
    """The parts of sessions, by number."""

    states: dict[int, State] = field(default_factory=dict)
    headers: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    more_names: set[str] = field(default_factory=set)

    def note(self, cell: Cell) -> None:
        """Keep what identifies sessions and types."""
        key, values = cell
        if len(values) == _SESSION_COLUMNS and isinstance(values[1], str):
            self._note_state(key, values)
        elif len(values) == _EVENT_COLUMNS and not key & MAX_SLOT and isinstance(values[5], bytes):
            name = header_id(values[5])
            if name is not None and header_crc(name, values[5]) == values[4]:
                self.headers[key >> SLOT_BITS] = (name, values[5])
        elif len(values) == 3 and values[0] is None and isinstance(values[1], str):  # noqa: PLR2004 - code, name, crc
            self.names |= {key: values[1]} if type_crc(key, values[1]) == values[2] else {}

    def _note_state(self, key: int, values: tuple[Value, ...]) -> None:
        try:
            state = from_row((key, *values[1:]))
        except SessionDamaged:
            return
        self.states[key] = state
        if header_crc(state.id, state.header) == state.header_crc:
            self.headers.setdefault(key, (state.id, state.header))

    def held(self, liveness: Liveness) -> list[State]:
        """The sessions whose owners still write to the file."""
        return [s for s in self.states.values() if s.owner_lock is not None and liveness.alive(s.owner_lock)]


def repair_file(path: Path, *, dry_run: bool = False, force: bool = False, page_size: int = PAGE_SIZE) -> FileReport:
    """Replace the store's file by a new one with all that can be read; the old one stays beside it.

    Nothing in this process may have the file open. Raises SessionOwned while a live owner has a session,
    unless `force` (its writes are refused from then on), GreenroomError while another repair goes on,
    FileNotFoundError, OSError. `page_size` is assumed where the file does not say it any more. Killed at any moment:
    the old file is as it was, or whoever opens the store next finds the new one.
    """
    try:
        settle(path)
        pages = Pages(path, page_size=page_size)
        with alone(path, wait=0):
            return _rebuild(path, pages, dry_run=dry_run, force=force)
    except Timeout as error:
        raise GreenroomError(f"the store {path} is being repaired", hint="wait for the other process") from error


def _rebuild(path: Path, pages: Pages, *, dry_run: bool, force: bool) -> FileReport:
    found = _Found()
    for cell in pages.cells():
        found.note(cell)
    found.more_names = {value for value in pages.indexed() if isinstance(value, str) and "/" in value}
    held = found.held(Liveness(path.parent / "owners"))
    if held and not force:
        raise _held(held[0])
    for state in held:
        state.disown()
        state.unclean = True
    fresh = path.with_name(f"{path.name}.repairing")
    _remove(fresh)  # a repair that was killed may have left it
    connection = connect(fresh, create=True)
    try:
        connection.execute("BEGIN IMMEDIATE")
        records = _copy(connection, pages, found)
        rescued = tuple(_finish(connection, number, found) for number in sorted(found.headers))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except BaseException:  # nobody would look for it again; re-raised
        connection.close()
        _remove(fresh)
        raise
    connection.close()
    if dry_run:
        _remove(fresh)
        return FileReport(rescued, records, None, dry_run=True)
    return FileReport(rescued, records, swap(path, fresh))


def _held(state: State) -> SessionOwned:
    error = owned(state)
    error.hint = "a repair of the file needs it for itself: end that process, or use --force"
    return error


def _copy(connection: sqlite3.Connection, pages: Pages, found: _Found) -> int:
    """Copy every row that is whole; how many records there were."""
    checker = _Checker(connection, found)
    records = 0
    for key, values in pages.cells():
        if len(values) == _EVENT_COLUMNS and key & MAX_SLOT and key >> SLOT_BITS in found.headers:
            row = checker.checked((key, *values[1:]))
            if row is not None:
                connection.execute(INSERT.replace("INSERT", "INSERT OR REPLACE"), row)
        elif len(values) == 5 and values[0] is None:  # noqa: PLR2004 - id to checksum
            _copy_mail(connection, key, values)
        elif len(values) == 5:  # noqa: PLR2004 - namespace to checksum
            records += _copy_record(connection, values)
        elif len(values) == 3 and isinstance(values[2], bytes) and values[1] in found.headers:  # noqa: PLR2004 - blob
            connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", values)
    return records


def _copy_record(connection: sqlite3.Connection, values: tuple[Value, ...]) -> bool:
    namespace, key, value, revision, crc = values
    if not (isinstance(namespace, str) and isinstance(key, str) and isinstance(value, bytes)):
        return False
    if not isinstance(revision, int) or record_crc(namespace, key, value, revision) != crc:
        return False
    connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)", values)
    return True


def _copy_mail(connection: sqlite3.Connection, key: int, values: tuple[Value, ...]) -> None:
    _, number, message, when, crc = values
    if not (isinstance(number, int) and isinstance(message, bytes) and isinstance(when, int)):
        return
    if mail_crc(number, message, when) == crc:
        connection.execute("INSERT OR REPLACE INTO mail VALUES (?, ?, ?, ?, ?)", (key, *values[1:]))


class _Checker:
    """Finds the name under which an event's checksum is right, and gives the row its code in the new file."""

    def __init__(self, connection: sqlite3.Connection, found: _Found) -> None:
        self._connection, self._found = connection, found
        self._candidates = {*found.names.values(), *found.more_names, *(kind.name for kind in CORE_TYPES)}
        self._codes: dict[str, int] = {}
        self._bases: dict[tuple[int, str], int] = {}

    def checked(self, values: tuple[Value, ...]) -> Row | None:
        """The row to write, None if its checksum is right under no name."""
        if not _is_event(values):
            return None
        key, when, code, flags, crc, raw, extra = values
        for name in self._likely(code):
            if row_crc(values, self._base(key >> SLOT_BITS, name)) == crc:
                return key, when, self._code(name), flags, crc, raw, extra
        return None

    def _likely(self, code: int) -> Iterator[str]:
        name = self._found.names.get(code)
        if name is not None:
            yield name
        yield from self._candidates

    def _base(self, number: int, name: str) -> int:
        base = self._bases.get((number, name))
        if base is None:
            base = self._bases[number, name] = crc_base(self._found.headers[number][0], name)
        return base

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes[name] = number_type(self._connection, name)
        return self._codes[name]


def _is_event(values: tuple[Value, ...]) -> TypeGuard[Row]:
    return all(isinstance(value, int) for value in values[:5]) and isinstance(values[5], bytes)


def _finish(connection: sqlite3.Connection, number: int, found: _Found) -> Rescued:
    """Give a session its row: as it was if all is there, else up to the first event that is missing."""
    session_id, raw = found.headers[number]
    old = found.states.get(number)
    state = old or State(number, session_id, raw, header_crc(session_id, raw), unclean=True)
    state.header, state.header_crc = raw, header_crc(session_id, raw)
    expected = max(state.next_seq, last_slot(connection, number))
    state.next_seq, state.token = expected, max(state.token, next_token(connection))
    connection.execute("UPDATE counters SET value = MAX(value, ?) WHERE name = 'token'", (state.token,))
    insert(connection, header_row(state))
    state.insert(connection)
    whole = 0
    try:
        for events in stream(connection, state):
            whole += len(events)
            connection.executemany(INSERT_KEY, [(number, *span) for span in key_spans(events)])
    except SessionDamaged as error:
        whole = error.seq if error.seq is not None else whole
    if whole < expected:
        state.unclean = True
        cut(connection, state, whole)
    derive(connection, state)
    state.restore(connection)
    return Rescued(session_id, whole, expected - whole)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
