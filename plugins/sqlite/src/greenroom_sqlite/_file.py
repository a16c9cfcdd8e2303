"""The file on its disk: one identity for all connections, and what its troubles are called."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from greenroom.errors import GreenroomError
from greenroom.sessions import SessionDamaged, StoreStalled

from ._holders import holders
from ._schema import DATABASE_ERRORS, PAGE_SIZE, REPAIR_HINT, Frozen, connect, exists

T = TypeVar("T")

STORE_ERRORS = (*DATABASE_ERRORS, sqlite3.Error, OSError)
"""What the database or its disk may raise; `translate` says what it means."""

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_FORBIDDEN = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def code_of(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for an error of Python's module, such as text that is no UTF-8."""
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the lock, so that trying again may help."""
    return isinstance(error, sqlite3.Error) and code_of(error) in _BUSY


def is_damage(error: BaseException) -> bool:
    """Whether the bytes of the file are wrong."""
    return isinstance(error, (SessionDamaged, UnicodeDecodeError)) or (
        isinstance(error, sqlite3.DatabaseError) and (code_of(error) in _DAMAGE or code_of(error) is None)
    )


def is_forbidden(error: BaseException) -> bool:
    """Whether the file or its folder may not be read or written."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in _FORBIDDEN
    return isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


class StoreFile:
    """The path of a store, and which file was found there first."""

    def __init__(self, path: Path, *, page_size: int = PAGE_SIZE) -> None:
        self.path = path
        self._page_size = page_size
        self._identity: tuple[int, int] | None = None
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def exists(self) -> bool:
        """Whether it has to be asked: it is there, or it was and must not be missing. Raises StoreStalled."""
        try:
            if self._identity is not None:
                self.check()
            return exists(self.path)
        except OSError as error:
            raise self.translate(error) from error

    def check(self) -> None:
        """Raise StoreStalled if the file that was opened is not at its path any more: writes would go nowhere."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            found = None
        if found is None or (self._identity is not None and self._identity != (found.st_dev, found.st_ino)):
            what = "replaced" if found else "removed"
            raise StoreStalled(
                f"the store's file {self.path} was {what} while it was in use",
                hint="what is queued stays in memory; put the file back, or restart",
            )

    def connect(self, *, create: bool = False) -> sqlite3.Connection:
        """A new connection. Raises what `_schema.connect` does, and StoreStalled."""
        if self._identity is not None:
            self.check()
        connection = connect(self.path, create=create, page_size=self._page_size)
        found = self.path.stat()
        with self._lock:
            self._identity = self._identity or (found.st_dev, found.st_ino)
        return connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection of the pool, with one snapshot of the file for the block. Errors come out translated."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = self.connect()
                connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            yield connection
            connection.execute("ROLLBACK")
            self._give_back(connection)
        except BaseException as error:
            if connection is not None:  # a cursor in the traceback would keep its snapshot: not for the next reader
                connection.close()
            if isinstance(error, STORE_ERRORS):
                raise self.translate(error) from error
            raise

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and not isinstance(connection, Frozen):
                self._idle.append(connection)
                return
        connection.close()

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with a connection of the pool."""
        with self.reading() as connection:
            return function(connection)

    async def read_async(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """The same in a worker thread. Cancelled: the thread reads to its end, and nobody listens."""
        return await anyio.to_thread.run_sync(self.read, function, abandon_on_cancel=True)

    def close(self) -> None:
        """Close the connections of the pool, and each that is in use when it comes back."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closed = True
        for connection in idle:
            connection.close()

    def reopen(self) -> None:
        """Forget which file it was: it was replaced on purpose."""
        self._identity, self._closed = None, False

    def translate(self, error: Exception) -> GreenroomError:
        """What an error of SQLite or the disk means for a session."""
        if isinstance(error, GreenroomError):
            return error
        if is_busy(error):
            pids = ", ".join(str(pid) for pid in holders(self.path)) or "unknown"
            return StoreStalled(
                f"the store {self.path} is locked; the file is held by process {pids}",
                hint="end that process, or let it go on; what is queued is kept and tried again",
            )
        if is_damage(error):
            return SessionDamaged(f"the store {self.path} is damaged: {error}", hint=REPAIR_HINT)
        if is_forbidden(error):
            return StoreStalled(
                f"the store {self.path} may not be used like this: {error}",
                hint=f"correct the permissions of {self.path.parent}; what is queued is kept until then",
            )
        return StoreStalled(
            f"the store {self.path} cannot be used: {error}",
            hint="what is queued is kept and tried again with the next event or flush",
        )
