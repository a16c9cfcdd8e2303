"""What the plugin registers."""

from __future__ import annotations

from greenroom import Scope, hookimpl
from greenroom.sessions import Session
from greenroom.timeline import TimelineService

from ._service import Timeline


class TimelinePlugin:
    """One generation of the plugin."""

    def __init__(self) -> None:
        self._timeline: Timeline | None = None

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Offer the timeline until the plugin leaves."""
        timeline = self._timeline = Timeline(scope.host)
        scope.undo(timeline.close, label="lines of the timeline")
        scope.provide(TimelineService, timeline)

    @hookimpl
    def session_created(self, session: Session) -> None:
        """Follow a session that became live."""
        if self._timeline is not None:
            self._timeline.entered(session)

    @hookimpl
    def session_disposed(self, session: Session) -> None:
        """Go on with what is stored of a session that left."""
        if self._timeline is not None:
            self._timeline.left(session)


plugin = TimelinePlugin()
