"""A second factory, small enough to read in a minute: every waking message is answered at once with its own words."""

from __future__ import annotations

import anyio

from greenroom import hookimpl
from greenroom.agents import Canceled, Pending, Resting
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    Reason,
    StepEnd,
    StepStart,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
)


class EchoDriver:
    status = "idle"
    busy = False
    modes = ()
    questions = {}

    def __init__(self, session, scope):
        self.session, self.agent = session, scope.agent
        self.state = Resting()

    async def open(self): ...
    def start(self): ...
    async def aclose(self): ...

    def send(self, message, target, *, wake):
        self.agent.inbox.add(target, message)
        while wake and len(self.agent.inbox):
            self._turn()

    def _turn(self):
        append, turn = self.session.append, self.session.state.next_turn()
        append("turn/start", TurnStart(turn, Trigger("message")))
        append("step/start", StepStart(turn, 1))
        for message in self.agent.inbox.claim(turn, boundary=True).messages:
            append("user/message", UserMessage(message), surface="append")
            words = "".join(block.text for block in message.content)
            append("assistant/message", AssistantMessage(turn, 1, words, message.id, True), surface="append")
        append("step/end", StepEnd(turn, 1))
        append("turn/end", TurnEnd(turn, Reason("completed")))

    def steer(self, message, *, otherwise):
        self.send(message, "next-step", wake=True)
        return self._done("queued")

    def inject(self, message, policy):
        self.send(message, "next-step", wake=False)

    def cancel(self, cause, *, keep_inbox):
        if not keep_inbox:
            self.agent.inbox.clear()
        return self._done(Canceled.NOT_RUNNING)

    def _done(self, value):
        outcome = Pending()
        outcome.resolve(value)
        return outcome

    async def when_idle(self):
        await anyio.lowlevel.checkpoint()

    async def flush(self):
        await self.session.flush()


class EchoFactory:
    async def prepare(self, session, scope, options):
        return EchoDriver(session, scope)


class EchoPlugin:
    @hookimpl
    def agent_factory(self, host):
        return EchoFactory()
