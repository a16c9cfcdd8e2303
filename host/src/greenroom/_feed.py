"""The bounded queue between a synchronous caller and an `async def` observer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from greenroom._engine import Engine
    from greenroom._impl import Impl

FEED_LENGTH: Final = 1_000
"""Calls that may wait for one observer (hooks.md)."""

Call = tuple[object, ...]
Refeed = Callable[[Call | None], Iterable[Call]]
"""Given the last delivered call, returns those that came after it."""


class Feed:
    """Calls that wait for one observer, in order.

    When it is full, new calls are dropped and the observer has lagged. Where the
    calls have a durable source they are read again from it, after the last one
    delivered; elsewhere the lag is reported and the calls are gone.
    """

    def __init__(self, impl: Impl, engine: Engine, refeed: Callable[[], Refeed | None]) -> None:
        self._impl = impl
        self._engine = engine
        self._refeed = refeed
        self._waiting: deque[Call] = deque()
        self._wake = anyio.Event()
        self._dropped = 0
        self._last: Call | None = None

    def put(self, call: Call) -> None:
        """Queue a call, or count it as dropped; never blocks."""
        # While lagged nothing more is queued: it would overtake what was dropped.
        if self._dropped or len(self._waiting) >= FEED_LENGTH:
            self._dropped += 1
        else:
            self._waiting.append(call)
        self._wake.set()

    async def run(self) -> None:
        """Deliver until cancelled; a call that is being delivered then is interrupted."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            await self._drain()

    async def _drain(self) -> None:
        while self._waiting or self._dropped:
            while self._waiting:
                await self._deliver(self._waiting.popleft())
            if self._dropped:
                await self._catch_up()

    async def _catch_up(self) -> None:
        dropped, self._dropped = self._dropped, 0
        refeed = self._refeed()
        if refeed is None:
            error = RuntimeError(f"the observer lagged, {dropped} calls were dropped")
            self._engine.report(self._impl, error)
            return
        for call in refeed(self._last):
            await self._deliver(call)

    async def _deliver(self, call: Call) -> None:
        await self._engine.attempt(self._impl, call)
        self._last = call
