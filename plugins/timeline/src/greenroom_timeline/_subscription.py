"""Following a line: snapshots from a cursor on, then what is appended."""

from __future__ import annotations

from bisect import bisect_right
from typing import Self

import msgspec

from greenroom.timeline import DEFAULT_LIMIT, Cursor, Lagged, Page, Snapshot, Update

from ._feed import Feed
from ._line import Line, seq_of
from ._pages import fetch


class Subscription:
    """See TimelineService.subscribe. It holds a cursor and nothing else: rows and patches lie in the line's memory."""

    def __init__(self, feed: Feed, cursor: Cursor | None) -> None:
        self._feed = feed
        self._cursor = cursor
        self._asks = True
        self._lost = False

    @property
    def cursor(self) -> Cursor | None:
        """Where the reader stands."""
        return self._cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        """The next update; waits for it. Cancelled: nothing was taken."""
        feed = self._feed
        while not feed.closed:
            if self._asks or self._cursor is None:
                return Snapshot(await self._page())
            if not feed.current:
                await feed.sync()
            update = self._step(feed.line, self._cursor)
            if update is not None:
                return update
            if not self._asks:
                await feed.changed()
        raise StopAsyncIteration

    def _step(self, line: Line, cursor: Cursor) -> Update | None:
        """What follows the cursor in memory; asks for a page where memory does not tell."""
        if cursor.epoch != line.epoch:
            self._asks = True
            return line.recast if line.recast is not None and line.recast.epoch == line.epoch else None
        if cursor.seq < line.base:
            self._asks = True
            return Lagged(cursor)
        if cursor.seq > line.last:
            self._asks = self._lost = True
            return None
        index = bisect_right(line.change_seqs, cursor.seq)
        if index == len(line.changes):
            return None
        change = line.changes[index]
        self._cursor = Cursor(line.epoch, seq_of(change))
        return change

    async def _page(self) -> Page:
        """What lies above the cursor; the tail for a reader without one, and for one whose rows are gone."""
        if self._cursor is None or self._lost:
            page = await fetch(self._feed, None, "tail", DEFAULT_LIMIT, "canonical")
            page = msgspec.structs.replace(page, reset=self._lost)
        else:
            page = await fetch(self._feed, self._cursor, "after", DEFAULT_LIMIT, "canonical")
        self._cursor, self._asks, self._lost = page.end, page.has_newer, False
        return page
