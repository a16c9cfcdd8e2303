"""Real processes, quickly: one imports everything and forks a host or a client for each line that it is told.

python -m tests.plugins.control.procs
"""

# ruff: noqa: ASYNC230, ASYNC240, T201 - a script whose answers are lines, and whose small files block nobody
from __future__ import annotations

import gc
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import msgspec

import greenroom_driver
import greenroom_sqlite
import greenroom_timeline
import greenroom_timeline._plugin
from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentSpec, HostClient
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest, PermissionRequested
from greenroom.sessions import SessionNotFound
from greenroom.timeline import Lagged, Patched, Recast, RowAdded, Snapshot
from greenroom_control import ControlPlugin, Remote
from greenroom_control._address import serving_path
from greenroom_manager import plugin as manager_plugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider
from greenroom_timeline import Timeline
from greenroom_timeline._sizes import Sizes

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 30.0
SMALL = Sizes(keep=6, keep_bytes=1 << 20, inbox=9, enough=4, chunk=5, large_chunk=11, entries=5)


def _load_lines():
    if "timeline_lines" not in sys.modules:
        spec = importlib.util.spec_from_file_location("timeline_lines", ROOT / "tests/plugins/timeline/lines.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["timeline_lines"] = module
        spec.loader.exec_module(module)
    return sys.modules["timeline_lines"]


lines = _load_lines()

read_update = msgspec.json.Decoder(Snapshot | RowAdded | Patched | Recast | Lagged).decode


def update_of(fields):
    """An update of the wire as the timeline's own value."""
    return read_update(msgspec.json.encode(fields))


# --- what the forked processes do


def _host(data, **more):
    plugins = {
        "driver": greenroom_driver,
        "sqlite": greenroom_sqlite,
        "timeline": greenroom_timeline.TimelinePlugin(),
        "control": ControlPlugin(),
        **more,
    }
    return Host(load_settings(), data_directory=Path(data), discovery=False, plugins=plugins)


async def write(data, seed, steps):
    """Serve, and write a random session in random portions; `steps` None: for ever."""
    greenroom_timeline._plugin.Timeline = lambda host: Timeline(host, sizes=SMALL)
    choose = random.Random(seed)
    async with _host(data) as host:
        try:
            entered = host.sessions.enter(await host.sessions.prepare_resume("s"))
            entered.announce()
        except SessionNotFound:
            entered = await host.sessions.create(host.sessions.new_header("s"))
        writer = lines.Writer(seed, lines.Log(entered.session))
        writer.write(5)
        await entered.session.flush()  # so that a kill leaves a session to resume
        await host.service(HostClient).serve()
        done = 0
        while steps is None or done < steps:
            done += 1
            writer.write(choose.choice([1, 2, 3, 5, 25]))
            if choose.random() < 0.1:
                writer.recast()
            if choose.random() < 0.2:
                await entered.session.flush()
            await anyio.sleep(choose.random() * 0.004)
        await entered.session.flush()
        (Path(data) / "done").touch()
        await anyio.sleep_forever()


async def talk(data):
    """Serve an agent whose turns say a number of pieces, and ask a question in the middle."""
    provider = ScriptedProvider()

    async def starting(session, _request):
        turn = session.turn

        async def say():
            for number in range(150):
                session.say(f"{number} ", turn=turn, message_id=f"m-{number}")
                await anyio.sleep(0.004)
                if number == 70:
                    question = PermissionRequest(id=f"q-{turn}", name="Edit", title="Edit words.py")
                    session.emit(PermissionRequested(request=question, turn_id=turn))
            session.end(turn=turn)

        session.link.spawn(say, name="talk")
        return turn

    provider.starting = starting
    async with _host(data, scripted=ScriptedPlugin(provider), manager=manager_plugin) as host:
        await host.service(HostClient).serve()
        spec = AgentSpec(id="s", cwd=Path(data), options=AgentOptions(provider="scripted"))
        await host.agents.create(spec, owner=host.scope)
        await anyio.sleep_forever()


async def follow(data, file):
    """Follow session `s` and write down each update before the next; goes on where an earlier process was killed."""
    path = Path(file)
    told, client = replay(path)
    with path.open("r+b") if path.exists() else path.open("wb") as out:
        out.seek(told)
        out.truncate()
        while True:
            with suppress(GreenroomError):  # gone, or the session is not there yet
                async with Remote(serving_path(Path(data))) as remote:
                    cursor = msgspec.to_builtins(client.cursor)
                    async with remote.follow("subscribe", agent="s", cursor=cursor) as updates:
                        async for fields in updates:
                            client.take(update_of(fields))
                            out.write(msgspec.json.encode(fields) + b"\n")
                            out.flush()
            await anyio.sleep(0.01)


def replay(path):
    """How much of a follower's file is whole, and the client that it makes."""
    client = lines.Client()
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    for line in data[:whole].splitlines():
        client.take(read_update(line))
    return whole, client


ROLES = {"write": write, "talk": talk, "follow": follow}


def _forker():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    made = []
    anyio.run(anyio.sleep, 0)  # imports what the event loop needs
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        role, *words = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)
            os.dup2(nowhere, 1)
            try:
                anyio.run(ROLES[role], *words)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        made.append(pid)
        print(pid, flush=True)
    for pid in made:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# --- the side of the test


class Processes:
    """Starts and kills them."""

    def __init__(self, process):
        self._process = process

    def start(self, role, *words):
        """Fork one; its pid."""
        self._process.stdin.write(json.dumps([role, *words]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    @staticmethod
    def kill(pid):
        """Kill -9, and wait until it is gone."""
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.001)
        raise AssertionError(f"process {pid} does not end")


@contextmanager
def processes():
    """The process that forks the others; they end with it."""
    command = [sys.executable, "-m", "tests.plugins.control.procs"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        yield Processes(process)
        process.stdin.close()


if __name__ == "__main__":
    _forker()
