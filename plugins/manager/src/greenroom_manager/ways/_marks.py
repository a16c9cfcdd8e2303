"""What has begun and must be finished, also after a crash: a durable mark for each cascade that goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final, Literal

import anyio
import msgspec
from msgspec import Struct

from greenroom.agents import process_started
from greenroom.sessions import RecordTable

from ._family import Member

NAMESPACE: Final = "agents.cascades"
"""Of the store's table of records; one row for each cascade, by way and root."""

Way = Literal["archive", "delete"]


class Mark(Struct, frozen=True, kw_only=True):
    """One cascade: what is done, to whom (the root first), and which process has begun it."""

    way: Way
    root: str
    members: list[tuple[str, str]]
    pid: int
    started: float | None

    @property
    def key(self) -> str:
        """Of its row."""
        return f"{self.way}/{self.root}"

    @property
    def family(self) -> list[Member]:
        """To whom it is done."""
        return [Member(*pair) for pair in self.members]


class Marks:
    """The marks of one store.

    Args:
        table: the store's table of the namespace, asked for each time: the store's plugin may have been reloaded.
    """

    def __init__(self, table: Callable[[], RecordTable]) -> None:
        self._table: Final = table
        self._going_on: Final[set[str]] = set()
        self._lock: Final = anyio.Lock()

    async def put(self, way: Way, root: str, members: Sequence[Member]) -> Mark:
        """Write durably that this has begun."""
        started = process_started(os.getpid())
        pairs = [(member.id, member.parent) for member in members]
        mark = Mark(way=way, root=root, members=pairs, pid=os.getpid(), started=started)
        async with self._lock:
            await self._table().put(mark.key, msgspec.json.encode(mark))
        self._going_on.add(mark.key)
        return mark

    async def drop(self, mark: Mark) -> None:
        """It is finished."""
        async with self._lock:
            await self._table().delete(mark.key)
        self._going_on.discard(mark.key)

    async def strike(self, way: Way, agent_id: str) -> None:
        """Nobody wants this to be done to that agent any more, if the host dies before it ended."""
        async with self._lock:
            for row in await self._table().list(f"{way}/"):
                mark = msgspec.json.decode(row.value, type=Mark)
                left = [pair for pair in mark.members if pair[0] != agent_id]
                if len(left) < len(mark.members):
                    await self._table().put(row.key, msgspec.json.encode(msgspec.structs.replace(mark, members=left)))

    async def left_behind(self) -> Sequence[Mark]:
        """What a process has begun that has ended since, or this one before the present host."""
        found = []
        for row in await self._table().list():
            mark = msgspec.json.decode(row.value, type=Mark)
            if row.key not in self._going_on and not _goes_on_elsewhere(mark):
                found.append(mark)
        return found


def _goes_on_elsewhere(mark: Mark) -> bool:
    return mark.pid != os.getpid() and mark.started is not None and process_started(mark.pid) == mark.started
