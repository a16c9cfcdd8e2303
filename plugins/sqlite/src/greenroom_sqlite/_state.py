"""The row of a session: its header, its tail, who owns it, and a checksum over all of that."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final
from zlib import crc32

import msgspec

from greenroom.sessions import Header, ProviderProcess, SessionDamaged, SessionNotFound, header_from_json

from ._rows import header_crc, signed

_COLUMNS: Final = (
    "number",
    "id",
    "header",
    "header_crc",
    "next_seq",
    "updated_at",
    "folded",
    "folded_crc",
    "keys",
    "keys_crc",
    "types",
    "cuts",
    "unclean",
    "token",
    "owner_lock",
    "owner_name",
    "owner_pid",
    "owner_since",
    "owner_endpoint",
    "process",
    "state_crc",
)
SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM sessions"  # noqa: S608 - constants only
_INSERT: Final = f"INSERT INTO sessions VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - constants only
_UPDATE: Final = f"UPDATE sessions SET {', '.join(f'{c} = ?' for c in _COLUMNS[1:])} WHERE number = ?"  # noqa: S608 - constants only
_MOVE: Final = f"UPDATE sessions SET {', '.join(f'{c} = ?' for c in _COLUMNS[4:])} WHERE number = ?"  # noqa: S608 - constants only


class Process(msgspec.Struct, frozen=True, array_like=True):
    """The provider's process, and the token of the lease under which it was started."""

    pid: int
    start_time: float
    group: int | None
    token: int


class State(msgspec.Struct):
    """One row of the table of sessions.

    Attributes:
        number: the session's place among the keys of `events`.
        next_seq: 0 for an id that is only reserved.
        folded, folded_crc: count and checksum of the seqs in the partial index.
        keys, keys_crc: the same of the session's rows in the table of keys, in any order.
        types: the codes of the types that occur, each `code << 1`, plus 1 if one of them is not ignorable.
        cuts: how often events were dropped; with `next_seq` it makes the revision.
        unclean: events may have been shown that are not here, so the next owner recasts.
        owner_lock: name of the lock file that the owner holds while it is alive.
    """

    number: int
    id: str
    header: bytes
    header_crc: int
    next_seq: int = 0
    updated_at: int = 0
    folded: int = 0
    folded_crc: int = 0
    keys: int = 0
    keys_crc: int = 0
    types: frozenset[int] = frozenset()
    cuts: int = 0
    unclean: bool = False
    token: int = 0
    owner_lock: str | None = None
    owner_name: str | None = None
    owner_pid: int | None = None
    owner_since: int | None = None
    owner_endpoint: str | None = None
    process: Process | None = None

    @property
    def revision(self) -> str:
        """Changes with every event, and only then or when events are dropped."""
        return f"{self.number}.{self.cuts}.{self.next_seq}"

    @property
    def provider_process(self) -> ProviderProcess | None:
        """The provider's process as the host knows it."""
        found = self.process
        return ProviderProcess(found.pid, found.start_time, found.group) if found else None

    def disown(self) -> None:
        """Nobody owns the session."""
        self.owner_lock = self.owner_name = self.owner_pid = self.owner_since = self.owner_endpoint = None

    def read_header(self) -> Header:
        """The header. Raises SessionDamaged when its checksum or its form is wrong, UnreadableSession."""
        if header_crc(self.id, self.header) != self.header_crc:
            raise SessionDamaged(
                f"the header of session {self.id} does not match its checksum",
                session_id=self.id,
                hint=f"`greenroom sessions repair {self.id}` takes its copy",
            )
        return header_from_json(self.header, place=f"session {self.id}")

    def insert(self, connection: sqlite3.Connection) -> None:
        """Write a new row, in the caller's transaction; with number 0 the database chooses one."""
        if not self.number:
            last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'sessions'").fetchone()
            self.number = (last[0] if last else 0) + 1
        values = self._values()
        connection.execute(_INSERT, (*values, _checksum(values)))

    def save(self, connection: sqlite3.Connection) -> None:
        """Write all but the id and the header, which never change, in the caller's transaction."""
        values = self._values()
        connection.execute(_MOVE, (*values[4:], _checksum(values), self.number))

    def restore(self, connection: sqlite3.Connection) -> None:
        """Write everything, over a row that is damaged."""
        values = self._values()
        connection.execute(_UPDATE, (*values[1:], _checksum(values), self.number))

    def _values(self) -> tuple[object, ...]:
        types = msgspec.json.encode(sorted(self.types))
        process = msgspec.json.encode(self.process) if self.process else None
        return (
            self.number,
            self.id,
            self.header,
            self.header_crc,
            self.next_seq,
            self.updated_at,
            self.folded,
            self.folded_crc,
            self.keys,
            self.keys_crc,
            types,
            self.cuts,
            int(self.unclean),
            self.token,
            self.owner_lock,
            self.owner_name,
            self.owner_pid,
            self.owner_since,
            self.owner_endpoint,
            process,
        )


def _checksum(values: tuple[object, ...]) -> int:
    """Over everything but the header's bytes, which have their own, so that one can be damaged without the other."""
    return signed(crc32(repr((values[:2], values[4:])).encode()))


def from_row(row: tuple[object, ...]) -> State:
    """The state that a row holds. Raises SessionDamaged when it does not match its checksum."""
    *values, crc = row
    if _checksum(tuple(values)) != crc:
        raise SessionDamaged(
            f"the row of session {row[1]} does not match its checksum",
            session_id=str(row[1]),
            hint=f"`greenroom sessions repair {row[1]}` derives it from the events",
        )
    fields: Mapping[str, object] = dict(zip(_COLUMNS, values, strict=False))
    types, process = fields["types"], fields["process"]
    try:
        decoded = {
            "types": msgspec.json.decode(types) if isinstance(types, bytes) else types,
            "process": msgspec.json.decode(process) if isinstance(process, bytes) else None,
        }
        return msgspec.convert({**fields, **decoded}, State, strict=False)
    except msgspec.DecodeError as error:  # the columns of the header have a checksum of their own
        raise SessionDamaged(f"the row of session {row[1]} is damaged: {error}", session_id=str(row[1])) from error


def find_row(connection: sqlite3.Connection, session_id: str, *, search: bool = True) -> tuple[object, ...] | None:
    """The row of a session as it stands. A miss of the index is not believed: `search` looks at the table itself."""
    row = connection.execute(f"{SELECT} WHERE id = ?", (session_id,)).fetchone()
    if search and (row is None or row[1] != session_id):
        mark = f'"id":"{session_id}"'.encode()
        row = connection.execute(
            f"{SELECT} NOT INDEXED WHERE +id = ? OR instr(header, ?)", (session_id, mark)
        ).fetchone()
    return row  # type: ignore[no-any-return]  # a row of sqlite3 is untyped


def load(connection: sqlite3.Connection, session_id: str, *, reserved: bool = False) -> State:
    """The state of a session; `reserved`: also of an id that has no event yet.

    Raises SessionNotFound, SessionDamaged.
    """
    row = find_row(connection, session_id)
    if row is None or not (reserved or row[4]):
        raise not_found(session_id)
    state = from_row(row)
    if state.id != session_id:
        raise SessionDamaged(f"the id of session {session_id} is damaged", session_id=session_id)
    return state


def not_found(session_id: str) -> SessionNotFound:
    """The error of a session that is not there."""
    return SessionNotFound(
        f"there is no session {session_id}",
        session_id=session_id,
        hint="`greenroom sessions list` shows those there are",
    )
