"""Where a command is carried out: in the host that owns the agent's session, or here on what is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from greenroom import Host
from greenroom.agents import AgentDirectory, AgentNotFound, AgentSnapshot, HostClient, RemoteHost
from greenroom.cli import CliState, fail
from greenroom.sessions import SessionNotFound

SHORTEST: Final = 4
"""Characters of an id that may stand for all of it, if no other id begins with them."""


@dataclass(frozen=True, slots=True)
class Place:
    """The agent that was named, and where it is.

    Attributes:
        host: this command's own.
        remote: the host that owns the agent's session, None if nobody else does.
    """

    host: Host
    directory: AgentDirectory
    snapshot: AgentSnapshot
    remote: RemoteHost | None = None

    @property
    def agent_id(self) -> str:
        """The agent's full id."""
        return self.snapshot.record.id


@asynccontextmanager
async def opened(state: CliState) -> AsyncIterator[tuple[Host, AgentDirectory]]:
    """This command's own host, and what keeps its agents."""
    async with state.host() as host:
        directory = host.service(AgentDirectory)
        if directory is None:
            fail("no plugin keeps agents in this host", hint="greenroom plugins list   says why")
        yield host, directory


@asynccontextmanager
async def place_of(state: CliState, named: str, *, write: bool = True) -> AsyncIterator[Place]:
    """Find an agent, and the host that owns it.

    Args:
        write: what follows needs the owner; refused if the owner cannot be talked to.

    Raises:
        AgentNotFound: there is no such agent; names those that are close.
        GreenroomError: another process has it and cannot be asked.
    """
    async with opened(state) as (host, directory):
        snapshot = await find(directory, named)
        client = host.service(HostClient)
        if client is None:
            if write:
                await _refuse_if_owned(host, snapshot.record.id)
            yield Place(host, directory, snapshot)
            return
        async with client.owner(snapshot.record.id) as remote:
            if remote is None and write:
                await _refuse_if_owned(host, snapshot.record.id)
            yield Place(host, directory, snapshot, remote)


async def find(directory: AgentDirectory, named: str) -> AgentSnapshot:
    """The agent of that id, or the only one whose id begins so.

    Raises:
        AgentNotFound: there is none, or several.
    """
    try:
        return await directory.find(named)
    except AgentNotFound:
        if len(named) < SHORTEST:
            raise
        every = await directory.list(archived=True, internal=True)
        matching = [snapshot for snapshot in every if snapshot.record.id.startswith(named)]
        if len(matching) > 1:
            ids = ", ".join(snapshot.record.id for snapshot in matching[:5])
            raise AgentNotFound(f"{len(matching)} agents have ids that begin with {named!r}", hint=ids) from None
        if not matching:
            raise
        return matching[0]


async def _refuse_if_owned(host: Host, agent_id: str) -> None:
    try:
        entry = await host.sessions.store.entry(agent_id)
    except SessionNotFound:
        return  # a record alone: nobody can own it
    owner = entry.owner
    if owner is not None and owner.alive and host.sessions.get(agent_id) is None:
        fail(
            f"agent {agent_id} is driven by {owner.name} (process {owner.pid}), which cannot be asked from here",
            hint=f"do it there, or end process {owner.pid} first",
        )
