"""How a benchmark measures and prints: each figure beside the cost of a bare Python call.

Machines differ and are shared, so a figure alone says little: what counts is its ratio to
a bare call, or to another command, measured in the same run. Nothing here asserts; goals
are for reading, tests never depend on a clock.

    bench = Bench()
    bench.measure("hooks.x.wanted", lambda: hooks.x.wanted, calls=3)
    bench.report()
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 7
ROUND_SECONDS = 0.05
PROCESS_ROUNDS = 15


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        seconds: what one call, or one process, took.
        goal: the largest value that is fine, in seconds, or None for a figure without a goal.
        goal_text: the goal as it was stated.
    """

    name: str
    seconds: float
    goal: float | None = None
    goal_text: str = "-"

    @property
    def verdict(self) -> str:
        """Say whether the goal is met."""
        return "-" if self.goal is None else "ok" if self.seconds <= self.goal else "over"


def bare() -> None:
    """Do nothing: the yardstick."""


def seconds_per_call(call: Callable[[], object]) -> float:
    """Time a call: the fastest of some rounds, as noise only ever adds.

    The empty loop is part of the figure, for the bare call as for every other.
    """
    count = 1
    while _loop(call, count) < ROUND_SECONDS / 10:
        count *= 4
    count = max(1, int(count * ROUND_SECONDS / max(_loop(call, count), 1e-9)))
    collecting = gc.isenabled()
    gc.disable()
    try:
        return min(_loop(call, count) for _ in range(ROUNDS)) / count
    finally:
        if collecting:
            gc.enable()


def _loop(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def seconds_per_process(
    commands: Mapping[str, Sequence[str | Path]], *, env: Mapping[str, str], cwd: Path, rounds: int = PROCESS_ROUNDS
) -> dict[str, float]:
    """Time whole processes, the median of each; in turn, so that a slow moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for name, command in commands.items():  # warms the caches, and says why a command does not run
        done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: exit status {done.returncode}\n{done.stderr}")
    for _ in range(rounds):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, env=env, cwd=cwd, capture_output=True, check=True)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


class Bench:
    """The rows of one run."""

    def __init__(self) -> None:
        self.bare = seconds_per_call(bare)
        self.rows = [Row("bare call", self.bare)]

    def measure(self, name: str, call: Callable[[], object], *, calls: float | None = None) -> float:
        """Time a call and return its seconds.

        Args:
            name: the first column.
            call: what to time, without arguments.
            calls: the goal, in bare calls.
        """
        seconds = seconds_per_call(call)
        if calls is None:
            self.add(name, seconds)
        else:
            self.add(name, seconds, goal=calls * self.bare, goal_text=f"{calls:g} bare calls")
        return seconds

    def add(self, name: str, seconds: float, *, goal: float | None = None, goal_text: str | None = None) -> None:
        """Add a figure that was measured elsewhere; `goal` in seconds."""
        text = goal_text or ("-" if goal is None else human(goal))
        self.rows.append(Row(name, seconds, goal, text))

    def report(self) -> None:
        """Print the rows."""
        table = [("name", "figure", "x bare call", "goal", "")]
        for row in self.rows:
            times = f"{row.seconds / self.bare:,.1f}"
            table.append((row.name, human(row.seconds), times, row.goal_text, row.verdict))
        widths = [max(len(line[i]) for line in table) for i in range(5)]
        for line in table:
            name, figure, times, goal, verdict = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            print(f"{name}  {figure}  {times}  {goal}  {verdict}".rstrip())


def human(seconds: float) -> str:
    """Write a duration with a unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.1f} ns"
