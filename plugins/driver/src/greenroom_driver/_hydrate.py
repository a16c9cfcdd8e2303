"""Taking over a provider's history: what is missing in our log, or the whole of it as the beginning of one.

A replay is written to a draft first. Only when it is whole does anything reach the log, in one transaction of the
store: a replay that fails or is empty changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
import anyio.to_thread

from greenroom import providers as p
from greenroom.agents import AgentError, Hydrated, Seed
from greenroom.sessions import EventRefused, Session
from greenroom.sessions import vocabulary as v

from ._calls import Normalize
from ._dated import Blobs, Dated
from ._past import LOGGED, Logged, Told, read_history, read_log
from ._reconcile import Item, Plan, reconcile
from ._turn import reason_of
from ._write import Writer

if TYPE_CHECKING:
    from greenroom import Host

    from ._driver import AgentDriver

_AT_ONCE: Final = 2_000
"""Events that are compared at once, which takes some 10 ms; more are compared in a thread."""
_BREATH: Final = 200
"""Events of a replay between two breaths for others: a few milliseconds."""


async def hydrate(driver: AgentDriver, *, recast: bool = False) -> Hydrated:
    """Add what the provider's history has and our log has not; with `recast` begin a new line that has only that.

    Cancelled, failed, empty: nothing was changed; a failure and an empty replay stand in the diagnostics.

    Raises:
        AgentBusy: the agent is not at rest.
        AgentError: the provider keeps no history, or a new line would be empty.
        ProviderError: it could not be read.
    """
    if not driver.connection.can(p.Capability.HISTORY):
        raise AgentError(f"the provider {driver.connection.spec.id} keeps no history")

    async def go() -> Hydrated:
        live = await driver.connection.ensure()
        try:
            events = [event async for event in live.history()]
        except Exception as error:  # the provider's code; whatever it raises, nothing was changed
            driver.error(error)
            raise
        return await _take_over(driver, events, recast=recast)

    return await driver.run_maintenance(go)


async def _take_over(driver: AgentDriver, events: Sequence[p.ProviderEvent], *, recast: bool) -> Hydrated:
    session = driver.session
    log = await session.events(0, types=LOGGED)

    def compare() -> tuple[Logged, Replay]:
        logged = read_log(log)
        ours = Logged() if recast else logged
        theirs, told = read_history(events)
        plan = reconcile(ours.items, theirs, ours.unfinished)
        return logged, Replay(told, theirs, ours, plan, driver.connection.spec.id)

    long = len(log) + len(events) > _AT_ONCE
    logged, replay = await anyio.to_thread.run_sync(compare) if long else compare()
    if not replay.found and (logged.items or recast):
        text = f"the history of provider {driver.connection.spec.id} is empty; nothing was changed"
        driver.host.diagnostics.record("history_empty", text, session=session.id)
        if recast:
            raise AgentError(text, hint="reload without rehydrate keeps the log as it is")
        return Hydrated(known=0)
    if not recast and replay.idle:
        return replay.outcome(0)
    draft = Dated(Session(session.header, session.vocabulary), Blobs().put)
    normalize = _normalizer(driver.host, replay.provider)
    refused = await _draft(replay, draft, normalize)
    with session.atomic():
        if recast:
            for child in logged.children:
                session.append("subagent/removed", v.SubagentRemoved(child))
            session.recast("rehydrate", 0)
        for error in replay.write(Dated(session), normalize):
            if error is not None:
                driver.refused(error)
    for call in replay.settled:
        driver.writer.forget_call(call)
    await session.flush()
    return replay.outcome(len(refused))


class Histories:
    """See `greenroom.agents.HistorySeeds`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def seed(self, provider: str, native_id: str, history: Sequence[p.ProviderEvent]) -> Seed:
        """See `HistorySeeds.seed`."""
        sessions = self._host.sessions
        session, blobs = Session(sessions.new_header(), sessions.vocabulary), Blobs()
        items, told = read_history(history)
        log = Dated(session, blobs.put)
        log.time = next((event.time for event in history if event.time is not None), None)
        log.append("provider/session", v.ProviderSessionId(native_id))
        replay = Replay(told, items, Logged(), reconcile((), items), provider)
        refused = await _draft(replay, log, _normalizer(self._host, provider))
        for error in refused:
            self._host.diagnostics.record("event_refused", f"of the history of {native_id}: {error}")
        prompts = (event.text for event in history if isinstance(event, p.UserEcho) and event.text.strip())
        kept = tuple(blobs.kept.values())
        return Seed(events=session.tail, blobs=kept, first_prompt=next(prompts, None), refused=len(refused))


