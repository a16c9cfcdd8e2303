"""Sessions in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio.lowlevel

from greenroom.sessions import (
    PAGE,
    Barrier,
    EndProcess,
    Event,
    Finding,
    Header,
    RepairReport,
    SessionDamaged,
    SessionEntry,
    check_id,
    header_from_json,
    header_to_json,
)

from . import _repair
from ._check import verify
from ._file import StoreFile
from ._lease import SqliteLease
from ._liveness import Liveness
from ._ownership import Claimant, OwnerMoved, dead_owner, look, reserve, take
from ._reader import (
    Range,
    Trust,
    damaged_entry,
    entry_of,
    find_key,
    insert_mail,
    read_blob,
    read_entries,
    read_range,
    read_types,
)
from ._records import Records
from ._rows import key_of
from ._schema import PAGE_SIZE
from ._state import State, load, not_found
from ._tail import inspect
from ._writer import Writer

T = TypeVar("T")

WINDOW_SECONDS = 0.2
"""How long the first event of a batch waits for company; what a crash of the machine may lose."""


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SqliteStore:
    """See SessionStore. Nothing is opened or created before it is needed.

    Args:
        path: the file; its folder also gets `owners/`, the lock files by which owners are known to be alive.
        barrier: what a flush waits for unless it is told.
        window: seconds that a batch is gathered.
        owner: what people call this process.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        *,
        barrier: Barrier = "full",
        window: float = WINDOW_SECONDS,
        owner: str | None = None,
        clock: Callable[[], int] = wall_clock,
        page_size: int = PAGE_SIZE,
    ) -> None:
        if not 0 <= window <= 60:  # noqa: PLR2004 - a minute of lost work is no window
            raise ValueError(f"a window of {window} seconds: 0 to 60 are possible")
        self.path = Path(os.path.abspath(path))
        self._file = StoreFile(self.path, page_size=page_size)
        self._writer = Writer(self._file, window=window)
        self._liveness = Liveness(self.path.parent / "owners")
        self._barrier: Barrier = barrier
        self._owner, self._clock = owner or f"process {os.getpid()}", clock
        self._leases: dict[str, SqliteLease] = {}
        self._trust: Trust = {}

    @property
    def name(self) -> str:
        """What people call it."""
        return f"sqlite:{self.path}"

    # --- ownership

    async def create(self, header: Header, *, owner: str | None = None, endpoint: str | None = None) -> SqliteLease:
        """See SessionStore.create."""
        header = header_from_json(header_to_json(header))
        claimant = self._claimant(owner, endpoint)
        state = await self._writer.call(lambda connection: reserve(connection, header, claimant))
        return self._lease(state, taken_over=False, torn=0)

    async def acquire(
        self,
        session_id: str,
        *,
        owner: str | None = None,
        endpoint: str | None = None,
        end_process: EndProcess | None = None,
        force: bool = False,
    ) -> SqliteLease:
        """See SessionStore.acquire."""
        claimant = self._claimant(owner, endpoint)
        while True:
            seen = await self._read(lambda c: look(c, session_id, self._liveness, force=force), session_id)
            dead = dead_owner(seen)
            if dead is not None and end_process is not None:
                await end_process(dead)
            tail = await self._read(lambda c: inspect(c, seen), session_id)  # noqa: B023 - it is awaited at once
            try:
                state, tail, taken_over = await self._writer.call(
                    lambda c: take(c, seen, tail, claimant)  # noqa: B023 - it is awaited at once
                )
            except OwnerMoved:
                continue
            return self._lease(state, taken_over=taken_over, torn=tail.torn)

    def _claimant(self, owner: str | None, endpoint: str | None) -> Claimant:
        return Claimant(self._liveness, owner or self._owner, os.getpid(), self._clock, endpoint)

    def _lease(self, state: State, *, taken_over: bool, torn: int) -> SqliteLease:
        lease = SqliteLease(
            self._file,
            self._writer,
            state,
            barrier=self._barrier,
            taken_over=taken_over,
            torn=torn,
            forget=self._forget,
        )
        self._leases[state.id] = lease
        return lease

    def _forget(self, lease: SqliteLease) -> None:
        if self._leases.get(lease.header.id) is lease:  # it may have been taken from it by force, in this process
            del self._leases[lease.header.id]

    # --- reading

    async def _read(self, function: Callable[[sqlite3.Connection], T], session_id: str) -> T:
        """Read from the file. Raises SessionNotFound if there is none."""
        check_id(session_id)
        if not self._file.exists():
            await anyio.lowlevel.checkpoint()
            raise not_found(session_id)
        try:
            return await self._file.read_async(function)
        except SessionDamaged as error:
            error.session_id = error.session_id or session_id
            raise

    def _unwritten(self, session_id: str) -> list[Event]:
        lease = self._leases.get(session_id)
        return lease.channel.backlog.unwritten().events if lease is not None else []

    async def header(self, session_id: str) -> Header:
        """See SessionStore.header."""
        queued = bool(self._unwritten(session_id))
        return await self._read(lambda c: load(c, session_id, reserved=queued).read_header(), session_id)

    async def entry(self, session_id: str) -> SessionEntry:
        """See SessionStore.entry."""
        queued = self._unwritten(session_id)
        try:
            entry = await self._read(
                lambda c: entry_of(load(c, session_id, reserved=bool(queued)), self._liveness.alive), session_id
            )
        except SessionDamaged as error:
            return damaged_entry(session_id, str(error))
        return _ahead(entry, queued)

    async def list(self) -> Sequence[SessionEntry]:
        """See SessionStore.list."""
        if not self._file.exists():
            await anyio.lowlevel.checkpoint()
            return []
        queued = {session_id: self._unwritten(session_id) for session_id in list(self._leases)}
        found = await self._file.read_async(lambda c: list(read_entries(c, self._liveness.alive)))
        entries = [_ahead(entry, queued.get(entry.id, [])) for entry in found]
        return sorted((e for e in entries if e.next_seq or e.error), key=lambda e: e.updated_at, reverse=True)

    async def read_from(
        self,
        session_id: str,
        seq: int = 0,
        *,
        before: int | None = None,
        types: Sequence[str] | None = None,
        limit: int | None = PAGE,
        newest: bool = False,
    ) -> Sequence[Event]:
        """See SessionStore.read_from."""
        wanted = Range(max(seq, 0), before, None if types is None else frozenset(types), limit, newest)
        queued = self._unwritten(session_id)  # before the file is read, so that nothing falls in between
        stored, events = await self._read(lambda c: read_range(c, session_id, wanted, self._trust), session_id)
        if not stored and not queued:
            raise not_found(session_id)
        fresh = [event for event in queued if event.seq >= stored and wanted.takes(event)]
        return wanted.cut([*events, *fresh]) if fresh else events

    async def types(self, session_id: str) -> Mapping[str, bool]:
        """See SessionStore.types."""
        queued = self._unwritten(session_id)
        found = dict(await self._read(lambda c: read_types(c, session_id, queued=bool(queued)), session_id))
        for event in queued:
            found[event.type] = found.get(event.type, True) and event.ignorable
        return found

    async def find(self, session_id: str, key: str) -> Sequence[int]:
        """See SessionStore.find."""
        queued = self._unwritten(session_id)
        found = await self._read(lambda c: find_key(c, session_id, key, queued=bool(queued)), session_id)
        last = found[-1] if found else -1
        return [*found, *(event.seq for event in queued if event.seq > last and key_of(event) == key)]

    async def read_blob(self, session_id: str, sha256: str) -> bytes:
        """See SessionStore.read_blob."""
        lease = self._leases.get(session_id)
        queued = dict(lease.channel.backlog.unwritten().blobs) if lease is not None else {}
        data = queued.get(sha256) or await self._read(lambda c: read_blob(c, session_id, sha256), session_id)
        if data is None:
            raise SessionDamaged(f"blob {sha256} of session {session_id} is gone", session_id=session_id)
        return data

    # --- beside the logs

    def records(self, namespace: str) -> Records:
        """See SessionStore.records."""
        return Records(self, namespace)

    async def send_mail(self, session_id: str, message: bytes) -> int:
        """See SessionStore.send_mail."""
        await self.header(session_id)
        return await self.write(lambda c: insert_mail(c, session_id, message, self._clock()))

    async def read(self, function: Callable[[sqlite3.Connection], T], missing: T) -> T:
        """Read from the file in a worker thread; `missing` if there is none."""
        if not self._file.exists():
            await anyio.lowlevel.checkpoint()
            return missing
        return await self._file.read_async(function)

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a transaction on the writer's thread, as durable as a barrier."""
        return await self._writer.call(function, full=self._barrier == "full")

    async def settled(self) -> None:
        """Wait until records that are queued with events can be read."""
        for lease in list(self._leases.values()):
            if lease.channel.backlog.unwritten().extras:
                await self._writer.flush(lease.channel, full=False, once=True)

    # --- care

    async def verify(self, session_id: str) -> Sequence[Finding]:
        """See SessionStore.verify."""
        lease = self._leases.get(session_id)
        if lease is not None:
            await self._writer.flush(lease.channel, full=False, once=True)
        return await self._read(lambda c: verify(c, session_id), session_id)

    async def repair(
        self, session_id: str, *, dry_run: bool = False, backup: str | None = None, force: bool = False
    ) -> RepairReport:
        """See SessionStore.repair. Damage of the file itself needs `repair_file`."""
        plan = await self._read(lambda c: _repair.plan(c, session_id, self._liveness, force=force), session_id)
        if dry_run:
            return plan.report(dry_run=True)
        if backup is not None:
            await self._read(lambda c: _repair.back_up(c, Path(backup)), session_id)
        await self.write(lambda c: _repair.apply(c, plan, self._liveness, force=force))
        return plan.report(backup=backup)

    async def delete(self, session_id: str) -> None:
        """See SessionStore.delete."""
        if not self._file.exists():
            raise not_found(check_id(session_id))
        await self.write(lambda c: _repair.delete(c, session_id, self._liveness))

    async def aclose(self) -> None:
        """See SessionStore.aclose."""
        failed: list[Exception] = []
        for lease in list(self._leases.values()):
            try:
                await lease.release()
            except Exception as error:  # noqa: BLE001 - every lease gets its turn; all failures are raised together
                failed.append(error)
        await self._writer.stop()
        self._file.close()
        self._liveness.let_go()
        for lease in list(self._leases.values()):
            lease.end()
        if failed:
            raise ExceptionGroup(f"{self.name} could not release everything", failed)


def _ahead(entry: SessionEntry, queued: Sequence[Event]) -> SessionEntry:
    """The entry with what is not written yet."""
    if not queued or queued[-1].seq < entry.next_seq or entry.error is not None:
        return entry
    count = queued[-1].seq + 1
    revision = f"{entry.revision.rpartition('.')[0]}.{count}"
    return SessionEntry(
        entry.id, entry.header, count, queued[-1].time, revision, entry.owner, entry.process, entry.error
    )
