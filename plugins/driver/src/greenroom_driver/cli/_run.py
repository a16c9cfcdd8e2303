"""`greenroom run`: one prompt, from the command line to rest."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import click
from anyio.abc import TaskGroup

from greenroom import Host
from greenroom.agents import (
    Agent,
    AgentDirectory,
    AgentOptions,
    AgentSpec,
    Canceled,
    Cause,
    HeadlessPolicy,
    TurnStream,
    message_of,
)
from greenroom.cli import CliState, fail
from greenroom.errors import GreenroomError
from greenroom.sessions import Message

from ._providers import choose
from ._remote import CONTINUE, RemoteRun, created_elsewhere, owner_of
from ._screen import Ending, Screen, interrupts

LAST: Final = "last"


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
        if order.session is not None:
            return await _continue(host, order, await newest(host) if order.session == LAST else order.session)
        return await _begin(host, order, order.new or str(uuid.uuid4()))


async def _continue(host: Host, order: Order, session_id: str) -> int:
    """Go on with a session: in the process that owns it, or here."""
    async with owner_of(host, session_id) as remote:
        if remote is not None:
            if order.provider is not None:
                fail(f"session {session_id} is driven by another process, with its provider", hint="omit --provider")
            if order.model is not None:
                await remote.use_model(order.model)
            policy = host.service(HeadlessPolicy)
            return await RemoteRun(remote, order.prompt, as_json=order.as_json, policy=policy).go()
    options = AgentOptions(provider=order.provider, model=order.model)
    async with opened(host, session_id, options) as agent:
        return await _Run(agent, order, host.service(HeadlessPolicy)).go()


async def _begin(host: Host, order: Order, session_id: str) -> int:
    """Begin a session: in the host that serves the data directory, or here."""
    provider, told = await choose(host, order.provider)
    if told is not None:
        click.secho(told, fg="yellow", err=True)
    cwd = (order.cwd or Path.cwd()).resolve()
    async with created_elsewhere(host, session_id, provider, cwd, order.model) as remote:
        if remote is not None:
            policy = host.service(HeadlessPolicy)
            return await RemoteRun(remote, order.prompt or CONTINUE, as_json=order.as_json, policy=policy).go()
    spec = AgentSpec(id=session_id, cwd=cwd, options=AgentOptions(provider=provider, model=order.model))
    agent, end = await _create(host, spec)
    async with _closed_by(end):
        return await _Run(agent, order, host.service(HeadlessPolicy)).go()


@asynccontextmanager
async def opened(host: Host, session_id: str, options: AgentOptions) -> AsyncIterator[Agent]:
    """A stored session's agent in this host; it is closed at the end."""
    directory = host.service(AgentDirectory)
    end: Callable[[], Awaitable[None]]
    if directory is not None:
        agent = await directory.open(session_id, options)
        end = partial(directory.close, agent.id)
    else:
        handle = await host.agents.resume(session_id, options, owner=host.scope)
        agent, end = handle.agent, handle.dispose
    async with _closed_by(end):
        yield agent


@asynccontextmanager
async def _closed_by(end: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """End the agent behind what is done with it, also if that is cancelled."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await end()


async def _create(host: Host, spec: AgentSpec) -> tuple[Agent, Callable[[], Awaitable[None]]]:
    """A new agent of this host, and how to end it; kept by the host's keeper of agents, if a plugin is one."""
    directory = host.service(AgentDirectory)
    if directory is not None:
        agent = await directory.create(spec)
        return agent, partial(directory.close, agent.id)
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

    def __init__(self, agent: Agent, order: Order, policy: HeadlessPolicy | None) -> None:
        waiting = agent.inbox.next_turn
        self._agent = agent
        self._prompt: Message = (
            waiting[-1] if waiting and order.prompt is None else message_of(order.prompt or CONTINUE)
        )
        self._judge = TurnStream(agent, self._prompt)
        echo = bool(waiting) or order.prompt is None
        self._screen = Screen(agent.respond, as_json=order.as_json, echo_prompts=echo, policy=policy)
        self._at = len(agent.session)
        self._news = anyio.Event()
        self._over = anyio.Event()
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
        result = self._judge.result
        ending = Ending(result.turn, result.reason, result.usage) if result is not None else Ending()
        return self._screen.close(self._agent.id, ending, canceled=self._canceled)

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
        async for _signal in interrupts():
            self._canceled = True
            tasks.start_soon(self._cancel)
            tasks.start_soon(self._keep)

    async def _keep(self) -> None:
        """Make the session durable, so that leaving at once loses nothing of it."""
        with suppress(GreenroomError):  # the end of the turn tells of it, if it gets that far
            await self._agent.flush()

    async def _cancel(self) -> None:
        if await self._agent.cancel(Cause("user"), keep_inbox=True) is Canceled.REFUSED:
            click.secho("the provider did not end the turn: it goes on", fg="yellow", err=True)

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
            self._screen.show(event, tasks)
        sys.stdout.flush()
