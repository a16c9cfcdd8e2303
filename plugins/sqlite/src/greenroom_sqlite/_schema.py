"""The file: its tables, who may read it, and what is checked before anything is believed."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

from greenroom.errors import GreenroomError
from greenroom.sessions import SessionDamaged, UnreadableSession

from ._swap import ready, settle, sync_folder

APPLICATION_ID: Final = 0x67726E72
"""`grnr`: how `file` and we tell this database from any other."""

SCHEMA_VERSION: Final = 1
PAGE_SIZE: Final = 4096
CHECKPOINT_PAGES: Final = 4000
"""16 MB of log between two checkpoints: each costs two fsyncs, a bulk load should not pay them every 4 MB."""

BUSY_SECONDS: Final = 0.25
"""How long SQLite itself waits for a lock; the writer keeps its batch and tries again after that."""

OWNER_ONLY: Final = 0o600

DATABASE_ERRORS: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
"""What reading may raise. SQLite's own message quotes the damaged bytes, and Python decodes that strictly."""

SESSIONS: Final = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    header BLOB NOT NULL,
    header_crc INTEGER NOT NULL,
    next_seq INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    folded INTEGER NOT NULL,
    folded_crc INTEGER NOT NULL,
    keys INTEGER NOT NULL,
    keys_crc INTEGER NOT NULL,
    types BLOB NOT NULL,
    cuts INTEGER NOT NULL,
    unclean INTEGER NOT NULL,
    token INTEGER NOT NULL,
    owner_lock TEXT,
    owner_name TEXT,
    owner_pid INTEGER,
    owner_since INTEGER,
    owner_endpoint TEXT,
    process BLOB,
    state_crc INTEGER NOT NULL
)"""

# Tables that have no rows of their own to lose are derived from `events`: keys and the index.
# All others have integer keys, so that a leaf page tells on its own what it holds.
STATEMENTS: Final = (
    SESSIONS,
    "CREATE TABLE types (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL)",
    """
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time INTEGER, type INTEGER, flags INTEGER, crc INTEGER, raw BLOB, extra BLOB
)""",
    "CREATE INDEX folded ON events (type) WHERE flags >= 8",
    """
CREATE TABLE keys (
    session INTEGER, key INTEGER, first INTEGER, last INTEGER, PRIMARY KEY (session, key, first)
) WITHOUT ROWID""",
    "CREATE TABLE blobs (sha256 TEXT, session INTEGER, data BLOB, UNIQUE (sha256, session))",
    """
CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER, message BLOB, time INTEGER, crc INTEGER
)""",
    """
CREATE TABLE records (
    namespace TEXT, key TEXT, value BLOB, revision INTEGER, crc INTEGER, UNIQUE (namespace, key)
)""",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)",
)

REPAIR_HINT: Final = "`greenroom sessions repair --file` brings back what its pages hold"


def exists(path: Path) -> bool:
    """Whether there is a file with content; an empty one is as good as none."""
    if ready(path).exists():
        return True
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


C = TypeVar("C", bound=sqlite3.Connection)


class Frozen(sqlite3.Connection):
    """A connection to a file that nobody can change now: it takes no locks and would not see a change."""


def connect(path: Path, *, create: bool = False, page_size: int = PAGE_SIZE) -> sqlite3.Connection:
    """Open the store's file, creating it for its owner only if it may be created and is not there.

    Where nothing may be written and nobody has the file open, the connection is `Frozen`. Raises UnreadableSession
    for a file that is no store or one of another version, SessionDamaged for one that SQLite cannot read,
    GreenroomError for a place that is not safe, OSError, sqlite3.Error.
    """
    check_place(path)
    settle(path)
    fresh = create and not exists(path)
    if fresh:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY))
        sync_folder(path.parent)
    elif path.stat().st_mode & 0o077:
        with nullcontext() if create else suppress(OSError):  # whoever only reads may have no right to
            path.chmod(OWNER_ONLY)
    connection = _connection(path, "mode=rw", sqlite3.Connection)
    try:
        if fresh or _is_blank(connection, path):
            _create(connection, page_size)
        _check(connection, path)
        _require_wal(connection, path)
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        for pragma in ("synchronous = NORMAL", "secure_delete = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException as error:  # whatever it was, nobody else would close it; re-raised
        connection.close()
        if create or not _is_read_only(error, path):
            raise
        return _freeze(path)
    return connection


def _connection(path: Path, how: str, kind: type[C]) -> C:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?{how}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_SECONDS,
        factory=kind,
    )
    connection.text_factory = _text
    return connection


def _is_read_only(error: BaseException, path: Path) -> bool:
    """Whether it failed because the index of the write-ahead log cannot be made; with one, SQLite reads anywhere."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and not Path(f"{path}-shm").exists()


