"""What an agent costs: deltas, rows, commands, turns, creation, idle memory.

    uv run python bench/agents.py

Everything is validated, logged and encoded, with the driver, a scripted provider and a session
in memory (or in a file where it says so). The goals are those of a quiet machine on which a bare
call takes 28 ns, so they are stated in bare calls.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psutil
from _bench import Bench, Row

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentHandle, AgentSpec
from greenroom.providers import ShellDetail, TextDelta, ToolFinished, ToolStarted
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

BARE = 28e-9
DELTAS = 60_000
BURST = 64
ROWS = 6_000
TURNS = 300
CREATES = 150
IDLE = 1_000
ROUNDS = 3


@asynccontextmanager
async def host(provider: ScriptedProvider, folder: Path | None = None) -> AsyncIterator[Host]:
    """A host with the driver; its sessions lie in a file if a folder is given."""
    plugins: dict[str, object] = {"driver": greenroom_driver, "scripted": ScriptedPlugin(provider)}
    if folder is not None:
        import greenroom_sqlite

        plugins["sqlite"] = getattr(greenroom_sqlite, "plugin", greenroom_sqlite)
    async with Host(load_settings(), discovery=False, plugins=plugins, data_directory=folder) as live:
        bad = [record for record in live.plugins() if record.state != "active"]
        assert not bad, bad
        yield live


async def running(live: Host, provider: ScriptedProvider, count: int) -> list[AgentHandle]:
    """Agents whose turn was accepted and goes on."""
    provider.starting = accept
    handles = []
    for _ in range(count):
        handle = await live.agents.create(AgentSpec(), owner=live.scope)
        handle.agent.followup("go")
        while "turn/accepted" not in [event.type for event in handle.agent.session.tail]:
            await anyio.lowlevel.checkpoint()
        handles.append(handle)
    return handles


async def deltas(agents: int) -> float:
    """Seconds for one text delta, in bursts over some agents, until it is logged."""
    provider = ScriptedProvider()
    async with host(provider) as live:
        handles = await running(live, provider, agents)
        emits = [(session.link.emit, session.turn) for session in provider.sessions]
        each = DELTAS // agents
        since = time.perf_counter()
        for _ in range(0, each, BURST):
            for emit, turn in emits:
                for _ in range(BURST):
                    emit(TextDelta(text="hello wo", message_id="m", turn_id=turn))
            await anyio.lowlevel.checkpoint()
        for handle in handles:
            await handle.agent.flush()
        return (time.perf_counter() - since) / DELTAS


async def rows(subscribers: int) -> float:
    """Seconds for one tool row: a call and its result are two."""
    provider = ScriptedProvider()
    async with host(provider) as live:
        [handle] = await running(live, provider, 1)
        for _ in range(subscribers):
            handle.agent.session.observe(lambda _event: None)
        emit, turn = provider.session.link.emit, provider.session.turn
        detail = ShellDetail(command="make test", cwd="/tmp")  # noqa: S108 - a word, nothing is written there
        since = time.perf_counter()
        for number in range(ROWS // 2):
            call = f"c{number}"
            emit(ToolStarted(call_id=call, name="sh", turn_id=turn, detail=detail, input={"command": "make test"}))
            emit(ToolFinished(call_id=call, name="sh", turn_id=turn, detail=detail, output="ok"))
            if not number % 32:
                await anyio.lowlevel.checkpoint()
        await handle.agent.flush()
        return (time.perf_counter() - since) / ROWS


async def command() -> float:
    """Seconds for a command through the mailbox of an idle agent."""
    provider = ScriptedProvider()
    async with host(provider) as live:
        handle = await live.agents.create(AgentSpec(), owner=live.scope)
        pump = handle.agent._driver.pump  # noqa: SLF001 - the mailbox itself is what is measured
        took = []
        for _ in range(500):
            done = anyio.Event()
            since = time.perf_counter()
            pump.post(done.set)
            await done.wait()
            took.append(time.perf_counter() - since)
        return sorted(took)[len(took) // 2]


async def turns(folder: Path | None, first: int, count: int) -> float:
    """Seconds for a turn that says nothing, after `first` others."""
    provider = ScriptedProvider()

    async def nothing(session: object, request: object) -> None:
        del request
        session.end()  # type: ignore[attr-defined]  # a scripted session

    provider.starting = nothing
    async with host(provider, folder) as live:
        handle = await live.agents.create(AgentSpec(), owner=live.scope)
        since = 0.0
        for number in range(first + count):
            if number == first:
                since = time.perf_counter()
            handle.agent.followup("go")
            await handle.agent.when_idle()
        return (time.perf_counter() - since) / count


async def flushes(folder: Path) -> float:
    """Seconds for a full flush of one event by the same store."""
    provider = ScriptedProvider()
    async with host(provider, folder) as live:
        handle = await live.agents.create(AgentSpec(), owner=live.scope)
        took = []
        for number in range(60):
            handle.agent.inject(f"note {number}", plugin="bench")
            since = time.perf_counter()
            await handle.agent.session.flush("full")
            took.append(time.perf_counter() - since)
        return sorted(took)[len(took) // 2]


async def creates(folder: Path | None) -> float:
    """Seconds for creating an agent and closing it."""
    provider = ScriptedProvider()
    async with host(provider, folder) as live:
        since = time.perf_counter()
        for _ in range(CREATES):
            handle = await live.agents.create(AgentSpec(), owner=live.scope)
            await handle.dispose()
        return (time.perf_counter() - since) / CREATES


async def idle_bytes() -> float:
    """Bytes for an idle agent."""
    provider = ScriptedProvider()
    async with host(provider) as live:
        gc.collect()
        before = psutil.Process().memory_info().rss
        for _ in range(IDLE):
            await live.agents.create(AgentSpec(), owner=live.scope)
        gc.collect()
        return (psutil.Process().memory_info().rss - before) / IDLE


def best(work: Callable[..., Awaitable[float]], *arguments: object) -> float:
    """The fastest of some runs."""
    return min(anyio.run(work, *arguments) for _ in range(ROUNDS))


def goal(bench: Bench, microseconds: float) -> float:
    """A goal of the quiet machine, in seconds of this one."""
    return microseconds * 1e-6 / BARE * bench.bare


def main() -> None:
    """Measure and print."""
    bench = Bench()

    def add(name: str, seconds: float, microseconds: float) -> None:
        bench.rows.append(Row(name, seconds, goal(bench, microseconds), f"{microseconds:g} us"))

    add("a text delta", best(deltas, 1), 0.8)
    add("a text delta, 100 agents at once", best(deltas, 100), 0.9)
    add("a tool row", best(rows, 0), 4.0)
    add("a tool row, 100 subscribers", best(rows, 100), 8.0)
    add("a command through the mailbox", best(command), 50)
    add("an empty turn", best(turns, None, 0, TURNS), 250)
    add("an empty turn after 1,000", anyio.run(turns, None, 1_000, TURNS), 250)
    add("create and close", best(creates, None), 350)
    with tempfile.TemporaryDirectory() as name:
        flush = anyio.run(flushes, Path(name) / "flush")
        bench.rows.append(Row("a full flush of the store", flush))
        stored = anyio.run(turns, Path(name) / "turns", 0, TURNS)
        limit = goal(bench, 250) + 2 * flush
        bench.rows.append(Row("an empty turn with the store", stored, limit, "250 us + 2 flushes"))
        add("create and close with the store", anyio.run(creates, Path(name) / "creates"), 900)
    bench.report()
    print(f"{anyio.run(idle_bytes) / 1024:.1f} KiB for an idle agent (goal: 40)")


if __name__ == "__main__":
    main()
