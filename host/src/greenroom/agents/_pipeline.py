"""The pipeline that makes an agent and the teardown that ends it, in the order of section 5 of the lifecycles."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from greenroom.agents._agent import Agent, AgentScope, owner_of
from greenroom.agents._entries import Entries, Entry
from greenroom.agents._errors import AgentClosed, DisposeFailed
from greenroom.agents._inbox import SPLICED, Fate, Inbox
from greenroom.agents._initiator import Initiators
from greenroom.agents._interfaces import AgentFactory, AgentOptions, Cause, Driver
from greenroom.agents._life import Abort, Life
from greenroom.errors import GreenroomError
from greenroom.sessions import SessionExists, SessionNotFound, SessionNotLive, SessionRegistry

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from greenroom._hooks import Hooks
    from greenroom._scope import Scope
    from greenroom.sessions import Entered, Message, Prepared

IDLE_LIMIT: Final = 5.0
"""Seconds that a teardown waits for the running turn to settle (section 5 of the lifecycles)."""
CLOSE_LIMIT: Final = 30.0
"""Seconds for a provider's stop ladder as a whole: its longest documented steps are 5 + 5 + 5, doubled."""

Source = Literal["startup", "resume", "import"]
Commit = Callable[[], None]
Setup = Callable[[Agent], Awaitable[Commit | None] | Commit | None]
Report = Callable[[str, BaseException, str | None], None]
"""Takes a code, an error and the session's id to the diagnostics."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made.

    Attributes:
        prepare: step 1, reserves the id or takes the lease.
        log: logs what the way in has to say, once nothing can fail but the announcement.
    """

    session_id: str
    prepare: Callable[[], Awaitable[Prepared]]
    source: Source
    owner: Scope
    options: AgentOptions
    log: Callable[[Made], None] = lambda _made: None
    setup: Setup | None = None
    cancel: Abort | None = None
    internal: bool = False


@dataclass(slots=True)
class Made:
    """What a creation has taken so far, in the order in which it is given back."""

    plan: Plan
    prepared: Prepared
    agent: Agent
    driver: Driver | None = None
    entered: Entered | None = None
    entry: Entry | None = None
    commits: list[Commit] = field(default_factory=list)


