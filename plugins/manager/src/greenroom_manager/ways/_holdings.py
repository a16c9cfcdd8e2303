"""What the ways have in common: the handles of the agents that were opened through them, and how one is ended."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from greenroom.agents import Agent, AgentError, AgentHandle, AgentRecord, Closed, current_initiator

from ._lanes import Lanes

if TYPE_CHECKING:
    from greenroom_manager._context import Context


class Holdings:
    """The live agents whose handles the manager has.

    Attributes:
        lanes: what is done with an agent goes through its lane.
    """

    def __init__(self, context: Context) -> None:
        self.context: Final = context
        self.lanes: Final = Lanes(context.scope, lambda agent_id, error: context.failed("way_failed", error, agent_id))
        self._handles: Final[dict[str, AgentHandle]] = {}

    def __len__(self) -> int:
        """How many handles there are."""
        return len(self._handles)

    def keep(self, handle: AgentHandle) -> Agent:
        """Keep a handle until its agent has left, by whatever way."""
        agent = handle.agent
        self._handles[agent.id] = handle
        agent.scope.undo(partial(self._drop, agent.id, handle), label="handle of the manager")
        return agent

    def _drop(self, agent_id: str, handle: AgentHandle) -> None:
        if self._handles.get(agent_id) is handle:
            del self._handles[agent_id]

    def live(self, agent_id: str) -> Agent | None:
        """The agent if it is live and not about to leave."""
        agent = self.context.host.agents.get(agent_id)
        return None if agent is None or isinstance(agent.state, Closed) else agent

    def calls_itself(self, agent_id: str) -> bool:
        """Whether the running code belongs to a chain of that agent, so that waiting for its end would never end."""
        initiator = current_initiator()
        return initiator is not None and initiator.id == agent_id

    def check(self, agent_id: str) -> AgentHandle | None:
        """The handle of an agent that is live, None if nothing is.

        Raises:
            AgentError: somebody else has it.
        """
        agent = self.context.host.agents.get(agent_id)
        handle = self._handles.get(agent_id)
        if agent is not None and handle is None:
            owner = agent.owner
            whose = f"agent {owner.id}" if owner is not None else "a plugin"
            raise AgentError(f"agent {agent_id} was made by {whose}, which alone can end it")
        return handle if agent is not None else None

    async def end(self, agent_id: str) -> None:
        """End the agent if it is live; its record says so when this returns. To be called in the agent's lane.

        Raises:
            DisposeFailed: its process would not end; it keeps its lease, and the record says closed and why.
            AgentError: as `check`.
        """
        book, handle = self.context.book, self.check(agent_id)
        if handle is None:
            return
        try:
            await handle.dispose()
        except Exception as error:
            # First everybody hears that it is closed, then the caller that it went wrong.
            await book.change(agent_id, partial(closed_record, error=str(error)))
            raise
        await book.flush(agent_id)


def closed_record(record: AgentRecord, *, error: str) -> AgentRecord:
    """The record of an agent that is closed because something went wrong."""
    return msgspec.structs.replace(record, state="closed", last_error=error)
