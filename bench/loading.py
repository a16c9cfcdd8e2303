"""Loading and unloading one small plugin a thousand times: what stays behind.

uv run python bench/loading.py
"""

from __future__ import annotations

import gc
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

import anyio
from _bench import Bench

from greenroom import Host

ROUNDS = 1_000
SETTLED = 200
"""Rounds before the memory is looked at: allocators and caches fill up first."""

SOURCE = """
from greenroom import hookimpl
from pydantic import BaseModel


class Settings(BaseModel):
    level: int = 1


@hookimpl
def plugin_settings():
    return Settings


@hookimpl
async def activate(scope):
    scope.undo(lambda: None)
    scope.spawn(work)


async def work():
    import anyio
    await anyio.sleep_forever()
"""


def resident() -> int:
    """Return the resident memory of this process in bytes (Linux), or the peak elsewhere."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def counts(host: Host) -> dict[str, int]:
    """Count what a plugin could leave behind."""
    return {
        "tasks": len(anyio.get_running_tasks()),
        "threads": threading.active_count(),
        "modules": len(sys.modules),
        "hooks": sum(len(caller.impls) for caller in host.hooks),
        "effects": host.effects().count(),
    }


async def main() -> None:
    """Load and unload, then print what grew."""
    bench = Bench()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.py"
        path.write_text(SOURCE)
        async with Host(discovery=False) as host:
            for round_ in range(ROUNDS):
                if round_ == SETTLED:
                    gc.collect()
                    before, memory = counts(host), resident()
                started = time.perf_counter()
                record = await host.load(path)
                if record.state != "active":
                    sys.exit(f"the plugin did not load: {record.error}")
                await host.unload(record.id)
                seconds = time.perf_counter() - started
            gc.collect()
            grown = resident() - memory
            after = counts(host)
    bench.add("load + unload of a small plugin, the last round", seconds)
    bench.report()
    for name, count in before.items():
        print(f"{name:8} {count:5} -> {after[name]:5}  {'ok' if count == after[name] else 'GREW'}")
    verdict = "ok" if grown <= 2e6 else "over"
    print(f"resident memory of the last {ROUNDS - SETTLED} rounds: {grown / 1e6:+.2f} MB (goal 2 MB, {verdict})")


if __name__ == "__main__":
    anyio.run(main)
