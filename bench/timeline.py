"""What a client costs: pages and polls of a session, folding its rows, and telling many readers of one row.

    uv run python bench/timeline.py [rows]

The goals are those of a quiet machine on which a bare call takes 28 ns, so they are stated in bare calls.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psutil
from _bench import Bench, human, seconds_per_call

from greenroom.sessions import MemoryStore, Session, SessionRegistry, SessionStore, Vocabulary
from greenroom.timeline import Cursor
from greenroom_timeline import Timeline

BARE = 28e-9
MICRO, MILLI = 1e-6, 1e-3
ROUNDS = 200
PAGE_EVENTS = 316
"""Events that are read for a page of 200 rows."""
BURST = 200
"""Rows that are written before the readers get their turn: what falls into some milliseconds of a busy agent."""


def write_turns(session: Session, rows: int, start: int = 0) -> None:
    """Append turns as agents write them: a prompt, two calls with updates and results, text in pieces."""
    made = start
    while made < start + rows:
        turn = session.state.next_turn()
        text = [{"type": "text", "text": "what is in this folder?"}]
        session.append("turn/start", {"turn": turn, "trigger": {"kind": "message"}})
        session.append("step/start", {"turn": turn, "step": 1})
        message = {"id": f"u{turn}", "content": text, "source": {"kind": "user"}}
        session.append("user/message", {"message": message}, surface="append")
        session.append("user/acknowledged", {"message_id": f"u{turn}", "provider_message_id": f"p{turn}"})
        at = {"turn": turn, "step": 1}
        for number in range(2):
            detail = {"type": "shell", "command": "ls -la"}
            call = {"call_id": f"c{turn}.{number}", "detail": detail}
            session.append("tool/call", {**at, **call, "name": "Bash", "input": {"command": "ls -la"}})
            session.append("tool/update", {**call, "detail": {**detail, "output": "total 4"}})
            session.append("tool/result", {**at, **call, "status": "completed"}, surface="append")
        for number in range(8):
            final = number == 7
            piece = {**at, "text": "a piece of an answer, ", "message_id": f"m{turn}", "final": final}
            session.append("assistant/message", piece, surface="append" if final else None)
        session.append("step/end", at)
        session.append("turn/end", {"turn": turn, "reason": {"kind": "completed"}})
        made += 15


def now(call: Callable[[], Coroutine[Any, Any, object]]) -> object:
    """Run a coroutine that has nothing to wait for."""
    try:
        call().send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


async def seconds_per_await(call: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """Time an awaitable that works in another thread: the median of some rounds."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[rounds // 2]


def memory() -> float:
    """The resident size, in MB."""
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def add(bench: Bench, name: str, seconds: float, goal: float | None = None) -> None:
    """Add a figure, with a goal in seconds of the quiet machine."""
    here = None if goal is None else goal / BARE * bench.bare
    bench.add(name, seconds, goal=here, goal_text=None if goal is None else human(goal))


async def live(store: SessionStore, session_id: str) -> tuple[Session, Timeline]:
    """A new session and the timeline of its host."""
    registry = SessionRegistry(store, Vocabulary())
    entered = await registry.create(registry.new_header(session_id))
    return entered.session, Timeline(registry)


async def in_memory(bench: Bench, rows: int) -> None:
    """The end of a session that has so many rows."""
    session, timeline = await live(MemoryStore(), "s")
    name = f"{rows:,} rows"
    write_turns(session, rows)
    page = await timeline.fetch("s")
    await timeline.fetch("s", view="projected")
    fetch = partial(timeline.fetch, "s")

    def timed(text: str, goal: float | None, **query: Any) -> None:
        call = partial(fetch, **query)
        add(bench, f"{text}, {name}", seconds_per_call(lambda: now(call)), goal)

    after = {"direction": "after", "cursor": page.end}
    timed("page of 200, tail in memory", 40 * MICRO)
    timed("poll of an up-to-date client", 5 * MICRO, **after)
    timed("poll, projected", 5 * MICRO, view="projected", **after)
    timed("projected tail of 200", MILLI, view="projected")

    def one_more() -> None:
        session.append("notice", {"level": "info", "message": "one more"})
        now(partial(fetch, view="projected"))

    add(bench, f"append a row + projected tail of 200, {name}", seconds_per_call(one_more), MILLI)


