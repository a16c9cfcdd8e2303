"""Entries from the log: whole segments are read and folded, so that none is cut."""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.sessions import Event

from ._choice import first_entries, last_entries
from ._events import BORDERS, PATCHABLE
from ._facts import Fact
from ._feed import Feed
from ._projection import Single, fold
from ._tail import Tail


class Stretch:
    """A part of a line between two borders, folded. Attributes: entries, unfinished; patches by row."""

    def __init__(self, entries: list[Single], patches: dict[int, Sequence[Fact]]) -> None:
        self.entries, self.patches = entries, patches


async def border_below(feed: Feed, seq: int) -> int:
    """The largest border that is not above `seq`, or where the shown range that holds it begins."""
    stop = seq + 1
    for low, high in feed.line.ranges.down(stop):
        while high > low:
            start = max(low, high - feed.sizes.chunk)
            for event in reversed(await feed.source.read(start, high)):
                if event.type in BORDERS:
                    return event.seq
            high = start  # noqa: PLW2901 - the range shrinks from its end
        return low
    return 0


async def border_above(feed: Feed, seq: int, stop: int) -> int:
    """The smallest border that is not below `seq`, or where its shown range ends."""
    for low, high in feed.line.ranges.up(seq, stop):
        for start in range(low, high, feed.sizes.chunk):
            for event in await feed.source.read(start, min(start + feed.sizes.chunk, high)):
                if event.type in BORDERS:
                    return event.seq
        return high
    return stop


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


async def patches_for(feed: Feed, events: Sequence[Event]) -> dict[int, Sequence[Fact]]:
    """What is said about the rows among the events."""
    if not feed.line.facts:
        return {}
    said = {event.seq: await feed.about(event) for event in events if event.type in PATCHABLE}
    return {seq: facts for seq, facts in said.items() if facts}


async def _stretch(feed: Feed, low: int, high: int) -> Stretch:
    events = await events_between(feed, low, high)
    return Stretch(fold(events, feed.roles), await patches_for(feed, events))


async def stretch_before(feed: Feed, stop: int, limit: int | None) -> Stretch:
    """The last entries that begin before `stop`, chosen, from the log."""
    length, size = feed.line.next, feed.sizes.large_chunk if limit is None else feed.sizes.chunk
    high = await border_above(feed, min(stop, length), length)
    whole = Stretch([], {})
    while high > 0 and (limit is None or len(last_entries(whole.entries, stop, None)) < limit):
        low = await _below(feed, high, size)
        part = await _stretch(feed, low, high)
        whole = _joined(part, whole)
        high = low
    return Stretch(last_entries(whole.entries, stop, limit), whole.patches)


async def _below(feed: Feed, high: int, size: int) -> int:
    """A border at least some events below `high`, or a shown range's beginning."""
    for low, end in feed.line.ranges.down(high):
        return await border_below(feed, max(low, end - size))
    return 0


async def stretch_after(feed: Feed, cursor: int, limit: int | None) -> Stretch:
    """The first entries that have a row behind the cursor, chosen, from the log."""
    length, size = feed.line.next, feed.sizes.large_chunk if limit is None else feed.sizes.chunk
    low = await border_below(feed, min(max(cursor + 1, 0), length))
    whole = Stretch([], {})
    while low < length and (limit is None or len(first_entries(whole.entries, cursor, None)) < limit):
        high = await border_above(feed, max(low + size, cursor + 1), length)
        whole = _joined(whole, await _stretch(feed, low, high))
        low = high
    return Stretch(first_entries(whole.entries, cursor, limit), whole.patches)


def _joined(first: Stretch, second: Stretch) -> Stretch:
    """Two neighbours as one; their segments stay apart."""
    if first.entries and second.entries:
        shift = first.entries[-1].segment + 1 - second.entries[0].segment
        for entry in second.entries:
            entry.segment += shift
    return Stretch([*first.entries, *second.entries], {**first.patches, **second.patches})


async def open_tail(feed: Feed) -> Tail | None:
    """Fold the end of the line for the first reader of its projected view, None if it moved on meanwhile."""
    line, length, epoch = feed.line, feed.line.next, feed.line.epoch
    low, count = length, 0
    while low > 0 and count < feed.sizes.enough:
        high, low = low, await _below(feed, low, feed.sizes.chunk)
        count += len(fold(await events_between(feed, low, high), feed.roles))
    events = await events_between(feed, low, length)
    patches = await patches_for(feed, events)
    if feed.line is not line or line.next != length or line.epoch != epoch:
        return None
    feed.tail = Tail(low, events, patches, feed.roles, feed.sizes.entries)
    return feed.tail
