"""Cancel at every moment of a turn."""

from __future__ import annotations

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import Canceled, Cause
from greenroom.providers import ReasoningDelta, TextDelta, ToolStarted
from greenroom_testing import accept, answer

from .jumping import JUMPING

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


class Listener:
    """Calls what a test wants called when a status or a discarded message is told."""

    def __init__(self) -> None:
        self.on: dict[str, object] = {}
        self.statuses: list[str] = []

    def _tell(self, what) -> None:
        call = self.on.pop(what, None)
        if call is not None:
            call()

    @hookimpl
    def agent_status(self, agent, status):
        self.statuses.append(status)
        self._tell(status)

    @hookimpl
    def agent_inbox_discarded(self, agent, message):
        self._tell("discarded")


@pytest.fixture
async def listener(rig) -> Listener:
    made = Listener()
    await rig.host.load(made, name="listener")
    return made


def entered(rig) -> list[str]:
    return [e.data.message.content[0].text for e in rig.of("user/message", "context/message", "steering/message")]


def waiting(rig) -> list[str]:
    return [m.content[0].text for m in (*rig.agent.inbox.next_step, *rig.agent.inbox.next_turn)]


async def slow_stop(session):
    """An interrupt that takes a second to end the turn."""
    from greenroom.providers import Interrupted, TurnCanceled

    await anyio.sleep(1)
    session.emit(TurnCanceled(turn_id=session.turn, reason="interrupted"))
    return Interrupted()


@pytest.mark.behaviour("D-256")
async def test_at_rest_with_nothing_waiting_it_does_nothing_and_does_not_harm_the_next_prompt(rig):
    assert await rig.agent.cancel() is Canceled.NOT_RUNNING
    assert (await rig.agent.run("go")).reason.kind == "completed"


@pytest.mark.behaviour("D-257")
async def test_keeping_the_inbox_does_not_restore_what_was_claimed(rig, turn):
    await rig.agent.cancel(keep_inbox=True)
    await rig.agent.when_idle()
    assert waiting(rig) == []
    assert entered(rig) == ["go"]


@pytest.mark.behaviour("D-258")
async def test_keeping_the_inbox_parks_what_was_queued(rig, turn):
    rig.agent.followup("queued")
    await rig.agent.cancel(keep_inbox=True)
    await rig.agent.when_idle()
    assert waiting(rig) == ["queued"]
    assert rig.reasons() == ["aborted"]
    rig.provider.starting = answer
    rig.agent.followup("next")
    await rig.agent.when_idle()
    assert entered(rig) == ["go", "queued", "next"]


@pytest.mark.behaviour("D-259")
@pytest.mark.parametrize("delay", [0, 0.5, 0.999])
async def test_a_waking_message_between_the_cancel_and_the_rest_is_taken_afterwards(rig, turn, delay):
    rig.provider.interrupting = slow_stop
    rig.agent.cancel()
    await anyio.sleep(delay)
    rig.provider.starting = answer
    rig.agent.steer("late")
    await rig.agent.when_idle()
    assert entered(rig) == ["go", "late"]
    assert rig.reasons() == ["aborted", "completed"]


@pytest.mark.behaviour("D-260")
async def test_a_second_cancel_clears_that_message_and_its_wake(rig, turn):
    rig.provider.interrupting = slow_stop
    rig.agent.cancel()
    rig.agent.followup("late")
    rig.agent.cancel()
    await rig.agent.when_idle()
    assert waiting(rig) == []
    assert rig.reasons() == ["aborted"]


@pytest.mark.behaviour("D-261")
async def test_removing_that_message_suppresses_the_wake(rig, turn):
    rig.provider.interrupting = slow_stop
    rig.agent.cancel()
    late = rig.agent.followup("late")
    rig.agent.inbox.remove(late.id)
    await rig.agent.when_idle()
    assert len(rig.of("turn/start")) == 1


@pytest.mark.behaviour("D-262")
async def test_once_disposal_has_begun_nothing_wakes(rig, turn):
    rig.provider.interrupting = slow_stop
    rig.agent.followup("queued")
    rig.handle.request_dispose()
    await rig.settle()
    await rig.handle.dispose()
    assert len(rig.of("turn/start")) == 1
    assert waiting(rig) == ["queued"]


@pytest.mark.behaviour("D-263")
async def test_right_after_a_waking_message_it_closes_the_open_turn_without_a_step(rig):
    rig.agent.followup("go")
    assert rig.types() == ["turn/start"]
    rig.agent.cancel()
    await rig.agent.when_idle()
    assert rig.types() == ["turn/start", "turn/end"]
    assert rig.session.requests == []


@pytest.mark.behaviour("D-264")
async def test_a_disposal_from_the_news_of_running_opens_no_turn_and_the_input_stays(rig, listener):
    listener.on["running"] = rig.handle.request_dispose
    rig.agent.followup("go")
    await rig.handle.dispose()
    assert rig.types() == []
    assert waiting(rig) == ["go"]


@pytest.mark.behaviour("D-265")
async def test_a_waiter_from_before_a_cancel_before_the_step_is_woken(rig):
    rig.agent.followup("go")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.agent.when_idle)
        await anyio.lowlevel.checkpoint()
        rig.agent.cancel()
    assert rig.agent.status == "idle"


