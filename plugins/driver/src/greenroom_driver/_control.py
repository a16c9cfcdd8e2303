"""Steer, replace, cancel, inject: what changes a turn from outside, and with which outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import (
    AgentError,
    Canceled,
    CancelRefused,
    Cause,
    Otherwise,
    Pending,
)
from greenroom.errors import GreenroomError
from greenroom.providers import Capability, Interrupted, ProviderError, Steered, TurnCanceled
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Reason

from ._lifecycle import RunState
from ._runs import Hold, Run
from ._turn import Activity, Turn, kind_of

if TYPE_CHECKING:
    from ._driver import AgentDriver

INTERRUPT_WAIT: Final = 2.0
"""Seconds for the provider's receipt of an interrupt."""
SETTLE_WAIT: Final = 2.0
"""Seconds for the turn to settle after it; then an acknowledged one counts as canceled (table 4 of the lifecycles)."""


class Control:
    """See `AgentDriver`, whose part it is."""

    def __init__(self, driver: AgentDriver) -> None:
        self._driver = driver
        self._order = anyio.Lock()
        self._late_context: set[str] = set()

    # steer

    def steer(self, message: Message, otherwise: Otherwise) -> Pending[str]:
        """Put a message into the running turn; at rest it opens one."""
        driver, outcome = self._driver, Pending[str]()
        activity = driver.activity
        run = driver.runs.active
        plain = activity is None or activity.cause is not None or run is None or driver.hosted
        if plain or activity is None or activity.kind == "maintenance":
            driver.send(message, "next-step", wake=True)
            outcome.resolve("queued")
            return outcome
        driver.agent.inbox.add("next-step", message)
        driver.wakers.add(message.id)
        assert run is not None  # noqa: S101  # `plain` covers it
        driver.scope.spawn(self._steer, run, message, otherwise, outcome, name="steer")
        return outcome

    async def _steer(self, run: Run, message: Message, otherwise: Otherwise, outcome: Pending[str]) -> None:
        driver = self._driver
        try:
            async with self._order:
                result = await self._try_steer(run, message)
                if result is Steered.ACCEPTED or result is Steered.AMBIGUOUS:
                    outcome.resolve(result.value)
                elif otherwise == "queue" or message.id not in driver.agent.inbox:
                    outcome.resolve("queued")
                else:
                    await self._replace_instead(run, message)
                    outcome.resolve("replaced")
        except Exception as error:  # noqa: BLE001 - the outcome carries it to whoever asked
            outcome.fail(error)
        finally:
            outcome.fail(AgentError("the agent was closed"))

    async def _try_steer(self, run: Run, message: Message) -> Steered:
        """Ask the provider to take it; everything it says meanwhile stands behind the message."""
        driver = self._driver
        turn = driver.turn_of(run)
        if turn is not None and run.state is RunState.STARTING:
            await turn.accepted.wait()
        live = driver.connection.live
        if driver.runs.active is not run or run.state is not RunState.ACTIVE:
            if driver.activity is not None and driver.runs.active is None:
                driver.activity.latch = True  # its turn did not start: it opens one of its own
            return Steered.UNAVAILABLE
        usable = live is not None and driver.connection.can(Capability.STEER)
        if not usable or live is None or message.id not in driver.agent.inbox or live.out_of_band(message) is not None:
            return Steered.UNAVAILABLE
        driver.pump.flush()
        driver.runs.hold(Hold.STEER)
        result = Steered.AMBIGUOUS
        try:
            result = await live.steer(message)
        except ProviderError:
            result = Steered.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - the provider's code; nobody knows what it has done
            driver.error(error, driver.writer.turn)
        finally:
            self._conclude(message, result)
        return result

    def _conclude(self, message: Message, result: Steered) -> None:
        driver = self._driver
        try:
            if result is Steered.ACCEPTED:
                taken = driver.agent.inbox.take(message.id, driver.writer.turn)
                driver.writer.message("steering", taken or message)
                driver.wakers.discard(message.id)
            elif result is Steered.AMBIGUOUS:
                driver.agent.inbox.remove(message.id)
                text = "a message may or may not have reached the model; it is not sent again"
                driver.writer.notice("warning", text, "steer_ambiguous")
        except GreenroomError as error:
            driver.error(error, driver.writer.turn)
        finally:
            driver.pump.apply(driver.runs.release(Hold.STEER))

    async def _replace_instead(self, run: Run, message: Message) -> None:
        """The provider cannot take it: end its turn, unless that is over and another one runs."""
        driver, inbox = self._driver, self._driver.agent.inbox
        driver.pump.flush()  # the turn may have ended while we asked
        now = driver.runs.active
        if now is not None and now is not run:
            raise CancelRefused("a newer turn has begun meanwhile; the message waits for its end")
        place = [waiting.id for waiting in inbox.next_step].index(message.id)
        inbox.splice("next-step", place, 1)
        driver.wakers.discard(message.id)
        inbox.splice("next-turn", 0, 0, (message,))
        await self._end_for(message)

    # replace

    def replace(self, message: Message) -> Pending[None]:
        """End what runs and open a turn with this message, without a rest in between."""
        driver, outcome = self._driver, Pending[None]()
        activity = driver.activity
        if activity is None or activity.kind == "maintenance":
            driver.send(message, "next-turn", wake=True)
            outcome.resolve(None)
            return outcome
        driver.agent.inbox.splice("next-turn", 0, 0, (message,))
        activity.replacing = message.id
        driver.scope.spawn(self._replace, message, outcome, name="replace")
        return outcome

    async def _replace(self, message: Message, outcome: Pending[None]) -> None:
        try:
            async with self._order:
                await self._end_for(message)
            outcome.resolve(None)
        except Exception as error:  # noqa: BLE001 - the outcome carries it to whoever asked
            outcome.fail(error)
        finally:
            outcome.fail(AgentError("the agent was closed"))

    async def _end_for(self, message: Message) -> None:
        driver, activity = self._driver, self._driver.activity
        if activity is None or message.id not in driver.agent.inbox:
            driver.drain.wake()
            return
        activity.replacing = message.id
        if await self.cancel(Cause("replaced"), keep_inbox=True) is Canceled.REFUSED:
            driver.agent.inbox.remove(message.id)
            activity.replacing = None
            raise CancelRefused("the running turn could not be ended; it goes on")

    # cancel

    def cancel(self, cause: Cause, *, keep_inbox: bool) -> Pending[Canceled]:
        """End what runs and, unless `keep_inbox`, cancel what waits."""
        driver, outcome = self._driver, Pending[Canceled]()
        activity = driver.activity
        if activity is not None:
            activity.cause = activity.cause or cause
            if not keep_inbox:
                activity.latch, activity.replacing = False, None
        if not keep_inbox:
            driver.agent.inbox.clear()
        if activity is None or driver.activity is not activity:
            outcome.resolve(Canceled.NOT_RUNNING)
            return outcome
        activity.cancels.append(outcome)
        turn, run = activity.turn, driver.runs.active
        if activity.kind == "maintenance":
            activity.scope.cancel()
        elif turn is not None and not turn.handed:
            turn.scope.cancel()
        elif turn is not None and run is not None and run.state is RunState.STOPPING:
            self._leave_border(turn)
        elif run is not None and not activity.interrupting:
            self._leave_border(turn)
            activity.interrupting = True
            driver.scope.spawn(self._interrupt, activity, run, name="interrupt")
        return outcome

    def _leave_border(self, turn: Turn | None) -> None:
        if turn is not None and turn.border is not None:
            turn.border.cancel()

    async def _interrupt(self, activity: Activity, run: Run) -> None:
        driver, settled = self._driver, self._driver.run_over(run)
        starting = run.state is RunState.STARTING
        given = await self._ask_interrupt(settled)
        proven = given is not None and (not starting or self._names_ours(run, given))
        if given is not None and not proven and run.state is RunState.ACTIVE and not settled.is_set():
            # Accepted while we asked: what a provider acknowledges at rest proves nothing about a later turn.
            proven = await self._ask_interrupt(settled) is not None
        activity.interrupting = False
        if settled.is_set():
            return
        if proven:
            ended = TurnCanceled(turn_id=run.provider_turn, reason="interrupted")
            driver.pump.post(lambda: driver.pump.apply(driver.runs.settle(run, ended)))
            return
        activity.cause = None  # the turn goes on as if nobody had asked
        refused, activity.cancels = activity.cancels, []
        for outcome in refused:
            outcome.resolve(Canceled.REFUSED)

    def _names_ours(self, run: Run, receipt: Interrupted) -> bool:
        turn = self._driver.turn_of(run)
        return turn is not None and any(message.id in receipt.withdrawn for message in turn.messages)

    async def _ask_interrupt(self, settled: anyio.Event) -> Interrupted | None:
        """Interrupt, and give the run time to settle; the receipt, or None if there was none in time."""
        receipt = Pending[Interrupted | None]()
        self._driver.scope.spawn(self._call_interrupt, receipt, name="asking for an interrupt")
        given: Interrupted | None = None
        with anyio.move_on_after(INTERRUPT_WAIT):
            given = await receipt
        with anyio.move_on_after(SETTLE_WAIT):
            await settled.wait()
        return given

    async def _call_interrupt(self, receipt: Pending[Interrupted | None]) -> None:
        """A call that is late is not lost: what becomes of it is told."""
        driver = self._driver
        try:
            live = driver.connection.live
            receipt.resolve(await live.interrupt() if live is not None else None)
        except Exception as error:  # noqa: BLE001 - the provider's code; it did not acknowledge
            driver.error(error, driver.writer.turn)
            receipt.resolve(None)
        finally:
            receipt.resolve(None)

    # inject

    def inject_turn(self, message: Message) -> None:
        """Log context at once: in the open turn, or in a one-shot turn of its own."""
        driver = self._driver
        driver.pump.flush()
        if driver.activity is not None or driver.writer.turn is not None:
            driver.agent.inbox.add("next-step", message)
            self._late_context.add(message.id)
            if driver.writer.step is not None and not driver.writer.busy_with_tools and not driver.hosted:
                self.enter_late_context()
            return
        driver.writer.open_turn("injection", message.source)
        try:
            driver.writer.message("context", message)
        except GreenroomError as error:
            driver.writer.end_turn(Reason("error", message=str(error), code="refused"))
            raise
        else:
            driver.writer.end_turn(Reason("completed"))
            if not driver.hosted:
                driver.unhanded.append(message)
        finally:
            driver.scope.spawn(driver.drain.barrier, name="barrier")

    def enter_late_context(self) -> None:
        """Log the context that was injected into the open turn, before the turn closes."""
        driver, inbox = self._driver, self._driver.agent.inbox
        if not self._late_context:
            return
        for message in inbox.next_step:
            if message.id in self._late_context:
                inbox.take(message.id, driver.writer.turn)
                driver.writer.message("context", message)
                if not driver.hosted:
                    driver.unhanded.append(message)
        self._late_context.clear()

    # waiting for a start

    async def started(self, timeout: float | None) -> None:
        """Wait until something runs. Raises AgentError when nothing is about to, TimeoutError."""
        driver = self._driver
        driver.pump.flush()
        with anyio.fail_after(timeout):
            while driver.status != "running":
                activity = driver.activity
                if activity is None or not driver.drain.has_work():
                    raise AgentError(f"agent {driver.agent.id} is at rest and nothing waits")
                await activity.done.wait()

    # a provider whose steps are ours

    async def next_step(self) -> Sequence[Message] | None:
        """See `ProviderLink.next_step`."""
        driver = self._driver
        await self._caught_up()
        turn = self._open_turn()
        if turn is None:
            return None
        driver.writer.end_step()
        claimed = driver.agent.inbox.claim(turn.number, boundary=False).messages
        driver.wakers.difference_update(message.id for message in claimed)
        with turn.at_border():
            decided = await driver.drain.before_step(turn, claimed)
            if isinstance(decided, Reason):
                turn.reason = decided
                return None
            driver.writer.start_step()
            for message in decided:
                said = kind_of(message, prompt=False) == "user"
                driver.writer.message("steering" if said else "context", message)
            return decided
        return None

    async def stopping(self) -> bool:
        """See `ProviderLink.stopping`."""
        driver = self._driver
        await self._caught_up()
        turn = self._open_turn()
        if turn is None:
            return True
        with turn.at_border():
            await driver.host.hooks.turn_stopping(driver.context(turn.number))
        return self._open_turn() is None or not driver.agent.inbox.next_step

    def _open_turn(self) -> Turn | None:
        """The turn of ours that goes on and was not cancelled."""
        activity = self._driver.activity
        return activity.turn if activity is not None and activity.cause is None else None

    async def _caught_up(self) -> None:
        """Wait until what was emitted before is logged."""
        reached = anyio.Event()
        self._driver.pump.post(reached.set)
        await reached.wait()
