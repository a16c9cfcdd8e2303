"""Foreground use: one followup, and an iterator over exactly the turn that consumes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import anyio

from greenroom.agents._errors import AgentError, TurnFailed
from greenroom.agents._inbox import SPLICED, Inbox
from greenroom.agents._interfaces import Cause
from greenroom.providers import Usage
from greenroom.sessions import Event, Message
from greenroom.sessions.vocabulary import Reason

if TYPE_CHECKING:
    from types import TracebackType

    from greenroom.agents._agent import Agent


PAGE: Final = 500
"""Events that a follower is given at a time: a few milliseconds of work."""


async def follow_log(agent: Agent, seq: int) -> AsyncGenerator[Sequence[Event]]:
    """The events of an agent's session from `seq` on, in pages, as they come, until the agent has left.

    Close the generator (`contextlib.aclosing`) when leaving early. Cancelled: nothing was taken.
    """
    session = agent.session
    while True:
        news = anyio.Event()
        undo = session.observe(lambda _event: news.set())  # noqa: B023 - it is taken back before the next round
        try:
            with agent.closing(news):
                while events := await session.events(seq, seq + PAGE):
                    yield events
                    seq = events[-1].seq + 1
                if agent.gone or not session.live:
                    return
                await news.wait()
        finally:
            undo()


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a foreground turn went.

    Attributes:
        turn: its number, None if the prompt was canceled before a turn took it.
        text: the last message of the model; pieces of another message are not joined to it.
        reason: why the turn ended.
        usage: what it used, as far as the provider tells.
    """

    turn: int | None
    text: str
    reason: Reason
    usage: Usage | None = None

    @property
    def canceled(self) -> bool:
        """Whether the turn did not come to its own end."""
        return self.reason.kind in {"aborted", "interrupted"}


class TurnStream:
    """Reads the turn that consumes a prompt, from the log: nothing is held back for a slow reader.

    Iterate it; leave it any time, nothing is left behind. Used as a context manager with `cancel_on_leave`, leaving
    early cancels the turn. What foreign turns of the provider did inside it is not part of it.
    """

    def __init__(self, agent: Agent, message: Message, *, cancel_on_leave: bool = False) -> None:
        self._agent = agent
        self._message = message
        self._cancel_on_leave = cancel_on_leave
        self._at = len(agent.session)
        self._pending = Inbox(lambda _splice: None, lambda *_fate: None, like=agent.inbox)
        self._ready: list[Event] = []
        self._opened: Event | None = None
        self._foreign = False
        self._texts: list[tuple[str | None, str]] = []
        self.turn: int | None = None
        self.result: RunResult | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cancel_on_leave and self.result is None:
            if self.turn is None:
                self._agent.inbox.remove(self._message.id)
            else:
                self._agent.cancel(Cause("user"), keep_inbox=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event of the turn.

        Raises:
            AgentError: the agent was disposed before its turn began.
        """
        while not self._ready and self.result is None:
            for event in await self._more():
                self._at = event.seq + 1
                self._take(event)
                if self._over:
                    break
        if not self._ready:
            raise StopAsyncIteration
        return self._ready.pop(0)

    @property
    def _over(self) -> bool:
        return self.result is not None

    async def finish(self) -> RunResult:
        """Read to the end and say how it went.

        Raises:
            TurnFailed: the turn ended with an error.
        """
        async for _event in self:
            pass
        result = self.result
        assert result is not None, "the iteration ends with a result"  # noqa: S101 - ours
        reason = result.reason
        if reason.kind == "error":
            raise TurnFailed(reason.message or "the turn failed", code=reason.code, diagnostic=reason.diagnostic)
        return result

    async def _more(self) -> Sequence[Event]:
        session = self._agent.session
        while len(session) <= self._at:
            if self._agent.gone or not session.live:
                raise AgentError(f"agent {session.id} was closed before its turn was over")
            await self._news()
        return await session.events(self._at)

    async def _news(self) -> None:
        """Wait for an event or for the agent's end; observes only while somebody waits."""
        news = anyio.Event()
        undo = self._agent.session.observe(lambda _event: news.set())
        try:
            with self._agent.closing(news):
                await news.wait()
        finally:
            undo()

    def _take(self, event: Event) -> None:
        if event.type == "turn/start":
            self._opened = event
        if self.turn is None:
            self._await_claim(event)
            return
        if event.type in {"step/start", "step/end"}:
            foreign = event.data.provider_turn is not None
            self._foreign = foreign and event.type == "step/start"
            if foreign:
                return
        if self._foreign and event.type != "turn/end":
            return
        self._ready.append(event)
        if event.type == "assistant/message" and event.data.text and isinstance(event.data.text, str):
            self._texts.append((event.data.message_id, event.data.text))
        elif event.type.startswith("tool/"):
            self._texts.clear()
        elif event.type == "turn/end":
            self.result = RunResult(self.turn, self._text(), event.data.reason, event.data.usage)

    def _await_claim(self, event: Event) -> None:
        if event.type != SPLICED:
            return
        waited = self._message.id in self._pending
        self._pending.restore([event])
        if not waited or self._message.id in self._pending:
            return
        if event.data.outcome == "canceled" or self._opened is None:
            self.result = RunResult(None, "", Reason("aborted", cause="user"))
            return
        self.turn = self._opened.data.turn
        self._ready += [self._opened, event]

    def _text(self) -> str:
        if not self._texts:
            return ""
        last = self._texts[-1][0]
        first = len(self._texts)
        while first and self._texts[first - 1][0] == last:
            first -= 1
        return "".join(text for _id, text in self._texts[first:])
