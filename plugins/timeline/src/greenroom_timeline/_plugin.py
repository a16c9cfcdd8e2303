"""What the plugin registers."""

from __future__ import annotations

from greenroom import Scope, hookimpl
from greenroom.sessions import Session
from greenroom.timeline import TimelineService

from ._service import Timeline


class TimelinePlugin:
    """The plugin; one object may serve several hosts of a process."""

    def __init__(self) -> None:
        self._timelines: list[Timeline] = []

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Offer the timeline until the plugin leaves."""
        timeline = Timeline(scope.host)
        self._timelines.append(timeline)

        def leave() -> None:
            self._timelines.remove(timeline)
            timeline.close()

        scope.undo(leave, label="lines of the timeline")
        scope.provide(TimelineService, timeline)

    @hookimpl
    def session_created(self, session: Session) -> None:
        """Follow a session that became live."""
        for timeline in self._timelines:
            timeline.entered(session)

    @hookimpl
    def session_disposed(self, session: Session) -> None:
        """Go on with what is stored of a session that left."""
        for timeline in self._timelines:
            timeline.left(session)


plugin = TimelinePlugin()
