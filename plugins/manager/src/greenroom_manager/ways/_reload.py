"""The way out and in again that keeps agent, session and timeline, and changes only what runs the model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import Agent, AgentArchived, AgentClosed, CancelRefused, DisposeFailed, Pending
from greenroom.errors import GreenroomError, ScopeClosed

from ._holdings import closed_record
from ._lanes import closing

if TYPE_CHECKING:
    from ._holdings import Holdings
    from ._open import Opening

RELOAD_WAIT: Final = 60.0
"""Seconds until a caller is told that a reload goes on: a stop ladder (30), as much for a start."""


class Reloading:
    """Reloads agents."""

    def __init__(self, holdings: Holdings, opening: Opening) -> None:
        self._holdings: Final = holdings
        self._opening: Final = opening
        self._going_on: Final[dict[str, Pending[None]]] = {}
        """The reloads that have begun, by agent: one that is late is waited for and not begun again."""

    async def reload(self, agent_id: str, *, rehydrate: bool = False) -> Agent:
        """See `AgentDirectory.reload`."""
        job = partial(self._reload, agent_id, rehydrate=rehydrate)
        return await self._holdings.lanes.run(agent_id, ("reload", rehydrate), job)

    async def _reload(self, agent_id: str, *, rehydrate: bool) -> Agent:
        record = await self._holdings.context.book.find(agent_id)
        if record.archived_at is not None:
            raise AgentArchived(f"agent {agent_id} is archived", hint=f"greenroom agents unarchive {agent_id}")
        agent = self._holdings.live(agent_id)
        if agent is None:  # nothing runs that could be closed: to open it is all that is left of a reload
            agent = await self._opening.now(agent_id, None, "interactive")
            if not rehydrate:
                return agent
        try:
            await self._wait(agent, rehydrate=rehydrate)
        except (CancelRefused, DisposeFailed, AgentClosed, TimeoutError):
            raise  # the agent has what it had
        except Exception as error:
            await self._give_up(agent_id, error)
            raise
        return agent

    async def _wait(self, agent: Agent, *, rehydrate: bool) -> None:
        """Reopen in the background and wait for it, but not for ever. Raises what it raises."""
        going_on = self._going_on.get(agent.id)
        if going_on is None:
            going_on = self._going_on[agent.id] = Pending()
            try:
                self._holdings.context.scope.spawn(self._reopen, agent, going_on, rehydrate, name="reload")
            except ScopeClosed as error:
                del self._going_on[agent.id]
                raise closing() from error
        with anyio.move_on_after(RELOAD_WAIT):
            await going_on
            return
        text = f"agent {agent.id} is still being reloaded after {RELOAD_WAIT:g} s: its old session has not ended"
        raise DisposeFailed(text, hint="reload it again to wait for it, or close it")

    async def _reopen(self, agent: Agent, outcome: Pending[None], rehydrate: bool) -> None:  # noqa: FBT001 - of a task
        try:
            await agent.reopen(rehydrate=rehydrate)
        except Exception as error:  # noqa: BLE001 - the outcome carries it to whoever waits
            outcome.fail(error)
        else:
            outcome.resolve(None)
        finally:
            del self._going_on[agent.id]
            outcome.fail(closing())

    async def _give_up(self, agent_id: str, error: Exception) -> None:
        """The old session is gone and there is no new one: a closed agent that can be opened again."""
        holdings = self._holdings
        text = f"the reload failed: {error}"
        try:
            await holdings.end(agent_id)
            await holdings.context.book.change(agent_id, partial(closed_record, error=text))
        except GreenroomError as more:
            holdings.context.report("not_closed", str(more), agent_id=agent_id)
