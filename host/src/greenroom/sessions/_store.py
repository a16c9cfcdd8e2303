"""The seam between sessions and what keeps them: one protocol for memory, a file, a shared database.

Reads need no lease and change nothing, so a process that only reads is attached
read-only by that alone. Writing needs the session's lease. Nothing above this
protocol may assume that one process, or one machine, holds all sessions.

Cancellation: a cancelled read has not happened. A cancelled `flush` leaves the batch
queued; it is written by the next window or barrier. A cancelled `create`, `acquire`
or `release` either happened or did not; `owner` in `entry()` tells which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from greenroom.sessions._event import Event, Header
from greenroom.sessions.vocabulary import CORE_DECODERS, Blob

PAGE: Final = 1000
"""How many events a read returns unless it is told: large enough to amortise the call, small enough to bound memory."""

Barrier: TypeAlias = Literal["normal", "full"]
"""`normal` survives a crash of the process, `full` also a loss of power."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that may write a session.

    `name` is shown to people, `since` is ms since the epoch, `endpoint` is where other processes can talk to it.
    """

    name: str
    pid: int | None
    since: int
    alive: bool = True
    endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class ProviderProcess:
    """The CLI that works for a session. A process is the same only if pid and start time are.

    `start_time` is what the operating system says (on Linux, clock ticks since boot).
    """

    pid: int
    start_time: float
    group: int | None = None


@dataclass(frozen=True, slots=True)
class DeadOwner:
    """What an owner left behind that ended without releasing its lease.

    `marker` is `<session id>:<lease token>`, the value of GREENROOM_AGENT_ID in the
    environment of everything that the owner started for the session.
    """

    session_id: str
    token: int
    marker: str
    process: ProviderProcess | None


EndProcess: TypeAlias = Callable[[DeadOwner], Awaitable[None]]
"""Ends a dead owner's processes and waits for their exit; raises ProcessNotEnded if it cannot."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One row of the listing. `error` is set, and `header` may be None, when this one is damaged.

    `revision` is opaque: equal tokens mean that nothing was appended in between.
    """

    id: str
    header: Header | None
    next_seq: int
    updated_at: int
    revision: str
    owner: Owner | None = None
    process: ProviderProcess | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A keyed JSON row beside the log; `revision` counts from 1."""

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class RecordWrite:
    """A record to write (`value` None: to delete) if its revision is `expect` (0: if there is none, None: always)."""

    namespace: str
    key: str
    value: bytes | None
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Mail:
    """Input from another process, waiting for the owner to turn it into a splice."""

    id: int
    message: bytes
    time: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that `verify` has to say about a session. `severity` error: the session cannot be read as it is.

    `plugin` owns the type of the event, when it is about one.
    """

    code: str
    text: str
    severity: Literal["error", "warning"] = "error"
    seq: int | None = None
    plugin: str | None = None


def misfit(event: Event) -> Finding | None:
    """What `verify` says of an event whose bytes are those that were written, but no payload of its type.

    Whoever resumes or shows the session would be refused at it. A plugin's own model is not known here: its
    payload only has to be JSON.
    """
    try:
        event.data  # noqa: B018 - decoding is the check
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        plugin = None if event.type in CORE_DECODERS else event.type.partition("/")[0]
        whose = f" of plugin {plugin}" if plugin else ""
        return Finding("payload", f"event {event.seq} is no {event.type}{whose}: {error}", "error", event.seq, plugin)
    return None


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did, or (dry run) would do: the events kept, how many were dropped, and the backup."""

    session_id: str
    kept: int
    dropped: int
    findings: Sequence[Finding] = ()
    backup: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Extras:
    """What goes into the same transaction as a batch of events.

    A record whose revision moved is not written; the events are. The next `flush`
    raises RecordConflict for it, once.
    """

    records: Sequence[RecordWrite] = ()
    consumed_mail: Sequence[int] = field(default=())


