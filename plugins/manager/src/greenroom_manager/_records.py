"""The book of records: one row for each agent, in memory and in the store, changed in order and told to observers.

Two ways to change one. `change` writes first and shows afterwards: who awaits it knows that it is durable. `stage`
shows at once and is written soon: for what an agent does by itself, whose log is the truth anyway. Both take a pure
function from record to record, which may be called again when another process has written the row meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, TypeAlias

import anyio
import msgspec

from greenroom.agents import AgentExists, AgentNotFound, AgentRecord
from greenroom.errors import GreenroomError
from greenroom.sessions import Record, RecordConflict, RecordTable, SessionDamaged

from ._row import UnreadableRecord, damaged, decode, encode

NAMESPACE: Final = "agents"
"""Of the store's table of records."""

Change: TypeAlias = Callable[[AgentRecord], AgentRecord]
"""A pure function; `updated_at` is set by the book. Returning an equal record means that nothing changed."""

Observer: TypeAlias = Callable[[str, AgentRecord | None, AgentRecord | None], None]
"""Hears of each change in order: the id, the record before (None: there was none) and after (None: it is gone)."""

Report: TypeAlias = Callable[[str, str], None]
"""Takes a code and a text to the diagnostics."""


@dataclass(slots=True)
class _Page:
    """One agent: what the store has, what was changed since, and what is shown."""

    row: Record | None = None
    stored: AgentRecord | None = None
    pending: list[Change] = field(default_factory=list)
    shown: AgentRecord | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    gone: bool = False

    @property
    def revision(self) -> int:
        return self.row.revision if self.row is not None else 0


