"""An agent in another process, as `run`, `log` and `attach` use it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import click
import msgspec
from anyio.abc import TaskGroup

from greenroom import Host
from greenroom.agents import AnsweredBy, HeadlessPolicy, HostClient, RemoteHost
from greenroom.providers import PermissionAllow, PermissionRequest, PermissionResponse, Usage
from greenroom.sessions import Event, event_from_json
from greenroom.sessions.vocabulary import JsonObject, Reason

from ._screen import Ending, Screen, interrupts

CONTINUE: Final = "Continue."
"""The prompt of a session that is continued without one and has none waiting."""


class RemoteAgent:
    """One agent of another host.

    Attributes:
        id: its id.
    """

    def __init__(self, remote: RemoteHost, agent_id: str) -> None:
        self.id = agent_id
        self._remote = remote

    @asynccontextmanager
    async def events(self, seq: int | None = None) -> AsyncIterator[AsyncIterator[Event]]:
        """Follow the log from `seq` on, or only what comes; ends when the agent leaves. Raises as `RemoteHost`."""
        async with self._remote.follow("events", agent=self.id, seq=seq) as updates:
            yield _decoded(updates)

    async def questions(self) -> list[PermissionRequest]:
        """The questions that wait."""
        answer = await self._remote.call("permissions.list", agent=self.id)
        return [msgspec.convert(one["request"], PermissionRequest) for one in answer["questions"]]

    async def respond(self, request_id: str, response: PermissionResponse, *, by: AnsweredBy = "user") -> None:
        """Answer a question."""
        verb = "allow" if isinstance(response, PermissionAllow) else "deny"
        fields = msgspec.to_builtins(response)
        del fields["behavior"]
        await self._remote.call(f"permissions.{verb}", agent=self.id, request=request_id, by=by, **fields)

    async def steer(self, text: str) -> None:
        """Put a prompt into the running turn, or open one."""
        await self._remote.call("steer", agent=self.id, text=text)

    async def cancel(self) -> str:
        """End the running turn; the outcome."""
        return str((await self._remote.call("cancel", agent=self.id, keep_inbox=True))["outcome"])

    async def use_model(self, model: str) -> None:
        """Use another model."""
        await self._remote.call("agents.configure", agent=self.id, model=model)

    async def send(self, text: str | None) -> JsonObject:
        """Hand a prompt over, or begin with what waits, and wait until it is answered."""
        answer = await self._remote.call("send", agent=self.id, text=text, wait=True)
        if answer["message"] is None:
            answer = await self._remote.call("send", agent=self.id, text=CONTINUE, wait=True)
        return answer


async def _decoded(updates: AsyncIterator[JsonObject]) -> AsyncIterator[Event]:
    async for update in updates:
        yield event_from_json(msgspec.json.encode(update))


@asynccontextmanager
async def owner_of(host: Host, session_id: str) -> AsyncIterator[RemoteAgent | None]:
    """The agent in the other process that owns the session, None if nobody else does.

    Raises:
        GreenroomError: the owner cannot be talked to.
    """
    client = host.service(HostClient)
    if client is None:
        yield None
        return
    async with client.owner(session_id) as remote:
        yield RemoteAgent(remote, session_id) if remote is not None else None


@asynccontextmanager
async def created_elsewhere(
    host: Host, session_id: str, provider: str, cwd: Path, model: str | None
) -> AsyncIterator[RemoteAgent | None]:
    """A new agent in the host that serves this data directory, None if there is none. Raises as `agents.create`."""
    client = host.service(HostClient)
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(client.serving()) if client is not None else None
        if remote is None:
            yield None
            return
        await remote.call("agents.create", id=session_id, provider=provider, cwd=str(cwd), model=model)
        yield RemoteAgent(remote, session_id)


class RemoteRun:
    """A prompt and its answer by an agent in another process, and the person in front of it."""

    def __init__(self, agent: RemoteAgent, prompt: str | None, *, as_json: bool, policy: HeadlessPolicy | None) -> None:
        self._agent = agent
        self._prompt = prompt
        self._screen = Screen(agent.respond, as_json=as_json, echo_prompts=prompt is None, policy=policy)
        self._shown = -1
        self._news = anyio.Event()
        self._canceled = False

    async def go(self) -> int:
        """Hand the prompt over and print until it is answered. Raises HostGone when the other host ends before."""
        async with anyio.create_task_group() as tasks, self._agent.events() as events:
            tasks.start_soon(self._listen, tasks)
            for question in await self._agent.questions():
                self._screen.ask(question, tasks)
            tasks.start_soon(self._print, events, tasks)
            answer = await self._agent.send(self._prompt)
            while self._shown < answer["seq"]:
                self._news = anyio.Event()
                await self._news.wait()
            tasks.cancel_scope.cancel()
        reason, usage = answer["reason"], answer["usage"]
        ending = Ending(
            answer["turn"],
            msgspec.convert(reason, Reason) if reason is not None else None,
            msgspec.convert(usage, Usage) if usage is not None else None,
        )
        return self._screen.close(self._agent.id, ending, canceled=self._canceled)

    async def _print(self, events: AsyncIterator[Event], tasks: TaskGroup) -> None:
        async for event in events:
            self._screen.show(event, tasks)
            self._shown = event.seq
            self._news.set()
            sys.stdout.flush()

    async def _listen(self, tasks: TaskGroup) -> None:
        async for _signal in interrupts():
            self._canceled = True
            tasks.start_soon(self._cancel)

    async def _cancel(self) -> None:
        if await self._agent.cancel() == "refused":
            click.secho("the provider did not end the turn: it goes on", fg="yellow", err=True)
