"""What the plugin registers."""

from __future__ import annotations

from greenroom import Scope, hookimpl


class ManagerPlugin:
    """The plugin; one object may serve several hosts of a process."""

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Keep the agents of the host until the plugin leaves."""


plugin = ManagerPlugin()
