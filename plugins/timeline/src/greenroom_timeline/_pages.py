"""Answers to `fetch`: pages of rows or entries, from memory where it reaches, else from the log."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, get_args

import msgspec

from greenroom.sessions import Event
from greenroom.timeline import DEFAULT_LIMIT, Cursor, Direction, Entry, Page, Patch, Patched, Row, View, Window

from ._choice import first_entries, last_entries
from ._events import PATCHABLE, row_key
from ._feed import Feed
from ._line import Line
from ._stretch import open_tail, stretch_after, stretch_before

MAX_RESET: Final = 1_000
"""The largest page that starts a client over, whatever it asked for."""

_DIRECTIONS: Final = get_args(Direction)
_VIEWS: Final = get_args(View)


def whole_limit(limit: object) -> int | None:
    """The limit as a count, None for everything. Raises ValueError for what is no number."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit):
        raise ValueError(f"a limit is a number, not {limit!r}")
    return None if limit < 1 or math.isinf(limit) else math.floor(limit)


async def fetch(feed: Feed, cursor: Cursor | None, direction: Direction, limit: float, view: View) -> Page:
    """See TimelineService.fetch."""
    count = limit if type(limit) is int and limit > 0 else whole_limit(limit)
    if direction not in _DIRECTIONS or view not in _VIEWS:
        raise ValueError(f"{direction!r}, {view!r}: known are {', '.join([*_DIRECTIONS, *_VIEWS])}")
    while True:
        await feed.sync()
        line, epoch = feed.line, feed.line.epoch
        page = await _answer(feed, cursor, direction, count, view)
        if feed.line is line and line.epoch == epoch:
            return page  # else the line started over while the log was read


async def _answer(feed: Feed, cursor: Cursor | None, direction: Direction, count: int | None, view: View) -> Page:
    line = feed.line
    stale = cursor is not None and cursor.epoch != line.epoch
    gap = not stale and direction == "after" and cursor is not None and -1 <= cursor.seq < line.kept - 1
    if stale or gap:
        bounded = count if count is not None and count <= MAX_RESET else DEFAULT_LIMIT
        page = await _older(feed, line.next, bounded, view, tail=True)
        return msgspec.structs.replace(page, stale_cursor=stale, gap=gap, reset=True)
    if direction == "after":
        return await _newer(feed, max(cursor.seq, -1) if cursor is not None else -1, count, view)
    if direction == "tail" or cursor is None:
        return await _older(feed, line.next, count, view, tail=direction == "tail")
    return await _older(feed, min(max(cursor.seq, 0), line.next), count, view, tail=False)


def window(line: Line) -> Window:
    """What the whole line holds."""
    return Window(line.first, line.last_row, line.next)


async def _older(feed: Feed, stop: int, count: int | None, view: View, *, tail: bool) -> Page:
    line = feed.line
    whole, end, first, last = window(line), line.end, line.first, line.last_row
    rows: Sequence[Row] = ()
    entries: Sequence[Entry] = ()
    low = high = stop - 1
    if view == "canonical":
        rows = await _rows_before(feed, stop, count)
        if rows:
            low, high = rows[0].seq, rows[-1].seq
    else:
        entries = await _entries_before(feed, stop, count)
        if entries:
            low, high = entries[0].seq, max(entry.end for entry in entries)
    some = bool(rows or entries)
    return Page(
        epoch=end.epoch,
        window=whole,
        end=end if tail else Cursor(end.epoch, high),
        start=Cursor(end.epoch, low) if some else None,
        rows=tuple(rows),
        entries=tuple(entries),
        has_older=some and first is not None and low > first,
        has_newer=not tail and last is not None and last > high,
    )


async def _rows_before(feed: Feed, stop: int, count: int | None) -> list[Row]:
    line = feed.line
    at, base = bisect_left(line.row_seqs, stop), line.base
    rows = line.rows[0 if count is None else max(at - count, 0) : at]
    if base >= 0 and (count is None or len(rows) < count):
        missing = None if count is None else count - len(rows)
        rows = [*await _stored_before(feed, min(stop, base + 1), missing), *rows]
    return rows


