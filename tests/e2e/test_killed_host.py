"""A host that is killed in the middle of a turn leaves nothing that works, and its session goes on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from greenroom.agents import process_started

from .working import WorkingProvider, make_host

SCRIPT = Path(__file__).with_name("working.py")


@pytest.fixture
def folder(tmp_path):
    """A place for the data and the pids; what is left of the processes is ended afterwards."""
    yield tmp_path
    for pid in (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def killed(folder: Path, session: str, delay: float) -> None:
    """Run a host that works, and kill it `delay` seconds after its turn has begun."""
    host = subprocess.Popen([sys.executable, SCRIPT, folder / "data", session], stdout=subprocess.PIPE)
    try:
        assert b"running" in host.stdout.readline()
        time.sleep(delay)
    finally:
        host.kill()
        host.wait()
        host.stdout.close()


async def go_on(folder: Path, session: str):
    """Resume the session, run a turn, and return what there is to know."""
    provider = WorkingProvider(folder / "pids")
    async with make_host(folder / "data", provider) as host:
        with anyio.fail_after(30):
            handle = await host.agents.resume(session, owner=host.scope)
            first = (handle.agent.status, handle.agent.session.state.open_turn)
            result = await handle.agent.run("go on")
            events = await handle.agent.session.events()
            await handle.dispose()
    return provider, first, result, events


@pytest.mark.behaviour("X-008")
@pytest.mark.timeout(600)
def test_its_processes_are_gone_before_anything_else_and_the_session_goes_on(folder, soak_count):
    chance = random.Random(27)
    for number in range(soak_count(100)):
        session = f"s{number}"
        killed(folder, session, chance.uniform(0, 0.25))
        left = [int(pid) for pid in (folder / "pids").read_text().split()]
        assert len(left) == 2
        assert [pid for pid in left if process_started(pid) is not None] == left  # they work on without their host
        provider, first, result, events = anyio.run(go_on, folder, session)
        assert provider.seen == [[]], "something of the dead host was alive when the conversation was opened"
        assert first == ("idle", None)
        assert result.reason.kind == "completed"
        assert result.text == "went on"
        prompts = [event.data.message.content[0].text for event in events if event.type == "user/message"]
        assert prompts == ["work", "go on"]
        assert [event.data.reason.kind for event in events if event.type == "turn/end"] == ["interrupted", "completed"]
        assert [event.seq for event in events] == list(range(len(events)))
        (folder / "pids").unlink()


@pytest.mark.timeout(120)
def test_also_what_lost_its_parent_and_its_group_is_found_by_its_marker(folder):
    killed(folder, "s", 0.05)
    child, grandchild = map(int, (folder / "pids").read_text().split())
    os.kill(child, signal.SIGKILL)  # the recorded process is gone, its child in a session of its own is not
    deadline = time.monotonic() + 5
    while process_started(child) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process_started(grandchild) is not None
    provider, _first, result, _events = anyio.run(go_on, folder, "s")
    assert provider.seen == [[]]
    assert result.reason.kind == "completed"
