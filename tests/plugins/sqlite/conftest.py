"""Stores on a file of the test's own."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from greenroom_sqlite import SqliteStore


@pytest.fixture
def kill_store():
    """Give what ends a store as a killed process does: nothing is flushed, nothing released, its lock is free."""

    async def kill(store: SqliteStore) -> None:
        for lease in store._leases.values():
            lease.channel.backlog.take()
            lease.channel.backlog.written()
            lease._over = True
        store._leases.clear()
        await store._writer.stop()
        store._file.close()
        store._liveness.let_go()

    return kill


@pytest.fixture
def path(tmp_path):
    return tmp_path / "greenroom.db"


class Running:
    """A job in another process."""

    def __init__(self, pid, out, into) -> None:
        self.pid = pid
        self._lines = os.fdopen(out, "r")
        self._into = into

    def heard(self) -> list[str]:
        """Wait for the next thing that it says; [] when it has ended."""
        return self._lines.readline().split(maxsplit=1)

    def tell(self, word: str) -> None:
        os.write(self._into, f"{word}\n".encode())

    def kill(self) -> list[list[str]]:
        """Kill it; what it had said before."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return [line.split(maxsplit=1) for line in self._lines.read().splitlines()]

    def close(self) -> None:
        self.kill()
        self._lines.close()
        os.close(self._into)


@pytest.fixture(scope="session")
def zygote():
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("jobs.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.stdin.close()


@pytest.fixture
def start(zygote, path, tmp_path):
    """Give what starts a job in a process of its own; all of them are killed at the end."""
    running = []

    def start(job: str, **arguments) -> Running:
        pipes = {end: str(tmp_path / f"{end}-{len(running)}") for end in ("in", "out")}
        for pipe in pipes.values():
            os.mkfifo(pipe)
        zygote.stdin.write(json.dumps({"job": job, "path": str(path), **pipes, **arguments}) + "\n")
        zygote.stdin.flush()
        pid = int(zygote.stdout.readline())
        out = os.open(pipes["out"], os.O_RDONLY)
        into = os.open(pipes["in"], os.O_WRONLY)
        running.append(Running(pid, out, into))
        return running[-1]

    yield start
    for job in running:
        job.close()


_OVERRIDES = 0b1110
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER (linux/capability.h): what lets root ignore permissions."""


def _obey_permissions(*, obey: bool) -> None:
    """Whether this thread, and those that it starts, is refused what anybody would be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the low words first
    assert libc.capget(header, sets) == 0
    sets[0] = sets[0] & ~_OVERRIDES if obey else sets[0] | (sets[1] & _OVERRIDES)
    assert libc.capset(header, sets) == 0


@pytest.fixture
def read_only():
    """Give what makes a folder with everything in it read-only for a while, also for root."""

    @contextmanager
    def frozen(folder: Path, *, files: int = 0o400) -> Iterator[None]:
        modes = {each: each.stat().st_mode for each in [*folder.rglob("*"), folder]}
        for each in modes:
            each.chmod(0o500 if each.is_dir() else files)
        yield
        for each, mode in reversed(modes.items()):
            each.chmod(mode)

    _obey_permissions(obey=True)  # before the test has threads
    yield frozen
    _obey_permissions(obey=False)