class SessionLease(Protocol):
    """The right to write one session, held by one owner at a time.

    Attributes:
        header: the session's header.
        token: the fencing token; higher than every earlier one of the session.
        marker: `<session id>:<token>`, for the environment of what the owner starts.
        next_seq: the seq that the next appended event must have.
        taken_over: an earlier owner ended without releasing; rows may have been shown
            that never reached the store, so the writer recasts before anything else.
        torn: how many damaged rows behind the last whole event were dropped on acquiring.
    """

    @property
    def header(self) -> Header: ...
    @property
    def token(self) -> int: ...
    @property
    def marker(self) -> str: ...
    @property
    def next_seq(self) -> int: ...
    @property
    def taken_over(self) -> bool: ...
    @property
    def torn(self) -> int: ...

    def append(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        """Queue the events, to be written in one transaction and in the order of the calls.

        Never blocks, copies nothing (events are immutable) and is read back at once by
        this store's reads. An empty batch without extras does nothing. The stored tail
        is compared when the batch is written: if it moved, or the lease was fenced,
        nothing is written and `flush` raises SessionFenced. Raises EventRefused if the
        first seq is not `next_seq` or the seqs are not dense; SessionNotLive after
        `release`; StoreStalled when more is queued than the bounded batch may hold.
        """
        ...

    def put_blob(self, data: bytes) -> Blob:
        """Queue bytes that later events refer to; written no later than those events. Same bytes, same blob."""
        ...

    async def flush(self, barrier: Barrier | None = None) -> None:
        """Wait until everything appended before and during the wait is durable.

        `barrier` None takes the store's configured one. Concurrent calls share one
        barrier. Raises what kept the batch from being written; the batch is kept in
        order and the next window, append or flush tries again.
        """
        ...

    async def room(self) -> None:
        """Wait while more is queued than the store wants (back-pressure); at once otherwise."""
        ...

    async def set_process(self, process: ProviderProcess | None) -> None:
        """Note the provider's process in the session's row; durable when this returns."""
        ...

    async def mail(self) -> Sequence[Mail]:
        """The messages that other processes sent and nobody has consumed, oldest first."""
        ...

    async def release(self) -> None:
        """Flush and give the lease back. A session that never had an event is forgotten and its id free again.

        Raises what the flush raised, and keeps the lease then. Idempotent.
        """
        ...


class RecordTable(Protocol):
    """Keyed JSON rows in one namespace (agent records, a plugin's own state)."""

    async def get(self, key: str) -> Record | None:
        """The record, or None."""
        ...

    async def list(self, prefix: str = "", *, damaged: Callable[[str], object] | None = None) -> Sequence[Record]:
        """All records whose key starts with `prefix`, ordered by key.

        A damaged one is left out and its key told to `damaged`; raises SessionDamaged without that.
        """
        ...

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> int:
        """Write the record durably and return its revision. Raises RecordConflict if it is not at `expect`."""
        ...

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Remove the record; False if there was none. Raises RecordConflict if it is not at `expect`."""
        ...


class SessionStore(Protocol):
    """Keeps sessions. Every method names the session in its errors; damage of one never hides another."""

    @property
    def name(self) -> str:
        """What people call this store, and where it is."""
        ...

    async def create(self, header: Header, *, owner: str | None = None, endpoint: str | None = None) -> SessionLease:
        """Reserve the id of a new session and take its lease; `owner` and `endpoint` stand in the entry's `Owner`.

        Nothing but the reservation is written before the first append: until then the
        session is not listed and not readable. Raises SessionExists if the id is known
        or reserved by a live owner, ValueError for a header that is none (nothing is
        reserved then).
        """
        ...

    async def acquire(
        self,
        session_id: str,
        *,
        owner: str | None = None,
        endpoint: str | None = None,
        end_process: EndProcess | None = None,
        force: bool = False,
    ) -> SessionLease:
        """Take the lease of a stored session.

        A released session is free; a live owner's (also a suspended one's) is refused
        with SessionOwned; a dead owner's is taken over: first `end_process` is awaited,
        then the lease changes hands, and its `taken_over` is true. `force` takes it
        from a live owner by raising the token (`repair --force`). A torn tail behind
        the last whole event is dropped here; damage before the last `turn/end` raises
        SessionDamaged. Raises SessionNotFound, UnreadableSession (version), and what
        `end_process` raised, with the lease where it was.
        """
        ...

    async def header(self, session_id: str) -> Header:
        """The session's header. Raises SessionNotFound, SessionDamaged, UnreadableSession."""
        ...

    async def entry(self, session_id: str) -> SessionEntry:
        """One row of the listing. Raises SessionNotFound; damage stands in the row."""
        ...

    async def list(self) -> Sequence[SessionEntry]:
        """Every session that has an event, newest first, from an index: no log is decoded."""
        ...

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
        """The events with `seq <= e.seq < before`, in order, only of `types` when given, at most `limit` (None: all).

        With `newest` the limit keeps the last ones instead of the first. Sees everything
        that an `append` in this process has accepted, flushed or not. Changes nothing:
        an open turn stays open. Raises SessionNotFound, and SessionDamaged naming the
        first seq that is missing or does not match its checksum.
        """
        ...

    async def types(self, session_id: str) -> Mapping[str, bool]:
        """The event types that occur in the session -> whether every event of the type is ignorable; from an index."""
        ...

    async def find(self, session_id: str, key: str) -> Sequence[int]:
        """The seqs of the events that carry this call or message id (`vocabulary.event_key`), in order."""
        ...

    async def read_blob(self, session_id: str, sha256: str) -> bytes:
        """The bytes of a blob. Raises SessionDamaged if they are gone or do not match."""
        ...

    def records(self, namespace: str) -> RecordTable:
        """The keyed rows of a namespace."""
        ...

    async def send_mail(self, session_id: str, message: bytes) -> int:
        """Leave a message for the session's owner, durably; its id. Raises SessionNotFound."""
        ...

    async def verify(self, session_id: str) -> Sequence[Finding]:
        """Read every byte of the session and say what is wrong with it; [] for nothing. Raises SessionNotFound."""
        ...

    async def repair(
        self, session_id: str, *, dry_run: bool = False, backup: str | None = None, force: bool = False
    ) -> RepairReport:
        """Keep the longest whole prefix (from seq 0) and drop what follows the first damage.

        `backup` is a path that gets a copy first. Refused with SessionOwned while a live
        owner has the session, unless `force`.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session, its blobs, mail and row. Raises SessionNotFound; SessionOwned while it is held."""
        ...

    async def aclose(self) -> None:
        """Flush everything, release all leases of this process, close. Raises a group of what failed, closed anyway."""
        ...
