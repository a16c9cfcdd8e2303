"""The medium of the memory store, and the leases and records on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from greenroom.sessions._errors import EventRefused, RecordConflict, SessionFenced, SessionNotLive
from greenroom.sessions._event import Event, Header
from greenroom.sessions._store import Barrier, Extras, Mail, ProviderProcess, Record, RecordWrite
from greenroom.sessions.vocabulary import Blob


@dataclass(slots=True)
class Kept:
    """One session as it stands on the medium."""

    header: Header
    events: list[Event] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    mail: list[Mail] = field(default_factory=list)
    token: int = 0
    owner: str | None = None
    endpoint: str | None = None
    held: bool = False
    alive: Callable[[], bool] = bool
    since: int = 0
    process: ProviderProcess | None = None
    index: dict[str, list[int]] = field(default_factory=dict)
    indexed: int = 0


@dataclass(slots=True)
class Medium:
    """What outlives the stores on it."""

    sessions: dict[str, Kept] = field(default_factory=dict)
    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    mails: int = 0

    def write_record(self, write: RecordWrite) -> int:
        """Write or remove one record and return its revision (0: removed). Raises RecordConflict."""
        place = (write.namespace, write.key)
        old = self.records.get(place)
        revision = old.revision if old else 0
        if write.expect is not None and write.expect != revision:
            raise RecordConflict(
                f"record {write.key} of {write.namespace} is at revision {revision}, not {write.expect}",
                revision=revision,
            )
        if write.value is None:
            self.records.pop(place, None)
            return 0
        self.records[place] = Record(write.key, write.value, revision + 1)
        return revision + 1


class MemoryLease:
    """The right to write one session of a MemoryStore. See SessionLease."""

    def __init__(self, medium: Medium, kept: Kept, *, taken_over: bool, forget: Callable[[str], None]) -> None:
        self._medium, self._kept, self._forget = medium, kept, forget
        self._over = False
        self._extras: list[Extras] = []
        self.queued: list[Event] = []
        self.header = kept.header
        self.token = kept.token
        self.marker = f"{kept.header.id}:{kept.token}"
        self.next_seq = len(kept.events)
        self.taken_over = taken_over
        self.torn = 0

    def append(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        """See SessionLease.append."""
        if self._over:
            raise SessionNotLive(f"the lease of session {self.header.id} is over", session_id=self.header.id)
        for expected, event in enumerate(events, self.next_seq):
            if event.seq != expected:
                raise EventRefused(f"{event.type}: seq {event.seq} where {expected} is next", session_id=self.header.id)
        self.queued.extend(events)
        self.next_seq += len(events)
        if extras is not None:
            self._extras.append(extras)

    def put_blob(self, data: bytes) -> Blob:
        """See SessionLease.put_blob."""
        digest = hashlib.sha256(data).hexdigest()
        self._kept.blobs[digest] = bytes(data)
        return Blob(digest, len(data))

    async def flush(self, barrier: Barrier | None = None) -> None:  # noqa: ARG002 - memory has one kind of barrier
        """See SessionLease.flush."""
        if not self.queued and not self._extras:
            return
        self._require_hold()
        self._kept.events.extend(self.queued)
        self.queued = []
        extras, self._extras = self._extras, []
        conflicts: list[RecordConflict] = []
        for extra in extras:
            consumed = frozenset(extra.consumed_mail)
            self._kept.mail = [mail for mail in self._kept.mail if mail.id not in consumed]
            for write in extra.records:
                try:
                    self._medium.write_record(write)
                except RecordConflict as conflict:
                    conflicts.append(conflict)
        if conflicts:
            raise conflicts[0]

    def _require_hold(self) -> None:
        first = self.next_seq - len(self.queued)
        if self._over or self._kept.token != self.token or len(self._kept.events) != first:
            raise SessionFenced(
                f"session {self.header.id} has another owner by now: {self._kept.owner}", session_id=self.header.id
            )

    async def room(self) -> None:
        """See SessionLease.room."""

    async def set_process(self, process: ProviderProcess | None) -> None:
        """See SessionLease.set_process."""
        self._require_hold()
        self._kept.process = process

    async def mail(self) -> Sequence[Mail]:
        """See SessionLease.mail."""
        return tuple(self._kept.mail)

    async def release(self) -> None:
        """See SessionLease.release."""
        if self._over:
            return
        if self._kept.token == self.token:
            await self.flush()
            self._kept.held, self._kept.owner = False, None
            if not self._kept.events:
                self._medium.sessions.pop(self.header.id, None)
        self.end()
        self._forget(self.header.id)

    def end(self) -> None:
        """Nothing can be written any more, and what is queued is gone."""
        self._over = True
        self.queued = []


class MemoryRecords:
    """One namespace of records. See RecordTable."""

    def __init__(self, medium: Medium, namespace: str) -> None:
        self._medium, self._namespace = medium, namespace

    async def get(self, key: str) -> Record | None:
        """See RecordTable.get."""
        return self._medium.records.get((self._namespace, key))

    async def list(self, prefix: str = "", *, damaged: Callable[[str], object] | None = None) -> Sequence[Record]:
        """See RecordTable.list; nothing is damaged here."""
        del damaged
        found = [
            record
            for (namespace, key), record in self._medium.records.items()
            if namespace == self._namespace and key.startswith(prefix)
        ]
        return sorted(found, key=lambda record: record.key)

    async def put(self, key: str, value: bytes, *, expect: int | None = None) -> int:
        """See RecordTable.put."""
        return self._medium.write_record(RecordWrite(self._namespace, key, value, expect))

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """See RecordTable.delete."""
        there = (self._namespace, key) in self._medium.records
        self._medium.write_record(RecordWrite(self._namespace, key, None, expect))
        return there
