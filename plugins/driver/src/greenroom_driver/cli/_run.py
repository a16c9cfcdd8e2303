"""`greenroom run`: one prompt, from the command line to rest."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import click
import msgspec
from anyio.abc import TaskGroup

from greenroom import Host
from greenroom.agents import Agent, AgentDirectory, AgentOptions, AgentSpec, Canceled, Cause, TurnStream, message_of
from greenroom.cli import CliState, fail
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest
from greenroom.sessions import Event, Message, event_to_json

from ._ask import decide
from ._providers import choose
from ._transcript import Transcript

LAST: Final = "last"
CONTINUE: Final = "Continue."
"""The prompt of a session that is continued without one and has none waiting."""
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as a shell has it: 128 + SIGINT."""


@dataclass(frozen=True, slots=True)
class Order:
    """What was typed; `new` is the id of the session to make, if none is continued."""

    prompt: str | None
    provider: str | None
    cwd: Path | None
    model: str | None
    session: str | None
    new: str | None
    as_json: bool


async def run_prompt(state: CliState, order: Order) -> int:
    """Carry out the order; return the exit status.

    Raises:
        GreenroomError: it could not begin.
    """
    async with state.host() as host:
        agent, end = await _agent(host, order)
        try:
            return await _Run(agent, order).go()
        finally:
            with anyio.CancelScope(shield=True):
                await end()


async def _agent(host: Host, order: Order) -> tuple[Agent, Callable[[], Awaitable[None]]]:
    """The agent that does it, and how to end it; kept by the host's keeper of agents, if a plugin is one."""
    directory = host.service(AgentDirectory)
    if order.session is not None:
        session_id = await newest(host) if order.session == LAST else order.session
        options = AgentOptions(provider=order.provider, model=order.model)
        if directory is not None:
            agent = await directory.open(session_id, options)
            return agent, lambda: directory.close(agent.id)
        handle = await host.agents.resume(session_id, options, owner=host.scope)
        return handle.agent, handle.dispose
    provider, told = await choose(host, order.provider)
    if told is not None:
        click.secho(told, fg="yellow", err=True)
    options = AgentOptions(provider=provider, model=order.model)
    spec = AgentSpec(id=order.new, cwd=(order.cwd or Path.cwd()).resolve(), options=options)
    if directory is not None:
        agent = await directory.create(spec)
        return agent, lambda: directory.close(agent.id)
    handle = await host.agents.create(spec, owner=host.scope)
    return handle.agent, handle.dispose


async def newest(host: Host) -> str:
    """The id of the session that was written last."""
    for entry in await host.sessions.store.list():
        if entry.error is None:
            return entry.id
    return fail("there is no session yet", hint='greenroom run "..."')


class _Run:
    """Everything the agent does until the turn that consumes the prompt is over, and the person in front of it."""

    def __init__(self, agent: Agent, order: Order) -> None:
        waiting = agent.inbox.next_turn
        self._agent = agent
        self._order = order
        self._prompt: Message = (
            waiting[-1] if waiting and order.prompt is None else message_of(order.prompt or CONTINUE)
        )
        self._judge = TurnStream(agent, self._prompt)
        self._transcript = Transcript(echo_prompts=bool(waiting) or order.prompt is None)
        self._began = time.monotonic()
        self._at = len(agent.session)
        self._news = anyio.Event()
        self._over = anyio.Event()
        self._asking = anyio.Lock()
        self._asked: dict[str, anyio.CancelScope] = {}
        self._canceled = False

    async def go(self) -> int:
        """Hand the prompt over and print until it is answered; what waited before it goes first."""
        undo = self._agent.session.observe(lambda _event: self._news.set())
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, tasks)
                if self._prompt.id in self._agent.inbox:
                    self._agent.wake()
                else:
                    self._agent.followup(self._prompt)
                tasks.start_soon(self._print, tasks)
                tasks.start_soon(self._answered)
                tasks.start_soon(self._parked)
                await self._over.wait()
                await self._agent.flush()
                await self._print_new(tasks)
                tasks.cancel_scope.cancel()
        finally:
            undo()
        return self._close()

    # what ends it

    async def _answered(self) -> None:
        async for _event in self._judge:
            pass
        self._over.set()

    async def _parked(self) -> None:
        """The agent may come to rest with the prompt still waiting: after a cancel, or when a turn before it failed."""
        await self._agent.when_idle()
        if self._prompt.id in self._agent.inbox:
            self._over.set()

    async def _listen(self, tasks: TaskGroup) -> None:
        """The first Ctrl-C cancels the turn and keeps the queue; the second one leaves at once."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _signal in signals:
                if self._canceled:
                    os._exit(INTERRUPTED)
                self._canceled = True
                click.secho("\ncanceling the turn; once more to leave at once", fg="yellow", err=True)
                tasks.start_soon(self._cancel)
                tasks.start_soon(self._keep)

    async def _keep(self) -> None:
        """Make the session durable, so that leaving at once loses nothing of it."""
        with suppress(GreenroomError):  # the end of the turn tells of it, if it gets that far
            await self._agent.flush()

    async def _cancel(self) -> None:
        if await self._agent.cancel(Cause("user"), keep_inbox=True) is Canceled.REFUSED:
            click.secho("the provider did not end the turn: it goes on", fg="yellow", err=True)

    def _close(self) -> int:
        result = self._judge.result
        session = self._agent.id
        if result is None:
            self._note(f"the prompt waits in the queue: greenroom run --session {session}")
        if self._order.as_json:
            self._line(
                msgspec.json.encode(
                    {
                        "session": session,
                        "turn": result.turn if result is not None else None,
                        "reason": result.reason if result is not None else None,
                        "usage": result.usage if result is not None else None,
                        "seconds": round(time.monotonic() - self._began, 3),
                    }
                )
            )
        else:
            usage = result.usage if result is not None else None
            self._transcript.summary(session, time.monotonic() - self._began, usage)
        if result is not None and result.reason.kind == "completed":
            return 0
        return INTERRUPTED if self._canceled else 1

    # what is printed

    async def _print(self, tasks: TaskGroup) -> None:
        while True:
            self._news = anyio.Event()
            await self._print_new(tasks)
            await self._news.wait()

    async def _print_new(self, tasks: TaskGroup) -> None:
        for event in await self._agent.session.events(self._at):
            if event.seq < self._at:
                continue  # printed while this read was under way
            self._at = event.seq + 1
            self._show(event)
            if event.type == "permission/asked":
                tasks.start_soon(self._ask, event.data.request)
            elif event.type == "permission/answered" and event.data.request_id in self._asked:
                self._asked[event.data.request_id].cancel()
        sys.stdout.flush()

    def _show(self, event: Event) -> None:
        if self._order.as_json:
            self._line(event_to_json(event))
        else:
            self._transcript.show(event)

    def _line(self, line: bytes) -> None:
        sys.stdout.write(line.decode() + "\n")

    def _note(self, text: str) -> None:
        if not self._order.as_json:
            self._transcript.finish()
        click.secho(text, fg="yellow", err=True)

    # questions

    async def _ask(self, request: PermissionRequest) -> None:
        with anyio.CancelScope() as scope:
            self._asked[request.id] = scope
            async with self._asking:
                if request.id in self._agent.questions:
                    await self._answer(request)
        del self._asked[request.id]

    async def _answer(self, request: PermissionRequest) -> None:
        response = await decide(request, ask=not self._order.as_json)
        try:
            with anyio.CancelScope(shield=True):  # its own event in the log must not take the answer back
                await self._agent.respond(request.id, response)
        except GreenroomError as error:
            self._note(f"the answer did not arrive: {error.args[0]}")
