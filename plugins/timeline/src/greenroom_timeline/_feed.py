"""Keeps a line up to date with its session, and wakes who waits for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import anyio

from greenroom.sessions import Event, Session, SessionStore, Vocabulary
from greenroom.timeline import Patched, Row, RowAdded

from ._events import PATCHABLE, Roles, row_key, row_of
from ._facts import Fact, latest_before, patched
from ._line import Change, Line, Taken, seq_of
from ._sizes import SIZES, Sizes
from ._source import Source
from ._tail import Tail


class Feed:
    """The line of one session.

    Attributes:
        source: where its events come from.
        line: its end, in memory.
        tail: its projected end, once somebody asked for it.
        readers: how many follow it.
        closed: whether it was let go.
    """

    def __init__(self, session_id: str, store: SessionStore, vocabulary: Vocabulary, sizes: Sizes = SIZES) -> None:
        self.sizes = sizes
        self.source = Source(store, session_id)
        self.roles = Roles(vocabulary)
        self.line = Line("")
        self.tail: Tail | None = None
        self.readers = 0
        self.closed = False
        self._inbox: list[Event] = []
        self._behind = self._torn = True
        self._lock: anyio.Lock | None = None
        self._wake: anyio.Event | None = None
        self._undo: Callable[[], None] = _nothing

    def attach(self, session: Session | None) -> None:
        """Follow the live session, or with None what the store holds."""
        if session is self.source.session:
            return
        self._undo()
        self._undo = session.observe(self._push) if session is not None else _nothing
        self.source.session = session
        self._inbox.clear()
        self._behind = True
        self.wake()

    def close(self) -> None:
        """Follow nothing any more; readers come to their end."""
        self.closed = True
        self.attach(None)
        self.wake()

    def _push(self, event: Event) -> None:
        """Take an event of the live session; it is looked at when somebody reads."""
        if self._behind:
            pass
        elif len(self._inbox) >= self.sizes.inbox:
            self._inbox.clear()
            self._behind = True
        else:
            self._inbox.append(event)
        if self._wake is not None and self.roles.part(event) is not None:
            self.wake()

    def wake(self) -> None:
        """Let those who wait look again."""
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    async def changed(self) -> None:
        """Wait until there may be something new."""
        if self._wake is None:
            self._wake = anyio.Event()
        await self._wake.wait()

    @property
    def current(self) -> bool:
        """Whether there is nothing to take in; what is only stored may always have grown."""
        return not self._inbox and self._steady

    @property
    def _steady(self) -> bool:
        """Whether events come by themselves, and nobody is reading what they need."""
        reading = self._lock is not None and self._lock.locked()
        return not self._behind and self.source.session is not None and not reading

    async def sync(self) -> None:
        """Take in everything that was appended. Raises what the store raises; the next call tries again."""
        if self._steady and self._drain():
            return
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:
            if self.source.session is None:
                self._behind = True
            while self._behind or not self._drain():
                await self._catch_up()

    def _drain(self) -> bool:
        """Take in what waits; False when something has to be read first."""
        for index, event in enumerate(self._inbox):
            outcome = self._take(event)
            if outcome != "taken":
                del self._inbox[: index + (outcome == "reload")]
                self._behind = self._torn = self._torn or outcome == "reload"
                return False
        self._inbox.clear()
        return True

    def _take(self, event: Event) -> Taken:
        part = self.roles.part(event)
        outcome = self.line.take(event, part)
        if self.tail is not None and outcome != "lookup":
            self.tail = self.tail.take(event, part, self.line)
        return outcome

    async def _catch_up(self) -> None:
        try:
            if self._behind:
                await self._read_on()
            else:
                await self._look_up(self._inbox[0])
        except BaseException:
            self._behind = True
            raise

    async def _look_up(self, event: Event) -> None:
        """Find the rows of a patch's key in the log."""
        fact = self.line.facts.read(event)
        if fact is not None:
            self.line.known.put(fact.key, await self.source.rows_of(fact.key, event.seq))

    async def _read_on(self) -> None:
        """Take in what the log holds and memory does not."""
        self._behind, self._inbox = False, []
        length = await self.source.length()
        if length < self.line.next or not self.line.epoch:
            self.line, self.tail = Line(await self.source.epoch(), await self.source.kept(length), self.sizes), None
            self._torn = True
        if self._torn or length - self.line.next > self.sizes.large_chunk:
            await self._reload(length)
            return
        for event in await self.source.read(self.line.next, length):
            outcome = self._take(event)
            if outcome == "lookup":
                await self._look_up(event)
                outcome = self._take(event)
            if outcome == "reload":
                await self._reload(length)
                return

    async def _reload(self, length: int) -> None:
        """Read the end of the line, and what is said about any row, without reading what lies between."""
        self._torn = True
        line, self.tail = self.line, None
        line.facts.skip()
        line.known.clear()
        for event in await self.source.facts(line.next, length):
            if event.type == "session/recast":
                line.apply_recast(event.seq, event.data)
            else:
                line.facts.add(event, live=False)
            line.next = event.seq + 1
        line.next = length
        events, start = await self._end(length)
        rows = [event for event in events if self.roles.part(event) == "row"]
        shown = await self.show(rows)
        changes = await self._changes(events)
        base = -1
        if start > 0 and changes:
            base = seq_of(changes[0])
            shown = [row for row in shown if row.seq > base]
            changes = changes[1:]
        first = await self._first(length)
        line.restore(base, shown, changes, first, rows[-1].seq if rows else None)
        self._torn = False

    async def _end(self, length: int) -> tuple[list[Event], int]:
        """The shown events of the end: with enough rows, and with two at least unless there are fewer."""
        events: list[Event] = []
        start, count = length, 0
        while start > 0 and count < self.sizes.enough and not (count > 1 and len(events) > 4 * self.sizes.keep):
            found, start = await self.source.back(self.line.ranges, start, self.sizes.chunk)
            events = [*found, *events]
            count += sum(self.roles.part(event) == "row" for event in found)
        return events, start

    async def _first(self, length: int) -> int | None:
        for low, high in self.line.ranges.up(0, length):
            for start in range(low, high, self.sizes.chunk):
                for event in await self.source.read(start, min(start + self.sizes.chunk, high)):
                    if self.roles.part(event) == "row":
                        return event.seq
        return None

    async def _changes(self, events: Iterable[Event]) -> list[Change]:
        """Rows and patches as they came; `prev` of the first one is not known."""
        changes: list[Change] = []
        prev, targets = -1, dict[str, int]()
        certain = not self.line.ranges.hides(-1)  # else the latest row of a key may be a hidden one
        for event in events:
            part = self.roles.part(event)
            if part == "row":
                key = row_key(event.type, event.raw) if event.type in PATCHABLE else None
                if key is not None and certain:
                    targets[key] = event.seq
                changes.append(RowAdded(row_of(event), prev))
                prev = event.seq
            elif part == "patch":
                fact = self.line.facts.read(event)
                row = await self.target(fact, targets) if fact is not None else None
                if fact is not None and row is not None:
                    changes.append(Patched(fact.of(row), prev))
                    prev = event.seq
        return changes

    async def target(self, fact: Fact, targets: dict[str, int]) -> int | None:
        """The row that a patch is for: one of `targets` (the latest by key), else from the log; None if hidden."""
        row = targets.get(fact.key)
        if row is None:
            row = latest_before(await self._rows_of(fact.key), fact.seq)
        return row if row is not None and self.line.ranges.shows(row) else None

    async def _rows_of(self, key: str) -> Sequence[int]:
        line = self.line
        known = line.known.get(key)
        if known is None:
            stop = line.next
            known = await self.source.rows_of(key, stop)
            if line.next == stop:  # else rows may have come meanwhile, and nobody noted them
                line.known.put(key, known)
        return known

    async def show(self, events: Sequence[Event]) -> list[Row]:
        """Events that are rows, with patches applied."""
        rows = [row_of(event) for event in events]
        spoken = self.line.facts.types
        for index, event in enumerate(events) if spoken else ():
            if event.type in spoken and (facts := await self.about(event)):
                rows[index] = patched(rows[index], facts)
        return rows

    async def about(self, event: Event) -> Sequence[Fact]:
        """What is said about a row."""
        key, facts = row_key(event.type, event.raw), self.line.facts
        if key is None or key not in facts:
            return ()
        for child in facts.unread_children(key):
            await self._load_items(child)
        if key.startswith("message "):
            return facts.about(key, event.seq)  # ids of messages are unique; those of calls are in a turn
        rows = await self._rows_of(key)
        later = bisect_right(rows, event.seq)
        return facts.about(key, event.seq, rows[later] if later < len(rows) else None)

    async def _load_items(self, child: str) -> None:
        line = self.line
        while True:
            stop = line.next
            items = await self.source.items_of(child, stop)
            if line.next == stop:  # else there may be more of them by now
                line.facts.load_items(child, items)
                return


def _nothing() -> None:
    """Undo nothing."""
