"""What clients in other processes cost: rows to one of them, a call, and clients that only wait.

    uv run python bench/control.py [rows]

The client is a process of its own, so that two cores share the work as they do in use. The goals are those of a
quiet machine: 50,000 rows a second to one client, 100 idle clients in 20 MB. Writing a row is not the endpoint's work;
the writer here makes its payloads of dictionaries, which costs the host more than a driver's do.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import psutil
from _bench import Bench
from timeline import write_turns

import greenroom_timeline
from greenroom import Host, load_settings
from greenroom.agents import HostClient
from greenroom.sessions import Session
from greenroom_control import ControlPlugin, Remote
from greenroom_timeline._events import Roles

ROWS_GOAL = 20e-6 / 28e-9
"""Bare calls: 20 µs where a bare call takes 28 ns."""
GOAL_TEXT = "714 bare calls"
MIB = 1 << 20
IDLE = 100
BURST = 200
"""Rows that are written before others get their turn: what falls into some milliseconds of a busy agent."""


async def follow(path: Path, rows: int) -> None:
    """The client: follow, and say when so many new rows have come."""
    async with Remote(path) as host, host.follow("subscribe", agent="s") as updates:
        await anext(updates)  # what was there
        print("ready", flush=True)
        count, cpu = 0, time.process_time()
        while count < rows:
            update = await anext(updates)
            count += len(update["page"].get("rows", ())) if update["kind"] == "snapshot" else update["kind"] == "row"
        print(time.process_time() - cpu, flush=True)


async def idle(path: Path, count: int) -> None:
    """The client: follow from many connections and never hear anything."""
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Remote(path))
        for _ in range(count):
            await stack.enter_async_context(host.follow("subscribe", agent="s"))
        print("ready", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.readline)


@contextmanager
def client(role: str, path: str, number: int) -> Iterator[Any]:
    """A client process that is ready; its output follows."""
    command = [sys.executable, __file__, role, path, str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


async def measure(bench: Bench, rows: int) -> None:
    """A host in this process, its clients in others."""
    plugins = {"timeline": greenroom_timeline.TimelinePlugin(), "control": ControlPlugin()}
    with tempfile.TemporaryDirectory() as folder:
        async with Host(
            load_settings(), data_directory=Path(folder) / "data", discovery=False, plugins=plugins
        ) as host:
            control: Any = host.service(HostClient)
            path = await control.serve()
            session = (await host.sessions.create(host.sessions.new_header("s"))).session
            write_turns(session, 20)
            await live(bench, session, path, rows)
            await caught_up(bench, path)
            await one_call(bench, path)
            await many_idle(path)


async def live(bench: Bench, session: Session, path: str, rows: int) -> None:
    """Rows that are written while the client follows: the time of both, and of the writing alone."""
    before = len(session)
    write_turns(session, BURST)
    roles = Roles(session.vocabulary)
    burst = sum(roles.part(event) == "row" for event in await session.events(before))
    bursts = rows // burst
    cpu = time.process_time()
    for _ in range(bursts):
        write_turns(session, BURST)
        await anyio.lowlevel.checkpoint()
    alone = time.process_time() - cpu
    rows = burst * bursts
    with await anyio.to_thread.run_sync(enter, client("follow", path, rows)) as process:
        cpu, start = time.process_time(), time.perf_counter()
        for _ in range(bursts):
            write_turns(session, BURST)
            await anyio.lowlevel.checkpoint()
        client_cpu = float(await anyio.to_thread.run_sync(process.stdout.readline))
        wall, used = time.perf_counter() - start, time.process_time() - cpu
    goal = ROWS_GOAL * bench.bare
    bench.add("one row to one client, the host's time", (used - alone) / rows, goal=goal, goal_text=GOAL_TEXT)
    bench.add("one row to one client, the client's time", client_cpu / rows, goal=goal, goal_text=GOAL_TEXT)
    bench.add("one row, written and followed, on the clock", wall / rows)
    bench.add("  of it the writing, as when nobody follows", alone / rows)


def enter(manager: Any) -> Any:
    """Enter a context manager in a thread; the caller leaves it with the block."""

    @contextmanager
    def entered() -> Iterator[Any]:
        try:
            yield value
        finally:
            manager.__exit__(None, None, None)

    value = manager.__enter__()
    return entered()


async def caught_up(bench: Bench, path: str) -> None:
    """A client that begins at the start of a long line: pages, one after the other."""
    start = time.perf_counter()
    async with Remote(Path(path)) as host:
        count, epoch = 0, (await host.call("fetch", agent="s", limit=1))["page"]["epoch"]
        async with host.follow("subscribe", agent="s", cursor={"epoch": epoch, "seq": -1}) as updates:
            async for update in updates:
                count += len(update["page"].get("rows", ()))
                if not update["page"].get("has_newer"):
                    break
    bench.add(
        f"one row of a page, {count:,} rows, client in this process", (time.perf_counter() - start) / max(count, 1)
    )


async def one_call(bench: Bench, path: str) -> None:
    """A question and its answer."""
    async with Remote(Path(path)) as host:
        await host.call("list")
        start = time.perf_counter()
        for _ in range(500):
            await host.call("list")
        bench.add("one call and its answer, client in this process", (time.perf_counter() - start) / 500)


async def many_idle(path: str) -> None:
    """What a hundred clients hold in the host while they wait."""
    process = psutil.Process(os.getpid())
    gc.collect()
    before = process.memory_info().rss
    with await anyio.to_thread.run_sync(enter, client("idle", path, IDLE)) as waiting:
        await anyio.sleep(0.5)
        gc.collect()
        grown = process.memory_info().rss - before
        waiting.stdin.close()
    print(f"{IDLE} idle clients hold {grown / MIB:.1f} MiB in the host (goal: 20)")


def main() -> None:
    """Measure, or be a client."""
    if len(sys.argv) == 4:
        role, path, number = sys.argv[1:]
        anyio.run({"follow": follow, "idle": idle}[role], Path(path), int(number))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    bench = Bench()
    anyio.run(measure, bench, rows)
    bench.report()


if __name__ == "__main__":
    main()
