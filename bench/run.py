"""How long a person waits for the first line of `greenroom run`, and for a whole run that never waits.

uv run python bench/run.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from _bench import Bench, seconds_per_process

ROUNDS = 9
FIRST_LINE = 0.400
"""Seconds from the command to its first line."""


def first_line(command: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path) -> float:
    """Start a command and time its first byte on stdout or stderr; the rest is read and thrown away."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    os.read(process.stdout.fileno(), 1)
    took = time.perf_counter() - start
    rest = process.stdout.read()
    if process.wait():
        raise SystemExit(rest.decode())
    return took


def main() -> None:
    """Measure and print."""
    greenroom = Path(sys.executable).with_name("greenroom")
    full = ["--set", "plugins.replay.speed=full"]
    runs: dict[str, list[str | Path]] = {
        "run -p replay": [greenroom, *full, "run", "-p", "replay", "show me"],
        "run, looking for an account": [greenroom, *full, "run", "show me"],
    }
    bench = Bench()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GREENROOM_", "PYTHONDONTWRITE"))}
        env |= {"GREENROOM_HOME": str(folder / "data"), "GREENROOM_CONFIG_DIR": str(folder / "config")}
        env |= {"HOME": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        commands: dict[str, list[str | Path]] = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import pydantic": [sys.executable, "-c", "from pydantic import BaseModel"],
            "greenroom --version": [greenroom, "--version"],
            "greenroom run -p replay, the whole run": runs["run -p replay"],
            "greenroom log last": [greenroom, "log", "last"],
        }
        whole = seconds_per_process(commands, env=env, cwd=folder, rounds=ROUNDS)
        for title, seconds in whole.items():
            bench.add(title, seconds)
        for title, command in runs.items():
            first_line(command, env=env, cwd=folder)
            times = [first_line(command, env=env, cwd=folder) for _ in range(ROUNDS)]
            bench.add(f"greenroom {title}: first line", statistics.median(times), goal=FIRST_LINE)
    bench.report()


if __name__ == "__main__":
    main()