async def _stored_before(feed: Feed, stop: int, count: int | None) -> list[Row]:
    """The last rows below `stop`, from the log."""
    size = feed.sizes.large_chunk if count is None else min(3 * count // 2 + 16, feed.sizes.large_chunk)
    found: list[Event] = []
    while stop > 0 and (count is None or len(found) < count):
        events, stop = await feed.source.back(feed.line.ranges, stop, size)
        found = [*(event for event in events if feed.roles.part(event) == "row"), *found]
        size = min(2 * size, feed.sizes.large_chunk)
    return await feed.show(found if count is None else found[max(len(found) - count, 0) :])


async def _entries_before(feed: Feed, stop: int, count: int | None) -> list[Entry]:
    tail = feed.tail
    if tail is None and stop >= feed.line.next:
        tail = await open_tail(feed)
    if tail is not None and stop > tail.start:
        known = bisect_left(tail.entries, stop, key=lambda entry: entry.seq)
        if (count is not None and known >= count) or feed.line.first is None or tail.start <= feed.line.first:
            return [entry.entry(tail.patches) for entry in last_entries(tail.entries, stop, count)]
    stretch = await stretch_before(feed, stop, count)
    return [entry.entry(stretch.patches) for entry in stretch.entries]


async def _newer(feed: Feed, cursor: int, count: int | None, view: View) -> Page:
    line = feed.line
    whole, end, first, last = window(line), line.end, line.first, line.last_row
    older = first is not None and cursor >= first
    if cursor >= end.seq:
        return Page(epoch=end.epoch, window=whole, end=end, has_older=older)
    rows: Sequence[Row] = ()
    entries: Sequence[Entry] = ()
    patches: Sequence[Patch] = ()
    read: Sequence[Event] = ()
    low = high = -1
    if view == "canonical":
        rows, patches = await _rows_after(feed, cursor, count)
        if rows:
            low, high = rows[0].seq, rows[-1].seq
    else:
        entries, read = await _entries_after(feed, cursor, count)
        if entries:
            low, high = entries[0].seq, max(entry.end for entry in entries)
    more = bool(rows or entries) and last is not None and last > high
    if view == "projected":
        patches = await _patches_between(feed, cursor, high if more else end.seq, read)
    return Page(
        epoch=end.epoch,
        window=whole,
        end=Cursor(end.epoch, high) if more else end,
        start=Cursor(end.epoch, low) if rows or entries else None,
        rows=tuple(rows),
        entries=tuple(entries),
        patches=tuple(patches),
        has_older=older or (low >= 0 and first is not None and low > first),
        has_newer=more,
    )


async def _rows_after(feed: Feed, cursor: int, count: int | None) -> tuple[Sequence[Row], Sequence[Patch]]:
    """The first rows behind the cursor, and the patches up to where they end of rows up to the cursor."""
    line = feed.line
    if cursor >= line.base:
        at = bisect_right(line.row_seqs, cursor)
        rows = line.rows[at : None if count is None else at + count]
        stop = rows[-1].seq if count is not None and at + count < len(line.rows) else line.last
        return rows, _memory_patches(line, cursor, stop, cursor)
    memory, recent, last, base, end = list(line.rows), list(line.changes), line.last_row, line.base, line.last
    found, patches = await _stored_after(feed, cursor, count, base + 1)
    rows = await feed.show(found)
    rows += memory if count is None else memory[: max(count - len(rows), 0)]
    stop = rows[-1].seq if rows and last is not None and rows[-1].seq < last else end
    told = await _told(feed, patches, cursor, found)
    if stop > base:
        told += [change.patch for change in recent if type(change) is Patched and change.patch.update <= cursor]
    return rows, [patch for patch in told if patch.seq <= stop]


async def _stored_after(feed: Feed, cursor: int, count: int | None, stop: int) -> tuple[list[Event], list[Event]]:
    """Rows and patches of the log in front of `stop`, until there are enough rows."""
    rows: list[Event] = []
    patches: list[Event] = []
    size = feed.sizes.large_chunk if count is None else min(3 * count // 2 + 16, feed.sizes.large_chunk)
    for low, high in feed.line.ranges.up(cursor + 1, stop):
        for start in range(low, high, size):
            for event in await feed.source.read(start, min(start + size, high)):
                part = feed.roles.part(event)
                if part == "row":
                    rows.append(event)
                elif part == "patch":
                    patches.append(event)
                if len(rows) == count:
                    return rows, patches
    return rows, patches


async def _told(feed: Feed, events: Iterable[Event], cursor: int, rows: Iterable[Event]) -> list[Patch]:
    """Those of the patches that are for rows up to the cursor; the others stand in the rows."""
    fresh = {str(row_key(row.type, row.raw)): row.seq for row in rows if row.type in PATCHABLE}
    told: list[Patch] = []
    for event in events:
        fact = feed.line.facts.read(event)
        if fact is None:
            continue
        behind = fresh.get(fact.key)
        row = await feed.target(fact, {}) if behind is None or behind > event.seq else behind
        if row is not None and row <= cursor:
            told.append(fact.of(row))
    return told


def _memory_patches(line: Line, low: int, high: int, cursor: int) -> list[Patch]:
    """The patches with `low < seq <= high` of rows up to the cursor, from memory."""
    first, last = bisect_right(line.change_seqs, low), bisect_right(line.change_seqs, high)
    return [
        change.patch
        for change in line.changes[first:last]
        if isinstance(change, Patched) and change.patch.update <= cursor
    ]


async def _entries_after(feed: Feed, cursor: int, count: int | None) -> tuple[list[Entry], Sequence[Event]]:
    """The first entries that have a row behind the cursor, and the events that were read for them."""
    tail = feed.tail
    if tail is None and cursor >= feed.line.base:
        tail = await open_tail(feed)
    if tail is not None and (cursor + 1 >= tail.start or feed.line.first is None or tail.start <= feed.line.first):
        return [entry.entry(tail.patches) for entry in first_entries(tail.entries, cursor, count)], ()
    stretch = await stretch_after(feed, cursor, count)
    return [entry.entry(stretch.patches) for entry in stretch.entries], stretch.events


async def _patches_between(feed: Feed, cursor: int, stop: int, read: Sequence[Event]) -> list[Patch]:
    """The patches behind the cursor up to `stop` of rows up to the cursor. `read`: events that are at hand."""
    line, part = feed.line, feed.roles.part
    if cursor >= line.base:
        return _memory_patches(line, cursor, stop, cursor)
    known = [event for event in read if cursor < event.seq <= stop]
    rows, patches = await _stored_after(feed, known[-1].seq if known else cursor, None, stop + 1)
    rows = [*(event for event in known if part(event) == "row"), *rows]
    patches = [*(event for event in known if part(event) == "patch"), *patches]
    return await _told(feed, patches, cursor, rows)
