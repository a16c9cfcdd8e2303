"""What the plugin registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom import Scope, hookimpl
from greenroom.agents import Agent

if TYPE_CHECKING:
    from pydantic import BaseModel

    from greenroom import Host

    from ._compose import Parts


class ManagerPlugin:
    """The plugin; one object may serve several hosts of a process."""

    def __init__(self) -> None:
        self._parts: dict[Host, Parts] = {}

    @hookimpl
    def plugin_settings(self) -> type[BaseModel]:
        """See `ManagerSettings`."""
        from ._settings import ManagerSettings

        return ManagerSettings

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Keep the agents of the host until the plugin leaves."""
        from ._compose import compose

        scope.undo(lambda: self._parts.pop(scope.host, None), label="keeper of agents")
        self._parts[scope.host] = compose(scope)

    @hookimpl
    async def agent_setup(self, agent: Agent) -> None:
        """Look for the agent's record before anybody sees the agent."""
        await self._parts[agent.scope.host].directory.watch.set_up(agent)

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Begin to keep its record."""
        self._parts[agent.scope.host].directory.watch.created(agent)

    @hookimpl
    def agent_status(self, agent: Agent) -> None:
        """See what it does now, and whether somebody should look at it."""
        parts = self._parts[agent.scope.host]
        parts.directory.watch.look(agent)
        parts.attention.look(agent)

    @hookimpl
    def agent_error(self, agent: Agent) -> None:
        """See whether it shows what went wrong: a reload that fails opens no turn."""
        self._parts[agent.scope.host].directory.watch.look(agent)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Keep what was last known of it."""
        parts = self._parts[agent.scope.host]
        parts.directory.watch.disposed(agent)
        parts.attention.gone(agent)

    @hookimpl
    def attention(self, agent: Agent, reason: str) -> None:
        """Ring the terminal's bell."""
        from ._attention_bell import ring

        ring(reason, self._parts[agent.scope.host].settings.attention.bell)


plugin = ManagerPlugin()
