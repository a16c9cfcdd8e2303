"""Drives one agent: takes its input, opens turns, hands them to the provider, and closes them.

Everything synchronous happens in one step (see `_drain`); what must be awaited, in a task of the agent's scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio

from greenroom import CallContext, Host
from greenroom.agents import (
    AgentScope,
    AgentState,
    AnsweredBy,
    Canceled,
    Cause,
    Closed,
    Failed,
    Hydrated,
    Initializing,
    InjectPolicy,
    Otherwise,
    Pending,
    Resting,
    Running,
)
from greenroom.errors import GreenroomError
from greenroom.providers import (
    Capability,
    Mode,
    PermissionRequest,
    PermissionRequested,
    PermissionResolved,
    PermissionResponse,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
)
from greenroom.sessions import EventRefused, Message, Session
from greenroom.sessions.vocabulary import ProviderSessionId, Reason, Target

from ._connection import Connection
from ._control import Control
from ._drain import Drain
from ._link import Link
from ._pump import Pump
from ._questions import Questions
from ._runs import Hold, Run, Runs, Terminal
from ._turn import EXITED, Activity, Turn, reason_of
from ._unhanded import unhanded_messages
from ._upkeep import Upkeep
from ._write import Writer

if TYPE_CHECKING:
    from ._coalescer import Coalescer

T = TypeVar("T")


class AgentDriver:
    """See `greenroom.agents.Driver`. Made by the factory; one for each agent."""

    def __init__(
        self,
        host: Host,
        session: Session,
        scope: AgentScope,
        connection: Callable[[AgentDriver], Connection],
        coalescer: Coalescer,
        new_id: Callable[[], str],
    ) -> None:
        self.host: Final = host
        self.agent: Final = scope.agent
        self.session: Final = session
        self.scope: Final = scope
        self.new_id: Final = new_id
        self.connection: Final = connection(self)
        spec = self.connection.spec
        self.writer: Final = Writer(
            session,
            provider=spec.id,
            normalize=lambda name, given, output: host.hooks.normalize_tool_call(spec.id, name, given, output),
            stray=self.stray,
        )
        self.hosted: Final = spec.steps == "host"
        hooks = host.hooks
        runs = Runs(new_id, known=self.writer.knows, stopping=lambda: not self.hosted and hooks.turn_stopping.wanted)
        self.runs: Final = runs
        self.pump: Final = Pump(session=session, runs=runs, writer=self.writer, coalescer=coalescer, handler=self)
        self.questions_open: Final = Questions(self)
        self.control: Final = Control(self)
        self.upkeep: Final = Upkeep(self)
        self.drain: Final = Drain(self)
        self.closing = False
        self.wakers: set[str] = set()
        self.unhanded: list[Message] = []
        self.last_error: str | None = None
        self._initialized = anyio.Event()
        self.known: Final = self._initialized.set
        self._started = False
        self._run_over: dict[int, anyio.Event] = {}

    # what it shows

    @property
    def status(self) -> Literal["idle", "running"]:
        """See `Agent.status`."""
        return "running" if self.drain.running else "idle"

    @property
    def busy(self) -> bool:
        """See `Driver.busy`."""
        turn = self.activity.turn if self.activity is not None else None
        return self.runs.active is not None or (turn is not None and not turn.ended.is_set())

    @property
    def state(self) -> AgentState:
        """See `Agent.state`."""
        error = self.last_error
        if self.closing:
            return Closed(error)
        if not self._initialized.is_set():
            return Initializing()
        if self.drain.running:
            turn = self.activity.turn if self.activity is not None else None
            return Running(turn.number if turn is not None else None, error)
        return Failed(error) if error is not None else Resting()

    @property
    def modes(self) -> Sequence[Mode]:
        """See `Agent.modes`."""
        return self.writer.modes

    @property
    def questions(self) -> Mapping[str, PermissionRequest]:
        """See `Agent.questions`."""
        return {name: asked.request for name, asked in self.session.state.asked.items()}

    @property
    def activity(self) -> Activity | None:
        """What makes the agent be not idle, None at rest."""
        return self.drain.activity

    def context(self, turn: int | None = None, call: str | None = None) -> CallContext:
        """Where a hook call comes from."""
        owner = self.agent.owner
        return CallContext(
            scope=self.scope,
            agent=self.agent.id,
            parent=owner.id if owner is not None else None,
            session=self.session.id,
            turn=turn if turn is not None else self.writer.turn,
            step=self.writer.step,
            tool_call=call,
        )

    # life

    async def open(self) -> None:
        """See `Driver.open`."""
        if not self.hosted:  # one whose steps are ours reads the log itself
            self.unhanded = await unhanded_messages(self.session, self.host.sessions.store)
        self.writer.withdraw_questions("the process that asked is gone")
        self.writer.choose(self.agent.options)  # first: what is opened is what was chosen
        await self.connection.ensure()

    def start(self) -> None:
        """See `Driver.start`."""
        self._started = True
        self.scope.spawn(self.pump.run, name="pump")
        self.scope.spawn(self.upkeep.refresh_contained, name="first refresh")

    async def aclose(self) -> None:
        """See `Driver.aclose`."""
        self.closing = True
        await self.connection.aclose()
        if not self._started:
            return  # nobody has seen it: what the provider has said so far goes with it
        self.pump.flush()
        while self.runs.active is not None or self.runs.holds:
            self._end_at_close()  # what was held may begin another turn
        self.pump.close()
        try:
            self.writer.withdraw_questions("the agent was closed")
            self.writer.cancel_children()
        except GreenroomError as error:
            self.error(error)

    def _end_at_close(self) -> None:
        run = self.runs.active
        if self.activity is not None:
            self.activity.cause = self.activity.cause or Cause("disposed")
        if run is not None:
            self.pump.apply(self.runs.settle(run, TurnCanceled(reason="the session was closed")))
        self.pump.apply([effect for hold in Hold for effect in self.runs.release(hold)])

    async def flush(self) -> None:
        """See `Driver.flush`."""
        self.pump.flush()
        await self.session.flush()

    # input

    def send(self, message: Message, target: Target, *, wake: bool) -> None:
        """See `Agent.send`."""
        activity = self.activity
        if wake and activity is not None and activity.cause is not None:
            target = "next-turn"  # it must not blend into the dying turn
        self.agent.inbox.add(target, message)
        if wake:
            if target == "next-step":
                self.wakers.add(message.id)
            self.drain.wake()

    def wake(self) -> None:
        """See `Agent.wake`."""
        if self.agent.inbox.next_turn:
            self.drain.wake()

    def steer(self, message: Message, *, otherwise: Otherwise) -> Pending[str]:
        """See `Agent.steer`."""
        return self.control.steer(message, otherwise)

    def inject(self, message: Message, policy: InjectPolicy | None) -> None:
        """See `Agent.inject`."""
        if (policy or self.agent.options.inject) == "own_turn":
            self.control.inject_turn(message)
        else:
            self.send(message, "next-step", wake=False)

    def replace(self, message: Message) -> Pending[None]:
        """See `Agent.replace`."""
        return self.control.replace(message)

    def cancel(self, cause: Cause, *, keep_inbox: bool) -> Pending[Canceled]:
        """See `Agent.cancel`."""
        return self.control.cancel(cause, keep_inbox=keep_inbox)

    async def when_idle(self) -> None:
        """See `Agent.when_idle`."""
        self.pump.flush()
        while self.activity is not None:
            await self.activity.done.wait()

    async def initialized(self) -> None:
        """See `Agent.initialized`."""
        await self._initialized.wait()

    async def started(self, timeout: float | None) -> None:
        """See `Agent.started`."""
        await self.control.started(timeout)

    async def respond(self, request_id: str, response: PermissionResponse, by: AnsweredBy) -> None:
        """See `Agent.respond`."""
        await self.questions_open.respond(request_id, response, by)

    async def configure(self, what: Literal["mode", "model", "thinking"], value: str | None) -> str | None:
        """See `Agent.set_mode` and its siblings."""
        return await self.upkeep.configure(what, value)

    async def set_feature(self, feature: str, value: str | bool | None) -> None:  # noqa: FBT001 - a value, no flag
        """See `Agent.set_feature`."""
        await self.upkeep.set_feature(feature, value)

    async def refresh(self) -> None:
        """See `Agent.refresh`."""
        await self.upkeep.refresh()

    async def reopen(self, *, rehydrate: bool) -> None:
        """See `Agent.reopen`."""
        await self.upkeep.reopen(rehydrate=rehydrate)

    async def revert(self, message_id: str) -> None:
        """See `Agent.revert`."""
        await self.upkeep.revert(message_id)

    async def hydrate(self) -> Hydrated:
        """See `Agent.hydrate`."""
        return await self.upkeep.hydrate()

    async def run_maintenance(self, task: Callable[[], Awaitable[T]]) -> T:
        """See `Agent.run_maintenance`."""
        return await self.drain.run_maintenance(task)

    # what the pump tells

    def opened(self, trigger: str) -> None:
        """The provider has begun a turn of its own."""
        self.drain.begin_foreign()
        self.writer.open_turn(trigger)

    def accepted(self, run: Run, provider_turn: str) -> None:
        """The provider has our turn: what was handed over with it is not handed over again."""
        turn = self.turn_of(run)
        self.writer.accepted(provider_turn)
        self.unhanded.clear()
        if turn is not None:
            turn.accepted.set()

    def asked(self, event: PermissionRequested) -> None:
        """The provider has a question."""
        self.questions_open.asked(event.request)

    def resolved(self, event: PermissionResolved) -> None:
        """The provider says that a question is closed."""
        self.questions_open.resolved(event)

    def finished(self, run: Run) -> None:
        """The provider has completed our turn; the task that drives it decides whether it closes."""
        turn = self.turn_of(run)
        if turn is not None:
            turn.over.set()

    def settled(self, run: Run, terminal: Terminal) -> None:
        """A run is over: close its turn."""
        activity, turn = self.activity, self.turn_of(run)
        cause = activity.cause if activity is not None else None
        decided = turn.reason if turn is not None else None
        completed = turn is not None and turn.command is None and isinstance(terminal, TurnCompleted)
        if completed and decided is None and not self._remembered():
            decided = Reason("error", message="the turn left no native session to resume", code="no_native_session")
        reason = decided or reason_of(terminal, cause)
        try:
            if self.writer.turn is not None:  # else the store did not take its beginning
                self.control.enter_late_context()
                self.writer.end_turn(reason, terminal.usage)
        except GreenroomError as error:
            self.error(error, self.writer.turn)
        self.last_error = reason.message or "the turn failed" if reason.kind == "error" else None
        self.run_over(run).set()
        del self._run_over[run.number]
        if activity is None:
            return
        activity.reason = reason
        activity.settle_cancels()
        if turn is not None:
            if turn.run.provider_turn is None and not self.hosted:
                self.unhanded += turn.context
            for event in (turn.accepted, turn.over, turn.ended):
                event.set()
            turn.call.cancel()
        else:
            self.pump.later(lambda: self.drain.foreign_over(activity))

    def _remembered(self) -> bool:
        """Whether the conversation can be found again, if this provider keeps conversations at all."""
        if not self.connection.can(Capability.RESUME) or self.session.state.native_id is not None:
            return True
        live = self.connection.live
        handle = live.handle if live is not None else None
        if handle is not None:
            self.session.append("provider/session", ProviderSessionId(handle.native_id))
        return handle is not None

    def lost(self, link: Link, message: str, code: str, diagnostic: str | None) -> None:
        """A provider session has ended by itself."""
        if not self.connection.lose(link):
            return
        run = self.runs.active
        if run is not None:
            failed = TurnFailed(error=message, code=code or EXITED, diagnostic=diagnostic)
            self.pump.apply(self.runs.settle(run, failed))
        self.writer.withdraw_questions(message)
        self.writer.cancel_children()

    def refused(self, error: EventRefused) -> None:
        """Something the provider said could not be logged."""
        self.host.diagnostics.record("event_refused", str(error), session=self.session.id, turn=self.writer.turn)

    def stalled(self, error: GreenroomError) -> None:
        """The store takes nothing: stop what runs, and say so."""
        self.last_error = str(error)
        self.error(error, self.writer.turn)
        if self.activity is not None and self.activity.cause is None:
            self.control.cancel(Cause("hook", "the store is stalled"), keep_inbox=True)

    def stray(self, text: str) -> None:
        """Something had no place in the log."""
        self.host.diagnostics.record("stray_event", text, session=self.session.id, turn=self.writer.turn)

    # shared with its parts

    def turn_of(self, run: Run) -> Turn | None:
        """The turn of ours that a run belongs to, if it is open."""
        turn = self.activity.turn if self.activity is not None else None
        return turn if turn is not None and turn.run is run else None

    def run_over(self, run: Run) -> anyio.Event:
        """Set when a run is over."""
        return self._run_over.setdefault(run.number, anyio.Event())

    def error(self, error: BaseException, turn: int | None = None) -> None:
        """Tell of a failure: the hook, and the diagnostics."""
        plugin = error.plugin if isinstance(error, GreenroomError) else None
        text = f"{type(error).__name__}: {error}"
        self.host.diagnostics.record("agent_error", text, plugin=plugin, session=self.session.id, turn=turn)
        self.host.hooks.agent_error(self.agent, error, turn, self.writer.step)
