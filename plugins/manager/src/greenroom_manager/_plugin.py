"""What the plugin registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom import Scope, hookimpl
from greenroom.agents import Agent, AgentDirectory
from greenroom.sessions import Event, Session

if TYPE_CHECKING:
    from greenroom import Host

    from ._directory import Directory


class ManagerPlugin:
    """The plugin; one object may serve several hosts of a process."""

    def __init__(self) -> None:
        self._directories: dict[Host, Directory] = {}

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Keep the agents of the host until the plugin leaves."""
        from ._compose import compose

        directory = compose(scope)
        self._directories[scope.host] = directory
        scope.undo(lambda: self._directories.pop(scope.host), label="keeper of agents")
        scope.undo(directory.watch.last_words, label="last words")
        scope.provide(AgentDirectory, directory)

    @hookimpl
    async def agent_setup(self, agent: Agent) -> None:
        """Look for the agent's record before anybody sees the agent."""
        await self._directories[agent.scope.host].watch.set_up(agent)

    @hookimpl
    def agent_created(self, agent: Agent) -> None:
        """Begin to keep its record."""
        self._directories[agent.scope.host].watch.created(agent)

    @hookimpl
    def agent_status(self, agent: Agent) -> None:
        """See what it does now."""
        self._directories[agent.scope.host].watch.look(agent)

    @hookimpl
    def agent_error(self, agent: Agent) -> None:
        """See whether it shows what went wrong: a reload that fails opens no turn."""
        self._directories[agent.scope.host].watch.look(agent)

    @hookimpl
    def agent_disposed(self, agent: Agent) -> None:
        """Keep what was last known of it."""
        self._directories[agent.scope.host].watch.disposed(agent)

    @hookimpl
    def session_event(self, session: Session, event: Event) -> None:
        """Follow what is logged."""
        for directory in self._directories.values():
            directory.watch.event(session, event)


plugin = ManagerPlugin()
