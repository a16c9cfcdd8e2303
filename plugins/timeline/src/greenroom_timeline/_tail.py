"""The projected end of a line, kept up to date row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from greenroom.sessions import Event
from greenroom.timeline import Patched

from ._events import BORDERS, PATCHABLE, Part, Roles
from ._facts import Fact
from ._line import Line
from ._projection import Projector, Single


class Tail:
    """Entries from a border to the end of the log.

    Attributes:
        start: the seq of the border.
        patches: what is said about their rows.
    """

    def __init__(
        self,
        start: int,
        events: Iterable[Event],
        patches: Mapping[int, Sequence[Fact]],
        roles: Roles,
        keep: int,
    ) -> None:
        self.start = start
        self._keep = keep
        self.patches = {row: list(facts) for row, facts in patches.items()}
        self._projector = Projector()
        self._by_row: dict[int, Single] = {}
        for event in events:
            self._feed(event, roles.part(event))

    @property
    def entries(self) -> Sequence[Single]:
        """In the order of their first rows, unfinished."""
        return self._projector.entries

    def _feed(self, event: Event, part: Part | None) -> None:
        if event.type in BORDERS:
            self._projector.border()
        elif part == "row":
            entry = self._projector.taker(event.type)(event)
            if event.type in PATCHABLE:
                self._by_row[event.seq] = entry

    def take(self, event: Event, part: Part | None, line: Line) -> Self | None:
        """Take in an event that the line has just taken; None when it starts over."""
        if part == "reset":
            return None
        if part == "patch":
            self._patch(event, line)
        else:
            self._feed(event, part)
            if event.type == "turn/start" and len(self.entries) > 4 * self._keep:
                self._forget()
        return self

    def _patch(self, event: Event, line: Line) -> None:
        change = line.changes[-1] if line.changes else None
        if not isinstance(change, Patched) or change.patch.seq != event.seq:
            return  # it is for a row that is not shown
        row = change.patch.update
        entry = self._by_row.get(row)
        if entry is not None:
            entry.made = None
            self.patches.setdefault(row, []).append(Fact(event.seq, "", change.patch.data))

    def _forget(self) -> None:
        """Drop old entries up to the beginning of a segment."""
        entries = self._projector.entries
        cut = len(entries) - self._keep
        while cut < len(entries) and entries[cut].segment == entries[cut - 1].segment:
            cut += 1
        if cut < len(entries):
            self.start = entries[cut].seq
            del entries[:cut]
            self._by_row = {row: entry for row, entry in self._by_row.items() if row >= self.start}
            self.patches = {row: facts for row, facts in self.patches.items() if row >= self.start}
