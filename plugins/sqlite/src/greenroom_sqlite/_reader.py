"""Reads: functions of a connection with one snapshot. What only memory holds is added by the store."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from greenroom.sessions import Event, Mail, Owner, SessionDamaged, SessionEntry, UnreadableSession

from ._file import is_damage
from ._rows import MAX_SLOT, SLOT_BITS, first_id, is_indexed, key_hash, key_of, lost_name, signed
from ._schema import DATABASE_ERRORS
from ._state import SELECT, State, from_row, load
from ._tail import by_seq, index_entries, index_matches, indexed_codes, stream, type_names


@dataclass(frozen=True, slots=True)
class Range:
    """What `read_from` was asked for."""

    start: int
    before: int | None
    types: frozenset[str] | None
    limit: int | None
    newest: bool

    def cut(self, events: Sequence[Event]) -> Sequence[Event]:
        """At most `limit` of the events, from the end that was asked for."""
        if self.limit is None or len(events) <= self.limit:
            return events
        return events[len(events) - self.limit :] if self.newest else events[: self.limit]

    def takes(self, event: Event) -> bool:
        """Whether the event is in the range and of a type that is wanted."""
        return (
            self.start <= event.seq
            and (self.before is None or event.seq < self.before)
            and (self.types is None or event.type in self.types)
        )


Trust = dict[int, tuple[int, int]]
"""Session number -> count and checksum of an index that was compared and found whole."""


def read_range(connection: sqlite3.Connection, session_id: str, wanted: Range, trust: Trust) -> tuple[int, list[Event]]:
    """How many events are stored, and those of the range. Raises SessionDamaged, SessionNotFound."""
    state = load(connection, session_id, reserved=True)
    low = wanted.start
    high = state.next_seq if wanted.before is None else min(wanted.before, state.next_seq)
    if low >= high:
        return state.next_seq, []
    if wanted.types is None:
        if wanted.limit is not None:
            low, high = (max(low, high - wanted.limit), high) if wanted.newest else (low, min(high, low + wanted.limit))
        return state.next_seq, _dense(connection, state, low, high)
    if all(is_indexed(name) for name in wanted.types):
        return state.next_seq, _by_index(connection, state, wanted, trust)
    return state.next_seq, _by_scan(connection, state, wanted, low, high)


def _dense(connection: sqlite3.Connection, state: State, low: int, high: int) -> list[Event]:
    found: list[Event] = []
    for events in stream(connection, state, low, high):
        found.extend(events)
    return found


def _by_index(connection: sqlite3.Connection, state: State, wanted: Range, trust: Trust) -> list[Event]:
    codes = indexed_codes(connection, state)
    known = (state.folded, state.folded_crc)
    if trust.get(state.number) != known:
        if not index_matches(state, index_entries(connection, state, codes)):
            raise SessionDamaged(
                f"the index of session {state.id} does not match its events",
                session_id=state.id,
                hint=f"`greenroom sessions repair {state.id}` builds it anew",
            )
        trust[state.number] = known
    chosen = {code: name for code, name in codes.items() if wanted.types is not None and name in wanted.types}
    seqs = [
        seq
        for seq, _ in index_entries(connection, state, chosen)
        if seq >= wanted.start and (wanted.before is None or seq < wanted.before)
    ]
    if wanted.limit is not None and len(seqs) > wanted.limit:
        seqs = seqs[len(seqs) - wanted.limit :] if wanted.newest else seqs[: wanted.limit]
    return by_seq(connection, state, seqs)


_STEP = 1000


def _by_scan(connection: sqlite3.Connection, state: State, wanted: Range, low: int, high: int) -> list[Event]:
    """Look at every event of the range, from the end that was asked for, until there are enough."""
    found: list[Event] = []
    while low < high and (wanted.limit is None or len(found) < wanted.limit):
        part = (max(low, high - _STEP), high) if wanted.newest else (low, min(high, low + _STEP))
        hits = [event for event in _dense(connection, state, *part) if wanted.takes(event)]
        found, low, high = (hits + found, low, part[0]) if wanted.newest else (found + hits, part[1], high)
    return list(wanted.cut(found))


def read_types(connection: sqlite3.Connection, session_id: str, *, queued: bool) -> Mapping[str, bool]:
    """Type -> whether all of its events are ignorable. Raises SessionDamaged if a type lost its name."""
    state = load(connection, session_id, reserved=queued)
    names = type_names(connection)
    try:
        return {names[code >> 1]: code | 1 not in state.types for code in state.types}
    except KeyError:
        raise lost_name(session_id) from None


def find_key(connection: sqlite3.Connection, session_id: str, key: str, *, queued: bool) -> list[int]:
    """The seqs of the stored events that carry the key, in order. Raises SessionDamaged."""
    state = load(connection, session_id, reserved=queued)
    found: list[int] = []
    done = 0
    spans = connection.execute(
        "SELECT first, last FROM keys WHERE session = ? AND key = ? ORDER BY first", (state.number, key_hash(key))
    ).fetchall()
    for first, last in spans:
        if not isinstance(first, int) or not isinstance(last, int):
            raise SessionDamaged(
                f"the index of ids of session {session_id} is damaged",
                session_id=session_id,
                hint=f"`greenroom sessions repair {session_id}` builds it anew",
            )
        low, high = max(first, done), min(last + 1, state.next_seq)
        if low < high:
            for events in stream(connection, state, low, high):
                found.extend(event.seq for event in events if key_of(event) == key)
            done = high
    return found


def read_blob(connection: sqlite3.Connection, session_id: str, sha256: str) -> bytes | None:
    """The bytes, of this session or (a fork refers to what its parent put) of any other; None if they are gone."""
    number = load(connection, session_id, reserved=True).number
    rows = connection.execute("SELECT data FROM blobs WHERE sha256 = ? ORDER BY session != ?", (sha256, number))
    for (data,) in rows:
        if hashlib.sha256(data).hexdigest() == sha256:
            return bytes(data)
    return None


def read_mail(connection: sqlite3.Connection, number: int) -> list[Mail]:
    """The messages that wait for the session's owner, oldest first."""
    rows = connection.execute("SELECT id, message, time, crc FROM mail WHERE session = ? ORDER BY id", (number,))
    found = []
    for mail, message, time, crc in rows:
        if mail_crc(number, message, time) != crc:
            raise SessionDamaged(f"mail {mail} does not match its checksum")
        found.append(Mail(mail, message, time))
    return found


