"""The messages of a live session, kept up to date step by step instead of derived anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from greenroom.sessions._event import Event
from greenroom.sessions._messages import ModelMessage, Projector, fold_log
from greenroom.sessions._surface import SurfaceFold, refold


class History:
    """A cache of messages by node: a call costs what is new, and everything only after a replacement.

    It begins to keep events when `begin` is called; before that it costs nothing.
    """

    __slots__ = ("_list", "_messages", "_pending", "_projector", "_results", "_seen", "keeping")

    def __init__(self) -> None:
        self.keeping = False
        self._pending: list[Event] = []
        self._projector = Projector()
        self._messages: dict[int, ModelMessage | None] = {}
        self._results: dict[int, Event] = {}  # what a rewrite of a result is compared with
        self._seen = (-1, 0)  # generation of the surface, and how many of its nodes stand in the list
        self._list: list[ModelMessage] = []

    def begin(self) -> None:
        """Keep what comes from now on, having forgotten everything else."""
        self.__init__()  # type: ignore[misc]  # the empty state is written down once
        self.keeping = True

    def load(self, events: Iterable[Event], head: int, surface: SurfaceFold) -> None:
        """Take in the log before seq `head`; what was kept since `begin` stands behind it."""
        log = fold_log(events)
        self._messages, self._projector = log.messages, log.projector
        self._results = {event.seq: event for event in log.operations if event.type == "tool/result"}
        surface.adopt(refold(log.operations), head)

    def push(self, event: Event) -> None:
        """Note an event that may become a message; it is decoded when somebody asks."""
        self._pending.append(event)

    def result(self, seq: int) -> Event | None:
        """The tool result at a node, if it is kept."""
        self._drain()
        return self._results.get(seq)

    def drop(self, nodes: Iterable[int]) -> None:
        """Nodes that left the surface need no message any more."""
        self._drain()
        for seq in nodes:
            self._messages.pop(seq, None)
            self._results.pop(seq, None)

    def cut(self, surface: SurfaceFold) -> None:
        """The line was recast: unfinished pieces are void, nodes that left are forgotten."""
        if not surface.complete:
            self.__init__()  # type: ignore[misc]  # the empty state is written down once
        elif self.keeping:
            self.drop(self._messages.keys() - set(surface.nodes))
            self._projector.reset()

    def messages(self, surface: SurfaceFold) -> list[ModelMessage]:
        """The messages of the surface: a new list each time, of shared messages."""
        self._drain()
        generation, count = self._seen
        nodes: Sequence[int] = surface.nodes
        if generation != surface.generation:
            count, self._list = 0, []
        for seq in nodes[count:]:
            message = self._messages.get(seq)
            if message is not None:
                self._list.append(message)
        self._seen = (surface.generation, len(nodes))
        return list(self._list)

    def _drain(self) -> None:
        for event in self._pending:
            message = self._projector.feed(event)
            if event.surface is not None:
                self._messages[event.seq] = message
                if event.type == "tool/result":
                    self._results[event.seq] = event
        self._pending.clear()
