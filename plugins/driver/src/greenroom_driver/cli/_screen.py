"""What a person sees of a run, and is asked, wherever the agent is."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

import anyio
import click
import msgspec
from anyio.abc import TaskGroup

from greenroom.agents import AnsweredBy, HeadlessPolicy
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest, PermissionResponse, Usage
from greenroom.sessions import Event, event_to_json
from greenroom.sessions.vocabulary import Reason

from ._ask import decide
from ._transcript import Transcript

INTERRUPTED: Final = 130
"""Exit status after Ctrl-C, as a shell has it: 128 + SIGINT."""


class Respond(Protocol):
    """Takes the answer to a question to the agent; see `Agent.respond`."""

    async def __call__(self, request_id: str, response: PermissionResponse, *, by: AnsweredBy) -> None: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How the turn of a prompt ended; without a reason it never began."""

    turn: int | None = None
    reason: Reason | None = None
    usage: Usage | None = None


class Screen:
    """Prints events and asks the questions among them.

    Args:
        as_json: print events as they are, and ask nothing.
        echo_prompts: whether to print prompts too.
        policy: answers where nobody can be asked; None denies.
    """

    def __init__(
        self, respond: Respond, *, as_json: bool, echo_prompts: bool, policy: HeadlessPolicy | None = None
    ) -> None:
        self._respond = respond
        self._policy = policy
        self._as_json = as_json
        self._transcript = Transcript(echo_prompts=echo_prompts)
        self._began = time.monotonic()
        self._asking = anyio.Lock()
        self._asked: dict[str, anyio.CancelScope] = {}

    def show(self, event: Event, tasks: TaskGroup) -> None:
        """Print an event; a question is asked in a task of its own, until it is answered here or elsewhere."""
        if self._as_json:
            self._line(event_to_json(event))
        else:
            self._transcript.show(event)
        if event.type == "permission/asked":
            self.ask(event.data.request, tasks)
        elif event.type == "permission/answered" and event.data.request_id in self._asked:
            self._asked.pop(event.data.request_id).cancel()

    def ask(self, request: PermissionRequest, tasks: TaskGroup) -> None:
        """Ask a question that is open."""
        scope = self._asked[request.id] = anyio.CancelScope()
        tasks.start_soon(self._ask, request, scope)

    def close(self, session: str, ending: Ending, *, canceled: bool) -> int:
        """Print the last line and return the exit status."""
        if ending.reason is None:
            self.note(f"the prompt waits in the queue: greenroom run --session {session}")
        seconds = time.monotonic() - self._began
        if self._as_json:
            self._line(
                msgspec.json.encode(
                    {
                        "session": session,
                        "turn": ending.turn,
                        "reason": ending.reason,
                        "usage": ending.usage,
                        "seconds": round(seconds, 3),
                    }
                )
            )
        else:
            self._transcript.summary(session, seconds, ending.usage)
        if ending.reason is not None and ending.reason.kind == "completed":
            return 0
        return INTERRUPTED if canceled else 1

    def note(self, text: str) -> None:
        """Print a line that is not part of the session."""
        if not self._as_json:
            self._transcript.finish()
        click.secho(text, fg="yellow", err=True)

    def _line(self, line: bytes) -> None:
        sys.stdout.write(line.decode() + "\n")

    async def _ask(self, request: PermissionRequest, scope: anyio.CancelScope) -> None:
        with scope:
            async with self._asking:
                await self._answer(request)
        if self._asked.get(request.id) is scope:
            del self._asked[request.id]

    async def _answer(self, request: PermissionRequest) -> None:
        response, by = await decide(request, ask=not self._as_json, policy=self._policy)
        try:
            with anyio.CancelScope(shield=True):  # its own event in the log must not take the answer back
                await self._respond(request.id, response, by=by)
        except GreenroomError as error:
            self.note(f"the answer did not arrive: {error.args[0]}")


async def interrupts() -> AsyncIterator[None]:
    """The first Ctrl-C, which cancels the turn and keeps the queue; the second one leaves at once."""
    canceled = False
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _signal in signals:
            if canceled:
                os._exit(INTERRUPTED)
            canceled = True
            click.secho("\ncanceling the turn; once more to leave at once", fg="yellow", err=True)
            yield
