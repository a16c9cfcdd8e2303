"""The drain of the inbox: from a waking message to rest, turn by turn.

What is synchronous here happens in one step: from idle, `followup()` returns after the status went running, the turn
was opened and the message was claimed. What must be awaited happens in a task of the agent's scope.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from greenroom import Block
from greenroom.agents import AgentBusy, AgentClosed, AgentError, with_initiator
from greenroom.errors import GreenroomError, HookError
from greenroom.providers import Capability, TurnCanceled, TurnCompleted, TurnFailed, TurnRequest
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Reason

from ._lifecycle import PHASE, STATUS, Phase, PhaseMove, Walker
from ._runs import Hold, Terminal
from ._turn import Activity, Turn, aborted, kind_of

if TYPE_CHECKING:
    from ._driver import AgentDriver

T = TypeVar("T")

_PARKS: Final = frozenset({"error", "blocked"})
"""Ends after which what waits stays until the next waking message."""


class Drain:
    """See `AgentDriver`, whose part it is.

    Attributes:
        activity: what makes the agent be not idle, None at rest.
    """

    def __init__(self, driver: AgentDriver) -> None:
        self._driver = driver
        self.activity: Activity | None = None
        self._phase: Final = Walker[Phase, PhaseMove](PHASE, Phase.IDLE, f"agent {driver.session.id}")

    @property
    def running(self) -> bool:
        """Whether the public sees it running."""
        return self._phase.state is Phase.RUNNING

    def begin_foreign(self) -> None:
        """The provider has begun a turn of its own: at rest, that is an activity."""
        if self.activity is None:
            self.activity = Activity("work")
            self._driver.last_error = None
            self._move(PhaseMove.WAKE)
        self.activity.cause = None  # what was cancelled before is over

    def foreign_over(self, activity: Activity) -> None:
        """A turn that the provider began by itself is over: take what waits, or rest."""
        if self.activity is not activity or self._driver.runs.active is not None or activity.turn is not None:
            return
        if self._driver.closing:
            self._rest(activity)
            return
        self._driver.scope.spawn(self.barrier, name="barrier")
        self._driver.upkeep.refresh_soon()
        if self._continue(activity):
            self._driver.scope.spawn(self._drive, activity, name="driver")

    async def run_maintenance(self, task: Callable[[], Awaitable[T]]) -> T:
        """See `Agent.run_maintenance`."""
        self._driver.pump.flush()
        if self._driver.closing:
            raise AgentClosed(f"agent {self._driver.agent.id} was closed")
        if self.activity is not None:
            raise AgentBusy(f"agent {self._driver.agent.id} is not at rest")
        activity = self.activity = Activity("maintenance")
        self._phase.fire(PhaseMove.MAINTAIN)
        self._driver.runs.hold(Hold.MAINTENANCE)
        try:
            with activity.scope:
                return await task()
            raise AgentError(f"the maintenance of agent {self._driver.agent.id} was canceled")
        finally:
            self._leave(activity)
            self._driver.pump.apply(self._driver.runs.release(Hold.MAINTENANCE))
            self._follow(activity)

    # the drain of the inbox

    def wake(self) -> None:
        """Look for work; from idle, begin it before returning."""
        if self._driver.closing:
            return
        if self._driver.pump.draining:
            self._driver.pump.later(self.wake)
            return
        activity = self.activity
        if activity is None:
            self._begin()
        elif activity.kind == "maintenance" or activity.cause is not None:
            activity.latch = True
        elif activity.turn is not None and activity.turn.ended.is_set():
            activity.latch = True  # that turn may park what waits for it; this came later
        else:
            run = self._driver.runs.active
            if run is not None and run.kind == "autonomous" and not run.announced:
                self._driver.pump.apply(self._driver.runs.settle(run, TurnCompleted(turn_id=run.provider_turn)))

    def _begin(self) -> None:
        self._driver.pump.flush()
        if self.activity is not None:
            return  # the provider has begun a turn of its own: the message is taken after it
        activity = self.activity = Activity("work")
        self._move(PhaseMove.WAKE)
        if activity.cause is None and not self._driver.closing and self._open(activity):
            self._driver.scope.spawn(self._drive, activity, name="driver")
        elif self.activity is activity:
            self._rest(activity)

    def _open(self, activity: Activity) -> bool:
        """Open a turn and claim its input. False: it could not be opened; what waits stays."""
        inbox = self._driver.agent.inbox
        waiting = inbox.next_turn or inbox.next_step
        prompt = waiting[0] if waiting else None
        live = self._driver.connection.live
        command = None
        if prompt is not None and live is not None and self._driver.connection.can(Capability.OUT_OF_BAND):
            command = live.out_of_band(prompt)
        try:
            source = prompt.source if prompt is not None else None
            number = self._driver.writer.open_turn("command" if command is not None else "message", source)
        except GreenroomError as error:
            self._driver.error(error)
            return False
        run = self._driver.runs.begin()
        turn = activity.turn = Turn(number, run, (), command)
        activity.reason = None
        self._driver.last_error = None
        try:
            turn.messages = inbox.claim(number, boundary=True).messages
        except GreenroomError as error:
            self._driver.error(error, number)
            turn.reason = Reason("error", message=str(error), code="claim_failed")
        self._driver.wakers.difference_update(message.id for message in turn.messages)
        if activity.replacing is not None and activity.replacing not in inbox:
            activity.replacing = None
        return True

    async def _drive(self, activity: Activity) -> None:
        with with_initiator(self._driver.agent):
            while activity.turn is not None:
                await self._turn(activity, activity.turn)
                await self.barrier(activity.turn.number)
                self._driver.upkeep.refresh_soon()
                if not self._continue(activity):
                    return

    def _continue(self, activity: Activity) -> bool:
        """After a turn: open the next one, or rest. True: there is a turn to drive."""
        self._driver.pump.flush()
        activity.turn = None
        if self.activity is not activity or self._driver.runs.active is not None:
            return False  # the provider has gone on by itself; the end of that turn continues here
        if self._goes_on(activity) and self._open(activity):
            return True
        self._rest(activity)
        return False

    def _goes_on(self, activity: Activity) -> bool:
        if self._driver.closing:
            return False
        if activity.replacing is not None and activity.replacing in self._driver.agent.inbox:
            activity.cause = None
            return True
        activity.replacing = None
        if activity.cause is not None or (activity.reason is not None and activity.reason.kind in _PARKS):
            return False
        return self.has_work()

    def has_work(self) -> bool:
        """Whether something waits that opens a turn."""
        inbox = self._driver.agent.inbox
        return bool(inbox.next_turn) or any(message.id in self._driver.wakers for message in inbox.next_step)

    def _rest(self, activity: Activity) -> None:
        """The activity is over; a latched wake-up begins the next one before anybody who waits is told."""
        self._leave(activity)
        self._follow(activity)

    def abandon(self) -> None:
        """The agent is gone, and with it the task that would have come to rest: wake whoever waits for that."""
        activity = self.activity
        if activity is not None:
            self._leave(activity)
            activity.done.set()

    def _leave(self, activity: Activity) -> None:
        self.activity = None
        self._move(PhaseMove.REST)
        activity.settle_cancels()

    def _follow(self, activity: Activity) -> None:
        if activity.latch and self.activity is None and not self._driver.closing and self.has_work():
            self._begin()
        activity.done.set()

    def _move(self, move: PhaseMove) -> None:
        before = STATUS[self._phase.state]
        after = STATUS[self._phase.fire(move)]
        if before != after:
            self._driver.host.hooks.agent_status(self._driver.agent, after)

    # one turn

    async def _turn(self, activity: Activity, turn: Turn) -> None:
        try:
            with turn.scope:
                if turn.reason is None and activity.cause is None:
                    turn.reason = await self._enter(turn)
            if turn.reason is None and activity.cause is None:
                await self._hand_over(turn)
        except Exception as error:  # noqa: BLE001 - whatever failed, the turn is closed and the failure recorded
            self._driver.error(error, turn.number)
            turn.reason = turn.reason or Reason("error", message=str(error) or repr(error), code="driver_failed")
        if not turn.ended.is_set() and not turn.handed:
            turn.reason = turn.reason or aborted(activity.cause)
            self._driver.pump.apply(self._driver.runs.settle(turn.run, TurnCanceled(reason="not handed over")))
        await turn.over.wait()
        if not turn.ended.is_set():
            await self._stop(activity, turn)
        await turn.ended.wait()

    async def _enter(self, turn: Turn) -> Reason | None:
        """Everything up to the store's barrier; a reason if the turn ends here."""
        decided = await self.before_step(turn, turn.messages)
        if isinstance(decided, Reason):
            return decided
        turn.messages = messages = decided
        if not messages:
            return Reason("completed")
        self._driver.writer.start_step()
        for place, message in enumerate(messages):
            kind = kind_of(message, prompt=place == len(messages) - 1)
            self._driver.writer.message(kind, message)
            if kind == "context":
                turn.context.append(message)
        await self._driver.session.flush()
        await self._driver.connection.ensure()
        return None

    async def before_step(self, turn: Turn, messages: tuple[Message, ...]) -> tuple[Message, ...] | Reason:
        """What `pre_step` lets enter, or why the turn ends here."""
        if not self._driver.host.hooks.pre_step.wanted:
            return messages
        try:
            decided = await self._driver.host.hooks.pre_step(self._driver.context(turn.number), messages)
        except HookError as error:
            self._driver.error(error, turn.number)
            return Reason("error", message=str(error), code="hook_failed")
        if isinstance(decided, Block):
            return Reason("blocked", by=decided.by or "hook", reason=decided.reason)
        return tuple(decided)

    async def _hand_over(self, turn: Turn) -> None:
        """Ask the provider, in a task of its own: a call that hangs must not keep the turn from ending."""
        turn.handed = True
        self._driver.scope.spawn(self._ask if turn.command is None else self._command, turn, name=f"turn {turn.number}")

    async def _ask(self, turn: Turn) -> None:
        run, request = turn.run, TurnRequest(turn=turn.number, messages=(*self._driver.unhanded, *turn.messages))
        with with_initiator(self._driver.agent), turn.call:
            try:
                provider_turn = await self._driver.connection.start(request)
            except Exception as error:  # noqa: BLE001 - the provider's code; a refusal ends the turn
                if not isinstance(error, GreenroomError):
                    self._driver.stray(f"start_turn raised {error!r}")
                failed = TurnFailed(error=_told(error), code="start_failed")
                self._driver.pump.post(lambda: self._driver.pump.apply(self._driver.runs.refuse(run, failed)))
            else:
                self._driver.pump.post(lambda: self._driver.pump.apply(self._driver.runs.accept(run, provider_turn)))

    async def _command(self, turn: Turn) -> None:
        """A prompt that the provider treats by itself: its output is the turn."""
        run, command = turn.run, turn.command
        assert command is not None  # noqa: S101  # chosen by the caller
        name = self._driver.new_id()
        ended: Terminal = TurnCompleted(turn_id=name)
        self._driver.pump.apply(self._driver.runs.accept(run, name))
        with with_initiator(self._driver.agent), turn.call:
            try:
                await command.run()
            except Exception as error:  # noqa: BLE001 - the provider's code; its failure is the turn's
                ended = TurnFailed(turn_id=name, error=_told(error), code="command_failed")
            self._driver.pump.post(lambda: self._driver.pump.apply(self._driver.runs.settle(run, ended)))

    async def _stop(self, activity: Activity, turn: Turn) -> None:
        """The provider has finished: the last chance to act before the turn closes."""
        failed: Terminal | None = None
        with turn.at_border():
            try:
                await self._driver.host.hooks.turn_stopping(self._driver.context(turn.number))
            except HookError as error:
                self._driver.error(error, turn.number)
                failed = TurnFailed(error=str(error), code="hook_failed")
        if activity.cause is not None:
            failed = TurnCanceled(reason="canceled while stopping")
        run = turn.run
        self._driver.pump.apply(
            self._driver.runs.settle(run, failed) if failed is not None else self._driver.runs.conclude(run)
        )

    async def barrier(self, turn: int | None = None) -> None:
        """Wait until the log is durable; a failure ends no turn, it is told."""
        try:
            await self._driver.session.flush()
        except GreenroomError as error:
            self._driver.error(error, turn)


def _told(error: Exception) -> str:
    return error.args[0] if isinstance(error, GreenroomError) and error.args else (str(error) or repr(error))