async def folding(bench: Bench, rows: int = 100_000) -> None:
    """The whole of a log."""
    session, timeline = await live(MemoryStore(), "s")
    write_turns(session, rows)
    events = await session.events(0)
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        timeline.project(events)
        taken.append(time.perf_counter() - begin)
    add(bench, f"project {rows:,} rows", min(taken), 100 * MILLI)


async def many_readers(bench: Bench, readers: int = 100) -> None:
    """One row to many: what the writer pays, and what it takes until all have it."""
    session, timeline = await live(MemoryStore(), "s")
    write_turns(session, 100)
    got = [0]

    async def read() -> None:
        async with timeline.subscribe("s") as updates:
            async for update in updates:
                if update.wire and type(update).__name__ == "RowAdded":
                    got[0] += 1

    def write() -> float:
        begin = time.perf_counter()
        for _ in range(BURST):
            session.append("notice", {"level": "info", "message": "hello"})
        return time.perf_counter() - begin

    alone = min(write() for _ in range(5)) / BURST
    async with anyio.create_task_group() as tasks:
        for _ in range(readers):
            tasks.start_soon(read)
        await anyio.sleep(0.1)
        told, whole = [], []
        for _ in range(5):
            got[0] = 0
            begin = time.perf_counter()
            told.append(write() / BURST)
            while got[0] < BURST * readers:
                await anyio.lowlevel.checkpoint()
            whole.append((time.perf_counter() - begin) / BURST)
        tasks.cancel_scope.cancel()
    add(bench, f"one row to {readers} subscribers, for the writer", max(min(told) - alone, 0), 10 * MICRO)
    add(bench, f"  until all of them have read it and its bytes, in bursts of {BURST}", min(whole) - alone)


async def stored(bench: Bench, rows: int) -> None:
    """Pages of a session that lies in SQLite, anywhere."""
    from greenroom_sqlite import SqliteStore

    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "sessions.db", barrier="normal")
        session, _ = await live(store, "s")
        before = memory()
        done = 0
        while done < rows:
            write_turns(session, 10_000, done)
            done += 10_000
            await session.flush()
        timeline = Timeline(SessionRegistry(store, Vocabulary()))
        written = memory() - before
        begin = time.perf_counter()
        page = await timeline.fetch("s")
        opened = time.perf_counter() - begin
        grown = memory() - before
        choose = random.Random(1)  # noqa: S311 - which pages are asked for is no secret
        top = page.window.next

        def any_page(**query: Any) -> Awaitable[object]:
            cursor = Cursor(page.epoch, choose.randrange(top))
            return timeline.fetch("s", cursor=cursor, **query)

        name = f"{rows:,} rows in SQLite"
        add(bench, f"open the line, {name}", opened)
        registry = SessionRegistry(store, Vocabulary())
        registry.get = lambda _: session  # type: ignore[method-assign]  # the live session, as its host sees it
        timeline = Timeline(registry)
        await timeline.fetch("s")
        for direction in ("before", "after"):
            taken = await seconds_per_await(partial(any_page, direction=direction))
            add(bench, f"page of 200 {direction} any row, {name}", taken, 0.3 * MILLI)
            taken = await seconds_per_await(partial(any_page, direction=direction, view="projected"))
            add(bench, f"the same, projected, {name}", taken)
        taken = await seconds_per_await(lambda: store.read_from("s", choose.randrange(top), limit=PAGE_EVENTS))
        add(bench, f"  the store's part: {PAGE_EVENTS} events, {name}", taken)
        print(
            f"the process grew by {written:.0f} MB while {rows:,} rows were written, by {grown:.0f} MB with their line"
        )
        print("(goal: 50 MB for 1,000,000)\n")
        await store.aclose()


async def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    bench = Bench()
    await stored(bench, rows)
    for count in (2_000, min(rows, 100_000)):
        await in_memory(bench, count)
    await folding(bench)
    await many_readers(bench)
    bench.report()


if __name__ == "__main__":
    anyio.run(main)
