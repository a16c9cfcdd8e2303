"""What greenroom adds to the real Claude Code: the same prompts on the bare binary and through host and driver.

    uv run python bench/claude.py [TURNS]

Both sides talk to the same scripted model on loopback and take turns in the same run; medians are compared. `host`
drives an agent with the SQLite store; `bare` writes frames to the process and reads its lines, without the host.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import anyio
from _bench import Bench, Row

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/providers/claude"))

from claude_box import Box  # noqa: E402 - the tests own the box and the scripted model
from claude_rig import Rig, hosted  # noqa: E402
from stub_anthropic import Stub, text, turn  # noqa: E402

from greenroom_claude._process import AgentProcess, spawn  # noqa: E402
from greenroom_claude._wire import object_at  # noqa: E402

ANSWER = "Some words of an answer that is streamed. " * 3
LONG = "A long answer. " * 50


class Bare:
    """The process alone, read frame by frame."""

    def __init__(self, process: AgentProcess) -> None:
        self.process = process
        self.frames: list[dict] = []
        self.news = anyio.Event()

    async def on_frame(self, frame: dict) -> None:
        """Keep a frame."""
        self.frames.append(frame)
        self.news.set()

    async def until(self, wanted: Callable[[dict], bool], start: int) -> None:
        """Wait for a frame behind the first `start` ones."""
        while not any(map(wanted, self.frames[start:])):
            start, self.news = len(self.frames), anyio.Event()
            await self.news.wait()

    async def prompt(self) -> tuple[float, float]:
        """Seconds to the first text and to the result of a turn."""
        start, begun = len(self.frames), time.perf_counter()
        await self.write()
        await self.until(lambda f: object_at(object_at(f, "event"), "delta").get("type") == "text_delta", start)
        first = time.perf_counter() - begun
        await self.until(lambda f: f["type"] == "result", start)
        return first, time.perf_counter() - begun

    async def interrupt(self) -> float:
        """Seconds from an interrupt to the result."""
        start = len(self.frames)
        await self.write()
        await self.until(lambda f: object_at(object_at(f, "event"), "delta").get("type") == "text_delta", start)
        begun = time.perf_counter()
        await self.process.control("interrupt")
        await self.until(lambda f: f["type"] == "result", start)
        return time.perf_counter() - begun

    async def write(self) -> None:
        """Write a prompt."""
        message = {"role": "user", "content": "Hi"}
        frame = {"type": "user", "message": message, "parent_tool_use_id": None, "uuid": str(uuid.uuid4())}
        await self.process.write(frame)


class Hosted:
    """The same through an agent of the host."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    async def prompt(self) -> tuple[float, float]:
        """Seconds to the first text in the log and to the durable end of a turn."""
        begun, first = time.perf_counter(), 0.0
        async for event in self.rig.agent.stream("Hi"):
            if event.type == "assistant/message" and not first:
                first = time.perf_counter() - begun
        whole = time.perf_counter() - begun
        await self.rig.agent.when_idle()
        return first, whole

    async def interrupt(self) -> float:
        """Seconds from a cancel to its outcome."""
        seen = len(self.rig.of("assistant/message"))
        self.rig.agent.followup("Hi")
        await self.rig.until(lambda: len(self.rig.of("assistant/message")) > seen)
        begun = time.perf_counter()
        await self.rig.agent.cancel()
        took = time.perf_counter() - begun
        await self.rig.agent.when_idle()
        return took


async def main(count: int) -> None:
    """Measure and print."""
    bench = Bench()
    scenario = [turn(text(ANSWER), chunk=20) for _ in range(2 * count + 2)]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with Stub(scenario, fallback=lambda _: turn(text(LONG), hang=3)) as stub:
            box = Box(root / "bare", stub)
            process = await spawn(box.launch())
            async with anyio.create_task_group() as tasks:
                bare = Bare(process)
                tasks.start_soon(process.run, bare.on_frame)
                await process.control("initialize", hooks=None)
                other = Box(root / "hosted", stub)
                running = type(
                    "Running", (), {"__enter__": lambda s: s, "__exit__": lambda *_: None, "url": stub.url}
                )()
                async with hosted(other, stub=running, data=root / "data") as rig:
                    await rig.create()
                    await measure(bench, count, bare, Hosted(rig))
                await process.stop()
    bench.report()


async def measure(bench: Bench, count: int, bare: Bare, host: Hosted) -> None:
    """Take turns, so that both sides meet the same machine."""
    await bare.prompt()
    await host.prompt()
    pairs = [(await bare.prompt(), await host.prompt()) for _ in range(count)]
    stops = [(await bare.interrupt(), await host.interrupt()) for _ in range(count)]
    figures = {
        "first text": ([b[0] for b, _ in pairs], [h[0] for _, h in pairs], 0.015),
        "turn": ([b[1] for b, _ in pairs], [h[1] for _, h in pairs], 0.010),
        "interrupt": ([b for b, _ in stops], [h for _, h in stops], 0.010),
    }
    for name, (plain, ours, goal) in figures.items():
        low, high = statistics.median(plain), statistics.median(ours)
        bench.rows.append(Row(f"claude.{name}, bare", low))
        bench.rows.append(Row(f"claude.{name}, added", max(0.0, high - low), goal, f"<= {goal * 1000:g} ms"))


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 15)
