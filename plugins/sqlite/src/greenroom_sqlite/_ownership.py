"""Who may write a session: what is read and written in the row for it, always in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from greenroom.sessions import (
    DeadOwner,
    Header,
    ProviderProcess,
    SessionDamaged,
    SessionExists,
    SessionFenced,
    SessionOwned,
    header_to_json,
)

from ._liveness import Liveness
from ._rows import header_crc
from ._state import Process, State, find_row, from_row, load
from ._tail import Tail, cut, inspect


@dataclass(frozen=True, slots=True)
class Claimant:
    """Who asks: the lock that proves its life, what people call it, its pid, its clock, and where it can be reached."""

    liveness: Liveness
    name: str
    pid: int
    clock: Callable[[], int]
    endpoint: str | None = None

    def sign(self, connection: sqlite3.Connection, state: State) -> None:
        """Write the claimant into the row, under a token that is higher than every earlier one."""
        self.liveness.hold()
        state.token = next_token(connection)
        state.owner_lock, state.owner_name, state.owner_pid = self.liveness.name, self.name, self.pid
        state.owner_since, state.owner_endpoint, state.process = self.clock(), self.endpoint, None


class OwnerMoved(Exception):
    """Raised when the owner of a session changed between looking and taking."""


def next_token(connection: sqlite3.Connection) -> int:
    """A token that no lease of this file ever had."""
    connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'token'")
    value: int = connection.execute("SELECT value FROM counters WHERE name = 'token'").fetchone()[0]
    return value


def reserve(connection: sqlite3.Connection, header: Header, claimant: Claimant) -> State:
    """Write the row of a new session, owned by the claimant. Raises SessionExists."""
    row = find_row(connection, header.id, search=False)
    if row is not None:
        _require_abandoned(row, claimant.liveness)
        connection.execute("DELETE FROM sessions WHERE number = ?", (row[0],))
    raw = header_to_json(header)
    state = State(0, header.id, raw, header_crc(header.id, raw))
    claimant.sign(connection, state)
    state.insert(connection)
    return state


def _require_abandoned(row: tuple[object, ...], liveness: Liveness) -> None:
    try:
        state = from_row(row)
        taken = state.next_seq > 0 or (state.owner_lock is not None and liveness.alive(state.owner_lock))
    except SessionDamaged:
        taken = True
    if taken:
        raise SessionExists(f"session {row[1]} exists", session_id=str(row[1]), hint="resume it, or choose another id")


def look(connection: sqlite3.Connection, session_id: str, liveness: Liveness, *, force: bool) -> State:
    """The state of a session that may be taken. Raises SessionOwned unless `force`, SessionNotFound, SessionDamaged."""
    state = load(connection, session_id)
    if state.owner_lock is not None and not force and liveness.alive(state.owner_lock):
        raise owned(state)
    state.read_header()
    return state


def dead_owner(state: State) -> DeadOwner | None:
    """What an owner left behind that did not release: the one in the row, or one that a repair took out of it."""
    if state.owner_lock is None and state.process is None:
        return None
    token = state.process.token if state.process else state.token
    return DeadOwner(state.id, token, f"{state.id}:{token}", state.provider_process)


def take(connection: sqlite3.Connection, seen: State, tail: Tail, claimant: Claimant) -> tuple[State, Tail, bool]:
    """Hand the session to the claimant: its new state, what was cut, and whether an earlier owner did not release.

    Raises OwnerMoved, if it is not as it was seen.
    """
    state = load(connection, seen.id)
    if (state.token, state.owner_lock) != (seen.token, seen.owner_lock):
        raise OwnerMoved
    if state.next_seq != seen.next_seq:  # a live owner, from which it is taken by force, went on meanwhile
        tail = inspect(connection, state)
    taken_over = state.unclean or state.owner_lock is not None or tail.torn > 0
    if state.owner_lock is not None and not claimant.liveness.alive(state.owner_lock):
        claimant.liveness.sweep(state.owner_lock)
    if tail.torn:
        cut(connection, state, tail.whole)
    claimant.sign(connection, state)
    state.save(connection)
    return state, tail, taken_over


def give_back(connection: sqlite3.Connection, state: State) -> None:
    """Free the session; forget it if it never had an event."""
    current = _still_ours(connection, state)
    if current.next_seq == 0:
        connection.execute("DELETE FROM sessions WHERE number = ?", (current.number,))
        connection.execute("DELETE FROM blobs WHERE session = ?", (current.number,))
        return
    current.disown()
    current.process, current.unclean = None, False
    current.save(connection)


def note_process(connection: sqlite3.Connection, state: State, process: ProviderProcess | None) -> State:
    """Write the provider's process into the row. Raises SessionFenced."""
    current = _still_ours(connection, state)
    current.process = (
        Process(process.pid, process.start_time, process.group, current.token) if process is not None else None
    )
    current.save(connection)
    return current


def _still_ours(connection: sqlite3.Connection, state: State) -> State:
    row = find_row(connection, state.id, search=False)
    current = from_row(row) if row is not None else None
    if current is None or current.token != state.token:
        raise SessionFenced(f"session {state.id} has another owner by now", session_id=state.id)
    return current


def owned(state: State) -> SessionOwned:
    """The refusal, with the owner's name and since when."""
    since = datetime.fromtimestamp((state.owner_since or 0) / 1000, UTC).isoformat(timespec="seconds")
    return SessionOwned(
        f"session {state.id} is owned by {state.owner_name} (process {state.owner_pid}) since {since}",
        session_id=state.id,
        hint="end that process or use it; reading needs no ownership",
    )
