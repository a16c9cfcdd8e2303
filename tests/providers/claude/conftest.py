"""Helpers of these tests as fixtures: they live beside the tests and are no package."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
PATIENCE = 5.0
"""Seconds for what was told to end to be gone from the process table."""


def started_below(folder: Path) -> dict[int, str]:
    """Processes whose environment points into `folder`: agents of the test and whatever they started."""
    needle, found = f"={folder}/".encode(), {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and int(entry.name) != os.getpid() and needle in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80]
    return found


@pytest.fixture(autouse=True)
def nothing_is_left_running(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test, also a failed one, no agent and no tool of it is alive."""
    if "tmp_path" not in request.fixturenames:
        yield
        return
    folder = request.getfixturevalue("tmp_path")
    yield
    deadline = time.monotonic() + PATIENCE
    while (left := started_below(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"still alive after the test: {left}"
