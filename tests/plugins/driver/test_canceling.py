"""Cancel and replace: three outcomes, and nothing made up."""

from __future__ import annotations

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import AgentBusy, Canceled, CancelRefused, Cause, Failed, Resting, Running
from greenroom.providers import (
    Interrupted,
    PermissionRequest,
    PermissionRequested,
    ProviderError,
    TextDelta,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from greenroom_testing import acknowledge, answer, hang

from .jumping import JUMPING

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


async def refuse(_session) -> Interrupted:
    raise ProviderError("not now")


class Statuses:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    def agent_status(self, agent, status):
        self.seen.append(status)


@pytest.fixture
async def statuses(rig) -> list[str]:
    observer = Statuses()
    await rig.host.load(observer, name="statuses")
    return observer.seen


@pytest.mark.behaviour("P-151")
async def test_without_a_run_there_is_nothing_to_cancel(rig):
    assert await rig.agent.cancel() is Canceled.NOT_RUNNING
    assert rig.of("turn/") == []


@pytest.mark.behaviour("P-152")
async def test_acknowledged_and_settled_in_time_is_settled(rig, turn):
    before = anyio.current_time()
    assert await rig.agent.cancel() is Canceled.SETTLED
    assert anyio.current_time() == before
    [end] = rig.of("turn/end")
    assert (end.data.reason.kind, end.data.reason.cause) == ("aborted", "user")


@pytest.mark.behaviour("P-153")
async def test_acknowledged_and_not_settled_in_two_seconds_is_ended_by_one_terminal_of_ours(rig, turn):
    rig.provider.interrupting = acknowledge
    before = anyio.current_time()
    assert await rig.agent.cancel() is Canceled.SETTLED
    assert anyio.current_time() - before == pytest.approx(2)
    assert rig.reasons() == ["aborted"]
    rig.session.emit(TurnCanceled(turn_id=turn, reason="late"))
    await rig.settle()
    assert rig.reasons() == ["aborted"]


@pytest.mark.behaviour("P-154")
async def test_not_acknowledged_and_not_settled_is_refused_and_nothing_is_made_up(rig, turn):
    rig.provider.interrupting = refuse
    assert await rig.agent.cancel(keep_inbox=True) is Canceled.REFUSED
    assert rig.reasons() == []
    assert rig.agent.status == "running"
    rig.session.end()
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("P-155")
async def test_not_acknowledged_but_settled_by_itself_is_settled(rig, turn):
    async def refuse_and_end(session):
        session.emit(TurnCanceled(turn_id=turn, reason="by itself"))
        raise ProviderError("not now")

    rig.provider.interrupting = refuse_and_end
    assert await rig.agent.cancel() is Canceled.SETTLED
    assert rig.reasons() == ["aborted"]


@pytest.mark.behaviour("P-156")
@pytest.mark.parametrize("move", [hang, refuse])
async def test_a_hanging_or_rejected_interrupt_is_refused_in_bounded_time_and_the_turn_is_kept(rig, turn, move):
    rig.provider.interrupting = move
    before = anyio.current_time()
    assert await rig.agent.cancel() is Canceled.REFUSED
    assert anyio.current_time() - before <= 4.1
    assert rig.agent.state == Running(1)
    assert rig.session.interrupts == 1


@pytest.mark.behaviour("P-157")
@pytest.mark.parametrize("queued", [True, False])
async def test_a_completion_before_the_rejection_is_settled(rig, turn, queued):
    async def complete_and_refuse(session):
        session.end()
        if not queued:
            await rig.logged("turn/end")
        raise ProviderError("nothing to interrupt")

    rig.provider.interrupting = complete_and_refuse
    assert await rig.agent.cancel() is Canceled.SETTLED
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("P-158")
async def test_an_acknowledged_cancel_of_a_turn_of_the_providers_own_waits_for_its_end(rig):
    rig.provider.interrupting = acknowledge
    rig.session.emit(TurnStarted(turn_id="own"))
    await rig.logged("turn/start")
    outcome = rig.agent.cancel()
    await anyio.sleep(1)
    assert not outcome.done
    rig.session.emit(TurnCanceled(turn_id="own", reason="interrupted"))
    assert await outcome is Canceled.SETTLED
    assert rig.reasons() == ["aborted"]


@pytest.mark.behaviour("P-137")
async def test_a_turn_of_the_providers_own_without_an_id_is_cancelled_with_one_interrupt(rig):
    async def end(session):
        session.emit(TurnCanceled(reason="interrupted"))
        return Interrupted()

    rig.provider.interrupting = end
    rig.session.emit(TextDelta(text="hm", message_id="m"))
    await rig.logged("turn/start")
    assert await rig.agent.cancel() is Canceled.SETTLED
    assert rig.session.interrupts == 1


@pytest.mark.behaviour("P-159")
@pytest.mark.parametrize("operation", ["replace", "reopen", "revert"])
async def test_a_refused_cancel_keeps_the_turn_and_raises(rig, turn, operation):
    rig.provider.interrupting = refuse
    with pytest.raises(AgentBusy if operation == "revert" else CancelRefused):
        if operation == "replace":
            await rig.agent.replace("other")
        elif operation == "reopen":
            await rig.agent.reopen()
        else:
            await rig.agent.revert("m")
    assert rig.agent.state == Running(1)
    assert rig.reasons() == []
    assert not rig.session.closed
    assert len(rig.agent.inbox) == 0
    rig.session.end()
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("P-160")
async def test_a_withdrawn_prompt_settles_a_pending_start_and_its_late_rejection_is_harmless(rig):
    rejected = anyio.Event()

    async def starting(session, request):
        try:
            await anyio.sleep_forever()
        finally:
            rejected.set()
            raise ProviderError("rejected late")

    async def withdraw(session):
        return Interrupted(withdrawn=tuple(m.id for m in session.requests[-1].messages))

    rig.provider.starting, rig.provider.interrupting = starting, withdraw
    rig.agent.followup("go")
    await rig.settle()
    assert await rig.agent.cancel() is Canceled.SETTLED
    await rejected.wait()
    await rig.agent.when_idle()
    assert rig.reasons() == ["aborted"]
    rig.provider.starting = answer
    assert (await rig.agent.run("next")).text == "ok"


async def test_an_interrupt_that_was_acknowledged_before_acceptance_proves_nothing(rig):
    rig.provider.starting, rig.provider.interrupting = hang, acknowledge
    rig.agent.followup("go")
    await rig.settle()
    assert await rig.agent.cancel() is Canceled.REFUSED
    assert rig.reasons() == []


@pytest.mark.behaviour("P-161")
async def test_open_questions_of_a_cancelled_turn_are_denied_as_interrupted(rig, turn):
    rig.session.emit(PermissionRequested(request=PermissionRequest(id="q", name="sh"), turn_id=turn))
    await rig.logged("permission/asked")
    assert list(rig.agent.questions) == ["q"]
    await rig.agent.cancel()
    [answered] = rig.of("permission/answered")
    assert (answered.data.response.message, answered.data.by) == ("interrupted", "system")
    assert answered.seq < rig.of("turn/end")[0].seq
    assert not rig.agent.questions


@pytest.mark.behaviour("P-162")
async def test_the_late_failure_of_an_interrupt_is_recorded_and_raises_nowhere(rig, turn):
    async def late(session):
        await anyio.sleep(10)
        raise ProviderError("much too late")

    rig.provider.interrupting = late
    assert await rig.agent.cancel() is Canceled.REFUSED
    await anyio.sleep(20)
    assert any("much too late" in item.text for item in rig.host.diagnostics.recent)
    assert rig.agent.status == "running"


async def test_two_cancels_share_one_interrupt_and_the_first_cause_counts(rig, turn):
    rig.provider.interrupting = acknowledge
    one, two = rig.agent.cancel(Cause("parent")), rig.agent.cancel(Cause("user"))
    assert (await one, await two) == (Canceled.SETTLED, Canceled.SETTLED)
    assert rig.session.interrupts == 1
    assert rig.of("turn/end")[0].data.reason.cause == "parent"


async def test_the_exit_of_the_process_is_proof(rig, turn):
    rig.provider.interrupting = hang
    outcome = rig.agent.cancel()
    await anyio.sleep(1)
    rig.session.link.lost("exited with 1", diagnostic="tail of stderr")
    assert await outcome is Canceled.SETTLED
    assert rig.reasons() == ["aborted"]


class TestReplace:
    @pytest.mark.behaviour("P-145")
    async def test_nobody_sees_a_rest_between_the_two_runs_and_no_waiter_wakes(self, rig, turn, statuses):
        waited = []

        async def wait():
            await rig.agent.when_idle()
            waited.append(rig.reasons())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await rig.settle()
            await rig.agent.replace("other")
            await rig.logged("turn/accepted", 2)
            await rig.settle()
            assert statuses == []
            assert waited == []
            rig.session.end()
        assert statuses == ["idle"]
        assert waited == [["aborted", "completed"]]
        assert rig.of("turn/end")[0].data.reason.cause == "replaced"

    @pytest.mark.behaviour("P-146")
    async def test_a_late_terminal_of_the_old_turn_before_the_new_one_is_current_leaves_it_running(self, rig, turn):
        rig.provider.interrupting = acknowledge
        entered, go = anyio.Event(), anyio.Event()

        async def starting(session, request):
            entered.set()
            await go.wait()

        rig.provider.starting = starting
        replaced = rig.agent.replace("other")
        await entered.wait()
        rig.session.emit(TurnCompleted(turn_id=turn), TurnFailed(turn_id=turn, error="late"))
        await rig.settle()
        assert rig.agent.state == Running(2)
        go.set()
        await replaced
        await rig.logged("turn/accepted", 2)
        assert rig.reasons() == ["aborted"]

    @pytest.mark.behaviour("P-147")
    async def test_it_succeeds_when_the_old_terminal_never_comes(self, rig, turn):
        rig.provider.interrupting = acknowledge
        before = anyio.current_time()
        rig.provider.starting = answer
        result = await rig.agent.run("other", replace=True)
        assert result.text == "ok"
        assert anyio.current_time() - before == pytest.approx(2)
        assert rig.reasons() == ["aborted", "completed"]

    @pytest.mark.behaviour("P-148")
    async def test_at_rest_it_is_a_plain_run(self, rig):
        await rig.agent.replace("one")
        await rig.agent.when_idle()
        assert rig.reasons() == ["completed"]
        assert rig.session.interrupts == 0

    @pytest.mark.behaviour("P-149")
    async def test_if_the_new_start_fails_the_agent_rests_and_the_next_run_works(self, rig, turn, statuses):
        async def fail(session, request):
            raise ProviderError("no")

        rig.provider.starting = fail
        await rig.agent.replace("other")
        await rig.agent.when_idle()
        assert rig.agent.state == Failed("no")
        assert statuses == ["idle"]
        rig.provider.starting = answer
        assert (await rig.agent.run("next")).text == "ok"
        await rig.agent.when_idle()
        assert rig.agent.state == Resting()

    async def test_what_was_queued_stays_and_comes_after_it(self, rig, turn):
        rig.agent.followup("queued")
        rig.provider.starting = answer
        await rig.agent.replace("other")
        await rig.agent.when_idle()
        said = [event.data.message.content[0].text for event in rig.of("user/message")]
        assert said == ["go", "other", "queued"]


async def test_a_start_that_hangs_does_not_keep_an_agent_from_closing(rig):
    rig.provider.starting, rig.provider.interrupting = hang, hang
    rig.agent.followup("go")
    await rig.settle()
    assert rig.agent.status == "running"
    await rig.handle.dispose()
    assert rig.reasons() == ["aborted"]
    assert rig.of("turn/end")[0].data.reason.cause == "disposed"
    assert rig.session.closed
