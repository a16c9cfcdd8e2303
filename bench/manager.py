"""What it costs to keep agents: listing a thousand records, changing one, telling a thousand subscribers.

uv run python bench/manager.py [records]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from _bench import Bench, Row

import greenroom_driver
import greenroom_sqlite
from greenroom import Host, load_settings
from greenroom.agents import AgentDirectory, AgentRecord, AgentSettings, AgentSpec
from greenroom.providers import Handle, RuntimeInfo, Usage
from greenroom.sessions.vocabulary import AgentConfig
from greenroom_manager import ManagerPlugin
from greenroom_manager._records import RecordBook
from greenroom_testing import ScriptedPlugin, ScriptedProvider

ROUNDS = 30
MILLI, MICRO = 1e-3, 1e-6


def record(number: int) -> AgentRecord:
    """A record as a worked agent has one."""
    return AgentRecord(
        id=f"00000000-0000-0000-0000-{number:012d}",
        provider="scripted",
        cwd="/home/someone/projects/something",
        title=f"Make the thing number {number} work",
        labels={"team": "blue", "ticket": str(number)},
        created_at=1_700_000_000_000 + number,
        updated_at=0,
        settings=AgentSettings(model="large", mode="plan", features={"fast": True}),
        runtime=RuntimeInfo(model="large-2", mode="plan", context_window=200_000),
        native=Handle(native_id=f"native-{number}"),
        usage=Usage(input_tokens=12_345, output_tokens=678, context_max=200_000, context_used=13_023),
        completed_at=1_700_000_100_000 + number,
    )


async def keep(host: Host, book: RecordBook, made: AgentRecord) -> None:
    """Store a record and a short session for it."""
    entered = await host.sessions.create(host.sessions.new_header(made.id, cwd=made.cwd, provider=made.provider))
    entered.session.append("agent/config", AgentConfig(title=made.title))
    await entered.close()
    await book.insert(made)


async def timed(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The fastest of some rounds, in seconds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        await work()
        best = min(best, time.perf_counter() - started)
    return best


async def measure(bench: Bench, count: int, folder: Path) -> None:
    """Take the figures of one host on a file."""
    plugins = {
        "driver": greenroom_driver,
        "sqlite": greenroom_sqlite,
        "scripted": ScriptedPlugin(ScriptedProvider()),
        "manager": ManagerPlugin(),
    }
    async with Host(load_settings(), data_directory=folder, discovery=False, plugins=plugins) as host:
        directory = host.service(AgentDirectory)
        assert directory is not None
        book = directory._book  # type: ignore[attr-defined]  # noqa: SLF001 - records are made without their agents
        for number in range(count):
            await keep(host, book, record(number))
        live = await directory.create(AgentSpec(id="live"))

        async def listed() -> None:
            assert len(await directory.list()) == count + 1

        numbers, renamed = iter(range(10**9)), record(8).id
        rows = bench.rows
        rows.append(Row(f"list {count:,} records, from the file", await timed(listed), 20 * MILLI, "<= 20 ms"))
        rows.append(Row("find one record", await timed(lambda: directory.find(record(7).id))))
        rows.append(Row("rename a stored agent, durably", await timed(lambda: rename(directory, renamed, numbers))))
        rows.append(Row("rename a live agent, durably", await timed(lambda: rename(directory, live.id, numbers))))

        def stage() -> None:
            title = str(next(numbers))
            book.stage(record(7).id, lambda known: AgentRecord(**{**fields(known), "title": title}))

        bench.measure("stage a change, nobody listens", stage)
        await book.flush()
        async with AsyncExitStack() as stack:
            for _ in range(1_000):
                await stack.enter_async_context(directory.subscribe(record(7).id))
            bench.measure("stage a change, 1,000 subscribers that never read", stage)
            await book.flush()


async def rename(directory: AgentDirectory, agent_id: str, numbers: object) -> None:
    """Give an agent another title."""
    await directory.update(agent_id, title=str(next(numbers)))  # type: ignore[call-overload]  # an iterator


def fields(known: AgentRecord) -> dict[str, object]:
    """The fields of a record."""
    return {name: getattr(known, name) for name in known.__struct_fields__}


def main() -> None:
    """Measure and print."""
    bench = Bench()
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, bench, int(sys.argv[1]) if len(sys.argv) > 1 else 1_000, Path(folder))
    bench.report()


if __name__ == "__main__":
    main()
