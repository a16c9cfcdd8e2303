"""Entries from the log: whole segments are read and folded, so that none is cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from greenroom.sessions import Event

from ._choice import first_entries, last_entries
from ._events import BORDERS
from ._facts import Fact
from ._feed import Feed
from ._projection import Single, fold
from ._tail import Tail

_NEAR: Final = 64
"""Events in which a border is looked for first: most turns are shorter."""
_EVENTS: Final = 6
"""Events of an entry, as a guess: a page is read in one go where turns are like that."""
_SEQ: Final = attrgetter("seq")


class Stretch:
    """A part of a line between two borders, folded.

    Attributes:
        entries: unfinished.
        patches: by row.
        events: what was read for it.
    """

    def __init__(
        self, entries: list[Single], patches: Mapping[int, Sequence[Fact]], events: Sequence[Event] = ()
    ) -> None:
        self.entries, self.patches, self.events = entries, patches, events


async def _border_below(feed: Feed, seq: int) -> int:
    """The largest border that is not above `seq`, or where the shown range that holds it begins."""
    for low, high in feed.line.ranges.down(seq + 1):
        at, step = high, min(_NEAR, feed.sizes.chunk)
        while at > low:
            start = max(low, at - step)
            for event in reversed(await feed.source.read(start, at)):
                if event.type in BORDERS:
                    return event.seq
            at, step = start, min(4 * step, feed.sizes.large_chunk)
        return low
    return 0


async def _border_above(feed: Feed, seq: int, stop: int) -> int:
    """The smallest border that is not below `seq`, or where its shown range ends."""
    for low, high in feed.line.ranges.up(seq, stop):
        at, step = low, min(_NEAR, feed.sizes.chunk)
        while at < high:
            end = min(at + step, high)
            for event in await feed.source.read(at, end):
                if event.type in BORDERS:
                    return event.seq
            at, step = end, min(4 * step, feed.sizes.large_chunk)
        return high
    return stop


async def _back(feed: Feed, high: int, size: int) -> tuple[Sequence[Event], int]:
    """At least so many shown events below the border `high`, down to another border, and its seq."""
    for low, end in feed.line.ranges.down(high):
        events: list[Event] = []
        at = end
        while at > low:
            start = max(low, at - size)
            part = await feed.source.read(start, at)
            events = [*part, *events]
            at = start
            border = next((event.seq for event in part if event.type in BORDERS), None)
            if border is not None and at > low:
                return events[border - at :], border
        return events, low
    return (), 0


async def _forth(feed: Feed, low: int, stop: int, size: int, cursor: int) -> tuple[Sequence[Event], int]:
    """At least so many shown events from the border `low` on, up to another border behind the cursor, and its seq."""
    for first, last in feed.line.ranges.up(low, stop):
        events: list[Event] = []
        at = first
        while at < last:
            part = await feed.source.read(at, min(at + size, last))
            events.extend(part)
            at += len(part)
            border = next((event.seq for event in reversed(part) if event.type in BORDERS), -1)
            if border > max(first, cursor) and at < last:
                return events[: border - first], border
        return events, last
    return (), stop


async def events_between(feed: Feed, low: int, high: int) -> list[Event]:
    """The shown events of a stretch, and the recasts between its shown ranges, as borders."""
    events: list[Event] = []
    for start, stop in feed.line.ranges.up(low, high):
        if events:
            events.extend(await feed.source.read(start - 1, start))
        for at in range(start, stop, feed.sizes.large_chunk):
            events.extend(await feed.source.read(at, min(at + feed.sizes.large_chunk, stop)))
    if events and feed.line.ranges.begins(high):
        events.extend(await feed.source.read(high - 1, high))
    return events


async def _patches(feed: Feed, events: Sequence[Event]) -> dict[int, Sequence[Fact]]:
    """What is said about the rows among the events."""
    spoken = feed.line.facts.types
    said = {event.seq: await feed.about(event) for event in events if event.type in spoken}
    return {seq: facts for seq, facts in said.items() if facts}


def _size(feed: Feed, limit: int | None) -> int:
    """How many events to read at a time: an entry has some rows, and some events are no rows."""
    return feed.sizes.large_chunk if limit is None else min(max(_EVENTS * limit, _NEAR), feed.sizes.large_chunk)


async def stretch_before(feed: Feed, stop: int, limit: int | None) -> Stretch:
    """The last entries that begin before `stop`, chosen, from the log."""
    length, size = feed.line.next, _size(feed, limit)
    high = await _border_above(feed, min(stop, length), length)
    whole = Stretch([], {})
    while high > 0 and (limit is None or bisect_left(whole.entries, stop, key=_SEQ) < limit):
        events, high = await _back(feed, high, size)
        whole = _joined(Stretch(fold(events, feed.roles), await _patches(feed, events)), whole)
    return Stretch(last_entries(whole.entries, stop, limit), whole.patches)


async def stretch_after(feed: Feed, cursor: int, limit: int | None) -> Stretch:
    """The first entries that have a row behind the cursor, chosen, from the log."""
    length, size = feed.line.next, _size(feed, limit)
    low = await _border_below(feed, min(max(cursor + 1, 0), length))
    whole, count = Stretch([], {}), 0
    while low < length and (limit is None or count < limit):
        events, low = await _forth(feed, low, length, size, cursor)
        part = Stretch(fold(events, feed.roles), await _patches(feed, events), events)
        count += sum(entry.end > cursor for entry in part.entries)
        whole = _joined(whole, part)
    return Stretch(first_entries(whole.entries, cursor, limit), whole.patches, whole.events)


def _joined(first: Stretch, second: Stretch) -> Stretch:
    """Two neighbours as one; their segments stay apart."""
    if first.entries and second.entries:
        shift = first.entries[-1].segment + 1 - second.entries[0].segment
        for entry in second.entries:
            entry.segment += shift
    events = (*first.events, *second.events)
    return Stretch([*first.entries, *second.entries], {**first.patches, **second.patches}, events)


async def open_tail(feed: Feed) -> Tail | None:
    """Fold the end of the line for the first reader of its projected view, None if it moved on meanwhile."""
    line, length, epoch = feed.line, feed.line.next, feed.line.epoch
    low, count = length, 0
    while low > 0 and count < feed.sizes.enough:
        events, low = await _back(feed, low, _size(feed, feed.sizes.enough))
        count += len(fold(events, feed.roles))
    events = await events_between(feed, low, length)
    patches = await _patches(feed, events)
    if feed.line is not line or line.next != length or line.epoch != epoch:
        return None
    feed.tail = Tail(low, events, patches, feed.roles, feed.sizes.entries)
    return feed.tail