class Replay:
    """Writes what a plan says of a history. It may be carried out twice: into a draft, and into the log.

    Attributes:
        provider: its id.
        settled: calls that were told their result.
    """

    def __init__(self, told: Sequence[Told], theirs: Sequence[Item], ours: Logged, plan: Plan, provider: str) -> None:
        self.provider: Final = provider
        self.settled: list[str] = []
        self._told, self._theirs, self._ours, self._plan = told, theirs, ours, plan
        self._add = frozenset(plan.add)
        self._children = frozenset(ours.children)

    @property
    def found(self) -> int:
        """How many items the history has."""
        return len(self._theirs)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to write."""
        return not (self._add or self._plan.complete or any(self._child_news(told) for told in self._told))

    def outcome(self, refused: int) -> Hydrated:
        """What it comes to."""
        known, completed = len(self._plan.known), len(self._plan.complete)
        return Hydrated(
            found=len(self._theirs), known=known, added=len(self._add), completed=completed, refused=refused
        )

    def write(self, log: Dated, normalize: Normalize) -> Iterator[EventRefused | None]:
        """Write event by event. Yields what the log refused of each, or None."""
        self.settled = []
        writer = Writer(log, provider=self.provider, normalize=normalize, stray=lambda _text: None)
        open_in: Told | None = None
        for told in self._told:
            log.time = told.event.time if told.event.time is not None else log.time
            try:
                if open_in is not None and told.turn != open_in.turn:
                    self._end(writer, open_in, p.TurnCompleted())
                    open_in = None
                open_in = self._one(writer, log, told, open_in)
            except EventRefused as error:
                yield error
            else:
                yield None
        if open_in is not None:
            self._end(writer, open_in, p.TurnCompleted())

    def _one(self, writer: Writer, log: Dated, told: Told, open_in: Told | None) -> Told | None:
        """Write one event; return the turn that is open then."""
        event, item = told.event, told.item
        if isinstance(event, p.TERMINAL):
            if open_in is not None:
                self._end(writer, open_in, event)
            return None
        if isinstance(event, p.TurnStarted):
            return open_in
        if item is not None and item in self._plan.complete:
            rest = self._complete(writer, log, event, self._plan.complete[item])
            if rest is None:
                return open_in
            event = rest
        elif isinstance(event, p.SubAgent) and item not in self._add:
            if self._child_news(told):
                writer.event(event)
            return open_in
        elif item not in self._add and (item is not None or open_in is None):
            return open_in
        if open_in is None:
            writer.open_turn("import")
            open_in = told
        writer.event(event)
        return open_in

    def _end(self, writer: Writer, open_in: Told, terminal: p.TurnCompleted | p.TurnFailed | p.TurnCanceled) -> None:
        """Close the import of a turn: the provider has it, so nothing of it has to be handed over."""
        named = getattr(terminal, "turn_id", None) or getattr(open_in.event, "turn_id", None)
        writer.accepted(named or f"history-{open_in.turn + 1}")
        writer.end_turn(reason_of(terminal, None), terminal.usage)

    def _complete(self, writer: Writer, log: Dated, event: p.ProviderEvent, mine: int) -> p.MessageDone | None:
        """Tell an item of ours its end; what has to stand in a turn is returned."""
        ours, ref = self._ours.items[mine], self._ours.refs[mine]
        if isinstance(event, p.UserEcho):
            log.append("user/acknowledged", v.UserAcknowledged(ref, event.provider_message_id.strip()))
        elif isinstance(event, p.ToolFinished) and ref not in self.settled:
            writer.recall(ref, self._ours.details[ref])
            writer.settle_call(event)
            self.settled.append(ref)
        elif isinstance(event, p.MessageDone | p.TextDelta | p.ReasoningDelta):
            return self._rest(event, ours, ref)
        return None

    def _rest(self, event: p.ProviderEvent, ours: Item, ref: str) -> p.MessageDone | None:
        """What was lost of a text, once, in place of the first event that tells it."""
        place = next(theirs for theirs, mine in self._plan.complete.items() if self._ours.items[mine] is ours)
        first = next(told.event for told in self._told if told.item == place)
        text = self._theirs[place].content
        if event is not first or not text.startswith(ours.content) or len(text) == len(ours.content):
            return None
        return p.MessageDone(message_id=ref, text=text[len(ours.content) :], reasoning=ours.kind == "reasoning")

    def _child_news(self, told: Told) -> bool:
        """Whether an event says something new about a sub-agent of a call that stands here, or of none."""
        event = told.event
        if not isinstance(event, p.SubAgent) or told.item in self._add:
            return False
        if event.child_id not in self._children:
            return True
        ended = event.action == "upsert" and event.status not in (None, "running")
        return ended and self._ours.children[event.child_id] in (None, "running")


async def _draft(replay: Replay, log: Dated, normalize: Normalize) -> Sequence[EventRefused]:
    """Carry it out without making others wait; what the log refused."""
    refused = []
    for count, error in enumerate(replay.write(log, normalize), 1):
        if error is not None:
            refused.append(error)
        if count % _BREATH == 0:
            await anyio.lowlevel.checkpoint()
    return refused


def _normalizer(host: Host, provider: str) -> Normalize:
    return lambda name, given, output: host.hooks.normalize_tool_call(provider, name, given, output)
