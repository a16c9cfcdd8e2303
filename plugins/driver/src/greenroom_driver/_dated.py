"""A log for the writer: the session's own, or one that gives every event the time at which it happened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from greenroom.sessions import Event, Session, SessionState, Surface, SurfaceView
from greenroom.sessions.vocabulary import Blob, JsonValue


class Log(Protocol):
    """What the writer needs of a session."""

    @property
    def state(self) -> SessionState: ...
    @property
    def surface(self) -> SurfaceView: ...
    def append(self, type: str, payload: JsonValue, *, surface: Surface | None = None) -> Event: ...
    def put_blob(self, data: bytes) -> Blob: ...
    def __len__(self) -> int: ...


class Dated:
    """The log of a session, for what happened earlier.

    Args:
        session: may be one that was never entered: a draft.
        put_blob: where long texts go, the session's store by default.

    Attributes:
        time: when it happened, ms since the epoch; None = now.
    """

    def __init__(self, session: Session, put_blob: Callable[[bytes], Blob] | None = None) -> None:
        self._session = session
        self.put_blob = put_blob or session.put_blob
        self.time: int | None = None

    @property
    def state(self) -> SessionState:
        """See `Session.state`."""
        return self._session.state

    @property
    def surface(self) -> SurfaceView:
        """See `Session.surface`."""
        return self._session.surface

    def append(self, type: str, payload: JsonValue, *, surface: Surface | None = None) -> Event:
        """See `Session.append`."""
        return self._session.append(type, payload, surface=surface, time=self.time)

    def __len__(self) -> int:
        return len(self._session)


class Blobs:
    """The long texts of a draft, until there is a store for them."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> Blob:
        """Keep it."""
        digest = hashlib.sha256(data).hexdigest()
        self.kept[digest] = data
        return Blob(digest, len(data))