@pytest.mark.behaviour("D-266")
async def test_a_cancel_from_the_news_of_rest_settles_its_waiter_and_later_work_runs(rig, listener):
    outcomes = []
    listener.on["idle"] = lambda: outcomes.append(rig.agent.cancel())
    await rig.agent.run("go")
    await rig.agent.when_idle()
    assert await outcomes[0] is Canceled.NOT_RUNNING
    assert (await rig.agent.run("later")).reason.kind == "completed"


@pytest.mark.behaviour("D-266")
async def test_work_that_the_news_of_rest_brings_runs_before_the_waiter_wakes(rig, listener):
    listener.on["idle"] = lambda: rig.agent.followup("more")
    rig.agent.followup("go")
    await rig.agent.when_idle()
    assert entered(rig) == ["go", "more"]


@pytest.mark.behaviour("D-267")
async def test_in_a_step_it_aborts_the_turn_and_drops_the_queue(rig, turn):
    rig.agent.followup("queued")
    await rig.agent.cancel()
    await rig.agent.when_idle()
    assert rig.reasons() == ["aborted"]
    assert waiting(rig) == []
    assert rig.types()[-2:] == ["step/end", "turn/end"]


@pytest.mark.behaviour("D-268")
async def test_from_an_observer_of_an_answer_the_log_stays_balanced(rig, turn):
    rig.agent.session.observe(lambda e: rig.agent.cancel() if e.type == "assistant/message" and e.data.text else None)
    rig.session.say("half")
    rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id=turn))
    await rig.agent.when_idle()
    balanced(rig)
    assert rig.reasons() == ["aborted"]
    assert {event.data.status for event in rig.of("tool/result")} <= {"unknown"}


@pytest.mark.behaviour("D-269")
async def test_a_prompt_after_a_settled_cancel_runs_as_ever(rig, turn):
    await rig.agent.cancel()
    await rig.agent.when_idle()
    rig.provider.starting = answer
    assert (await rig.agent.run("next")).text == "ok"


@pytest.mark.behaviour("D-270", "D-271")
@pytest.mark.parametrize("kind", [TextDelta, ReasoningDelta])
async def test_what_was_streamed_of_an_answer_is_kept_as_an_interrupted_message(rig, turn, kind):
    rig.session.emit(kind(text="half an ", message_id="m", turn_id=turn))
    rig.session.emit(kind(text="answer", message_id="m", turn_id=turn))
    await rig.agent.cancel()
    pieces = rig.of("assistant/")
    assert "".join(piece.data.text for piece in pieces) == "half an answer"
    if kind is TextDelta:
        assert pieces[-1].data.final
        assert pieces[-1].data.interrupted
        messages = rig.agent.session.derive_messages()
        assert messages[-1].content[0].text == "half an answer"


@pytest.mark.behaviour("D-275")
async def test_before_anything_visible_it_finalises_nothing(rig, turn):
    await rig.agent.cancel()
    assert rig.of("assistant/") == []


@pytest.mark.behaviour("D-276")
@pytest.mark.parametrize("how", ["cancel", "dispose"])
async def test_from_an_observer_of_the_step_it_stops_before_the_provider_is_asked(rig, how):
    call = rig.agent.cancel if how == "cancel" else rig.handle.request_dispose
    rig.agent.session.observe(lambda event: rig.host.scope.spawn(_call, call) if event.type == "step/start" else None)
    plain = rig.agent.session.flush

    async def slow(barrier=None):
        if not rig.of("turn/end"):
            await anyio.sleep(0.1)
        await plain(barrier)

    rig.agent.session.flush = slow
    rig.agent.followup("go")
    await rig.agent.when_idle()
    assert rig.session.requests == []
    balanced(rig)
    assert rig.reasons() == ["aborted"]


async def _call(call) -> None:
    call()


class Stopping:
    def __init__(self) -> None:
        self.inside = anyio.Event()

    @hookimpl
    async def turn_stopping(self, ctx):
        self.inside.set()
        await anyio.sleep_forever()


@pytest.mark.behaviour("D-277")
async def test_in_turn_stopping_it_ends_the_turn_aborted_without_another_step(rig):
    hook = Stopping()
    await rig.host.load(hook, name="stopping")
    rig.agent.followup("go")
    await hook.inside.wait()
    assert await rig.agent.cancel() is Canceled.SETTLED
    await rig.agent.when_idle()
    assert rig.reasons() == ["aborted"]
    assert len(rig.of("step/start")) == 1
    assert rig.session.interrupts == 0


@pytest.mark.behaviour("D-278")
@pytest.mark.parametrize("replacement", [True, False])
async def test_from_the_news_of_running_it_drops_the_turn_and_replacement_work_runs(rig, listener, replacement):
    def cancel():
        rig.agent.cancel()
        if replacement:
            rig.agent.followup("instead")

    listener.on["running"] = cancel
    rig.agent.followup("go")
    await rig.agent.when_idle()
    assert entered(rig) == (["instead"] if replacement else [])