class Pipeline:
    """Makes and ends the agents of one host. Arguments: see `Agents`."""

    def __init__(
        self, *, sessions: SessionRegistry, hooks: Hooks, tasks: TaskGroup, initiators: Initiators, report: Report
    ) -> None:
        self.entries: Final = Entries(hooks.agent_created, hooks.agent_disposed)
        self.lives: Final[dict[str, Life]] = {}
        """By session id: what is being made, is live, is ending, or could not be ended."""
        self._sessions = sessions
        self._hooks = hooks
        self._tasks = tasks
        self._initiators = initiators
        self._report = report
        self._made: dict[Life, Made] = {}
        self._unfinished: dict[str, Made] = {}
        """By session id: what could not be made and whose process would not end; it keeps its lease."""

    async def make(self, plan: Plan, factory: AgentFactory, home: Scope) -> tuple[Agent, Life]:
        """Carry out a plan with a factory whose scope is `home`; everything or nothing. Raises: see `Agents.create`."""
        await self._finish(plan.session_id)
        await self._wait_for_last(plan.session_id)
        life = self.lives[plan.session_id] = Life(plan.session_id, self._tasks, self._teardown)
        made: Made | None = None
        try:
            life.belong_to(plan.owner, home)
            with life.making, _listening(plan.cancel, life):
                life.check()
                made = await self._publish(life, plan, factory, home)
            life.check()
        finally:
            if made is None:
                del self.lives[plan.session_id]
                life.over()
        assert made is not None  # noqa: S101  # a making that was given up has raised above
        return made.agent, life

    async def _publish(self, life: Life, plan: Plan, factory: AgentFactory, home: Scope) -> Made:
        prepared = await plan.prepare()
        made = Made(plan, prepared, self._agent(plan, prepared))
        life.belong_to(plan.owner, home)  # again: the owner must end the life before it closes the agent's scope
        try:
            life.check()
            await self._driver(made, factory)
            life.check()
            await self._set_up(made)
            await _driver_of(made).open()
            life.check()
            plan.log(made)
            for commit in made.commits:
                commit()
            life.check()
            self._announce(life, made)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._roll_back(made)
            raise
        # No await and nothing that fails from here on: it is published.
        self._made[life] = made
        life.agent, life.published, life.depart = made.agent, True, partial(_depart, made)
        made.agent.publish()
        _driver_of(made).start()
        return made

    def _agent(self, plan: Plan, prepared: Prepared) -> Agent:
        """Step 2, first half: the scope and the agent; `prepared` is given back if the owner is going."""
        session, owner = prepared.session, plan.owner
        scope = AgentScope(
            f"agent {session.id}", owner.ground, parent=owner, plugin=owner.plugin, generation=owner.generation
        )
        agent: Agent = Agent(
            session=session,
            scope=scope,
            inbox=Inbox(lambda splice: session.append(SPLICED, splice), lambda *fate: self._tell(agent, *fate)),
            options=plan.options,
            initiators=self._initiators,
            hooks=self._hooks,
            owner=owner_of(owner),
            internal=plan.internal,
        )
        scope.agent, scope.lease = agent, prepared.lease
        return agent

    def _tell(self, agent: Agent, fate: Fate, message: Message, turn: int | None) -> None:
        if fate == "claimed":
            self._hooks.agent_inbox_claimed(agent, message, turn)
        elif fate == "inserted":
            self._hooks.agent_inbox_inserted(agent, message)
        else:
            self._hooks.agent_inbox_discarded(agent, message)

    async def _driver(self, made: Made, factory: AgentFactory) -> None:
        """Step 2, second half: the scope's task, the inbox from the log, the driver."""
        agent, session = made.agent, made.prepared.session
        await agent.scope.open()
        agent.inbox.restore(await session.events(session.header.seed_length or 0, types=[SPLICED]))
        made.driver = await factory.prepare(session, agent.scope, made.plan.options)
        agent.attach(made.driver)

    async def _set_up(self, made: Made) -> None:
        """Step 3: every `agent_setup` hook, then the caller's own, on behalf of the creating agent."""
        agent, setup = made.agent, made.plan.setup
        with self._initiators.boundary(agent.owner):
            made.commits += [owned.value for owned in await self._hooks.agent_setup(agent)]
            if setup is not None:
                result = setup(agent)
                commit = await result if isinstance(result, Awaitable) else result
                if commit is not None:
                    made.commits.append(commit)

    def _announce(self, life: Life, made: Made) -> None:
        """Steps 5 and 6, without an await: sessions, then agents; then everybody hears of it."""
        agent = made.agent
        made.entered = self._sessions.enter(made.prepared, subject=agent.scope)
        made.entry = self.entries.enter(agent)
        made.entered.announce()
        life.check()
        made.entry.announce()
        life.check()
        self._hooks.agent_session_start(agent, made.plan.source)
        life.check()
        if not made.entry.live:
            raise AgentClosed(f"agent {agent.id} left while it was announced")

    async def _roll_back(self, made: Made) -> None:
        """Give everything back, the last first; what fails is reported and stops nothing."""
        made.agent.leave()
        closed = made.driver is None or await self._contained(made, made.driver.aclose)
        await made.agent.scope.aclose()
        if made.entry is not None:
            made.entry.detach()
        if not closed:  # its process may write on, so the lease stays until it has ended
            self._unfinished[made.plan.session_id] = made
            if made.entered is not None:
                made.entered.detach()
            return
        if made.entered is not None:
            await self._contained(made, made.entered.close)
            if made.prepared.source == "startup":  # what was logged of it may have been written already
                await self._contained(made, partial(self._forget, made.plan.session_id))
        await self._contained(made, made.prepared.discard)

    async def _forget(self, session_id: str) -> None:
        with suppress(SessionNotFound):
            await self._sessions.store.delete(session_id)

    async def _contained(self, made: Made, step: Callable[[], Awaitable[object]]) -> bool:
        """Whether the step was done."""
        try:
            with anyio.fail_after(CLOSE_LIMIT):
                await step()
        except Exception as error:  # noqa: BLE001 - the other steps must follow; it is reported
            self._report("rollback_failed", error, made.plan.session_id)
            return False
        return True

    async def _finish(self, session_id: str) -> None:
        """Try again to end what a creation has left behind. Raises DisposeFailed."""
        made = self._unfinished.get(session_id)
        if made is None:
            return
        try:
            with anyio.fail_after(CLOSE_LIMIT):
                await _driver_of(made).aclose()
        except Exception as error:
            raise DisposeFailed(f"what an earlier start of agent {session_id} left does not end: {error}") from error
        if self._unfinished.pop(session_id, None) is made:
            await (made.entered.lease.release() if made.entered is not None else made.prepared.discard())

    async def _teardown(self, life: Life) -> None:
        """End a published agent; raises if the provider's process would not end, with the lease kept."""
        made = self._made[life]
        agent, driver = made.agent, _driver_of(made)
        with anyio.move_on_after(IDLE_LIMIT):
            await driver.when_idle()
        with anyio.fail_after(CLOSE_LIMIT):
            await driver.aclose()
        await agent.scope.aclose()
        if made.entry is not None:
            made.entry.detach()
        if made.entered is not None:
            await self._leave_session(made.entered)
        agent.farewell()
        del self._made[life]
        del self.lives[life.session_id]

    async def _leave_session(self, entered: Entered) -> None:
        """Flush, say farewell, give the lease back; a store that cannot write keeps what it has not written."""
        try:
            await entered.close()
        except SessionNotLive:
            entered.detach()
        except GreenroomError as error:
            self._report("flush_failed", error, entered.session.id)
            entered.detach()

    async def _wait_for_last(self, session_id: str) -> None:
        """A session whose agent is just ending is free when it has ended; one whose end failed is tried again."""
        life = self.lives.get(session_id)
        if life is None:
            return
        if not life.ending:
            raise SessionExists(f"agent {session_id} is live here", session_id=session_id)
        await life.close()


@contextmanager
def _listening(cancel: Abort | None, life: Life) -> Iterator[None]:
    """Let the caller's signal give up the life while the block runs."""
    if cancel is None:
        yield
        return
    unlisten = cancel.listen(lambda reason: life.give_up("the caller gave it up", reason))
    try:
        yield
    finally:
        unlisten()


def _depart(made: Made) -> None:
    """From here on the agent is driven no more, and what runs is to end; what waits stays."""
    made.agent.leave()
    _driver_of(made).cancel(Cause("disposed"), keep_inbox=True)


def _driver_of(made: Made) -> Driver:
    assert made.driver is not None  # noqa: S101  # the step before has made it
    return made.driver
