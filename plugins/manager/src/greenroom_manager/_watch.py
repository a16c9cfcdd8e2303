"""From what live agents do to what is kept of them: hooks in, changes of records and news for subscribers out."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from greenroom.agents import Agent, AgentRecord, AgentState, Closed, Initializing
from greenroom.sessions import Event

from ._facts import TYPES, apply, changed, chosen, first_record
from ._snapshot import error_of, name_of

if TYPE_CHECKING:
    from ._context import Context
    from ._feed import Feed

_QUESTIONS: Final = frozenset({"permission/asked", "permission/answered"})
_MOVING: Final = frozenset({"turn/start", "turn/end"})
WATCHED: Final = frozenset(TYPES) | _QUESTIONS | _MOVING
"""The event types that may change what is shown of an agent."""


@dataclass(slots=True)
class _Seen:
    """What was last shown of a live agent."""

    agent: Agent
    shown: AgentState = field(default_factory=Initializing)
    questions: int = 0


class Watch:
    """Keeps the records of the live agents of one host, whoever created them."""

    def __init__(self, context: Context, feed: Feed) -> None:
        self._context = context
        self._feed = feed
        self._seen: dict[str, _Seen] = {}
        self._cut_short: list[str] = []

    # hooks

    async def set_up(self, agent: Agent) -> None:
        """Before anybody sees the agent: look for its record, and be there when it leaves.

        Raises:
            UnreadableRecord: a newer version keeps it; that one would lose what it knows.
        """
        await self._context.book.read(agent.id)

        async def farewell() -> None:
            await self._farewell(agent)

        agent.scope.undo(farewell, label="record").also(self._context.scope)

    def created(self, agent: Agent) -> None:
        """It is live: from here on its record says so."""
        self._seen[agent.id] = _Seen(agent)
        log = first_record(agent, self._provider(agent))

        def opened(record: AgentRecord) -> AgentRecord:
            return changed(
                record,
                state="initializing",
                provider=log.provider or record.provider,
                internal=log.internal,
                settings=chosen(record.settings, agent.options),
                native=log.native or record.native,  # a crash may have come before the record was written
                runtime=log.runtime or record.runtime,
                usage=log.usage or record.usage,
            )

        self._context.book.stage(agent.id, opened, new=log)
        # Not by the hook: that would be called for every event of every session.
        unobserve = agent.session.observe(lambda event: self.event(agent, event))
        agent.scope.undo(unobserve, label="log of the record").also(self._context.scope)
        agent.scope.spawn(self._initialized, agent, name="record")

    async def adopt(self, agent: Agent) -> None:
        """Begin with one that was live before the plugin came. Raises as `set_up`."""
        if agent.id not in self._seen:
            await self.set_up(agent)
            if not agent.gone:
                self.created(agent)
                self.look(agent)

    def disposed(self, agent: Agent) -> None:
        """It is live no longer. Its record said so before, unless the store refused it."""
        seen = self._seen.pop(agent.id, None)
        if seen is None:
            return
        after = seen.shown if isinstance(seen.shown, Closed) else Closed(error_of(seen.shown))
        self._context.book.stage(agent.id, lambda record: changed(record, state="closed"))
        self._feed.touch(agent.id)
        if after != seen.shown:
            self._context.tell_moved(agent, seen.shown, after)

    def event(self, agent: Agent, event: Event) -> None:
        """Something was logged."""
        seen = self._seen.get(agent.id) if event.type in WATCHED else None
        if seen is None:
            return
        asked = not isinstance(agent.state, Initializing)
        self._context.book.stage(agent.id, lambda record: apply(record, event, asked=asked))
        if event.type in _QUESTIONS:
            self._questions(seen)
        elif event.type == "turn/end":
            self._ended(agent.id, event)
        if event.type in _MOVING:
            self.look(agent)

    def look(self, agent: Agent) -> None:
        """See whether the agent's state has changed; if so, keep and tell it."""
        seen = self._seen.get(agent.id)
        if seen is None or seen.shown == agent.state:
            return
        before, seen.shown = seen.shown, agent.state
        after, error = seen.shown, error_of(seen.shown)
        fresh = name_of(after) == "running"  # a new run clears what went wrong before it

        def moved(record: AgentRecord) -> AgentRecord:
            kept = None if fresh else error or record.last_error
            return changed(record, state=name_of(after), last_error=kept)

        known = self._context.book.get(agent.id)
        if self._context.book.stage(agent.id, moved) == known:
            self._feed.touch(agent.id)  # the record does not say which turn runs
        self._context.tell_moved(agent, before, after)

    # shutdown

    def last_words(self) -> None:
        """Say what was running when the host was ended; once, when nothing of it runs any more."""
        if not self._cut_short:
            return
        names = ", ".join(self._named(agent_id) for agent_id in self._cut_short)
        text = f"the host ended while {len(self._cut_short)} agent(s) were at work: {names}"
        logging.getLogger("greenroom.manager").warning("%s", text)
        self._context.report("ended_at_work", text)
        self._cut_short.clear()

    # inside

    async def _initialized(self, agent: Agent) -> None:
        await agent.initialized()
        self.look(agent)

    async def _farewell(self, agent: Agent) -> None:
        """The agent's scope ends, its provider is closed already: keep what was last known of it."""
        book = self._context.book
        if agent.id not in self._seen or book.get(agent.id) is None:
            return
        if not agent.scope.stopping:
            await book.flush(agent.id)  # only the plugin leaves
            return
        self.look(agent)
        await book.change(agent.id, lambda record: changed(record, state="closed"))

    def _provider(self, agent: Agent) -> str:
        """The provider that drives it, by the rules of the driver."""
        header, context = agent.session.header, agent.session.state.context
        wanted = agent.options.provider or header.provider or (context.provider if context is not None else None)
        known = list(self._context.host.providers)
        return wanted or (known[0] if len(known) == 1 else "")

    def _questions(self, seen: _Seen) -> None:
        before, seen.questions = seen.questions, len(seen.agent.questions)
        self._feed.touch(seen.agent.id)
        self._context.tell_asked(seen.agent, before, seen.questions)

    def _ended(self, agent_id: str, event: Event) -> None:
        reason = event.data.reason
        if reason.kind == "aborted" and reason.cause == "disposed" and self._context.host.scope.stopping:
            self._cut_short.append(agent_id)

    def _named(self, agent_id: str) -> str:
        record = self._context.book.get(agent_id)
        return f"{agent_id} ({record.title})" if record is not None and record.title else agent_id