@pytest.mark.behaviour("D-279")
async def test_a_prompt_that_came_during_a_cancel_before_the_step_runs_afterwards(rig):
    inside = anyio.Event()

    class Slow:
        @hookimpl
        async def pre_step(self, ctx, messages):
            if ctx.turn == 1:
                inside.set()
                await anyio.sleep_forever()

    await rig.host.load(Slow(), name="slow")
    rig.agent.followup("go")
    await inside.wait()
    rig.agent.cancel()
    rig.agent.followup("next")
    await rig.agent.when_idle()
    assert entered(rig) == ["next"]
    assert rig.reasons() == ["aborted", "completed"]


@pytest.mark.behaviour("D-280")
async def test_the_steering_of_a_cancelled_turn_is_cleared_and_becomes_no_turn(rig, turn):
    from greenroom.providers import Steered

    async def unavailable(session, message):
        return Steered.UNAVAILABLE

    rig.provider.steering = unavailable
    assert await rig.agent.steer("more") == "queued"
    await rig.agent.cancel()
    await rig.agent.when_idle()
    assert waiting(rig) == []
    assert len(rig.of("turn/start")) == 1


@pytest.mark.behaviour("D-281")
async def test_replacement_work_that_an_observer_of_the_cancel_brings_runs(rig, turn, listener):
    rig.agent.followup("queued")
    rig.provider.starting = answer
    listener.on["discarded"] = lambda: rig.agent.followup("instead")
    await rig.agent.cancel()
    await rig.agent.when_idle()
    assert entered(rig) == ["go", "instead"]


@pytest.mark.behaviour("D-282")
async def test_the_first_cause_wins_also_against_a_disposal(rig, turn):
    rig.provider.interrupting = slow_stop
    rig.agent.cancel(Cause("hook", "budget"))
    rig.agent.cancel(Cause("user"))
    await rig.handle.dispose()
    reason = rig.of("turn/end")[0].data.reason
    assert (reason.cause, reason.reason) == ("hook", "budget")


@pytest.mark.behaviour("D-437")
async def test_a_run_that_the_end_of_the_cancelled_turn_lets_in_is_drained_before_the_scope_goes(rig, turn, listener):
    seen = []
    listener.on["idle"] = lambda: rig.session.say("afterwards", turn="own")
    rig.agent.scope.undo(lambda: seen.append((rig.agent.status, rig.reasons())))
    await rig.handle.dispose()
    assert seen[0][0] == "idle"
    assert len(seen[0][1]) == len(rig.of("turn/start"))
    balanced(rig)


class TestEveryBoundary:
    """The same cancel at each place where a turn waits."""

    @pytest.mark.behaviour("D-283")
    @pytest.mark.parametrize("where", ["pre_step", "barrier", "start", "request", "stopping", "tool"])
    async def test_it_settles_the_turn_as_aborted_by_the_user(self, rig, where):  # noqa: C901 - a place each
        inside = anyio.Event()

        async def wait(*_arguments):
            inside.set()
            await anyio.sleep_forever()

        class Hooks:
            @hookimpl
            async def pre_step(self, ctx, messages):
                if where == "pre_step":
                    await wait()

            @hookimpl
            async def turn_stopping(self, ctx):
                if where == "stopping":
                    await wait()

        await rig.host.load(Hooks(), name="hooks")
        plain = rig.agent.session.flush
        if where == "barrier":

            async def flush(barrier=None):
                if not rig.of("turn/end"):
                    await wait()
                await plain(barrier)

            rig.agent.session.flush = flush
        if where == "start":
            from greenroom.providers import Interrupted

            async def withdraw(session):
                return Interrupted(withdrawn=tuple(m.id for m in session.requests[-1].messages))

            rig.provider.starting, rig.provider.interrupting = wait, withdraw
        elif where in {"request", "tool"}:
            rig.provider.starting = accept
        rig.agent.followup("go")
        if where in {"request", "tool"}:
            await rig.logged("turn/accepted")
            if where == "tool":
                rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id=rig.session.turn))
                await rig.logged("tool/call")
        else:
            await inside.wait()
        assert await rig.agent.cancel() is Canceled.SETTLED
        await rig.agent.when_idle()
        [end] = rig.of("turn/end")
        assert (end.data.reason.kind, end.data.reason.cause) == ("aborted", "user")
        balanced(rig)


def balanced(rig) -> None:
    """Every bracket is closed, every call answered, every event inside what its type says."""
    turn = step = None
    calls = set()
    for event in rig.events:
        if event.type == "turn/start":
            assert turn is None
            turn = event.data.turn
        elif event.type == "step/start":
            assert (turn, step) == (event.data.turn, None)
            step = event.data.step
        elif event.type == "tool/call":
            calls.add(event.data.call_id)
        elif event.type == "tool/result":
            calls.discard(event.data.call_id)
        elif event.type == "step/end":
            assert not calls
            step = None
        elif event.type == "turn/end":
            assert (turn, step) == (event.data.turn, None)
            turn = None
        elif event.type.startswith(("assistant/", "tool/")) and event.type != "tool/settled":
            assert step is not None
    assert (turn, step) == (None, None)
