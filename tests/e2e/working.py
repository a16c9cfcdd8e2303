"""A provider with a real process behind it, and a host that runs it until somebody kills the host.

python -m tests.e2e.working DATA SESSION    (as a script: the host that is killed)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio

import greenroom_driver
import greenroom_sqlite
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentSpec, process_started
from greenroom.providers import (
    Availability,
    Capability,
    Handle,
    Interrupted,
    OwnedProcess,
    Provider,
    ProviderError,
    ProviderSession,
    ProviderSpec,
    SessionStarted,
    TextDelta,
    TurnCompleted,
)

CHILD = """
import os, subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(sys.argv[1], "a") as pids:
    pids.write(f"{os.getpid()} {grandchild.pid} ")
print("ready", flush=True)
time.sleep(600)
"""


class WorkingSession(ProviderSession):
    """A turn says `tick` until the session is closed; one that begins with "go on" completes at once."""

    def __init__(self, provider, link, child):
        self.provider, self.link, self.child = provider, link, child
        self.turns = 0

    @property
    def handle(self):
        return Handle(native_id="native")

    async def start_turn(self, request):
        self.turns += 1
        turn = f"{os.getpid()}-{self.turns}"
        self.link.emit(SessionStarted(native_id="native"))
        if request.messages[-1].content[0].text.startswith("go on"):
            self.link.emit(TextDelta(text="went on", turn_id=turn))
            self.link.emit(TurnCompleted(turn_id=turn))
        else:
            self.link.spawn(lambda: self._tick(turn), name="ticking")
        return turn

    async def _tick(self, turn):
        while True:
            self.link.emit(TextDelta(text="tick ", turn_id=turn))
            await anyio.sleep(0.003)

    async def interrupt(self):
        return Interrupted()

    async def respond(self, request_id, response):
        raise ProviderError("no question is open")

    async def aclose(self):
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()
            self.child.stdout.close()


class WorkingProvider(Provider):
    """`seen` holds, for each opening, which of the processes that were noted in `pids` were alive then."""

    def __init__(self, pids: Path) -> None:
        self.pids = pids
        self.seen: list[list[int]] = []

    async def availability(self):
        return Availability(ok=True)

    async def open(self, request, link):
        noted = self.pids.read_text().split() if self.pids.exists() else []
        self.seen.append([int(pid) for pid in noted if process_started(int(pid)) is not None])
        child = subprocess.Popen(  # noqa: ASYNC220  # it must live on when this process is killed
            [sys.executable, "-c", CHILD, str(self.pids)],
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **link.env},
        )
        await link.owns(OwnedProcess(pid=child.pid, group=child.pid))
        await anyio.to_thread.run_sync(child.stdout.readline)
        return WorkingSession(self, link, child)

    @hookimpl
    def providers(self):
        return [
            ProviderSpec(
                id="working",
                label="Working",
                steps="provider",
                load=lambda: self,
                capabilities=frozenset({Capability.RESUME}),
            )
        ]


def make_host(data: Path, provider: WorkingProvider) -> Host:
    plugins = {"driver": greenroom_driver, "sqlite": greenroom_sqlite, "working": provider}
    return Host(load_settings(), data_directory=data, discovery=False, plugins=plugins)


async def work(data: Path, session_id: str) -> None:
    """Begin a turn, say so, and go on for ever."""
    async with make_host(data, WorkingProvider(data.parent / "pids")) as host:
        handle = await host.agents.create(AgentSpec(id=session_id), owner=host.scope)
        handle.agent.followup("work")
        while not any(e.type == "assistant/message" for e in handle.agent.session.tail):  # noqa: ASYNC110  # killed soon
            await anyio.sleep(0.002)
        sys.stdout.write(json.dumps({"running": os.getpid()}) + "\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(work, Path(sys.argv[1]), sys.argv[2])
