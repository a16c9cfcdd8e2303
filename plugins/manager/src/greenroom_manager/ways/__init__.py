"""The ways in and out of an agent's life: create, open, close, reload, archive, unarchive, detach, delete."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from greenroom.agents import Agent, AgentError, AgentOptions, AgentSnapshot, AgentSpec, Cascade, Purpose, Setup

from ._cascades import Cascades
from ._checks import clean_model
from ._create import Creating, delete_session
from ._holdings import Holdings
from ._leave import Leaving
from ._marks import NAMESPACE, Marks
from ._offers import Admission, Offers
from ._open import Opening
from ._reload import Reloading
from ._tree import BOUND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom_manager._context import Context

__all__ = ["BOUND", "Ways", "clean_model", "delete_session"]

T = TypeVar("T")


class Ways:
    """All of them, for one host; see `AgentDirectory` for what each does.

    Args:
        admission: which providers there are, and which of them new agents may use.
        bound: how many agents of one cascade are closed at the same time.
    """

    def __init__(self, context: Context, *, admission: Admission, bound: int = BOUND) -> None:
        offers = Offers(admission)
        marks = Marks(lambda: context.host.sessions.store.records(NAMESPACE))
        self._context: Final = context
        self.holdings: Final = Holdings(context)
        self._creating: Final = Creating(self.holdings, offers)
        self._opening: Final = Opening(self.holdings, offers)
        self._reloading: Final = Reloading(self.holdings, self._opening)
        self._leaving: Final = Leaving(self.holdings, offers, marks)
        self._cascades: Final = Cascades(self.holdings, self._creating, self._leaving, marks, bound=bound)

    @property
    def idle(self) -> bool:
        """Whether nothing is being done with any agent."""
        return not (self.holdings.lanes.busy() or self._cascades.lanes.busy() or self._creating.making)

    async def boot(self) -> None:
        """Finish the cascades that a crash has cut short; what fails is reported."""
        await self._cascades.finish()

    async def create(
        self, spec: AgentSpec, *, setup: Setup | None = None, environment: Mapping[str, str] | None = None
    ) -> Agent:
        """See `AgentDirectory.create`."""
        return await self._creating.create(spec, setup=setup, environment=environment)

    async def open(
        self, agent_id: str, options: AgentOptions | None = None, *, purpose: Purpose = "interactive"
    ) -> Agent:
        """See `AgentDirectory.open`."""
        return await self._opening.open(agent_id, options, purpose=purpose)

    async def close(self, agent_id: str) -> None:
        """See `AgentDirectory.close`."""
        await self._apart(agent_id, partial(self._leaving.close, agent_id))

    async def reload(self, agent_id: str, *, rehydrate: bool = False) -> Agent:
        """See `AgentDirectory.reload`."""
        return await self._apart(agent_id, partial(self._reloading.reload, agent_id, rehydrate=rehydrate))

    async def archive(self, agent_id: str) -> Cascade:
        """See `AgentDirectory.archive`."""
        return await self._apart(agent_id, partial(self._cascades.begin, "archive", agent_id))

    async def delete(self, agent_id: str) -> Cascade:
        """See `AgentDirectory.delete`."""
        return await self._apart(agent_id, partial(self._cascades.begin, "delete", agent_id))

    async def unarchive(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.unarchive`."""
        return await self._leaving.unarchive(agent_id)

    async def detach(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.detach`."""
        return await self._leaving.detach(agent_id)

    async def _apart(self, agent_id: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do it; behind the agent if it asks for itself, since its end cannot be waited for in its own chain.

        Raises:
            AgentError: that is so; it was requested.
        """
        if not self.holdings.calls_itself(agent_id):
            return await do()

        async def go_on() -> None:
            try:
                await do()
            except Exception as error:  # noqa: BLE001 - nobody waits for it
                self._context.failed("way_failed", error, agent_id)

        self._context.scope.spawn(go_on, name=f"way of agent {agent_id}")
        raise AgentError(f"agent {agent_id} cannot wait for its own end; it has been requested")