class RecordBook:
    """The records of one store.

    Args:
        table: the store's table of the namespace, asked for each time: the store's plugin may have been reloaded.
        clock: ms since the epoch.
        report: takes what no caller hears of.
    """

    def __init__(self, table: Callable[[], RecordTable], *, clock: Callable[[], int], report: Report) -> None:
        self._table = table
        self._clock = clock
        self._report = report
        self._pages: dict[str, _Page] = {}
        self._unreadable: dict[str, str] = {}
        self._observers: list[Observer] = []
        self._last = 0
        self._dirty: dict[str, None] = {}
        self._news = anyio.Event()

    # reading

    def get(self, agent_id: str) -> AgentRecord | None:
        """The record as it was last seen or changed here, without a look into the store; None if it was never seen."""
        page = self._pages.get(agent_id)
        return page.shown if page is not None else None

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The records that this version cannot read, by id, and why; as of the last look."""
        return dict(self._unreadable)

    def now(self) -> int:
        """A time later than every `updated_at` that was seen here, in ms."""
        self._last = max(self._clock(), self._last + 1)
        return self._last

    async def read(self, agent_id: str) -> AgentRecord | None:
        """The record as it is now, also if another process has written it; None if there is none.

        Raises:
            UnreadableRecord: a newer version wrote it, or it is damaged.
        """
        known = self._pages.get(agent_id)
        before = known.row if known is not None else None
        try:
            row = await self._table().get(agent_id)
        except SessionDamaged as error:
            raise damaged(agent_id, error.args[0]) from error
        page = self._pages.get(agent_id)
        if row is None and (page is None or (page.row is before and not page.pending)):
            if page is not None and page.shown is not None and not page.lock.locked():
                self._forget(agent_id)
            return None
        if row is not None:
            self._see(row, strict=True)
        return self.get(agent_id)

    async def list(self) -> Sequence[AgentRecord]:
        """All records, also internal and archived ones, the latest changed first; `unreadable` names the rest."""
        broken: list[str] = []
        before = self._rows()
        rows = await self._table().list(damaged=broken.append)
        seen = {row.key for row in rows}.union(broken)
        self._unreadable = {key: str(damaged(key, "its checksum is wrong")) for key in broken}
        for row in rows:
            self._see(row, strict=False)
        for agent_id, page in list(self._pages.items()):
            known = page.row is not None and page.row is before.get(agent_id)
            if known and agent_id not in seen and not page.lock.locked():
                self._forget(agent_id)
        found = [page.shown for page in self._pages.values() if page.shown is not None]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)

    async def find(self, agent_id: str) -> AgentRecord:
        """As `read`.

        Raises:
            AgentNotFound: there is none; the hint names those that are close.
            UnreadableRecord: a newer version wrote it, or it is damaged.
        """
        record = await self.read(agent_id)
        if record is None:
            raise self.not_found(agent_id, [known.id for known in await self.list()])
        return record

    @staticmethod
    def not_found(agent_id: str, known: Sequence[str]) -> AgentNotFound:
        """The error for an id that nobody knows."""
        close = get_close_matches(agent_id, known, n=3, cutoff=0.6)
        close += [id_ for id_ in known if id_.startswith(agent_id) and id_ not in close][:3]
        hint = f"close: {', '.join(close)}" if close else "`greenroom agents list --all` shows what there is"
        return AgentNotFound(f"there is no agent {agent_id!r}", hint=hint)

    # changing

    async def insert(self, record: AgentRecord, *, at: int | None = None) -> AgentRecord:
        """Write the record of a new agent. Cancelled: it was written, or was not.

        Args:
            at: its `updated_at`; by default now.

        Raises:
            AgentExists: there is one of that id.
        """
        page = self._page(record.id)
        async with page.lock:
            new = msgspec.structs.replace(record, updated_at=self.now() if at is None else at)
            value = encode(new)
            try:
                with anyio.CancelScope(shield=True):
                    revision = await self._table().put(record.id, value, expect=0)
            except RecordConflict as error:
                raise AgentExists(f"agent {record.id} has a record already") from error
            page.gone = False
            self._stored(page, Record(record.id, value, revision), new, 0)
        return new

    def stage(self, agent_id: str, change: Change, *, new: AgentRecord | None = None) -> AgentRecord | None:
        """Change a record that was seen here: it is shown at once and written soon. Never raises, never waits.

        Args:
            new: what to begin with if there is no record yet.

        Returns None, and does nothing, if there is no record, or its deletion has begun.
        """
        page = self._pages.get(agent_id)
        if page is None or page.shown is None:
            if new is None:
                return None
            page = self._page(agent_id)
        if page.gone:
            return None
        begin = page.shown or new
        if begin is None:
            return None
        changed = change(begin)
        if changed == begin and page.shown is not None:
            return begin
        stamp, first = self.now(), new if page.shown is None else None

        def stamped(record: AgentRecord) -> AgentRecord:
            return _later(record, change, stamp)

        page.pending.append(stamped)
        page.stored = page.stored or first
        before, page.shown = page.shown, _later(begin, change, stamp)
        self._dirty[agent_id] = None
        self._news.set()
        self._tell(agent_id, before, page.shown)
        return page.shown

    async def change(self, agent_id: str, change: Change) -> AgentRecord:
        """Change a record durably, with what was staged before it; shown once it is written.

        Calls for one id go one after the other. Cancelled: it happened, or it did not.

        Raises:
            AgentNotFound, UnreadableRecord: as `find`.
            Exception: what `change` or the store raised; then nothing was changed.
        """
        if self.get(agent_id) is None:
            await self.find(agent_id)
        page = self._page(agent_id)
        async with page.lock:
            return await self._write(page, agent_id, change)

    async def flush(self, agent_id: str | None = None) -> None:
        """Write what was staged, until nothing is left; of one agent, or of all.

        Raises:
            Exception: what the store raised; what was not written is tried again later.
        """
        while waiting := [id_ for id_ in self._dirty if agent_id in (None, id_)]:
            for id_ in waiting:
                page = self._page(id_)
                async with page.lock:
                    if page.stored is None or page.gone:
                        self._dirty.pop(id_, None)
                    else:
                        await self._write(page, id_, None)
        written = self._pages.get(agent_id) if agent_id is not None else None
        if written is not None:
            async with written.lock:  # what is being written is waited for
                pass

    async def remove(self, agent_id: str) -> bool:
        """Remove a record; changes that come later are dropped. False if there was none. Cancelled: as `change`."""
        page = self._page(agent_id)
        page.gone = True
        try:
            async with page.lock:
                with anyio.CancelScope(shield=True):
                    there = await self._table().delete(agent_id)
        except BaseException:
            page.gone = False
            raise
        self._unreadable.pop(agent_id, None)
        page.pending.clear()
        self._forget(agent_id)
        return there

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` after each change, in order; what it raises is reported. Returns the undo."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    async def run(self) -> None:
        """Write what is staged, until cancelled; a store that refuses is tried again with the next change."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            try:
                await self.flush()
            except GreenroomError as error:
                self._report("record_not_written", str(error))

    # inside

    def _rows(self) -> dict[str, Record | None]:
        """What is known of the store before it is asked: an answer says nothing of what was written meanwhile."""
        return {agent_id: page.row for agent_id, page in self._pages.items()}

    def _page(self, agent_id: str) -> _Page:
        return self._pages.setdefault(agent_id, _Page())

    async def _write(self, page: _Page, agent_id: str, change: Change | None) -> AgentRecord:
        """Write what is pending and `change`; the caller holds the page's lock."""
        while True:
            if page.gone or page.stored is None:
                raise self.not_found(agent_id, ())
            count, base = len(page.pending), page.stored
            new = base
            for staged in page.pending[:count]:
                new = staged(new)
            if change is not None and (changed := change(new)) != new:
                new = msgspec.structs.replace(changed, updated_at=max(self.now(), new.updated_at + 1))
            if new == base and page.row is not None:
                self._settle(page, agent_id, count)
                return new
            value = encode(new, page.row.value if page.row is not None else None)
            try:
                with anyio.CancelScope(shield=True):  # else nobody would know whether it was written
                    revision = await self._table().put(agent_id, value, expect=page.revision)
            except RecordConflict:
                await self._reread(page, agent_id)
                continue
            self._stored(page, Record(agent_id, value, revision), new, count)
            return new

    async def _reread(self, page: _Page, agent_id: str) -> None:
        """Another process has written or removed the row: begin with what it left."""
        row = await self._table().get(agent_id)
        if row is None:
            page.row = None
            if not page.pending:
                self._forget(agent_id)
            return
        page.row, page.stored = row, decode(agent_id, row.value)

    def _stored(self, page: _Page, row: Record, record: AgentRecord, count: int) -> None:
        page.row, page.stored = row, record
        self._settle(page, row.key, count)
        shown = record
        for staged in page.pending:
            shown = staged(shown)
        if shown != page.shown:
            before, page.shown = page.shown, shown
            self._tell(row.key, before, shown)

    def _settle(self, page: _Page, agent_id: str, count: int) -> None:
        del page.pending[:count]
        if not page.pending:
            self._dirty.pop(agent_id, None)

    def _see(self, row: Record, *, strict: bool) -> None:
        """Take in what the store has, unless it is older than what is known here."""
        page = self._pages.get(row.key)
        if page is not None and (page.gone or page.lock.locked() or row.revision <= page.revision):
            return
        try:
            record = decode(row.key, row.value)
        except UnreadableRecord as error:
            if strict:
                raise
            self._unreadable[row.key] = str(error)
            return
        self._last = max(self._last, record.updated_at)
        self._stored(page or self._page(row.key), row, record, 0)

    def _forget(self, agent_id: str) -> None:
        """The record is gone, by our hand or another's."""
        self._dirty.pop(agent_id, None)
        page = self._pages.pop(agent_id, None)
        if page is not None and page.shown is not None:
            before = page.shown
            page.row, page.stored, page.shown = None, None, None
            self._tell(agent_id, before, None)

    def _tell(self, agent_id: str, before: AgentRecord | None, record: AgentRecord | None) -> None:
        for observer in list(self._observers):
            try:
                observer(agent_id, before, record)
            except Exception as error:  # noqa: BLE001 - whoever looks on must not harm the record or the others
                self._report("record_observer_failed", f"{type(error).__name__}: {error}")


def _later(record: AgentRecord, change: Change, stamp: int) -> AgentRecord:
    changed = change(record)
    return msgspec.structs.replace(changed, updated_at=max(stamp, record.updated_at + 1))
