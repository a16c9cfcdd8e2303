"""The timeline of every session of a host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from greenroom import Host
from greenroom.sessions import Event, Session, SessionNotFound, SessionRegistry
from greenroom.timeline import DEFAULT_LIMIT, Cursor, Direction, Entry, Page, View

from ._events import Roles
from ._feed import Feed
from ._pages import fetch
from ._projection import project
from ._sizes import SIZES, Sizes
from ._subscription import Subscription

LINES: Final = 64
"""Lines that are kept although nobody follows them: what a client with many open sessions looks at in turn."""


class Timeline:
    """See TimelineService. `host`: its sessions are there once it has loaded its plugins; a registry will do."""

    def __init__(self, host: Host | SessionRegistry, *, sizes: Sizes = SIZES) -> None:
        self._host = host
        self._sizes = sizes
        self._feeds: OrderedDict[str, Feed] = OrderedDict()

    @property
    def _sessions(self) -> SessionRegistry:
        return self._host.sessions if isinstance(self._host, Host) else self._host

    async def fetch(
        self,
        session_id: str,
        *,
        cursor: Cursor | None = None,
        direction: Direction = "tail",
        limit: float = DEFAULT_LIMIT,
        view: View = "canonical",
    ) -> Page:
        """See TimelineService.fetch."""
        feed = self._feed(session_id)
        try:
            return await fetch(feed, cursor, direction, limit, view)
        except SessionNotFound:
            self._drop(feed)
            raise

    @asynccontextmanager
    async def subscribe(self, session_id: str, cursor: Cursor | None = None) -> AsyncIterator[Subscription]:
        """See TimelineService.subscribe."""
        feed = self._feed(session_id)
        feed.readers += 1
        try:
            await feed.sync()
            yield Subscription(feed, cursor)
        except SessionNotFound:
            self._drop(feed)
            raise
        finally:
            feed.readers -= 1

    def project(self, events: Iterable[Event]) -> Sequence[Entry]:
        """See TimelineService.project."""
        return project(events, Roles(self._sessions.vocabulary))

    def _feed(self, session_id: str) -> Feed:
        feed = self._feeds.get(session_id)
        if feed is None:
            sessions = self._sessions
            feed = self._feeds[session_id] = Feed(session_id, sessions.store, sessions.vocabulary, self._sizes)
            feed.attach(sessions.get(session_id))
            self._forget()
        else:
            self._feeds.move_to_end(session_id)
        return feed

    def _drop(self, feed: Feed) -> None:
        """The session is not there, or no longer: those who follow it come to their end."""
        if self._feeds.get(feed.source.id) is feed:
            del self._feeds[feed.source.id]
        feed.close()

    def _forget(self) -> None:
        """Let lines go that nobody follows, the longest unused first."""
        for session_id in [name for name, feed in self._feeds.items() if not feed.readers][: -LINES or None]:
            self._feeds.pop(session_id).close()

    def entered(self, session: Session) -> None:
        """A session became live: follow it, if it is this host's and its line is known."""
        feed = self._feeds.get(session.id)
        if feed is not None and self._sessions.get(session.id) is session:
            feed.attach(session)

    def left(self, session: Session) -> None:
        """A session is live no longer: go on with what is stored."""
        feed = self._feeds.get(session.id)
        if feed is not None and feed.source.session is session:
            feed.attach(None)

    def close(self) -> None:
        """Let all lines go; those who follow one come to its end."""
        while self._feeds:
            self._feeds.popitem()[1].close()
