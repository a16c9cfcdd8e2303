"""A throw-away home for the real binary, driven against the loopback model through our own process shell."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from stub_anthropic import Stub

from greenroom import providers as p
from greenroom_claude import Translator
from greenroom_claude._arguments import Options, arguments
from greenroom_claude._binary import find_binary
from greenroom_claude._environment import launch_environment
from greenroom_claude._process import AgentProcess, Launch, spawn

PATH = "/usr/local/bin:/usr/bin:/bin"


def real_binary() -> str:
    """The binary in the wheel of the test group; a missing one is an error, not a skip."""
    return find_binary(None, {"PATH": "/nonexistent"}).path


class Box:
    """Home, configuration, workspace and temporary folder of one test, and the environment that points there."""

    def __init__(self, root: Path, stub: Stub) -> None:
        self.home, self.config, self.cwd, self.tmp = (root / name for name in ("home", "config", "ws", "tmp"))
        for folder in (self.home, self.config, self.cwd, self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
        self.marker = {"GREENROOM_AGENT_ID": f"test-{uuid.uuid4()}:1"}
        self.given = {
            "PATH": PATH,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "TMPDIR": str(self.tmp),
            "CLAUDE_CONFIG_DIR": str(self.config),
            "ANTHROPIC_BASE_URL": stub.url,
            "ANTHROPIC_API_KEY": "sk-ant-dummy-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        }

    def env(self, **more: str) -> dict[str, str]:
        """The environment of the agent, made by our own allow-list."""
        return launch_environment({**self.given, **more}, marker=self.marker)

    def launch(self, options: Options | None = None, *, env: Mapping[str, str] | None = None) -> Launch:
        """How the agent is started here."""
        argv = [real_binary(), *arguments(options or Options())]
        return Launch(argv=argv, cwd=self.cwd, env=env or self.env(), marker=self.marker)


class Driver:
    """One agent, its translator, and everything it said."""

    def __init__(self, process: AgentProcess) -> None:
        self.process = process
        self.translator = Translator()
        self.frames: list[dict[str, Any]] = []
        self.events: list[p.ProviderEvent] = []
        self.news = anyio.Event()

    async def on_frame(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        self._add(self.translator.feed(frame))

    def _add(self, events: list[p.ProviderEvent]) -> None:
        self.events += events
        news, self.news = self.news, anyio.Event()
        news.set()

    async def write(self, frame: dict[str, Any]) -> None:
        self._add(self.translator.sent(frame))
        await self.process.write(frame)

    async def prompt(self, text: str | list[Any]) -> str:
        ident = str(uuid.uuid4())
        message = {"role": "user", "content": text}
        frame = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": ident}
        await self.write(frame)
        return ident

    async def until(self, wanted: Callable[[p.ProviderEvent], bool], *, after: int = 0, timeout: float = 30) -> Any:
        """The first event behind the first `after` ones that is wanted."""
        with anyio.fail_after(timeout):
            while True:
                news = self.news
                for event in self.events[after:]:
                    if wanted(event):
                        return event
                await news.wait()

    async def turn(self, text: str | list[Any]) -> Any:
        """Prompt, and the terminal event of that prompt."""
        ident = await self.prompt(text)
        return await self.until(lambda e: isinstance(e, p.TERMINAL) and e.turn_id == ident)


@asynccontextmanager
async def driven(launch: Launch) -> AsyncIterator[Driver]:
    """A running, initialised agent; stopped with everything it started at the end."""
    process = await spawn(launch)
    driver = Driver(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, driver.on_frame)
        try:
            await process.control("initialize", timeout=30, hooks=None)
            yield driver
        finally:
            stopped = await process.stop()
            assert stopped.left == ()
    assert alive(launch.marker) == []


def alive(marker: Mapping[str, str]) -> list[int]:
    """Processes that carry the marker."""
    needles = [f"{name}={value}".encode() for name, value in marker.items()]
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            env = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and all(needle in env for needle in needles):
            found.append(int(entry.name))
    return found


async def eventually(look: Callable[[], Any], *, timeout: float = 20) -> Any:
    """The first answer of `look` that is true: for what no event tells, like the process table."""
    with anyio.fail_after(timeout):
        while not (found := look()):  # noqa: ASYNC110 - see above
            await anyio.sleep(0.05)
        return found
