"""Makes the drivers of a host's agents."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial

import anyio

from greenroom import Host
from greenroom.agents import AgentOptions, AgentScope
from greenroom.sessions import Session

from ._coalescer import WINDOW, Coalescer
from ._connection import Connection, choose_provider
from ._driver import AgentDriver
from ._link import Link


def random_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())


def loop_clock() -> Callable[[], float]:
    """The clock of the running event loop, by which its deadlines count.

    `anyio.current_time` finds out on each call which loop it is on, which costs ten times the reading. asyncio's clock
    is `time.monotonic` itself; where the two disagree (trio, and its clocks for tests) it is asked the long way.
    """
    close = 0.001
    return time.monotonic if abs(anyio.current_time() - time.monotonic()) < close else anyio.current_time


class DriverFactory:
    """The agent factory of a host.

    Args:
        window, leading: of the coalescers.
        new_id: makes ids for turns that a provider begins without one.
    """

    def __init__(
        self, host: Host, *, window: float = WINDOW, leading: bool = True, new_id: Callable[[], str] = random_id
    ) -> None:
        self._host = host
        self._window = window
        self._leading = leading
        self._new_id = new_id
        self._drivers: dict[str, AgentDriver] = {}

    async def prepare(self, session: Session, scope: AgentScope, options: AgentOptions) -> AgentDriver:
        """See `AgentFactory.prepare`."""
        spec = choose_provider(dict(self._host.providers), session, options)
        coalescer = Coalescer(loop_clock(), window=self._window, leading=self._leading)

        def connect(driver: AgentDriver) -> Connection:
            def link() -> Link:
                driver.pump.switch(spec.id)
                return Link(driver.pump, scope, driver.control, driver.lost, options.environment)

            return Connection(session, spec, options, link)

        driver = AgentDriver(self._host, session, scope, connect, coalescer, self._new_id)
        self._drivers[session.id] = driver
        scope.undo(partial(self._forget, driver), label="driver")
        return driver

    def _forget(self, driver: AgentDriver) -> None:
        self._drivers.pop(driver.session.id, None)
        driver.drain.abandon()

    async def flush(self) -> None:
        """Log and make durable what every agent's provider has said so far."""
        for driver in list(self._drivers.values()):
            await driver.flush()
