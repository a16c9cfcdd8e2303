"""What a plugin offers as the timeline of every session of a host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, Self

from greenroom.sessions import Event
from greenroom.timeline._model import Cursor, Direction, Entry, Page, Update, View

DEFAULT_LIMIT: Final = 200
"""Rows or entries of a page: more than a screen shows, little enough to send at once."""


class Updates(Protocol):
    """What happens on a line from a cursor on, an async iterator; see `TimelineService.subscribe`."""

    def __aiter__(self) -> Self: ...
    async def __anext__(self) -> Update: ...

    @property
    def cursor(self) -> Cursor | None:
        """Where the reader stands: the end of what it was given; None before the first snapshot."""


class TimelineService(Protocol):
    """What clients show of a session, live in this host or only stored; `host.service(TimelineService)`."""

    async def fetch(
        self,
        session_id: str,
        *,
        cursor: Cursor | None = None,
        direction: Direction = "tail",
        limit: float = DEFAULT_LIMIT,
        view: View = "canonical",
    ) -> Page:
        """A page: the `tail`, or what lies `after` or `before` the cursor.

        Without a cursor, `after` starts at the beginning and `before` at the end. `limit` counts
        rows, or whole entries in the projected view (a page holds more where entries overlap);
        0 or less is all of them, a fraction is floored. Cancelled: nothing happened.

        Raises:
            SessionNotFound: no such session. What the store raises when it cannot read.
            ValueError: the limit is no number, the direction or the view none of the known ones.
        """
        ...

    def subscribe(self, session_id: str, cursor: Cursor | None = None) -> AbstractAsyncContextManager[Updates]:
        """Follow a line: `async with service.subscribe(id, cursor) as updates: async for update in updates`.

        Snapshots of the canonical view come first — what lies above the cursor, or the tail without
        one — then each row and patch as it is appended, each once and in order. A recast is
        announced and followed by a snapshot of the new line; so is a lag, from the reader's cursor.
        A reader costs nothing while it does not read. It outlives the session's agent: it goes on
        when the session is resumed in this host. Cancelled while waiting: nothing was taken.

        Raises on entering what `fetch` raises.
        """
        ...

    def project(self, events: Iterable[Event]) -> Sequence[Entry]:
        """The projected view of a whole log, a pure function of its events."""
        ...
