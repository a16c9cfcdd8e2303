"""Creating, resuming and finding the agents of a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents._errors import NoFactory
from greenroom.agents._initiator import Initiators
from greenroom.agents._interfaces import AgentFactory, AgentOptions, AgentSpec
from greenroom.agents._pipeline import IDLE_LIMIT, Made, Pipeline, Plan, Report, Setup
from greenroom.errors import GreenroomError, NameTaken
from greenroom.sessions.vocabulary import AgentConfig

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from greenroom._effect import Effect
    from greenroom._hooks import Hooks
    from greenroom._scope import Scope
    from greenroom.agents._agent import Agent
    from greenroom.agents._life import Abort, Life
    from greenroom.sessions import EndProcess, Prepared, SessionRegistry

SETUP_LABEL: Final = "greenroom.setup"
"""Label of a session whose agent was composed by a `setup` of its creator, which a resume must give again."""


class FactorySlot:
    """The one place through which agents get their drivers."""

    def __init__(self) -> None:
        self._filled: tuple[AgentFactory, Scope] | None = None

    def fill(self, scope: Scope, factory: AgentFactory) -> Effect:
        """Let `factory` make the drivers until `scope` ends; the agents that it drives end before that.

        Raises:
            NameTaken: the slot is filled; names both owners.
        """
        if self._filled is not None:
            raise NameTaken(
                f"agents are driven by {self._filled[1].label}; {scope.label} cannot drive them too",
                hint='deny one of the two plugins: [plugins] deny = ["..."]',
                plugin=scope.plugin,
            )
        self._filled = (factory, scope)
        return scope.undo(self._clear, label="agent factory")

    def take(self) -> tuple[AgentFactory, Scope]:
        """The factory and the scope that it belongs to.

        Raises:
            NoFactory: no plugin drives agents.
        """
        if self._filled is None:
            raise NoFactory("no plugin drives agents", hint="pip install greenroom-driver")
        return self._filled

    def _clear(self) -> None:
        self._filled = None


class AgentHandle:
    """The capability to end an agent. Whoever creates gets it; finding an agent gives none."""

    def __init__(self, agent: Agent, life: Life) -> None:
        self.agent: Final = agent
        self._life = life

    async def dispose(self) -> None:
        """End the agent; its session and its pending input stay. Concurrent calls share one run.

        Cancelled: it ends all the same.

        Raises:
            DisposeFailed: a process could not be ended; calling again tries again.
            AgentError: called from inside the agent's own chain; the end was requested.
        """
        await self._life.close()

    def request_dispose(self) -> None:
        """Begin to end the agent without waiting for it."""
        self._life.request()


class Agents:
    """The agents of one host.

    Args:
        sessions: the live sessions.
        hooks: the host's.
        tasks: the host's task group, for teardowns.
        slot: who makes the drivers.
        report: takes what nobody else hears of to the diagnostics.
        end_process: ends the processes of a dead owner before its session is taken over.
    """

    def __init__(
        self,
        *,
        sessions: SessionRegistry,
        hooks: Hooks,
        tasks: TaskGroup,
        slot: FactorySlot,
        report: Report,
        end_process: EndProcess | None = None,
    ) -> None:
        self.initiators: Final = Initiators()
        self._slot = slot
        self._sessions = sessions
        self._report = report
        self._end_process = end_process
        self._pipeline = Pipeline(
            sessions=sessions, hooks=hooks, tasks=tasks, initiators=self.initiators, report=report
        )

    # queries

    def get(self, agent_id: str) -> Agent | None:
        """The live agent of that id, or None."""
        return self._pipeline.entries.get(agent_id)

    def list(self, *, internal: bool = True) -> Sequence[Agent]:
        """All live agents, in the order in which they were published."""
        return [agent for agent in self._pipeline.entries.list() if internal or not agent.internal]

    def roots(self) -> Sequence[Agent]:
        """The agents that no live agent created."""
        return [agent for agent in self._pipeline.entries.list() if agent.owner is None]

    def owner_of(self, agent: Agent) -> Agent | None:
        """The live agent whose scope created this one, or None."""
        return agent.owner

    def children(self, agent: Agent) -> Sequence[Agent]:
        """The agents that this one's scope created."""
        return [child for child in self._pipeline.entries.list() if child.owner is agent]

    def is_owned_by(self, agent: Agent, owner: Agent) -> bool:
        """Whether exactly `owner` created `agent` in this process; says nothing about any right."""
        return agent.owner is owner

    def owned_by(self, owner: Scope) -> ScopedAgents:
        """The ways in, for agents that end with `owner`; also `scope.agents`."""
        return ScopedAgents(self, owner)

    # ways in

    async def create(
        self, spec: AgentSpec, *, owner: Scope, setup: Setup | None = None, cancel: Abort | None = None
    ) -> AgentHandle:
        """Make a session and an agent that drives it, and publish both at once.

        Args:
            owner: the scope whose end ends the agent too.
            setup: composes the agent before anybody sees it; may return a function that is called at the last moment.
            cancel: gives up the creation while it goes on.

        Cancelled or failed: nothing is left and the id is free.

        Raises:
            NoFactory: no plugin drives agents.
            SessionExists: the id is taken, here or in the store.
            CreationAborted: `cancel` was given, or the owner or the factory is going.
            GreenroomError: what stores, providers and hooks refuse.
            Exception: what `setup` raised.
        """
        fields = {
            "cwd": str(spec.cwd) if spec.cwd is not None else None,
            "provider": spec.options.provider,
            "parent_session": spec.parent_session,
            "origin": spec.origin,
            "delegation_depth": spec.delegation_depth,
            "seed_length": spec.seed_length,
        }
        header = self._sessions.new_header(
            spec.id, **{name: value for name, value in fields.items() if value is not None}
        )

        async def prepare() -> Prepared:
            prepared = await self._sessions.prepare(header, seed=spec.seed)
            try:
                for blob in spec.blobs:
                    prepared.lease.put_blob(blob)
                    await prepared.lease.room()
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await prepared.discard()
                raise
            return prepared

        def log(made: Made) -> None:
            labels = {**spec.labels, **({SETUP_LABEL: "1"} if setup is not None else {})}
            config = AgentConfig(title=spec.title, labels=dict(labels) or None)
            if config != AgentConfig():
                made.prepared.session.append("agent/config", config)

        plan = Plan(header.id, prepare, spec.source, owner, spec.options, log, setup, cancel, internal=spec.internal)
        return await self._make(plan)

    async def resume(
        self,
        session_id: str,
        options: AgentOptions | None = None,
        *,
        owner: Scope,
        setup: Setup | None = None,
        cancel: Abort | None = None,
        internal: bool = False,
    ) -> AgentHandle:
        """Drive a stored session again. Waits for an agent of that id that is just ending.

        Arguments, cancellation and errors are those of `create`; further:

        Raises:
            SessionNotFound, SessionOwned, SessionDamaged, UnreadableSession, ProcessNotEnded: see `SessionStore`.
            InboxError: a stored splice does not fit.
        """

        async def prepare() -> Prepared:
            return await self._sessions.prepare_resume(session_id, end_process=self._end_process)

        def log(made: Made) -> None:
            labels = made.prepared.session.state.config.labels or {}
            if setup is None and SETUP_LABEL in labels:
                lost = GreenroomError(f"session {session_id} was created with a setup of its own; it is missing now")
                self._report("setup_missing", lost, session_id)

        chosen = options or AgentOptions()
        plan = Plan(session_id, prepare, "resume", owner, chosen, log, setup, cancel, internal=internal)
        return await self._make(plan)

    async def fork(
        self,
        source: Agent | str,
        boundary: int | None = None,
        *,
        owner: Scope,
        options: AgentOptions | None = None,
        setup: Setup | None = None,
        child_id: str | None = None,
    ) -> AgentHandle:
        """Drive a new session that begins with a prefix of another one; it does not inherit the inbox.

        Raises: as `create`, and ForkRefused for a boundary inside a turn.
        """
        child = child_id or self._sessions.ports.new_id()

        async def prepare() -> Prepared:
            parent = source if isinstance(source, str) else source.session
            return await self._sessions.fork(parent, boundary, child_id=child)

        chosen = options or AgentOptions()
        return await self._make(Plan(child, prepare, "startup", owner, chosen, setup=setup))

    async def aclose(self) -> None:
        """Wait until no chain of any agent runs, at most 5 s; the agents themselves end with their owners."""
        with anyio.move_on_after(IDLE_LIMIT):
            await self.initiators.aclose()
        self.initiators.disable()

    async def _make(self, plan: Plan) -> AgentHandle:
        return AgentHandle(*await self._pipeline.make(plan, *self._slot.take()))


class ScopedAgents:
    """The ways in for one owner: what is made here ends with its scope, and an agent's are its children."""

    def __init__(self, agents: Agents, owner: Scope) -> None:
        self._agents = agents
        self._owner = owner

    async def create(self, spec: AgentSpec, *, setup: Setup | None = None, cancel: Abort | None = None) -> AgentHandle:
        """See `Agents.create`."""
        return await self._agents.create(spec, owner=self._owner, setup=setup, cancel=cancel)

    async def resume(
        self,
        session_id: str,
        options: AgentOptions | None = None,
        *,
        setup: Setup | None = None,
        cancel: Abort | None = None,
    ) -> AgentHandle:
        """See `Agents.resume`."""
        return await self._agents.resume(session_id, options, owner=self._owner, setup=setup, cancel=cancel)

    async def fork(
        self, source: Agent | str, boundary: int | None = None, *, options: AgentOptions | None = None
    ) -> AgentHandle:
        """See `Agents.fork`."""
        return await self._agents.fork(source, boundary, owner=self._owner, options=options)
