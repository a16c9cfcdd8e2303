"""What the plugin registers."""

from __future__ import annotations

from greenroom import Scope, hookimpl


class ControlPlugin:
    """The plugin; one object may serve several hosts of a process."""

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Nothing yet."""


plugin = ControlPlugin()
