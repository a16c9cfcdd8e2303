"""Keyed JSON rows with revisions, beside the logs."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar
from zlib import crc32

from greenroom.sessions import Record, RecordConflict, RecordWrite, SessionDamaged

from ._rows import signed

T = TypeVar("T")
Found: TypeAlias = Record | tuple[str, SessionDamaged]
"""A record, or the key of one and why it cannot be read."""


class Access(Protocol):
    """How a table of records reaches the file."""

    async def read(self, function: Callable[[sqlite3.Connection], T], missing: T) -> T:
        """Run a read in a worker thread; `missing` if there is no file yet."""
        ...

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a durable transaction on the writer's thread, behind everything that is queued."""
        ...

    def settled(self) -> Awaitable[None]:
        """Wait until records that are queued with events can be read."""
        ...


class Records:
    """One namespace. See RecordTable."""

    def __init__(self, access: Access, namespace: str) -> None:
        self._access, self._namespace = access, namespace

    async def get(self, key: str) -> Record | None:
        """See RecordTable.get. Raises SessionDamaged if its checksum is wrong."""
        await self._access.settled()
        return await self._access.read(lambda connection: read_record(connection, self._namespace, key), None)

    async def list(self, prefix: str = "", *, damaged: Callable[[str], object] | None = None) -> Sequence[Record]:
        """See RecordTable.list. A record whose checksum is wrong is damaged."""
        await self._access.settled()
        nothing: list[Found] = []
        found = await self._access.read(lambda connection: _list(connection, self._namespace, prefix), nothing)
        whole: list[Record] = []
        for record in found:
            if isinstance(record, Record):
                whole.append(record)
            elif damaged is None:
                raise record[1]
            else:
                damaged(record[0])
        return whole

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> int:
        """See RecordTable.put."""
        write = RecordWrite(self._namespace, key, value, expect)
        return await self._access.write(lambda connection: write_record(connection, write))

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """See RecordTable.delete. What is not there needs no write; a damaged one can be removed."""
        await self._access.settled()
        if expect is None and not await self._access.read(
            lambda found: _there(found, self._namespace, key), missing=False
        ):
            return False
        write = RecordWrite(self._namespace, key, None, expect)

        def remove(connection: sqlite3.Connection) -> bool:
            there = _there(connection, self._namespace, key)
            write_record(connection, write)
            return there

        return await self._access.write(remove)


def record_crc(namespace: str, key: str, value: bytes, revision: int) -> int:
    """The checksum of a record, as SQLite stores it."""
    return signed(crc32(value, crc32(f"{namespace}\0{key}\0{revision}\0".encode())))


def _there(connection: sqlite3.Connection, namespace: str, key: str) -> bool:
    found = connection.execute("SELECT 1 FROM records WHERE namespace = ? AND key = ?", (namespace, key))
    return found.fetchone() is not None


def read_record(connection: sqlite3.Connection, namespace: str, key: str) -> Record | None:
    """One record, or None. Raises SessionDamaged."""
    row = connection.execute(
        "SELECT key, value, revision, crc FROM records WHERE namespace = ? AND key = ?", (namespace, key)
    ).fetchone()
    return None if row is None else _checked(namespace, *row)


def _list(connection: sqlite3.Connection, namespace: str, prefix: str) -> list[Found]:
    rows = connection.execute(
        "SELECT key, value, revision, crc FROM records WHERE namespace = ? AND substr(key, 1, ?) = ? ORDER BY key",
        (namespace, len(prefix), prefix),
    )
    found: list[Found] = []
    for row in rows:
        try:
            found.append(_checked(namespace, *row))
        except SessionDamaged as error:
            found.append((row[0], error))
    return found


def _checked(namespace: str, key: str, value: object, revision: int, crc: int) -> Record:
    if not isinstance(value, bytes) or record_crc(namespace, key, value, revision) != crc:
        raise SessionDamaged(f"record {key} of {namespace} does not match its checksum", hint="write it again")
    return Record(key, value, revision)


def write_record(connection: sqlite3.Connection, write: RecordWrite) -> int:
    """Write or remove one record in the caller's transaction; its revision, 0 when removed. Raises RecordConflict."""
    row = connection.execute(
        "SELECT revision FROM records WHERE namespace = ? AND key = ?", (write.namespace, write.key)
    ).fetchone()
    revision: int = row[0] if row else 0
    if write.expect is not None and write.expect != revision:
        raise RecordConflict(
            f"record {write.key} of {write.namespace} is at revision {revision}, not {write.expect}",
            revision=revision,
        )
    if write.value is None:
        connection.execute("DELETE FROM records WHERE namespace = ? AND key = ?", (write.namespace, write.key))
        return 0
    crc = record_crc(write.namespace, write.key, write.value, revision + 1)
    connection.execute(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?) ON CONFLICT (namespace, key)"
        " DO UPDATE SET value = excluded.value, revision = excluded.revision, crc = excluded.crc",
        (write.namespace, write.key, write.value, revision + 1, crc),
    )
    return revision + 1
