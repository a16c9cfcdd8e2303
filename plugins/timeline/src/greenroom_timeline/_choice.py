"""Which entries a page holds: a number of them, and what overlaps them, so that pages never cut an entry."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from ._projection import Single

_SEQ = attrgetter("seq")


def last_entries(entries: Sequence[Single], stop: int, limit: int | None) -> list[Single]:
    """The last ones that begin before `stop`, whole, with all that overlap them; entries of one line, in order."""
    high = bisect_left(entries, stop, key=_SEQ)
    low = 0 if limit is None else max(high - limit, 0)
    if low >= high:
        return []
    start, segment = entries[low].seq, entries[low].segment
    for index in range(low - 1, -1, -1):
        if entries[index].segment != segment:
            break
        if entries[index].end >= start:
            low, start = index, entries[index].seq
    end = max(entry.end for entry in entries[low:high])
    while high < len(entries) and entries[high].seq <= end:
        end = max(end, entries[high].end)
        high += 1
    return list(entries[low:high])


def first_entries(entries: Sequence[Single], cursor: int, limit: int | None) -> list[Single]:
    """The first ones that have a row behind the cursor, whole, with all that overlap them from there on."""
    later = [entry for entry in entries if entry.end > cursor]
    if limit is None or len(later) <= limit:
        return later
    end = max(entry.end for entry in later[:limit])
    high = limit
    while high < len(later) and later[high].seq <= end:
        end = max(end, later[high].end)
        high += 1
    return later[:high]
