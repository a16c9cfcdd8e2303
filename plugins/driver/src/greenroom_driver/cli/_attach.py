"""`greenroom attach`: follow an agent, type, answer its questions."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import click
from anyio.abc import TaskGroup

from greenroom.agents import Agent, AgentOptions, HostGone, follow_log
from greenroom.cli import CliState
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest, PermissionResponse
from greenroom.sessions import Event

from ._ask import answer_of, show
from ._remote import owner_of
from ._run import LAST, newest, opened
from ._transcript import Transcript

RECENT: Final = 200
"""Events that are shown of what was before: a screen or two."""


class Seat(Protocol):
    """An agent, here or elsewhere."""

    @property
    def id(self) -> str: ...
    def events(self, seq: int | None = None) -> AbstractAsyncContextManager[AsyncIterator[Event]]: ...
    async def questions(self) -> list[PermissionRequest]: ...
    async def respond(self, request_id: str, response: PermissionResponse) -> None: ...
    async def steer(self, text: str) -> None: ...


class LocalAgent:
    """An agent of this host, as a seat."""

    def __init__(self, agent: Agent) -> None:
        self.id = agent.id
        self._agent = agent

    @asynccontextmanager
    async def events(self, seq: int | None = None) -> AsyncIterator[AsyncIterator[Event]]:
        """Follow the log."""
        async with aclosing(follow_log(self._agent, len(self._agent.session) if seq is None else seq)) as pages:
            yield (event async for events in pages for event in events)

    async def questions(self) -> list[PermissionRequest]:
        """The questions that wait."""
        return list(self._agent.questions.values())

    async def respond(self, request_id: str, response: PermissionResponse) -> None:
        """Answer a question."""
        await self._agent.respond(request_id, response)

    async def steer(self, text: str) -> None:
        """Put a prompt into the running turn, or open one."""
        await self._agent.steer(text)


async def attach_to(state: CliState, session_id: str) -> int:
    """Follow and type until Ctrl-C, the end of input, or the agent's end; return the exit status.

    Raises:
        GreenroomError: there is no such session, or its owner cannot be talked to.
    """
    async with state.host() as host:
        session = await newest(host) if session_id == LAST else session_id
        began = max(0, (await host.sessions.store.entry(session)).next_seq - RECENT)
        async with owner_of(host, session) as owner:
            if owner is not None:
                return await _sit(owner, began, "the agent goes on without you")
        async with opened(host, session, AgentOptions()) as agent:
            return await _sit(LocalAgent(agent), began, f"closing the agent: greenroom run --session {session}")


async def _sit(seat: Seat, began: int, farewell: str) -> int:
    attached = _Attached(seat)
    click.secho(f"session {seat.id}: type to say something, Ctrl-C leaves", dim=True, err=True)
    gone: list[str] = []
    try:
        await attached.run(began)
    except* HostGone as group:
        gone.append(str(group.exceptions[0].args[0]))
    if gone:
        click.secho(f"\n{gone[0]}", fg="yellow", err=True)
        return 1
    click.secho(f"\n{farewell}" if attached.left else "\nthe agent has left", dim=True, err=True)
    return 0


class _Attached:
    """The person at the terminal, and what they see of the agent.

    Attributes:
        left: the person went, not the agent.
    """

    def __init__(self, seat: Seat) -> None:
        self.left = False
        self._seat = seat
        self._transcript = Transcript(echo_prompts=True)
        self._open: dict[str, PermissionRequest] = {}
        self._shown: str | None = None

    async def run(self, began: int) -> None:
        """Follow, and take what is typed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow, began, tasks)
            tasks.start_soon(self._type, tasks)
            tasks.start_soon(self._listen, tasks)

    async def _listen(self, tasks: TaskGroup) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _signal in signals:
                self._leave(tasks)

    def _leave(self, tasks: TaskGroup) -> None:
        self.left = True
        tasks.cancel_scope.cancel()

    async def _follow(self, began: int, tasks: TaskGroup) -> None:
        """Print what happens. A question of the past is only asked if it is still open."""
        await self._look()
        async with self._seat.events(began) as events:
            async for event in events:
                self._transcript.show(event)
                if event.type == "permission/asked":
                    self._shown = None
                    await self._look()
                elif event.type == "permission/answered":
                    self._open.pop(event.data.request_id, None)
                self._ask()
                sys.stdout.flush()
        tasks.cancel_scope.cancel()

    async def _look(self) -> None:
        self._open = {request.id: request for request in await self._seat.questions()}

    def _ask(self) -> None:
        """Show the oldest open question, once."""
        first = next(iter(self._open.values()), None)
        if first is not None and first.id != self._shown:
            self._transcript.finish()
            show(first)
        self._shown = first.id if first is not None else None

    async def _type(self, tasks: TaskGroup) -> None:
        async for line in _lines():
            if self._shown is not None:
                await self._answer(self._shown, line)
            elif line.strip():
                await self._say(line.strip())
        self._leave(tasks)

    async def _answer(self, request_id: str, line: str) -> None:
        try:
            await self._seat.respond(request_id, answer_of(line))
        except HostGone:
            raise
        except GreenroomError as error:
            click.secho(f"the answer did not arrive: {error.args[0]}", fg="yellow", err=True)

    async def _say(self, text: str) -> None:
        try:
            await self._seat.steer(text)
        except HostGone:
            raise
        except GreenroomError as error:
            click.secho(f"it was not sent: {error.args[0]}", fg="yellow", err=True)


async def _lines() -> AsyncIterator[str]:
    """What is typed, line by line, without a thread that would outlive us."""
    rest = b""
    while True:
        try:
            await anyio.wait_readable(sys.stdin)
        except OSError:  # a file: it can always be read, and the loop does not watch it
            await anyio.lowlevel.checkpoint()
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
    if rest:
        yield rest.decode("utf-8", "replace")
