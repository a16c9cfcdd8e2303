"""Repair of one session, its removal, and copies of the file."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from greenroom.errors import GreenroomError
from greenroom.sessions import RepairReport, SessionDamaged, SessionError, header_from_json

from ._batch import header_row
from ._check import Scan, header_copy, scan
from ._liveness import Liveness
from ._ownership import next_token, owned
from ._rows import INSERT_KEY, first_id, header_crc, insert, key_spans
from ._schema import OWNER_ONLY, REPAIR_HINT
from ._state import State, find_row, from_row, load, not_found
from ._tail import cut, derive, stream


@dataclass(frozen=True, slots=True)
class Plan:
    """What a repair would do."""

    scan: Scan

    def report(self, *, dry_run: bool = False, backup: str | None = None) -> RepairReport:
        """The plan in the words of the protocol."""
        state, whole = self.scan.state, self.scan.whole
        return RepairReport(state.id, whole, max(state.next_seq - whole, 0), tuple(self.scan.findings), backup, dry_run)

    @property
    def needed(self) -> bool:
        """Whether anything has to be written."""
        return any(finding.severity == "error" for finding in self.scan.findings) or self.scan.header_wrong


def plan(connection: sqlite3.Connection, session_id: str, liveness: Liveness, *, force: bool) -> Plan:
    """Look at a session. Raises SessionOwned while a live owner has it, unless `force`; SessionDamaged."""
    found = scan(connection, session_id)
    if not force and not found.row_wrong and _is_held(found.state, liveness):
        raise owned(found.state)
    if found.other_names:
        raise SessionDamaged(
            "the table of types is damaged; its events are whole", session_id=session_id, hint=REPAIR_HINT
        )
    return Plan(found)


def _is_held(state: State, liveness: Liveness) -> bool:
    return state.owner_lock is not None and liveness.alive(state.owner_lock)


def apply(connection: sqlite3.Connection, plan: Plan, liveness: Liveness, *, force: bool) -> None:
    """Carry the plan out, in the caller's transaction. Raises SessionOwned, SessionDamaged if it moved meanwhile."""
    found = plan.scan
    state = found.state
    if not found.row_wrong:
        state = load(connection, state.id)
        if _is_held(state, liveness) and not force:
            raise owned(state)
        if state.next_seq < found.whole or (state.next_seq != found.state.next_seq and not force):
            raise SessionDamaged(f"session {state.id} changed while it was looked at", session_id=state.id)
        if state.next_seq != found.state.next_seq:  # its owner went on: what is whole of that stays
            found = scan(connection, state.id)
    if force:
        _fence(connection, state, liveness)
    needed = Plan(found).needed
    if needed:
        _mend(connection, found, state)
    if needed or force:
        state.restore(connection)


def _fence(connection: sqlite3.Connection, state: State, liveness: Liveness) -> None:
    """Take the session from its owner. The process that it left is ended by who takes the session next."""
    if _is_held(state, liveness):
        state.disown()
        state.unclean = True
    state.token = next_token(connection)


def _mend(connection: sqlite3.Connection, found: Scan, state: State) -> None:
    if found.row_wrong:
        state.token, state.unclean = next_token(connection), True
    if found.header_wrong:
        _mend_header(connection, state)
    if found.index_wrong:
        connection.execute("REINDEX folded")
    if found.whole < state.next_seq or found.row_wrong:
        state.unclean = True
        cut(connection, state, found.whole)
    if found.keys_wrong or found.row_wrong:
        connection.execute("DELETE FROM keys WHERE session = ?", (state.number,))
        for events in stream(connection, state):
            connection.executemany(INSERT_KEY, [(state.number, *span) for span in key_spans(events)])
    derive(connection, state)


def _mend_header(connection: sqlite3.Connection, state: State) -> None:
    """Take the header from the place where it is whole to the other. Raises SessionDamaged if there is none."""
    copy = header_copy(connection, state)
    if header_crc(state.id, state.header) == state.header_crc:
        connection.execute("DELETE FROM events WHERE id = ?", (first_id(state.number) - 1,))
        insert(connection, header_row(state))
    elif copy is not None:
        state.header, state.header_crc = copy, header_crc(state.id, copy)
    else:
        raise SessionDamaged(
            f"both copies of the header of session {state.id} are damaged",
            session_id=state.id,
            hint="its events stay in the file; the header has to come from a backup",
        )


def delete(connection: sqlite3.Connection, session_id: str, liveness: Liveness) -> None:
    """Remove everything of a session, in the caller's transaction. Raises SessionNotFound, SessionOwned."""
    row = find_row(connection, session_id)
    if row is None or not row[4]:
        raise not_found(session_id)
    try:
        state = from_row(row)
    except SessionDamaged:
        state = None
    if state is not None and _is_held(state, liveness):
        raise owned(state)
    number = int(str(row[0]))
    span = (first_id(number) - 1, first_id(number + 1) - 2)
    connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", span)
    _leave_blobs_to_forks(connection, session_id, number)
    for table in ("keys", "blobs", "mail"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))  # noqa: S608 - constants only
    connection.execute("DELETE FROM sessions WHERE number = ?", (number,))


def _leave_blobs_to_forks(connection: sqlite3.Connection, session_id: str, number: int) -> None:
    """A fork refers to what its parent put; it gets its own before the parent goes."""
    mark = f'"parent_session":"{session_id}"'.encode()
    children = connection.execute("SELECT number FROM sessions WHERE instr(header, ?)", (mark,)).fetchall()
    for owner in (number, *_ancestors(connection, number)) if children else ():
        for (child,) in children:
            connection.execute(
                "INSERT OR IGNORE INTO blobs SELECT sha256, ?, data FROM blobs WHERE session = ?", (child, owner)
            )


def _ancestors(connection: sqlite3.Connection, number: int) -> list[int]:
    """Whose blobs a fork may refer to: its parent, the parent's parent, as far as they are there and readable."""
    found: list[int] = []
    query = "SELECT number, header FROM sessions WHERE "
    row = connection.execute(f"{query} number = ?", (number,)).fetchone()
    while row is not None and row[0] not in found:
        found.append(row[0])
        try:
            parent = header_from_json(row[1]).parent_session
        except SessionError:
            break
        row = connection.execute(f"{query} id = ?", (parent,)).fetchone()
    return found[1:]


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy the file, as a reader sees it now. Raises GreenroomError if it cannot be made there, sqlite3.Error."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    except OSError as error:
        raise GreenroomError(f"no backup can be made as {path}: {error.strerror}", hint="name another file") from error
    connection.execute("COMMIT")
    target = sqlite3.connect(path)
    try:
        connection.backup(target)
    finally:
        target.close()
        connection.execute("BEGIN")
