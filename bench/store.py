"""What the durable store costs: writing, barriers, resuming, reading, listing, and bytes on the disk.

uv run python bench/store.py [--quick]
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import msgspec
from _bench import Bench

from greenroom.providers import ShellDetail
from greenroom.sessions import PAGE, Event, Header
from greenroom.sessions.vocabulary import (
    FOLDED_TYPES,
    AssistantMessage,
    Reason,
    ToolCall,
    Trigger,
    TurnEnd,
    TurnStart,
)
from greenroom_sqlite import SqliteStore

TEXT = "hello world " * 4
TURN = 200
"""Events of a turn: a start, a tool call in ten, pieces of text, an end."""

REFERENCE = 28e-9
"""A bare call on the machine for which the goals were stated; they are scaled to the one at hand."""

encode = msgspec.json.Encoder().encode


def header(name: str) -> Header:
    """A header as a host writes it."""
    return Header(id=name, epoch=f"epoch-{name}", created_at=1_796_000_000_000, cwd="/home/user/project", provider="x")


def log(count: int, start: int = 0) -> list[Event]:
    """Events of a plausible log; payloads are encoded here, not in what is timed."""
    events: list[Event] = []
    for seq in range(start, start + count):
        turn, place = seq // TURN + 1, seq % TURN
        if place == 0:
            kind, data = "turn/start", encode(TurnStart(turn, Trigger("message")))
        elif place == TURN - 1:
            kind, data = "turn/end", encode(TurnEnd(turn, Reason("completed")))
        elif place % 10 == 1:
            call = f"call-{turn}-{place}"
            kind, data = "tool/call", encode(ToolCall(turn, 1, call, "Bash", {"command": "ls"}, ShellDetail("ls")))
        else:
            kind, data = "assistant/message", encode(AssistantMessage(turn, 1, TEXT, f"message-{turn}-{place // 10}"))
        events.append(Event(seq, 1_796_000_000_000 + seq, kind, data))
    return events


def fsync_seconds(folder: Path) -> float:
    """One fdatasync of 4 KiB that were appended to a file: what the disk allows."""
    path = folder / "fsync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    times = []
    for _ in range(200):
        os.write(descriptor, b"x" * 4096)
        begin = time.perf_counter()
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - begin)
    os.close(descriptor)
    return statistics.median(times)


async def write(path: Path, name: str, events: Sequence[Event], *, each: int = 100) -> float:
    """Append, and wait until it is on the disk; seconds."""
    store = SqliteStore(path)
    lease = await store.create(header(name))
    gc.collect()
    begin = time.perf_counter()
    for at in range(0, len(events), each):
        for event in events[at : at + each]:
            lease.append((event,))
        await lease.room()
    await lease.flush("full")
    seconds = time.perf_counter() - begin
    await store.aclose()
    return seconds


async def flush_each(path: Path, barrier: str, count: int) -> float:
    """Seconds per event that is flushed on its own."""
    store = SqliteStore(path, barrier=barrier)
    lease = await store.create(header(barrier))
    events = log(count)
    lease.append(events[:1])
    await lease.flush()
    begin = time.perf_counter()
    for event in events[1:]:
        lease.append((event,))
        await lease.flush()
    seconds = time.perf_counter() - begin
    await store.aclose()
    return seconds / (count - 1)


async def best(work: Callable[[], Awaitable[object]], rounds: int = 5) -> float:
    """The fastest of some rounds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        await work()
        times.append(time.perf_counter() - begin)
    return min(times)


async def reading(bench: Bench, path: Path, count: int) -> None:
    """Verify, replay, resume and pages of one long session."""
    store = SqliteStore(path)
    folded = sorted(FOLDED_TYPES)

    def add(name: str, seconds: float, goal: float, text: str) -> None:
        bench.add(name, seconds, goal=goal * bench.bare / REFERENCE, goal_text=text)

    async def resume() -> int:
        lease = await store.acquire("long")
        found = await store.read_from("long", types=folded, limit=None)
        await lease.release()
        return len(found)

    async def replay() -> None:
        seq = 0
        while page := await store.read_from("long", seq, limit=PAGE):
            seq = page[-1].seq + 1

    label = f"{count:,} events"
    add(f"verify, per event of {label}", await best(lambda: store.verify("long"), 3) / count, 1.5e-6, "1.5 us")
    add(f"replay, per event of {label}", await best(replay, 3) / count, 1.5e-6, "1.5 us")
    found = await resume()
    text = f"10 ms + 10 us x {found:,}"
    add(f"resume of {label}", await best(resume, 3), 0.010 + 10e-6 * found, text)
    for where, seq in (("begin", 10), ("middle", count // 2), ("end", count - 300)):
        page = partial(store.read_from, "long", seq, limit=200)
        add(f"page of 200, {where} of {label}", await best(page, 30), 0.3e-3, "0.3 ms")
    await store.aclose()


async def listing(bench: Bench, path: Path) -> None:
    """1,000 sessions in one file."""
    store = SqliteStore(path, barrier="normal")
    for number in range(1000):
        lease = await store.create(header(f"session-{number}"))
        lease.append(log(3))
        await lease.release()
    bench.add("list 1,000 sessions", await best(store.list, 10), goal=0.020 * bench.bare / REFERENCE, goal_text="20 ms")
    await store.aclose()


async def main(folder: Path, *, quick: bool) -> None:
    """Measure and print."""
    bench = Bench()
    disk = fsync_seconds(folder)
    events = log(200_000)
    seconds = min([await write(folder / f"bulk-{i}.db", "long", events) for i in range(3)])
    scale = bench.bare / REFERENCE
    bench.add("durable event, one append each", seconds / len(events), goal=4e-6 * scale, goal_text="250,000/s")
    normal = await flush_each(folder / "normal.db", "normal", 5_000)
    bench.add("flush each, barrier normal", normal, goal=scale / 6_000, goal_text="6,000/s")
    full = await flush_each(folder / "full.db", "full", 2_000)
    disk = (disk + fsync_seconds(folder)) / 2  # before and after: a shared disk changes its mind
    bench.add("fdatasync of the disk", disk)
    bench.add("flush each, barrier full", full, goal=disk / 0.6, goal_text="60 % of the disk's rate")
    for count in (10_000, 100_000) if quick else (10_000, 100_000, 1_000_000):
        path = folder / f"long-{count}.db"
        events = log(count)
        await write(path, "long", events)
        await reading(bench, path, count)
    await listing(bench, folder / "many.db")
    bench.report()
    mean = sum(len(event.raw) for event in events) / count
    print(f"bytes per event beside its JSON: {path.stat().st_size / count - mean:.1f} (goal 50)")
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest resident set, with the made-up log: {resident:.0f} MB")
    print("Goals are those of a machine with a bare call of 28 ns, scaled to this one.")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=".") as name:
        anyio.run(lambda: main(Path(name), quick="--quick" in sys.argv))