def _freeze(path: Path) -> Frozen:
    """Open a file that nobody has open, as it is. Raises GreenroomError if a log stands beside it, which is not read.

    sqlite.org/wal.html#read_only_databases and sqlite.org/uri.html#uriimmutable.
    """
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        raise GreenroomError(
            f"the store {path} cannot be read where nothing may be written: {log.name} holds changes of it",
            hint=f"copy {path.parent} to a place where you may write, and read the store there",
        )
    connection = _connection(path, "immutable=1", Frozen)
    try:
        _check(connection, path)
        connection.execute("PRAGMA cell_size_check = ON")
    except BaseException:  # whatever it was, nobody else would close it; re-raised
        connection.close()
        raise
    return connection


def _text(data: bytes) -> str:
    """Text that may be damaged: what it says is checked by whoever reads it, so it only has to be some text."""
    return data.decode(errors="replace")


def check_place(path: Path) -> None:
    """Refuse a symbolic link, and a folder in which anybody may replace the file. Raises GreenroomError."""
    if path.is_symlink():
        raise GreenroomError(f"the store {path} is a symbolic link", hint="name the file that it points to")
    try:
        mode = path.parent.stat().st_mode
    except FileNotFoundError:
        return
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise GreenroomError(f"anybody may write to {path.parent}", hint=f"chmod o-w {path.parent}")


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether it has no content yet: whoever created it ended before the tables were there."""
    try:
        tables = _one(connection, "SELECT COUNT(*) FROM sqlite_schema")
        return not tables and not _one(connection, "PRAGMA application_id")
    except DATABASE_ERRORS as error:
        raise _unreadable(error, path) from error


def _unreadable(error: Exception, path: Path) -> Exception:
    if isinstance(error, sqlite3.OperationalError):  # busy, full, no permission: not the content
        return error
    return SessionDamaged(f"the store {path} cannot be read: {error}", hint=REPAIR_HINT)


def _create(connection: sqlite3.Connection, page_size: int) -> None:
    """Make the tables, unless another process was first."""
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _one(connection, "PRAGMA application_id"):
        for statement in STATEMENTS:
            connection.execute(statement)
        connection.execute("INSERT INTO counters VALUES ('token', 0), ('barrier', 0)")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("COMMIT")


def _require_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Whoever changed the mode, it is the one for which barriers and readers are made. Raises GreenroomError."""
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise GreenroomError(
            f"the store {path} cannot have a write-ahead log, only {mode!r}", hint="put it on a local file system"
        )


def _check(connection: sqlite3.Connection, path: Path) -> None:
    try:
        found = _one(connection, "PRAGMA application_id"), _one(connection, "PRAGMA user_version")
        schema = {str(row[0]) for row in connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")}
    except DATABASE_ERRORS as error:
        raise _unreadable(error, path) from error
    if found[0] != APPLICATION_ID:
        raise UnreadableSession(f"{path} is a database of another program", hint="name another file for the store")
    if found[1] > SCHEMA_VERSION:
        raise UnreadableSession(f"the store {path} has version {found[1]}", hint="upgrade greenroom-sqlite")
    wanted = {statement.strip() for statement in STATEMENTS}
    if found[1] < SCHEMA_VERSION or not wanted <= schema or any("sqlite_" not in s for s in schema - wanted):
        raise UnreadableSession(f"the tables of {path} were changed", hint="restore them, or name another file")


def _one(connection: sqlite3.Connection, query: str) -> int:
    value: int = connection.execute(query).fetchone()[0]
    return value
