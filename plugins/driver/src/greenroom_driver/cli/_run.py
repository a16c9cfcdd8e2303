"""`greenroom run`: one prompt, from the command line to rest."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import click

from greenroom import Host
from greenroom.agents import Agent, AgentHandle, AgentOptions, AgentSpec, Cause, TurnStream
from greenroom.cli import CliState, fail, interactive
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionAllow, PermissionDeny, PermissionRequest
from greenroom.sessions import Event, event_to_json

from ._providers import choose
from ._transcript import Transcript

LAST: Final = "last"
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as a shell has it: 128 + SIGINT."""


@dataclass(frozen=True, slots=True)
class Order:
    """What was typed."""

    prompt: str
    provider: str | None
    cwd: Path | None
    model: str | None
    session: str | None
    as_json: bool


async def run_prompt(state: CliState, order: Order) -> int:
    """Carry out the order; return the exit status.

    Raises:
        GreenroomError: it could not begin.
    """
    async with state.host() as host:
        handle = await _agent(host, order)
        try:
            return await _Run(host, handle.agent, order).go()
        finally:
            with anyio.CancelScope(shield=True):
                await handle.dispose()


async def _agent(host: Host, order: Order) -> AgentHandle:
    if order.session is not None:
        session_id = await newest(host) if order.session == LAST else order.session
        options = AgentOptions(provider=order.provider, model=order.model)
        return await host.agents.resume(session_id, options, owner=host.scope)
    provider, told = await choose(host, order.provider)
    if told is not None:
        click.secho(told, fg="yellow", err=True)
    options = AgentOptions(provider=provider, model=order.model)
    cwd = (order.cwd or Path.cwd()).resolve()
    return await host.agents.create(AgentSpec(cwd=cwd, options=options), owner=host.scope)


async def newest(host: Host) -> str:
    """The id of the session that was written last."""
    for entry in await host.sessions.store.list():
        if entry.error is None:
            return entry.id
    return fail("there is no session yet")


class _Run:
    """The foreground turn and the person in front of it."""

    def __init__(self, host: Host, agent: Agent, order: Order) -> None:
        self._host = host
        self._agent = agent
        self._order = order
        self._transcript = Transcript(echo_prompts=False)
        self._asking = anyio.Lock()
        self._canceled = False

    async def go(self) -> int:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            stream = self._agent.stream(self._order.prompt)
            async for event in stream:
                self._show(event)
                if event.type == "permission/asked":
                    tasks.start_soon(self._ask, event.data.request)
            await self._agent.flush()
            tasks.cancel_scope.cancel()
        return self._close(stream)

    def _show(self, event: Event) -> None:
        if self._order.as_json:
            sys.stdout.write(event_to_json(event).decode() + "\n")
            sys.stdout.flush()
        else:
            self._transcript.show(event)
            sys.stdout.flush()

    def _close(self, stream: TurnStream) -> int:
        result = stream.result
        if result is None:
            return 1
        if not self._order.as_json:
            end = self._agent.session.state.last_reason
            self._transcript.summary(self._agent.id, end if result.turn is not None else None)
        if result.reason.kind == "completed":
            return 0
        return INTERRUPTED if self._canceled else 1

    async def _listen(self) -> None:
        """The first Ctrl-C cancels the turn and keeps the queue; the second one leaves at once."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _signal in signals:
                if self._canceled:
                    os._exit(INTERRUPTED)
                self._canceled = True
                self._agent.cancel(Cause("user"), keep_inbox=True)
                click.secho("\ncanceling; again to leave at once", fg="yellow", err=True)

    async def _ask(self, request: PermissionRequest) -> None:
        async with self._asking:
            if request.id not in self._agent.questions:
                return  # answered or withdrawn meanwhile
            response = await self._decide(request)
            try:
                await self._agent.respond(request.id, response)
            except GreenroomError as error:
                self._transcript.note(f"the answer did not arrive: {error.args[0]}")

    async def _decide(self, request: PermissionRequest) -> PermissionAllow | PermissionDeny:
        what = request.title or request.description or request.name
        if self._order.as_json or not interactive():
            click.secho(f"denied without asking: {what} (there is no terminal)", fg="yellow", err=True)
            return PermissionDeny(message="nobody can be asked: the agent runs without a terminal")
        sys.stdout.flush()
        yes = await anyio.to_thread.run_sync(
            lambda: click.confirm(f"\nallow {what}?", err=True), abandon_on_cancel=True
        )
        return PermissionAllow() if yes else PermissionDeny(message="the user said no")
