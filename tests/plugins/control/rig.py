"""Hosts that share a data directory, and clients that say what they like."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

import greenroom_driver
import greenroom_sqlite
import greenroom_timeline
from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentSpec, HostClient
from greenroom_control import ControlPlugin
from greenroom_control._address import reachable
from greenroom_manager import plugin as manager_plugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider

LIMIT = 20.0


class Place:
    """A data directory and the hosts on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def host(self, provider=None, *, manager=False, data=True):
        """A host with the endpoint; `host.control` and `host.provider` are added to it."""
        provider = provider or ScriptedProvider()
        plugins = {
            "driver": greenroom_driver,
            "sqlite": greenroom_sqlite,
            "timeline": greenroom_timeline.TimelinePlugin(),
            "control": ControlPlugin(),
            "scripted": ScriptedPlugin(provider),
            **({"manager": manager_plugin} if manager else {}),
        }
        folder = self.folder if data else None
        async with Host(load_settings(), data_directory=folder, discovery=False, plugins=plugins) as host:
            bad = [record for record in host.plugins() if record.state != "active"]
            assert not bad, bad
            host.control = host.service(HostClient)
            host.provider = provider
            yield host

    async def agent(self, host, name="a", **options):
        """An agent of the host itself."""
        spec = AgentSpec(id=name, cwd=self.folder, options=AgentOptions(provider="scripted", **options))
        handle = await host.agents.create(spec, owner=host.scope)
        await handle.agent.initialized()  # from then on there is something in its log
        await handle.agent.flush()
        return handle


class Wire:
    """A connection on which every byte is the test's own."""

    def __init__(self, stream) -> None:
        self.stream = stream
        self._rest = b""

    async def raw(self, data: bytes) -> None:
        await self.stream.send(data)

    async def say(self, **fields) -> None:
        await self.raw(json.dumps(fields).encode() + b"\n")

    async def hear(self) -> dict:
        """The next line."""
        with anyio.fail_after(LIMIT):
            while b"\n" not in self._rest:
                self._rest += await self.stream.receive()
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def ask(self, method, request_id=1, **params) -> dict:
        """Ask, and what comes next."""
        await self.say(id=request_id, method=method, params=params)
        return await self.hear()

    async def hello(self) -> dict:
        return (await self.ask("hello", 0, protocol=1))["result"]

    async def closed(self) -> bool:
        """Whether the other side hangs up."""
        with anyio.fail_after(LIMIT):
            try:
                while await self.stream.receive():
                    pass
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return True


@asynccontextmanager
async def wire(path, *, hello=True):
    """Connect to an endpoint, once it is there."""
    with anyio.fail_after(LIMIT):
        while True:
            try:
                stream = await anyio.connect_unix(reachable(Path(path)))
                break
            except OSError:
                await anyio.sleep(0.01)
    async with stream:
        client = Wire(stream)
        if hello:
            await client.hello()
        yield client


async def until(condition):
    """Let the others work until it holds."""
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - the other side is no part of this process, or has no event
            await anyio.sleep(0.005)
