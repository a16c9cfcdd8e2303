"""The process shell: moves bytes and frames, pairs control requests with their answers, and ends what it started.

Nothing here knows what a frame means, except that a `control_response` with one of our ids is an answer.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import anyio.abc
import msgspec
import psutil

from greenroom.errors import GreenroomError
from greenroom.providers import JsonObject, ProviderError, decode_wire, storable

from . import _descendants
from ._environment import redact
from ._lines import LineBuffer
from ._wire import Frame, object_at, text_at

STDERR_KEPT = 4_000
"""Characters of stderr that are kept: enough for the last error, too little for a log."""
STDERR_WAIT = 0.15
"""Seconds that stderr may trail the exit."""
DRAIN = 2.0
"""Seconds in which stdout must end after the exit; a tool may hold the pipe open."""
CHUNK = 256 * 1024

_Streams = tuple[anyio.abc.ByteSendStream, anyio.abc.ByteReceiveStream, anyio.abc.ByteReceiveStream]
OnFrame = Callable[[Frame], Awaitable[None]]


class ProcessExited(ProviderError):
    """Raised when the agent's process is gone, or its pipe is."""


class ControlRefused(ProviderError):
    """Raised when the agent answers a control request with an error; `code` is its own word for it, or None."""

    def __init__(self, message: str, *, code: str | None) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a process is started. `marker` is the part of `env` by which what it starts is found again."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    marker: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Seconds that each rung of a stop may take: interrupt, closed stdin, TERM, KILL; and for what it left behind."""

    interrupt: float = 2.0
    eof: float = 3.0
    term: float = 5.0
    kill: float = 5.0
    left: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """How a stop went: the rung that ended the process, and the ids of processes that could not be ended."""

    rung: Literal["exited", "eof", "term", "kill", "none"]
    left: tuple[int, ...] = ()


@dataclass(slots=True)
class _Pending:
    event: anyio.Event
    response: JsonObject | None = None


