"""One line of a session as far as memory holds it: which seqs are shown, and the rows and patches of its end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Literal, TypeAlias

from greenroom.sessions import Event
from greenroom.sessions.vocabulary import SessionRecast
from greenroom.timeline import Cursor, Patched, Recast, Row, RowAdded

from ._events import PATCHABLE, Part, row_key, row_of
from ._facts import Facts, KnownRows, latest_before, patched
from ._sizes import SIZES, Sizes

Taken: TypeAlias = Literal["taken", "lookup", "reload"]
"""What became of an event: it is in; its patch needs the row of a key that is not in memory; the rest must be read."""

Change: TypeAlias = RowAdded | Patched


class Ranges:
    """Which seqs are shown: every recast hides those from its `keep_before` up to itself."""

    def __init__(self, kept: int = 0) -> None:
        self._shown: list[tuple[int, int | None]] = [(kept, None)]

    def recast(self, seq: int, keep_before: int) -> None:
        """Hide what the recast at `seq` hides."""
        keep = min(keep_before, seq)
        kept = [(low, keep if high is None else min(high, keep)) for low, high in self._shown if low < keep]
        self._shown = [*kept, (seq + 1, None)]

    def shows(self, seq: int) -> bool:
        """Whether the event of that seq is on the line."""
        low, _ = self._shown[-1]
        return seq >= low or any(low <= seq and (high is None or seq < high) for low, high in self._shown)

    def hides(self, seq: int) -> bool:
        """Whether an event behind `seq` may be hidden."""
        return self._shown[-1][0] > seq + 1

    def begins(self, seq: int) -> bool:
        """Whether a shown range begins there: the event in front of it is a recast."""
        return seq > 0 and self._shown[-1][0] == seq

    def down(self, stop: int) -> Iterator[tuple[int, int]]:
        """The shown ranges below `stop`, the last first."""
        for low, high in reversed(self._shown):
            if low < stop:
                yield low, stop if high is None else min(high, stop)

    def up(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """The shown ranges from `start` to `stop`, the first first."""
        for low, high in self._shown:
            first, last = max(low, start), stop if high is None else min(high, stop)
            if first < last:
                yield first, last


class Line:
    """The end of a line, fed with every event in order. No input or output: what it lacks it asks for by its answers.

    Attributes:
        epoch: its name.
        kept: the first seq that the log still holds; 0 unless its beginning was lost.
        ranges: which seqs are shown.
        next: the seq of the next event; everything before it was taken in.
        base: memory holds every row and patch that is shown behind this seq; it is one itself, or -1.
        rows, row_seqs: the rows behind `base`, patches applied.
        changes, change_seqs: the rows and patches behind `base` as they came.
        first, last_row: seqs of the first and the last row of the whole line, None for an empty one.
        recast: the last recast that was taken in since the line is followed.
        facts: the patches of the whole line.
        known: rows of keys that were looked up.
    """

    def __init__(self, epoch: str, kept: int = 0, sizes: Sizes = SIZES) -> None:
        self.epoch = epoch
        self._sizes = sizes
        self.kept = self.next = kept
        self.ranges = Ranges(kept)
        self.base = -1
        self.rows: list[Row] = []
        self.row_seqs: list[int] = []
        self.changes: list[Change] = []
        self.change_seqs: list[int] = []
        self.first: int | None = None
        self.last_row: int | None = None
        self.recast: Recast | None = None
        self.facts = Facts()
        self.known = KnownRows()
        self._targets: dict[str, int] = {}
        self._bytes = 0
        self._aimed = True  # the latest row of each key is known, as far as it stands behind `base`

    @property
    def last(self) -> int:
        """The seq of the last row or patch, -1 for none."""
        return self.change_seqs[-1] if self.change_seqs else self.base

    @property
    def end(self) -> Cursor:
        """The cursor of a client that has everything."""
        return Cursor(self.epoch, self.last)

    def target(self, key: str, seq: int) -> int | None:
        """The row that a patch at `seq` is for, the latest of its key: None if it has to be looked up.

        -1 if there is none or if it is hidden: what was said about it says nothing about an older one.
        """
        row = self._targets.get(key)
        if row is None:
            known = self.known.get(key)
            if known is None:
                return None if self.base >= 0 or not self._aimed else -1
            row = latest_before(known, seq)
        return row if row is not None and self.ranges.shows(row) else -1

    def take(self, event: Event, part: Part | None) -> Taken:
        """Take in the next event of the log. `lookup`: not taken, note the rows of its key and try again.

        `reload`: taken, and what stood behind `base` has to be read again.
        """
        outcome: Taken = "taken"
        if part == "row":
            self._add_row(event)
        elif part == "patch":
            outcome = self._add_patch(event)
        elif part == "reset":
            outcome = self._cut(event)
        if outcome != "lookup":
            self.next = event.seq + 1
        return outcome

    def _add_row(self, event: Event) -> None:
        row = row_of(event)
        key = row_key(event.type, event.raw)
        if key is not None:
            self._targets[key] = row.seq
            self.known.add(key, row.seq)
        if self.first is None:
            self.first = row.seq
        self.last_row = row.seq
        self.rows.append(row)
        self.row_seqs.append(row.seq)
        self._push(row.seq, RowAdded(row, self.last), len(event.raw))

    def _push(self, seq: int, change: Change, length: int) -> None:
        self.changes.append(change)
        self.change_seqs.append(seq)
        self._bytes += length
        size = self._sizes
        if len(self.changes) >= 2 * size.keep or (self._bytes > size.keep_bytes and len(self.changes) > 1):
            self.forget((len(self.changes) + 1) // 2)

    def _add_patch(self, event: Event) -> Taken:
        fact = self.facts.read(event)
        row = -1 if fact is None else self.target(fact.key, event.seq)
        if row is None:
            return "lookup"
        self.facts.add(event)
        if fact is not None and row >= 0:
            index = bisect_left(self.row_seqs, row)
            if index < len(self.rows) and self.row_seqs[index] == row:
                self.rows[index] = patched(self.rows[index], [fact])
            self._push(event.seq, Patched(fact.of(row), self.last), len(event.raw))
        return "taken"

    def _cut(self, event: Event) -> Taken:
        data: SessionRecast = event.data
        self.apply_recast(event.seq, data)
        keep = min(data.keep_before, event.seq)
        for seqs, values in ((self.row_seqs, self.rows), (self.change_seqs, self.changes)):
            cut = bisect_left(seqs, keep)
            del seqs[cut:], values[cut:]
        if self.base >= 0 and not (keep > self.base and self.rows):
            self.clear()
            return "reload"
        self.last_row = self.row_seqs[-1] if self.row_seqs else None
        return "taken"

    def apply_recast(self, seq: int, data: SessionRecast) -> None:
        """Begin a new epoch; memory is not touched."""
        self.epoch = data.epoch
        self.ranges.recast(seq, data.keep_before)
        self.recast = Recast(seq, data.epoch, data.reason, data.keep_before)
        if self.first is not None and self.first >= data.keep_before:
            self.first = None

    def clear(self) -> None:
        """Forget what stands behind `base`."""
        self.rows, self.row_seqs, self.changes, self.change_seqs, self._targets = [], [], [], [], {}
        self.base, self.last_row, self._bytes = -1, None, 0

    def restore(self, base: int, rows: list[Row], changes: list[Change], first: int | None, last: int | None) -> None:
        """Hold what was read: everything that is shown behind `base`, and the first and last row of the line."""
        self.clear()
        self.base, self.first, self.last_row = base, first, last
        self.rows, self.row_seqs = rows, [row.seq for row in rows]
        self.changes = changes
        self.change_seqs = [seq_of(change) for change in changes]
        self._bytes = sum(map(_size, changes))
        self._aimed = not self.ranges.hides(base)
        for row in self.rows if self._aimed else ():
            key = row_key(row.type, bytes(row.item)) if row.type in PATCHABLE else None
            if key is not None:
                self._targets[key] = row.seq

    def forget(self, count: int) -> None:
        """Drop the first changes from memory, and the rows that came with them."""
        self.base = self.change_seqs[count - 1]
        del self.changes[:count], self.change_seqs[:count]
        cut = bisect_right(self.row_seqs, self.base)
        del self.rows[:cut], self.row_seqs[:cut]
        self._targets = {key: seq for key, seq in self._targets.items() if seq > self.base}
        self._bytes = sum(map(_size, self.changes))


def seq_of(change: Change) -> int:
    """The seq of a row or patch."""
    return change.row.seq if isinstance(change, RowAdded) else change.patch.seq


def _size(change: Change) -> int:
    return len(bytes(change.row.item if isinstance(change, RowAdded) else change.patch.patch))
