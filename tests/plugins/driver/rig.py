"""What the tests of the driver share."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from greenroom import Host, hookimpl
from greenroom.agents import Agent, AgentHandle, AgentOptions, AgentSpec
from greenroom.sessions import Event
from greenroom_driver import DriverFactory
from greenroom_testing import ScriptedProvider, ScriptedSession


class PlainDriver:
    """The driver plugin without the leading edge, so that a window is a window."""

    @hookimpl
    def agent_factory(self, host):
        return DriverFactory(host, leading=False)


class Rig:
    """Everything a test of the driver touches."""

    def __init__(self, host: Host, provider: ScriptedProvider) -> None:
        self.host = host
        self.provider = provider
        self.handle: AgentHandle

    async def create(self, **options) -> Agent:
        setup = options.pop("setup", None)
        spec = AgentSpec(options=AgentOptions(**options.pop("options", {})), **options)
        self.handle = await self.host.agents.create(spec, owner=self.host.scope, setup=setup)
        return self.handle.agent

    @property
    def agent(self) -> Agent:
        return self.handle.agent

    @property
    def session(self) -> ScriptedSession:
        """The provider's side."""
        return self.provider.session

    @property
    def events(self) -> tuple[Event, ...]:
        return self.agent.session.tail

    def of(self, *types: str) -> list[Event]:
        """The logged events of these types, by their beginnings."""
        return [event for event in self.events if event.type.startswith(types)]

    def types(self, *, free: bool = False) -> list[str]:
        """What is logged inside turns, in order; with the bookkeeping if asked."""
        skipped = () if free else ("inbox/", "provider/", "agent/", "request/", "user/acknowledged", "usage/")
        return [event.type for event in self.events if not event.type.startswith(skipped or ("\0",))]

    def reasons(self) -> list[str]:
        return [event.data.reason.kind for event in self.of("turn/end")]

    def texts(self) -> list[str]:
        return [event.data.text for event in self.of("assistant/message") if event.data.text]

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that the log or the provider shows; two seconds at most."""
        with anyio.fail_after(2):
            while True:
                if condition():
                    return
                await anyio.sleep(0.001)

    async def settle(self) -> None:
        """Let every task run until it waits."""
        await anyio.wait_all_tasks_blocked()

    async def logged(self, kind: str, count: int = 1) -> Event:
        """Wait for the count-th event of a type."""
        await self.until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]


def plain_driver() -> PlainDriver:
    return PlainDriver()
