"""The one thread that writes: it gathers what the leases queued and commits it as a group.

The loop's side puts things on a queue and never waits; the thread's side never touches
the loop but through `call_soon_threadsafe`.
"""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from greenroom.errors import GreenroomError
from greenroom.sessions import RecordConflict, SessionFenced, SessionNotLive

from ._batch import Backlog, Batch, Sink
from ._file import STORE_ERRORS, StoreFile, is_busy
from ._rows import TypeCodes
from ._state import State
from ._window import Window

T = TypeVar("T")

BUSY_LIMIT: Final = 5.0
"""Seconds that a barrier or a transaction waits for another process before it fails with that process's pid."""

_log: Final = logging.getLogger("greenroom.sqlite")


@dataclass(eq=False, slots=True)
class Channel:
    """What the writer knows of one lease.

    Attributes:
        fenced: why the lease cannot write any more.
        failed: why the last attempt did not succeed; what it was about is still queued.
        reported: whether that was logged; once per trouble is enough.
        conflicts: records that were not at their revision, for the next flush.
        since: when the oldest event that the writer was not told of was queued.
    """

    sink: Sink
    backlog: Backlog = field(default_factory=Backlog)
    fenced: SessionFenced | None = None
    failed: GreenroomError | None = None
    reported: bool = False
    conflicts: list[RecordConflict] = field(default_factory=list)
    since: float = 0.0


