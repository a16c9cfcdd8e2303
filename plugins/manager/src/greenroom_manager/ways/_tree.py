"""What is done to an agent and everybody below it: each once, many at a time, whatever fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import anyio

from greenroom.errors import GreenroomError

from ._family import Member

BOUND: Final = 16
"""Agents of one cascade that are closed at the same time: enough to hide the waiting for processes that end, and few
enough not to end hundreds of them at once."""

Visit: TypeAlias = Callable[[Member], Awaitable[bool]]
"""Does it to one; False: it does not belong to the family any more."""

Results: TypeAlias = dict[str, str | None]
"""By id, in the order in which they ended: None, or what went wrong."""


async def downwards(members: Sequence[Member], visit: Visit, *, bound: int = BOUND) -> Results:
    """Visit everybody, parents before their children, at most `bound` at a time; what raises is a result."""
    below, results = _below(members), Results()
    room = anyio.CapacityLimiter(bound)

    async def one(member: Member) -> None:
        async with room:
            await _contained(member, visit, results)
        for child in below.get(member.id, ()):
            tasks.start_soon(one, child)

    ids = {member.id for member in members}
    async with anyio.create_task_group() as tasks:
        for member in members:
            if member.parent not in ids:
                tasks.start_soon(one, member)
    return results


async def upwards(members: Sequence[Member], visit: Visit, *, bound: int = BOUND) -> Results:
    """Visit everybody, children before their parents, at most `bound` at a time; what raises is a result.

    Who has a child that failed is left as it is, and is a failure too.
    """
    below, results = _below(members), Results()
    room = anyio.CapacityLimiter(bound)
    waits_for = {member.id: len(below.get(member.id, ())) for member in members}
    known = {member.id: member for member in members}

    async def one(member: Member) -> None:
        failed = [child.id for child in below.get(member.id, ()) if results.get(child.id) is not None]
        if failed:
            results[member.id] = f"kept, because of {', '.join(failed)}"
        else:
            async with room:
                await _contained(member, visit, results)
        parent = known.get(member.parent)
        if parent is not None:
            waits_for[parent.id] -= 1
            if waits_for[parent.id] == 0:
                tasks.start_soon(one, parent)

    first = [member for member in members if waits_for[member.id] == 0]
    async with anyio.create_task_group() as tasks:
        for member in first:
            tasks.start_soon(one, member)
    return results


async def _contained(member: Member, visit: Visit, results: Results) -> None:
    try:
        if await visit(member):
            results[member.id] = None
    except Exception as error:  # noqa: BLE001 - one that fails must not stop the others; it is a result
        results[member.id] = text_of(error)


def _below(members: Sequence[Member]) -> dict[str, list[Member]]:
    below: dict[str, list[Member]] = {}
    for member in members:
        below.setdefault(member.parent, []).append(member)
    return below


def text_of(error: BaseException) -> str:
    """An error as one line."""
    said = str(error.args[0]) if isinstance(error, GreenroomError) and error.args else str(error)
    return said or type(error).__name__
