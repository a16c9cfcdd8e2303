"""The bounded queue between a synchronous caller and an `async def` observer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import anyio

if TYPE_CHECKING:
    from greenroom._engine import Engine
    from greenroom._impl import Impl

FEED_LENGTH: Final = 1_000
"""Calls that may wait for one observer (docs/hooks.md)."""

Call = tuple[object, ...]


class Source(Protocol):
    """Where calls can be read again: a log, or several."""

    def place(self, call: Call) -> tuple[Hashable, int]:
        """Return the log of a call and its number there."""

    async def read(self, call: Call, number: int) -> Sequence[Call]:
        """Return the calls of the same log from `number` on, a bounded page; none when the log is gone."""


@dataclass(slots=True)
class _Gap:
    """What one log dropped: from `number` to `last`."""

    call: Call
    number: int
    last: int


class Feed:
    """Calls that wait for one observer, in order.

    When it is full, new calls are dropped and the observer has lagged. Calls that
    stand in a log are read again from it, so each is delivered once and in order;
    of others the number is reported and they are gone.
    """

    def __init__(self, engine: Engine, source: Callable[[], Source | None]) -> None:
        self._engine = engine
        self._source = source
        self._waiting: deque[Call] = deque()
        self._wake = anyio.Event()
        self._gaps: dict[Hashable, _Gap] = {}
        self._dropped = 0

    def put(self, call: Call) -> None:
        """Queue a call, or note that it was dropped; never blocks."""
        source = self._source()
        if source is None:
            if len(self._waiting) < FEED_LENGTH:
                self._waiting.append(call)
            else:
                self._dropped += 1
        else:
            log, number = source.place(call)
            # While a log lags its calls are not queued: they would overtake what was dropped.
            if (gap := self._gaps.get(log)) is not None:
                gap.last = number
            elif len(self._waiting) < FEED_LENGTH:
                self._waiting.append(call)
            else:
                self._gaps[log] = _Gap(call, number, number)
        self._wake.set()

    async def run(self, impl: Impl) -> None:
        """Deliver to `impl` until cancelled; a call that is being delivered then is interrupted."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._waiting or self._gaps or self._dropped:
                while self._waiting:
                    await self._engine.attempt(impl, self._waiting.popleft())
                await self._catch_up(impl)

    async def _catch_up(self, impl: Impl) -> None:
        source = self._source()
        for log, gap in tuple(self._gaps.items()):
            # Read until the last one that was dropped, also meanwhile; only then may calls queue again.
            while source is not None and gap.number <= gap.last:
                page = await source.read(gap.call, gap.number)
                if not page:
                    self._dropped += gap.last - gap.number + 1
                    break
                for call in page:
                    await self._engine.attempt(impl, call)
                    gap.number = source.place(call)[1] + 1
            del self._gaps[log]
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._engine.report(impl, RuntimeError(f"the observer lagged, {dropped} calls were dropped"))
