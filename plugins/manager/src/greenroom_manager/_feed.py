"""Subscriptions to the agents of a host: the current snapshots first, then each change, in order, within a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import AgentChange, AgentRecord, AgentSnapshot

if TYPE_CHECKING:
    from ._context import Context

KEPT: Final = 1_000
"""Changes that a reader may be behind before it gets only the latest of each agent (as for sessions' observers)."""


class Subscription:
    """One reader.

    Args:
        agent_id: whose changes it gets; None: those of all but internal agents.
        kept: see `KEPT`.
    """

    def __init__(self, agent_id: str | None = None, *, kept: int = KEPT) -> None:
        self.agent_id: Final = agent_id
        self._kept = self._limit = kept
        self._queue: deque[AgentChange] = deque()
        self._news = anyio.Event()
        self._told: set[str] = set()

    def __len__(self) -> int:
        """How many changes wait for the reader."""
        return len(self._queue)

    def wants(self, record: AgentRecord) -> bool:
        """Whether a change of this agent is for the reader."""
        return record.id == self.agent_id or (self.agent_id is None and not record.internal)

    def begin(self, snapshots: Sequence[AgentSnapshot]) -> None:
        """Start with what is now: whatever was queued before is older."""
        self._queue.clear()
        for snapshot in snapshots:
            self.put(AgentChange(agent_id=snapshot.record.id, snapshot=snapshot))

    def put(self, change: AgentChange) -> None:
        """Queue a change; never blocks."""
        if len(self._queue) >= self._limit:
            self._shrink()
        self._queue.append(change)
        self._news.set()

    def _shrink(self) -> None:
        """Keep the latest change of each agent; that one is gone is no news to who never heard of it."""
        latest: dict[str, AgentChange] = {}
        for change in self._queue:
            latest.pop(change.agent_id, None)  # in the order of the latest ones
            latest[change.agent_id] = change
        self._queue = deque(c for c in latest.values() if c.snapshot is not None or c.agent_id in self._told)
        self._limit = max(self._kept, 2 * len(self._queue))

    def __aiter__(self) -> Subscription:
        """The changes, read once."""
        return self

    async def __anext__(self) -> AgentChange:
        """The next change. Cancelled: it is not lost."""
        while not self._queue:
            self._news = anyio.Event()
            await self._news.wait()
        change = self._queue.popleft()
        if change.snapshot is None:
            self._told.discard(change.agent_id)
        else:
            self._told.add(change.agent_id)
        return change


class Feed:
    """The subscribers of one host."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._subscriptions: dict[Subscription, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    def touch(self, agent_id: str) -> None:
        """Something that is shown of an agent has changed: tell everybody what is shown now."""
        record = self._context.book.get(agent_id) if self._subscriptions else None
        if record is not None:
            self._tell(record, AgentChange(agent_id=agent_id, snapshot=self._context.snapshot(record)))

    def changed(self, agent_id: str, before: AgentRecord | None, record: AgentRecord | None) -> None:
        """A record was changed, or (None) is gone."""
        if record is not None:
            self.touch(agent_id)
        elif before is not None:
            self._tell(before, AgentChange(agent_id=agent_id, snapshot=None))

    def _tell(self, record: AgentRecord, change: AgentChange) -> None:
        for subscription in self._subscriptions:
            if subscription.wants(record):
                subscription.put(change)

    @asynccontextmanager
    async def subscribe(
        self, agent_id: str | None, current: Callable[[], Sequence[AgentSnapshot]]
    ) -> AsyncIterator[AsyncIterator[AgentChange]]:
        """Follow from here on, beginning with what `current` gives; without an await in between nothing is missed."""
        subscription = Subscription(agent_id)
        self._subscriptions[subscription] = None
        try:
            subscription.begin(current())
            yield subscription
        finally:
            del self._subscriptions[subscription]