class AgentProcess:
    """A running agent. Make one with `spawn`, and let a task of its owner run `run` until it ends."""

    def __init__(self, launch: Launch, process: anyio.abc.Process, streams: _Streams) -> None:
        self._launch = launch
        self._process = process
        self._stdin, self._stdout, self._stderr_stream = streams
        self._pending: dict[str, _Pending] = {}
        self._requests = 0
        self._writing = anyio.Lock()
        self._stderr = ""
        self._stderr_done = anyio.Event()
        self._reading = self._ended = False
        self.oversized = 0  # lines that were longer than the limit
        self.exited = anyio.Event()

    @property
    def pid(self) -> int:
        """The id of the process, which is also its group and its session."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status (negative: the signal), or None while it runs."""
        return self._process.returncode

    @property
    def stderr_tail(self) -> str:
        """The last of what it wrote to stderr, without the secrets of its environment."""
        return redact(self._stderr, self._launch.env)

    def obituary(self) -> str:
        """One sentence about the exit."""
        status = self.exit_status
        if status is None:
            return "the agent's process closed its output"
        if status < 0:
            return f"the agent's process was ended by {_signal_name(-status)}"
        return f"the agent's process exited with status {status}"

    async def run(self, on_frame: OnFrame) -> None:
        """Read until the process has ended; each frame is handed to `on_frame` before the next is read.

        Answers to our own control requests are resolved before their frame is handed over. A line that is no JSON
        object is handed over as `{"type": "not_json", "text": …}`. Cancelled: the process goes on, unread; `stop` it.
        """
        self._reading = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_stderr)
                async with anyio.create_task_group() as readers:
                    readers.start_soon(self._watch, readers.cancel_scope)
                    await self._read_stdout(on_frame)
                    await self._process.wait()
                    readers.cancel_scope.cancel()
                with anyio.move_on_after(STDERR_WAIT):
                    await self._stderr_done.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._bury()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """End the reading if the process is gone but something it started holds its stdout."""
        await self._process.wait()
        await anyio.sleep(DRAIN)
        scope.cancel()

    def _bury(self) -> None:
        self._ended = True
        for pending in self._pending.values():
            pending.event.set()
        self.exited.set()

    async def _read_stdout(self, on_frame: OnFrame) -> None:
        buffer = LineBuffer()
        while True:
            try:
                chunk = await self._stdout.receive(CHUNK)
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                break
            for line in buffer.feed(chunk):
                await self._handle(line, on_frame)
            self.oversized = buffer.dropped
        last = buffer.end()
        if last is not None:
            await self._handle(last, on_frame)

    async def _handle(self, line: bytes, on_frame: OnFrame) -> None:
        try:
            frame = decode_wire(line)
        except ValueError:
            frame = None
        if not isinstance(frame, dict):
            frame = {"type": "not_json", "text": line[:CHUNK].decode(errors="replace")}
        if frame.get("type") == "control_response":
            body = object_at(frame, "response")
            pending = self._pending.get(text_at(body, "request_id") or "")
            if pending is not None:
                pending.response = body
                pending.event.set()
        await on_frame(frame)

    async def _read_stderr(self) -> None:
        try:
            while True:
                chunk = await self._stderr_stream.receive(CHUNK)
                self._stderr = (self._stderr + chunk.decode(errors="replace"))[-STDERR_KEPT:]
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            self._stderr_done.set()

    async def write(self, frame: Frame) -> None:
        """Write a frame; frames of several tasks never mix. Cancelled: it may have been written in part or whole.

        Raises:
            ProcessExited: nobody reads any more.
        """
        try:
            line = msgspec.json.encode(frame)
        except UnicodeEncodeError:  # a lone surrogate: the person's text was cut inside a character
            line = msgspec.json.encode(storable(frame))
        async with self._writing:
            try:
                await self._stdin.send(line + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                raise ProcessExited(f"nothing can be written: {self.obituary()}") from error

    async def control(self, subtype: str, *, timeout: float | None = 60.0, **fields: object) -> JsonObject:
        """Ask the agent for something and return its answer. Cancelled or timed out: it may have been done.

        Raises:
            ControlRefused: it answered with an error; `unsupported_request` means that this version cannot.
            ProcessExited: it ended before it answered.
            TimeoutError: no answer in `timeout` seconds.
        """
        self._requests += 1
        ident = f"greenroom-{self._requests}"
        pending = self._pending[ident] = _Pending(anyio.Event())
        try:
            if self._ended:
                raise ProcessExited(f"no answer to {subtype}: {self.obituary()}")
            request = {"subtype": subtype, **fields}
            with anyio.fail_after(timeout):
                await self.write({"type": "control_request", "request_id": ident, "request": request})
                await pending.event.wait()
        finally:
            del self._pending[ident]
        body = pending.response
        if body is None:
            raise ProcessExited(f"no answer to {subtype}: {self.obituary()}")
        if text_at(body, "subtype") != "success":
            message = text_at(body, "error") or f"the agent refused {subtype}"
            raise ControlRefused(message, code=text_at(body, "error_code"))
        return object_at(body, "response")

    async def stop(self, ladder: Ladder | None = None, *, interrupt: bool = True) -> Stopped:
        """End the process and everything it started, rung by rung; bounded by the sum of the ladder. Idempotent.

        A task must run `run` meanwhile if the agent may still write. Runs to its end also when it is cancelled.
        """
        ladder = ladder or Ladder()
        with anyio.CancelScope(shield=True):
            before = await self._descendants()
            rung = await self._climb(ladder, interrupt=interrupt)
            found = {process.pid: process for process in (*before, *await self._descendants())}
            left = await anyio.to_thread.run_sync(_descendants.end, list(found.values()), ladder.left)
            if rung != "none":
                await self._process.aclose()
            self._bury()
        ours = () if rung != "none" else (self.pid,)
        return Stopped(rung=rung, left=(*ours, *(process.pid for process in left)))

    async def _descendants(self) -> list[psutil.Process]:
        return await anyio.to_thread.run_sync(_descendants.descendants, self.pid, self._launch.marker)

    async def _climb(self, ladder: Ladder, *, interrupt: bool) -> Literal["exited", "eof", "term", "kill", "none"]:
        if self.exit_status is not None:
            return "exited"
        if interrupt and self._reading and not self._ended:
            with contextlib.suppress(GreenroomError, TimeoutError):  # the next rung does not ask
                await self.control("interrupt", timeout=ladder.interrupt)
        if await self._ends(self._close_stdin, ladder.eof):
            return "eof"
        if await self._ends(self._terminate, ladder.term):
            return "term"
        return "kill" if await self._ends(self._kill, ladder.kill) else "none"

    async def _ends(self, act: Callable[[], Awaitable[None]], seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await act()
            await self._process.wait()
        return self.exit_status is not None

    async def _close_stdin(self) -> None:
        await self._stdin.aclose()

    async def _terminate(self) -> None:
        _send(self._process.terminate)

    async def _kill(self) -> None:
        _send(self._process.kill)


async def spawn(launch: Launch) -> AgentProcess:
    """Start the agent as the leader of a session of its own. Cancelled: no process is left.

    On Linux it gets TERM when we die, whatever kills us: a working agent without a host helps nobody.

    Raises:
        ProcessExited: it cannot be started; the message says why.
    """
    try:
        process = await anyio.open_process(
            [*_guardian(launch.env), *launch.argv], cwd=launch.cwd, env=dict(launch.env), start_new_session=True
        )
    except OSError as error:
        raise ProcessExited(f"{launch.argv[0]} cannot be started in {launch.cwd}: {error.strerror or error}") from error
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise ProcessExited(f"{launch.argv[0]} was started without pipes")
    return AgentProcess(launch, process, (process.stdin, process.stdout, process.stderr))


_PRCTL = (
    "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,15);os.execvp(sys.argv[1],sys.argv[1:])"  # 1 = PR_SET_PDEATHSIG
)


def _guardian(env: Mapping[str, str]) -> list[str]:
    """What runs the agent with the parent-death signal set; it becomes the agent, so the process id stays."""
    if sys.platform != "linux":
        return []
    setpriv = shutil.which("setpriv", path=env.get("PATH", os.defpath))
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else [sys.executable, "-I", "-S", "-c", _PRCTL]


def _send(act: Callable[[], None]) -> None:
    try:
        act()
    except ProcessLookupError:
        return


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
