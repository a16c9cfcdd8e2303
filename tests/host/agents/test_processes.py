"""Ending what a dead owner has left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from greenroom.agents import _processes, end_processes, process_started
from greenroom.sessions import DeadOwner, ProcessNotEnded, ProviderProcess

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="found through /proc"),
]

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture
def start(monkeypatch):
    """Start a process that sleeps; all of them are ended afterwards."""
    monkeypatch.setattr(_processes, "TERM_WAIT", 0.2)
    started = []

    def begin(code: str, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        assert process.stdout.readline() == b"ready\n"
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def row(process: subprocess.Popen, *, started: float | None = None) -> ProviderProcess:
    when = process_started(process.pid) if started is None else started
    return ProviderProcess(process.pid, when, process.pid)


async def test_a_process_that_ignores_the_polite_signal_is_killed(start):
    process = start(STUBBORN)
    await end_processes(DeadOwner("s", 1, "s:1", row(process)))
    assert process_started(process.pid) is None  # a zombie until its parent asks, which counts as ended


async def test_what_carries_the_marker_is_ended_also_without_a_row(start):
    marked, other = start(PLAIN, GREENROOM_AGENT_ID="s:1"), start(PLAIN, GREENROOM_AGENT_ID="s:2")
    await end_processes(DeadOwner("s", 1, "s:1", None))
    assert process_started(marked.pid) is None
    assert process_started(other.pid) is not None


@pytest.mark.behaviour("X-008")
async def test_an_id_that_was_used_again_is_left_alone(start):
    stranger = start(PLAIN)
    await end_processes(DeadOwner("s", 1, "s:1", row(stranger, started=1.0)))
    assert stranger.poll() is None
    assert process_started(stranger.pid) is not None


async def test_what_cannot_be_ended_is_named(start, monkeypatch):
    process = start(PLAIN)
    monkeypatch.setattr(_processes, "KILL_WAIT", 0.05)
    monkeypatch.setattr(os, "kill", lambda _pid, _signal: None)
    with pytest.raises(ProcessNotEnded, match=str(process.pid)):
        await end_processes(DeadOwner("s", 1, "s:1", row(process)))
    monkeypatch.undo()


async def test_nothing_left_is_nothing_to_do():
    with anyio.fail_after(5):
        await end_processes(DeadOwner("s", 1, "s:1", None))


def test_a_process_that_is_gone_has_no_start():
    assert process_started(2**22 - 1) is None
