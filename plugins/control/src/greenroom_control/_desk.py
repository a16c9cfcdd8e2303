"""What clients of one host may reach: its agents and their timelines, and nothing that is another host's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from greenroom import Host, Scope
from greenroom.agents import (
    Agent,
    AgentDirectory,
    AgentHandle,
    AgentNotFound,
    AgentOptions,
    AgentSnapshot,
    AgentSpec,
)
from greenroom.sessions import SessionNotFound, SessionOwned
from greenroom.timeline import TimelineService

from ._errors import Refused
from ._views import live_snapshot

T = TypeVar("T")

LAST = "last"


class Desk:
    """The host as its clients see it. With a keeper of agents everything goes through that; without, through the host.

    Args:
        scope: the plugin's; agents that are opened without a keeper end with it.

    Attributes:
        serving: it serves the data directory; else only the sessions that it owns.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._handles: dict[str, AgentHandle] = {}
        self.serving = False

    @property
    def host(self) -> Host:
        """The host."""
        return self._scope.host

    @property
    def directory(self) -> AgentDirectory | None:
        """Who keeps the agents, None if nobody does."""
        return self.host.service(AgentDirectory)

    def keeper(self) -> AgentDirectory:
        """Who keeps the agents. Raises Refused if nobody does."""
        return self._needed(self.directory, "greenroom-manager")

    def timeline(self) -> TimelineService:
        """Who shows sessions. Raises Refused if nobody does."""
        return self._needed(self.host.service(TimelineService), "greenroom-timeline")

    @staticmethod
    def _needed(service: T | None, distribution: str) -> T:
        if service is None:
            hint = f"pip install {distribution}, and start the host again"
            raise Refused("missing_plugin", "the host has no plugin for this", hint=hint)
        return service

    # who may be reached

    def owns(self, session_id: str) -> bool:
        """Whether the session is live in this host."""
        return self.host.sessions.get(session_id) is not None

    def serves_all(self) -> None:
        """Raises Refused if this is a private host."""
        if not self.serving:
            raise Refused(
                "not_served",
                "this host serves only the sessions that it owns",
                hint="greenroom serve, in another terminal",
            )

    async def name(self, given: str) -> str:
        """The id of an agent that is named by its id, by `last`, or by the id of its native conversation.

        Raises:
            AgentNotFound, SessionNotFound: there is none.
            Refused: this is a private host, and it does not own it.
        """
        if self.owns(given):
            return given
        self.serves_all()
        if self.directory is not None:
            return (await self.directory.find(given)).record.id
        if given == LAST:
            for entry in await self.host.sessions.store.list():
                if entry.error is None:
                    return entry.id
            raise SessionNotFound("there is no session yet")
        return given

    async def readable(self, given: str) -> str:
        """The id of a session whose rows this host sees at once. Raises as `name`, and SessionOwned."""
        session_id = await self.name(given)
        if not self.owns(session_id):
            owner = (await self.host.sessions.store.entry(session_id)).owner
            if owner is not None and owner.alive:
                raise SessionOwned(
                    f"session {session_id} is owned by {owner.name} (process {owner.pid})",
                    session_id=session_id,
                    hint="follow it there: its row names the endpoint",
                )
        return session_id

    # agents

    async def snapshots(self, *, archived: bool, internal: bool) -> Sequence[AgentSnapshot]:
        """All agents that clients may reach."""
        if self.directory is None:
            return [live_snapshot(agent) for agent in self.host.agents.list(internal=internal)]
        found = await self.directory.list(archived=archived, internal=internal)
        return found if self.serving else [one for one in found if self.owns(one.record.id)]

    async def snapshot(self, given: str) -> AgentSnapshot:
        """One agent. Raises as `name`, and AgentNotFound."""
        agent_id = await self.name(given)
        if self.directory is not None:
            return await self.directory.find(agent_id)
        return live_snapshot(self.live(agent_id))

    def live(self, agent_id: str) -> Agent:
        """The live agent of that id. Raises AgentNotFound."""
        agent = self.host.agents.get(agent_id)
        if agent is None:
            raise AgentNotFound(f"no live agent has the id {agent_id}")
        return agent

    async def open(self, given: str) -> Agent:
        """The live agent, or the stored one resumed. Raises as `name` and `AgentDirectory.open`."""
        agent = self.host.agents.get(given)
        if agent is not None:  # no await: what one client sends in a row arrives in a row
            return agent
        agent_id = await self.name(given)
        if self.directory is not None:
            return await self.directory.open(agent_id)
        agent = self.host.agents.get(agent_id)
        return agent or self._keep(await self.host.agents.resume(agent_id, AgentOptions(), owner=self._scope))

    async def create(self, spec: AgentSpec, environment: dict[str, str]) -> Agent:
        """A new agent. Raises as `AgentDirectory.create`, and Refused by a private host."""
        self.serves_all()
        if self.directory is not None:
            return await self.directory.create(spec, environment=environment)
        if environment:
            self.keeper()
        return self._keep(await self.host.agents.create(spec, owner=self._scope))

    async def close(self, given: str) -> None:
        """End a live agent. Raises as `AgentDirectory.close`."""
        agent_id = await self.name(given)
        if self.directory is not None:
            await self.directory.close(agent_id)
        elif (handle := self._handles.get(agent_id)) is not None:
            await handle.dispose()
            self._handles.pop(agent_id, None)
        else:
            self.keeper()

    def _keep(self, handle: AgentHandle) -> Agent:
        self._handles[handle.agent.id] = handle
        return handle.agent
