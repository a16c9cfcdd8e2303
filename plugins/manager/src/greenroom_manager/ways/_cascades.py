"""Archive and delete with everybody below: the set, a durable mark, then each once; what was cut short, once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from greenroom.agents import Cascade

from ._family import Member, descendants, parent_of
from ._lanes import Lanes
from ._marks import Mark, Marks, Way
from ._tree import BOUND, Results, downwards, upwards

if TYPE_CHECKING:
    from ._create import Creating
    from ._holdings import Holdings
    from ._leave import Leaving


class Cascades:
    """Carries out cascades; those of one root go one after the other, and who asks for the same shares it.

    Args:
        bound: how many agents of one cascade are closed at the same time.
    """

    def __init__(
        self, holdings: Holdings, creating: Creating, leaving: Leaving, marks: Marks, *, bound: int = BOUND
    ) -> None:
        self._holdings: Final = holdings
        self._creating: Final = creating
        self._leaving: Final = leaving
        self._marks: Final = marks
        self._bound: Final = bound
        context = holdings.context
        self.lanes: Final = Lanes(context.scope, lambda root, error: context.failed("cascade_failed", error, root))

    async def begin(self, way: Way, root: str) -> Cascade:
        """Do it to `root` and everybody below it. Cancelled: it goes on.

        Raises:
            AgentNotFound: there is no such agent.
        """
        return await self.lanes.run(root, way, partial(self._begin, way, root))

    async def _begin(self, way: Way, root: str) -> Cascade:
        book = self._holdings.context.book
        await book.find(root)
        # No await between the set and the words that nobody joins it: a new child is in the set, or is refused.
        family = self._family(root, {record.id: parent_of(record) for record in await book.list()})
        with self._nobody_joins(family):
            mark = await self._marks.put(way, root, family)
            return await self._carry_out(mark)

    def _family(self, root: str, stored: Mapping[str, str | None]) -> list[Member]:
        # Also the children that are being created, whose records are to come.
        parents = {**self._creating.making, **stored}
        return [Member(root, ""), *descendants(root, parents.items())]

    @contextmanager
    def _nobody_joins(self, family: list[Member]) -> Iterator[None]:
        leaving = self._creating.leaving
        for member in family:
            leaving[member.id] = leaving.get(member.id, 0) + 1
        try:
            yield
        finally:
            for member in family:
                leaving[member.id] -= 1
                if not leaving[member.id]:
                    del leaving[member.id]

    async def _carry_out(self, mark: Mark) -> Cascade:
        family = mark.family
        parents = {member.id: member.parent for member in family}

        async def visit(member: Member) -> bool:
            do = self._leaving.archive if mark.way == "archive" else self._leaving.delete
            return await do(member.id, self._belongs(mark.root, member, parents))

        go = downwards if mark.way == "archive" else upwards
        results: Results = await go(family, visit, bound=self._bound)
        await self._marks.drop(mark)
        return Cascade(results=results)

    def _belongs(self, root: str, member: Member, parents: Mapping[str, str]) -> Callable[[], bool]:
        """Whether the labels still lead from the member to the root; looked up without waiting."""
        book = self._holdings.context.book

        def look() -> bool:
            at = member.id
            while at != root:
                record = book.get(at)
                if record is None or parent_of(record) != parents[at]:
                    return False
                at = parents[at]
            return True

        return look

    async def finish(self) -> None:
        """Finish what a host that is dead has begun; what fails is reported."""
        for mark in await self._marks.left_behind():
            cascade = await self.lanes.run(mark.root, None, partial(self._again, mark))
            for agent_id, error in cascade.failed.items():
                self._holdings.context.report(f"{mark.way}_not_finished", error, agent_id=agent_id)

    async def _again(self, mark: Mark) -> Cascade:
        with self._nobody_joins(mark.family):
            return await self._carry_out(mark)