def insert_mail(connection: sqlite3.Connection, session_id: str, message: bytes, time: int) -> int:
    """Leave a message in the caller's transaction; its id. Raises SessionNotFound."""
    number = load(connection, session_id, reserved=True).number
    cursor = connection.execute(
        "INSERT INTO mail (session, message, time, crc) VALUES (?, ?, ?, ?)",
        (number, message, time, mail_crc(number, message, time)),
    )
    return cursor.lastrowid or 0


def mail_crc(number: int, message: bytes, time: int) -> int:
    """The checksum of a message, as SQLite stores it."""
    return signed(crc32(message, crc32(f"{number}\0{time}\0".encode())))


Alive = Callable[[str], bool]


def owner_of(state: State, alive: Alive) -> Owner | None:
    """Who owns the session, and whether it is alive."""
    if state.owner_lock is None:
        return None
    return Owner(
        state.owner_name or "?",
        state.owner_pid,
        state.owner_since or 0,
        alive(state.owner_lock),
        state.owner_endpoint,
    )


def entry_of(state: State, alive: Alive) -> SessionEntry:
    """The row of the listing; damage of the header stands in it."""
    header, error = None, None
    try:
        header = state.read_header()
    except (SessionDamaged, UnreadableSession) as problem:
        error = str(problem)
    return SessionEntry(
        state.id,
        header,
        state.next_seq,
        state.updated_at,
        state.revision,
        owner_of(state, alive),
        state.provider_process,
        error,
    )


def damaged_entry(session_id: str, error: str) -> SessionEntry:
    """The row of a session of which nothing else can be said."""
    return SessionEntry(session_id, None, 0, 0, "damaged", None, None, error)


def read_entries(connection: sqlite3.Connection, alive: Alive) -> Iterator[SessionEntry]:
    """Every session, also those whose id is only reserved (`next_seq` 0), damaged ones with their error."""
    cache: dict[str, bool] = {}

    def asked(name: str) -> bool:
        if name not in cache:
            cache[name] = alive(name)
        return cache[name]

    seen: set[int] = set()
    try:
        for row in connection.execute(f"{SELECT} NOT INDEXED"):
            seen.add(row[0])
            try:
                yield entry_of(from_row(row), asked)
            except SessionDamaged as error:
                yield damaged_entry(str(row[1]), str(error))
    except DATABASE_ERRORS as error:
        if not is_damage(error):
            raise
        yield from _from_headers(connection, seen, f"its row stands on a damaged page: {error}")


def _from_headers(connection: sqlite3.Connection, seen: set[int], error: str) -> Iterator[SessionEntry]:
    """Find sessions by the copies of their headers, when the table of sessions cannot be read to its end."""
    number = 0
    while True:
        row = connection.execute(
            "SELECT id, raw FROM events WHERE id >= ? ORDER BY id LIMIT 1", (first_id(number + 1) - 1,)
        ).fetchone()
        if row is None:
            return
        number = row[0] >> SLOT_BITS
        if number not in seen and row[0] & MAX_SLOT == 0:
            yield damaged_entry(header_id(row[1]) or f"number {number}", error)


def header_id(raw: bytes) -> str | None:
    """The id in the bytes of a header, as far as they can be read."""
    start = raw.find(b'"id":"')
    return raw[start + 6 : raw.find(b'"', start + 6)].decode(errors="replace") if start >= 0 else None
