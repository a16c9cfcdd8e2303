"""What the tests of the ways in and out share: a host that keeps its agents, on a store that outlives it."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager

import anyio
import trio
import trio.testing

import greenroom_driver
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import PARENT_LABEL, AgentDirectory, AgentSpec
from greenroom.sessions import Medium, MemoryStore
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider

JUMPING = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
"""trio with a clock that jumps to the next deadline whenever nothing else can run."""


class Store:
    """A plugin that keeps sessions on a medium which outlives the host."""

    def __init__(self, medium: Medium) -> None:
        self.store = MemoryStore(medium)

    @hookimpl
    def session_store(self):
        return self.store


class House:
    """Everything a test of the ways touches."""

    def __init__(self, host: Host, provider: ScriptedProvider, store: MemoryStore, medium: Medium) -> None:
        self.host, self.provider, self.store, self.medium = host, provider, store, medium
        self.directory = host.service(AgentDirectory)
        self.ways = self.directory._ways

    async def create(self, agent_id=None, *, parent=None, **fields):
        labels = {**fields.pop("labels", {}), **({PARENT_LABEL: parent} if parent is not None else {})}
        return await self.directory.create(AgentSpec(id=agent_id, labels=labels, **fields))

    async def record(self, agent_id):
        return (await self.directory.find(agent_id)).record

    async def family(self, *pairs):
        """Create agents, each with its parent, closed but recorded."""
        for agent_id, parent in pairs:
            await self.create(agent_id, parent=parent, title=agent_id)
            await self.directory.close(agent_id)

    async def archived(self):
        """The ids of all archived agents."""
        found = await self.directory.list(archived=True, internal=True)
        return {snapshot.record.id for snapshot in found if snapshot.record.archived_at is not None}

    def live(self, agent_id):
        return self.host.agents.get(agent_id)

    @property
    def said(self):
        """The codes of the diagnostics."""
        return [entry.code for entry in self.host.diagnostics.recent]

    def writers(self):
        """The provider sessions that were opened and not closed, by native conversation or by agent."""
        open_ = [session for session in self.provider.sessions if not session.closed]
        return [session.request.session_id for session in open_]

    async def until(self, condition):
        """Wait for something that somebody else does; ten seconds at most."""
        with anyio.fail_after(10):
            while not condition():  # noqa: ASYNC110 - what changes has no event
                await anyio.sleep(0.001)

    @asynccontextmanager
    async def follow(self, agent_id=None):
        """The states that a subscriber sees, as they come."""
        seen = []

        async def read(changes):
            async for change in changes:
                seen.append(change)  # noqa: PERF401 - it is read while it grows

        async with self.directory.subscribe(agent_id) as changes, anyio.create_task_group() as tasks:
            tasks.start_soon(read, changes)
            await anyio.wait_all_tasks_blocked()
            yield seen
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def house(medium=None, provider=None, *, kill=False, **more):
    """A host; with `kill` it ends as a killed process does."""
    medium, provider = medium or Medium(), provider or ScriptedProvider()
    kept = Store(medium)
    plugins = {
        "driver": greenroom_driver,
        "store": kept,
        "scripted": ScriptedPlugin(provider),
        "manager": ManagerPlugin(),
        **more,
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        assert [record.error for record in host.plugins() if record.state != "active"] == []
        yield House(host, provider, kept.store, medium)
        if kill:
            kept.store.kill()


class Gate:
    """A move of the provider that waits until the test lets it go on."""

    def __init__(self, *, raises: Exception | None = None) -> None:
        self.reached, self.go = anyio.Event(), anyio.Event()
        self.calls = 0
        self.raises = raises

    async def __call__(self, *_given) -> None:
        self.calls += 1
        self.reached.set()
        await self.go.wait()
        if self.raises is not None:
            raise self.raises


@contextmanager
def expect(*errors):
    """Run a task that is to fail with one of these; as `pytest.raises`, for a task of a group."""
    try:
        yield
    except errors:
        return
    raise AssertionError(f"did not raise {errors}")


class Fails:
    """A move of the provider that fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def __call__(self, *_given) -> None:
        raise self.error
