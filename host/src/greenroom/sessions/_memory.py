"""A store that keeps sessions in memory: the default of a host without a store plugin, and the model of one.

A `Medium` is what a database file is to other stores: several stores on one medium
behave like several processes on one file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence

from greenroom.sessions._errors import (
    SessionDamaged,
    SessionExists,
    SessionNotFound,
    SessionOwned,
)
from greenroom.sessions._event import Event, Header, header_from_json, header_to_json
from greenroom.sessions._memory_lease import Kept, Medium, MemoryLease, MemoryRecords
from greenroom.sessions._ports import wall_clock
from greenroom.sessions._store import (
    PAGE,
    DeadOwner,
    EndProcess,
    Finding,
    Mail,
    Owner,
    RepairReport,
    SessionEntry,
    misfit,
)
from greenroom.sessions.vocabulary import event_key


class MemoryStore:
    """Keeps sessions as long as its medium lives."""

    def __init__(
        self, medium: Medium | None = None, *, name: str = "memory", clock: Callable[[], int] = wall_clock
    ) -> None:
        self._medium = medium if medium is not None else Medium()
        self._name, self._clock = name, clock
        self._leases: dict[str, MemoryLease] = {}
        self._alive = True

    @property
    def name(self) -> str:
        """What people call it."""
        return self._name

    def kill(self) -> None:
        """End as a killed process does: what was not flushed is gone, and the leases were never released."""
        self._alive = False
        for lease in self._leases.values():
            lease.end()
        self._leases.clear()

    async def create(self, header: Header, *, owner: str | None = None, endpoint: str | None = None) -> MemoryLease:
        """See SessionStore.create."""
        header = header_from_json(header_to_json(header))
        kept = self._medium.sessions.get(header.id)
        if kept is not None and (kept.events or self._held_alive(kept)):
            raise SessionExists(
                f"session {header.id} exists", session_id=header.id, hint="resume it, or choose another id"
            )
        token = kept.token if kept is not None else 0
        kept = self._medium.sessions[header.id] = Kept(header, token=token)
        return self._take(kept, owner, endpoint, taken_over=False)

    async def acquire(
        self,
        session_id: str,
        *,
        owner: str | None = None,
        endpoint: str | None = None,
        end_process: EndProcess | None = None,
        force: bool = False,
    ) -> MemoryLease:
        """See SessionStore.acquire."""
        kept = self._find(session_id)
        if self._held_alive(kept) and not force:
            raise _owned(kept)
        taken_over = kept.held
        if taken_over and end_process is not None:
            token = kept.token
            await end_process(DeadOwner(session_id, token, f"{session_id}:{token}", kept.process))
            if kept.token != token:
                raise _owned(kept)
        kept.process = None
        return self._take(kept, owner, endpoint, taken_over=taken_over)

    def _take(self, kept: Kept, owner: str | None, endpoint: str | None, *, taken_over: bool) -> MemoryLease:
        kept.token += 1
        kept.owner, kept.held, kept.since = owner or self._name, True, self._clock()
        kept.alive, kept.endpoint = lambda: self._alive, endpoint
        lease = self._leases[kept.header.id] = MemoryLease(
            self._medium, kept, taken_over=taken_over, forget=self._forget
        )
        return lease

    def _held_alive(self, kept: Kept) -> bool:
        return kept.held and kept.alive()

    def _find(self, session_id: str) -> Kept:
        """A session that may be read: one with an event, stored or queued by this process."""
        kept = self._medium.sessions.get(session_id)
        if kept is None or not (kept.events or self._queued(session_id)):
            raise SessionNotFound(f"there is no session {session_id} in {self._name}", session_id=session_id)
        return kept

    def _queued(self, session_id: str) -> Sequence[Event]:
        lease = self._leases.get(session_id)
        return lease.queued if lease is not None else ()

    def _all(self, session_id: str, start: int = 0, stop: int | None = None) -> list[Event]:
        stored, queued = self._find(session_id).events, self._queued(session_id)
        first = len(stored)
        behind = None if stop is None else max(stop - first, 0)
        return [*stored[start:stop], *queued[max(start - first, 0) : behind]]

    async def header(self, session_id: str) -> Header:
        """See SessionStore.header."""
        return self._find(session_id).header

    async def entry(self, session_id: str) -> SessionEntry:
        """See SessionStore.entry."""
        kept, last = self._find(session_id), (self._queued(session_id) or self._find(session_id).events)[-1]
        count = len(kept.events) + len(self._queued(session_id))
        wrong = None if last.seq == count - 1 else f"its last seq is {last.seq}, it holds {count} events"
        owner = None
        if kept.held:
            owner = Owner(kept.owner or "", os.getpid(), kept.since, self._held_alive(kept), kept.endpoint)
        return SessionEntry(
            session_id,
            kept.header,
            count,
            last.time,
            f"{count}.{last.time}",
            owner,
            kept.process,
            wrong,
        )

    async def list(self) -> Sequence[SessionEntry]:
        """See SessionStore.list."""
        found = [id_ for id_, kept in self._medium.sessions.items() if kept.events or self._queued(id_)]
        return sorted([await self.entry(id_) for id_ in found], key=lambda entry: -entry.updated_at)

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
        found = self._all(session_id, seq, before)
        damage = damage_of(found, seq)
        if damage is not None:
            raise SessionDamaged(damage.text, session_id=session_id, seq=damage.seq)
        if types is not None:
            wanted = frozenset(types)
            found = [event for event in found if event.type in wanted]
        if limit is None or len(found) <= limit:
            return found
        return found[len(found) - limit :] if newest else found[:limit]

    async def types(self, session_id: str) -> Mapping[str, bool]:
        """See SessionStore.types."""
        found: dict[str, bool] = {}
        for event in self._all(session_id):
            found[event.type] = found.get(event.type, True) and event.ignorable
        return found

    async def find(self, session_id: str, key: str) -> Sequence[int]:
        """See SessionStore.find."""
        kept = self._find(session_id)
        for event in kept.events[kept.indexed :]:
            carried = event_key(event.type, event.raw)
            if carried is not None:
                kept.index.setdefault(carried, []).append(event.seq)
        kept.indexed = len(kept.events)
        queued = [event.seq for event in self._queued(session_id) if event_key(event.type, event.raw) == key]
        return [*kept.index.get(key, ()), *queued]

    async def read_blob(self, session_id: str, sha256: str) -> bytes:
        """See SessionStore.read_blob."""
        kept = self._medium.sessions.get(session_id)
        data = kept.blobs.get(sha256) if kept is not None else None
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise SessionDamaged(f"blob {sha256} of session {session_id} is gone", session_id=session_id)
        return data

    def records(self, namespace: str) -> MemoryRecords:
        """See SessionStore.records."""
        return MemoryRecords(self._medium, namespace)

    async def send_mail(self, session_id: str, message: bytes) -> int:
        """See SessionStore.send_mail."""
        kept = self._find(session_id)
        self._medium.mails += 1
        kept.mail.append(Mail(self._medium.mails, message, self._clock()))
        return self._medium.mails

    async def verify(self, session_id: str) -> Sequence[Finding]:
        """See SessionStore.verify."""
        events = self._all(session_id)
        return [found for found in (damage_of(events), *map(misfit, events)) if found is not None]

    async def repair(
        self, session_id: str, *, dry_run: bool = False, backup: str | None = None, force: bool = False
    ) -> RepairReport:
        """See SessionStore.repair. There is no file to copy, so `backup` is refused."""
        kept = self._find(session_id)
        if backup is not None:
            raise SessionDamaged(f"{self._name} has no file to copy", session_id=session_id)
        if self._held_alive(kept) and not force:
            raise _owned(kept)
        damage = damage_of(kept.events)
        whole = len(kept.events) if damage is None or damage.seq is None else damage.seq
        report = RepairReport(session_id, whole, len(kept.events) - whole, [damage] if damage else [], None, dry_run)
        if not dry_run:
            del kept.events[whole:]
            kept.index, kept.indexed = {}, 0
            if force:
                kept.token += 1
                kept.held = False
        return report

    async def delete(self, session_id: str) -> None:
        """See SessionStore.delete."""
        kept = self._find(session_id)
        if self._held_alive(kept):
            raise _owned(kept)
        del self._medium.sessions[session_id]

    async def aclose(self) -> None:
        """See SessionStore.aclose."""
        failed: list[Exception] = []
        for lease in list(self._leases.values()):
            try:
                await lease.release()
            except Exception as error:  # noqa: BLE001 - every lease gets its turn; all failures are raised together
                failed.append(error)
        self._alive = False
        self._leases.clear()
        if failed:
            raise ExceptionGroup(f"{self._name} could not release everything", failed)

    def _forget(self, session_id: str) -> None:
        self._leases.pop(session_id, None)


def damage_of(events: Sequence[Event], start: int = 0) -> Finding | None:
    """The first event that is not where its seq says; memory does not rot, but a medium may be handed over."""
    for index, event in enumerate(events, start):
        if event.seq != index:
            return Finding("gap", f"seq {event.seq} stands where {index} belongs", seq=index)
    return None


def _owned(kept: Kept) -> SessionOwned:
    return SessionOwned(
        f"session {kept.header.id} is owned by {kept.owner} since {kept.since}",
        session_id=kept.header.id,
        hint="end that process, or attach read-only",
    )
