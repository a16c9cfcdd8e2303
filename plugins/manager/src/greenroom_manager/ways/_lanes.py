"""One thing at a time for each agent, in the order in which it was asked for; who asks for the same thing shares it.

What was asked for runs in the plugin's scope, so it goes on when the one who asked stops waiting. That there is one
lane for each agent is what makes two writers impossible: no way in begins before the way out has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from greenroom.agents import AgentClosed, Pending
from greenroom.errors import GreenroomError, ScopeClosed

if TYPE_CHECKING:
    from greenroom import Scope

T = TypeVar("T")


@dataclass(slots=True)
class _Job(Generic[T]):
    """Something that was asked for; `kind` None is never shared."""

    kind: Hashable | None
    do: Callable[[], Awaitable[T]]
    outcome: Pending[T] = field(default_factory=Pending)
    waiting: int = 0


class Lanes:
    """The lanes of all agents of one host.

    Args:
        scope: whose task group the jobs run in; when it ends, whoever waits is told.
        unheard: takes what failed when nobody waited any more; the agent's id and the error.
    """

    def __init__(self, scope: Scope, unheard: Callable[[str, BaseException], None]) -> None:
        self._scope: Final = scope
        self._unheard: Final = unheard
        self._lanes: Final[dict[str, deque[_Job[object]]]] = {}

    def busy(self, agent_id: str | None = None) -> bool:
        """Whether something is done with that agent, or with any, or waits to be."""
        return agent_id in self._lanes if agent_id is not None else bool(self._lanes)

    async def run(self, agent_id: str, kind: Hashable | None, do: Callable[[], Awaitable[T]]) -> T:
        """Do it when everything that was asked for before is done, or share the last thing if it is of this kind.

        Cancelled: it goes on, only the waiting ends.

        Raises:
            AgentClosed: the host is shutting down.
            Exception: what `do` raised.
        """
        job = self._join(agent_id, kind) or self._add(agent_id, _Job(kind, do))
        job.waiting += 1
        try:
            return cast("T", await job.outcome.wait())
        finally:
            job.waiting -= 1

    def _join(self, agent_id: str, kind: Hashable | None) -> _Job[object] | None:
        lane = self._lanes.get(agent_id)
        if lane is None or kind is None:
            return None
        # Only the last: what was asked for before something else may be undone by that.
        return lane[-1] if lane[-1].kind == kind else None

    def _add(self, agent_id: str, job: _Job[T]) -> _Job[object]:
        added = cast("_Job[object]", job)
        lane = self._lanes.get(agent_id)
        if lane is not None:
            lane.append(added)
            return added
        self._lanes[agent_id] = lane = deque([added])
        try:
            self._scope.spawn(self._drive, agent_id, lane, name=f"ways of agent {agent_id}")
        except ScopeClosed as error:
            del self._lanes[agent_id]
            raise closing() from error
        return added

    async def _drive(self, agent_id: str, lane: deque[_Job[object]]) -> None:
        with self._farewell(agent_id, lane):
            while lane:
                job = lane[0]
                try:
                    value = await job.do()
                except Exception as error:  # noqa: BLE001 - it belongs to whoever asked; the others still wait
                    self._fail(agent_id, job, error)
                else:
                    job.outcome.resolve(value)
                lane.popleft()

    def _fail(self, agent_id: str, job: _Job[object], error: Exception) -> None:
        if isinstance(error, ScopeClosed) and self._scope.host.scope.stopping:
            error, refused = closing(), error
            error.__cause__ = refused
        if job.waiting == 0:
            self._unheard(agent_id, error)
        job.outcome.fail(error)

    @contextmanager
    def _farewell(self, agent_id: str, lane: deque[_Job[object]]) -> Iterator[None]:
        """Leave nothing behind; who still waits, because the scope ends, is told so."""
        try:
            yield
        finally:
            del self._lanes[agent_id]
            for job in lane:
                job.outcome.fail(closing())


def closing() -> GreenroomError:
    """The error for what cannot be done any more."""
    return AgentClosed("the host is shutting down")