class Ticket(Generic[T]):
    """What a task of the loop waits for; the writer's thread redeems it."""

    def __init__(self, deadline: float) -> None:
        token: object = anyio.lowlevel.current_token().native_token
        self._soon: Callable[[Callable[[], object]], object] = (
            getattr(token, "call_soon_threadsafe", None) or token.run_sync_soon  # type: ignore[attr-defined]  # asyncio's loop, else trio's token
        )
        self._done = anyio.Event()
        self._error: Exception | None = None
        self._result: T | None = None
        self.deadline = deadline

    async def wait(self) -> T:
        """Wait for the outcome. Cancelled: it may still happen."""
        await self._done.wait()
        return self.outcome()

    async def done(self) -> None:
        """Wait until there is an outcome."""
        await self._done.wait()

    def outcome(self) -> T:
        """The result. Raises the error, if it came to that."""
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # it is set when there is no error

    def redeem(self, result: T) -> None:
        """Give the result. Called by the writer's thread."""
        self._result = result
        self._wake()

    def fail(self, error: Exception) -> None:
        """Give an error. Called by the writer's thread."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        try:
            self._soon(self._done.set)
        except RuntimeError:  # the loop is closed, so nobody waits
            _log.debug("nobody waits for the store any more")


class Flush(Ticket[None]):
    """A wait until the channel is written: `full` to the disk, else to the operating system.

    With `once` one attempt is enough, and its failure is not told.
    """

    def __init__(self, channel: Channel, deadline: float, *, full: bool, once: bool = False) -> None:
        super().__init__(deadline)
        self.channel, self.full, self.once = channel, full, once


class Call(Ticket[T]):
    """A transaction of its own, behind everything that is queued."""

    def __init__(self, function: Callable[[sqlite3.Connection], T], deadline: float, *, full: bool) -> None:
        super().__init__(deadline)
        self.function, self.full = function, full


class _Stop:
    """Write what is queued and end."""


class _Now:
    """Write what is queued now: it is more than the window should collect."""


_Signal: TypeAlias = "Channel | Flush | Call[object] | _Stop | _Now"


class Writer:
    """The thread, started by the first thing that there is to write."""

    def __init__(self, file: StoreFile, *, window: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._file, self._clock, self._window = file, clock, Window(window)
        self._signals: queue.SimpleQueue[_Signal] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._dirty: dict[Channel, None] = {}
        self._flushes: list[Flush] = []
        self._calls: list[Call[object]] = []
        self._urgent = self._ending = self._unsynced = self._full = False
        self._pid = os.getpid()
        self.commits = 0
        self.codes = TypeCodes()

    # --- the loop's side

    def signal(self, item: _Signal) -> None:
        """Hand something to the thread. Raises SessionNotLive after `stop`, and in a forked child: it is not its."""
        if os.getpid() != self._pid:
            raise SessionNotLive(f"the store {self._file.path} belongs to process {self._pid}")
        if self._ending:
            raise SessionNotLive(f"the store {self._file.path} is closed")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="greenroom-sqlite", daemon=True)
            self._thread.start()
        self._signals.put(item)

    def admit(self, channel: Channel) -> None:
        """The channel has something to write."""
        channel.since = self._clock()
        self.signal(channel)

    def hurry(self) -> None:
        """Do not wait for the window."""
        self.signal(_Now())

    async def flush(self, channel: Channel, *, full: bool, once: bool = False) -> None:
        """Wait until the channel is written. Raises what kept it from that."""
        ticket = Flush(channel, self._clock() + BUSY_LIMIT, full=full, once=once)
        self.signal(ticket)
        await ticket.wait()

    async def call(self, function: Callable[[sqlite3.Connection], T], *, full: bool = False) -> T:
        """Run a transaction and wait for it, also when cancelled: it is short, and its outcome must not get lost."""
        await anyio.lowlevel.checkpoint_if_cancelled()
        ticket: Call[T] = Call(function, self._clock() + BUSY_LIMIT, full=full)
        self.signal(ticket)  # type: ignore[arg-type]  # the queue does not care what a call returns
        with anyio.CancelScope(shield=True):
            await ticket.done()
        return ticket.outcome()

    async def stop(self) -> None:
        """Write what is queued, close the file and end the thread."""
        self._ending = True
        if self._thread is not None:
            self._signals.put(_Stop())
            thread, self._thread = self._thread, None
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join)

    # --- the thread's side

    def _run(self) -> None:
        stopping = False
        while not stopping:
            stopping = self._gather()
            try:
                self._cycle()
            except Exception as error:  # noqa: BLE001 - the thread must outlive it, or every barrier would hang
                _log.exception("the writer of %s failed", self._file.path)
                self._abandon(error)
        self._abandon(SessionNotLive(f"the store {self._file.path} was closed"))  # who still waits for a lock
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _gather(self) -> bool:
        """Collect signals until there is something to do; true when it is the last time."""
        stopping = False
        while not (stopping or self._flushes or self._calls or self._urgent or self._window.due(self._clock())):
            try:
                stopping = self._note(self._signals.get(timeout=self._window.remaining(self._clock())))
            except queue.Empty:
                break
        while True:
            try:
                stopping = self._note(self._signals.get_nowait()) or stopping
            except queue.Empty:
                return stopping

    def _note(self, signal: _Signal) -> bool:
        match signal:
            case Channel():
                self._dirty[signal] = None
                self._window.admit(signal.since)
            case Flush():
                self._flushes.append(signal)
            case Call():
                self._calls.append(signal)
            case _Now():
                self._urgent = True
            case _:
                return True
        return False

    def _cycle(self) -> None:
        channels = dict.fromkeys([*self._dirty, *(flush.channel for flush in self._flushes)])
        self._dirty, self._urgent = {}, False
        self._window.close()
        if channels:
            self._commit(channels, full=any(flush.full for flush in self._flushes))
        waiting, self._flushes = self._flushes, []
        self._flushes = [flush for flush in waiting if not self._settle(flush)]
        calls, self._calls = self._calls, []
        for call in calls:
            self._run_call(call)

    def _settle(self, flush: Flush) -> bool:
        """Redeem a flush if its outcome is known; false to go on with it."""
        channel = flush.channel
        error: Exception | None = channel.fenced or channel.failed
        if flush.once:
            flush.redeem(None)
        elif error is not None:
            if is_busy(error.__cause__ or error) and self._clock() < flush.deadline:
                return False
            flush.fail(error)
        elif channel.backlog:
            return False
        elif channel.conflicts:
            flush.fail(_told_once(channel.conflicts))
        else:
            flush.redeem(None)
        return True

    def _commit(self, channels: Collection[Channel], *, full: bool) -> None:
        """Write what the channels have queued; what fails stays queued, and says so in its channel."""
        for channel in channels:
            channel.failed = None
        work = [(channel, channel.backlog.take()) for channel in channels if channel.fenced is None]
        work = [(channel, batch) for channel, batch in work if batch]
        if not work and not (full and self._unsynced):
            return
        try:
            self._transact(work, full=full)
        except (*STORE_ERRORS, GreenroomError) as error:
            if len(work) > 1 and not is_busy(error):  # one session's batch or pages must not hold up the others
                for one in work:
                    self._commit([one[0]], full=full)
                return
            self._note_failure([channel for channel, _ in work] or list(channels), error)

    def _note_failure(self, channels: list[Channel], error: Exception) -> None:
        translated = self._file.translate(error)
        if translated is not error:
            translated.__cause__ = error
        again = is_busy(error)
        for channel in channels:
            if not (again or channel.reported):
                _log.error("session %s cannot be written: %s", channel.sink.row.id, error)
                channel.reported = True
            channel.failed = translated
            if again:
                self._dirty[channel] = None
                self._window.admit(self._clock())

    def _transact(self, work: list[tuple[Channel, Batch]], *, full: bool) -> None:
        connection = self._begin(full=full)
        try:
            done = [(channel, found) for channel, batch in work if (found := _write(channel, connection, batch))]
            if full and not done:
                connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'barrier'")
            connection.execute("COMMIT")
        except BaseException:  # whatever it was, no transaction stays open; re-raised
            self._roll_back(connection)
            raise
        self.commits += 1
        self._unsynced = not full
        for channel, (state, conflicts) in done:
            channel.sink.row = state
            channel.reported = False
            channel.conflicts.extend(conflicts)
            channel.backlog.written()

    def _run_call(self, call: Call[object]) -> None:
        while True:
            try:
                call.redeem(self._run_once(call))
            except Exception as error:  # noqa: BLE001 - whatever the function raised belongs to the one who called
                if is_busy(error) and self._clock() < call.deadline:
                    continue
                known = self._file.translate(error) if isinstance(error, STORE_ERRORS) else error
                if known is not error:
                    known.__cause__ = error
                call.fail(known)
            return

    def _run_once(self, call: Call[object]) -> object:
        connection = self._begin(full=call.full)
        try:
            result = call.function(connection)
            connection.execute("COMMIT")
        except BaseException:  # whatever it was, no transaction stays open; re-raised
            self._roll_back(connection)
            raise
        self.commits += 1
        self._unsynced = not call.full
        return result

    def _begin(self, *, full: bool) -> sqlite3.Connection:
        connection = self._ready(full=full)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    def _ready(self, *, full: bool) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self.codes.connection = self._file.connect(create=True)
            self._full = False
        else:
            self._file.check()
        if full != self._full:  # cannot be changed inside a transaction
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
            self._full = full
        return self._connection

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        self.codes.roll_back()
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:  # a connection that cannot even do that is of no use
            connection.close()
            self._connection = None

    def _abandon(self, error: Exception) -> None:
        flushes, self._flushes = self._flushes, []
        calls, self._calls = self._calls, []
        for flush in flushes:
            flush.fail(error)
        for call in calls:
            call.fail(error)


def _told_once(conflicts: list[RecordConflict]) -> RecordConflict:
    """The first conflict, with a note of each other; they are forgotten by that."""
    first, *others = conflicts
    conflicts.clear()
    for other in others:
        first.add_note(str(other))
    return first


def _write(channel: Channel, connection: sqlite3.Connection, batch: Batch) -> tuple[State, list[RecordConflict]] | None:
    try:
        return channel.sink.write(connection, batch)
    except SessionFenced as error:
        channel.fenced = error
        return None
