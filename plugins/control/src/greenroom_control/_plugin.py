"""What the plugin registers."""

from __future__ import annotations

from greenroom import Scope, hookimpl
from greenroom.agents import HostClient
from greenroom.sessions import Session

from ._control import Control


class ControlPlugin:
    """The plugin; one object may serve several hosts of a process."""

    def __init__(self) -> None:
        self._controls: list[Control] = []

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Offer the way to other hosts, and be reachable, until the plugin leaves."""
        control = Control(scope, scope.host.data_directory)
        self._controls.append(control)
        scope.undo(lambda: self._controls.remove(control), label="control")
        scope.provide(HostClient, control)

    @hookimpl
    def session_created(self, session: Session) -> None:
        """Listen, once there is something that clients may want."""
        for control in self._controls:
            if control.desk.host.sessions.get(session.id) is session:
                control.owned()


plugin = ControlPlugin()
