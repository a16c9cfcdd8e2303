"""Foreground runs: opened, accepted, settled."""

from __future__ import annotations

import contextlib

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import AgentBusy, AgentError, Failed, Resting, Running, TurnFailed, follow_log
from greenroom.providers import (
    Capability,
    Notice,
    ProviderError,
    RuntimeInfo,
    StaleSession,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    Usage,
    UsageUpdated,
    UserEcho,
)
from greenroom.providers import (
    TurnFailed as FailedTurn,
)
from greenroom_testing import EVERYTHING, accept
from greenroom_testing._scripted import answer

pytestmark = pytest.mark.anyio


def gate(rig) -> anyio.Event:
    """Let the provider accept only when the event is set."""
    go = anyio.Event()

    async def starting(session, request):
        await go.wait()

    rig.provider.starting = starting
    return go


@pytest.mark.behaviour("P-106")
async def test_the_turn_and_the_prompt_are_logged_before_the_provider_is_asked_and_what_it_says_is_held(rig):
    seen = []

    async def starting(session, request):
        seen.append(rig.types())
        session.emit(Notice(message="held"), TextDelta(text="held", turn_id=session.turn))
        await rig.settle()
        seen.append(rig.types())

    rig.provider.starting = starting
    rig.agent.followup("go")
    await rig.logged("turn/accepted")
    assert seen[0] == seen[1] == ["turn/start", "step/start", "user/message"]
    stored = await rig.host.sessions.store.read_from(rig.agent.id)
    assert "user/message" in [event.type for event in stored]


@pytest.mark.behaviour("P-107")
async def test_acceptance_stands_before_what_was_held_and_the_providers_own_start_and_echo_are_dropped(rig):
    async def starting(session, request):
        prompt = request.messages[-1]
        session.emit(
            TurnStarted(turn_id=session.turn),
            UserEcho(text="go", provider_message_id="p", client_message_id=prompt.id, turn_id=session.turn),
            TextDelta(text="a", message_id="m", turn_id=session.turn),
        )
        await rig.settle()
        session.end()

    rig.provider.starting = starting
    await rig.agent.run("go")
    assert rig.types() == [
        "turn/start",
        "step/start",
        "user/message",
        "turn/accepted",
        "assistant/message",
        "assistant/message",
        "step/end",
        "turn/end",
    ]


@pytest.mark.behaviour("P-108")
@pytest.mark.parametrize("accepted", [True, False])
async def test_a_second_foreground_run_is_refused(rig, accepted):
    go = gate(rig)
    stream = rig.agent.stream("one")
    if accepted:
        go.set()
        await rig.logged("turn/accepted")
    with pytest.raises(AgentBusy):
        rig.agent.stream("two")
    go.set()
    await rig.logged("turn/accepted")
    rig.session.end()
    await stream.finish()


async def test_a_foreground_run_is_refused_while_input_waits(rig):
    rig.provider.starting = accept
    rig.agent.send("later", "next-turn", wake=False)
    with pytest.raises(AgentBusy):
        rig.agent.stream("now")


@pytest.mark.behaviour("P-109", "P-110")
async def test_a_refused_start_fails_the_run_with_the_providers_words_and_the_next_one_works(rig):
    async def refuse(session, request):
        raise ProviderError("quota exceeded", hint="pay")

    rig.provider.starting = refuse
    with pytest.raises(TurnFailed, match="quota exceeded"):
        await rig.agent.run("one")
    [end] = rig.of("turn/end")
    assert (end.data.reason.kind, end.data.reason.code) == ("error", "start_failed")
    assert end.data.reason.message == "quota exceeded"
    await rig.agent.when_idle()
    assert rig.agent.state == Failed("quota exceeded")
    rig.provider.starting = answer
    assert (await rig.agent.run("two")).text == "ok"
    await rig.agent.when_idle()
    assert rig.agent.state == Resting()


@pytest.mark.behaviour("P-112")
async def test_waiting_for_rest_does_not_end_with_the_terminal_but_when_the_turn_is_durable(rig):
    flushed = anyio.Event()
    go = anyio.Event()
    session = rig.agent.session
    plain = session.flush

    async def slow(barrier=None):
        if rig.of("turn/end"):
            flushed.set()
            await go.wait()
        await plain(barrier)

    session.flush = slow
    rig.agent.followup("go")
    idle = []

    async def wait():
        await rig.agent.when_idle()
        idle.append(rig.agent.status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await flushed.wait()
        await rig.settle()
        assert idle == []
        assert rig.agent.status == "running"
        go.set()
    assert idle == ["idle"]


@pytest.mark.behaviour("P-113")
async def test_waiting_for_a_start_ends_while_the_run_is_only_pending(rig):
    go = gate(rig)
    rig.agent.followup("go")
    with anyio.fail_after(1):
        await rig.agent.started()
    assert not rig.of("turn/accepted")
    go.set()


@pytest.mark.behaviour("P-113")
async def test_waiting_for_a_start_ends_as_soon_as_it_starts(rig):
    go = gate(rig)
    inside, leave = anyio.Event(), anyio.Event()

    async def upkeep():
        inside.set()
        await leave.wait()

    order = []

    async def wait():
        await rig.agent.started()
        order.append("started")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.agent.run_maintenance, upkeep)
        await inside.wait()
        rig.agent.followup("go")
        tasks.start_soon(wait)
        await rig.settle()
        assert order == []
        leave.set()
    assert order == ["started"]
    go.set()


@pytest.mark.behaviour("P-114")
async def test_waiting_for_a_start_does_not_mind_the_failure_before(rig):
    async def refuse(session, request):
        raise ProviderError("no")

    rig.provider.starting = refuse
    rig.agent.followup("one")
    await rig.agent.when_idle()
    assert isinstance(rig.agent.state, Failed)
    rig.provider.starting = accept
    rig.agent.followup("two")
    await rig.agent.started()
    assert isinstance(rig.agent.state, Running)


@pytest.mark.behaviour("P-115")
async def test_waiting_for_a_start_fails_when_nothing_is_about_to_and_when_the_caller_gives_up(rig):
    with pytest.raises(AgentError, match="nothing waits"):
        await rig.agent.started()
    inside = anyio.Event()

    async def upkeep():
        inside.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_contained, rig.agent.run_maintenance(upkeep))
        await inside.wait()
        rig.agent.followup("go")
        with anyio.move_on_after(0.01) as scope:
            await rig.agent.started()
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError):
            await rig.agent.started(0.01)
        tasks.cancel_scope.cancel()


async def _contained(awaitable) -> None:
    with contextlib.suppress(AgentError):
        await awaitable


@pytest.mark.behaviour("P-116")
@pytest.mark.parametrize("outcome", ["accepted", "failed"])
async def test_a_message_that_waits_for_the_start_goes_on_when_it_is_accepted_or_has_failed(rig, outcome):
    go = anyio.Event()

    async def starting(session, request):
        await go.wait()
        if outcome == "failed" and len(rig.provider.all_requests) == 1:
            raise ProviderError("no")

    rig.provider.starting = starting
    rig.agent.followup("one")
    steered = rig.agent.steer("two")
    await rig.settle()
    assert rig.session.steered == []
    go.set()
    with anyio.fail_after(1):
        assert await steered == ("accepted" if outcome == "accepted" else "queued")


@pytest.mark.behaviour("P-117")
async def test_what_the_provider_uses_is_asked_again_after_a_run(rig):
    await rig.until(lambda: rig.agent.session.state.context is not None)
    rig.provider.info = RuntimeInfo(model="scripted-2", context_window=1000)
    await rig.agent.run("go")
    await rig.until(lambda: rig.agent.session.state.context.model == "scripted-2")
    assert rig.agent.session.state.config.model == "scripted-2"


@pytest.mark.behaviour("P-118")
async def test_the_text_of_a_run_is_what_was_said_last(rig):
    rig.provider.starting = accept
    stream = rig.agent.stream("go")
    await rig.logged("turn/accepted")
    rig.session.say("first", message_id=None)
    rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id="turn-1"))
    rig.session.emit(ToolFinished(call_id="c", name="sh", turn_id="turn-1"))
    rig.session.say("last ", message_id=None)
    rig.session.say("words", message_id=None)
    rig.session.end()
    assert (await stream.finish()).text == "last words"


@pytest.mark.behaviour("P-119")
async def test_the_text_of_a_run_does_not_join_two_messages(rig):
    rig.provider.starting = accept
    stream = rig.agent.stream("go")
    await rig.logged("turn/accepted")
    rig.session.say("one", message_id="1")
    rig.session.say("tw", message_id="2")
    rig.session.say("o", message_id="2")
    rig.session.end()
    assert (await stream.finish()).text == "two"


@pytest.mark.behaviour("P-120")
@pytest.mark.parametrize("persists", [True, False])
async def test_a_run_that_leaves_no_native_session_is_an_error_if_the_provider_keeps_them(rig, provider, persists):
    if not persists:
        capabilities = EVERYTHING - {Capability.RESUME}
        object.__setattr__(rig.agent._driver.connection.spec, "capabilities", capabilities)
    provider.reveals = False

    async def silent(session, request):
        session.end()

    provider.starting = silent
    if persists:
        with pytest.raises(TurnFailed, match="native session"):
            await rig.agent.run("go")
    else:
        assert (await rig.agent.run("go")).reason.kind == "completed"


@pytest.mark.behaviour("P-121", "P-122", "P-123")
async def test_a_failed_turn_raises_the_providers_words_and_is_logged_once_with_code_and_diagnostic(rig):
    async def fail(session, request):
        session.emit(FailedTurn(turn_id=session.turn, error="overloaded", code="529", diagnostic="try later"))

    rig.provider.starting = fail
    with pytest.raises(TurnFailed, match="overloaded") as failed:
        await rig.agent.run("go")
    assert (failed.value.code, failed.value.diagnostic) == ("529", "try later")
    await rig.agent.when_idle()
    assert rig.agent.state == Failed("overloaded")
    errors = [event.data.reason for event in rig.of("turn/end") if event.data.reason.kind == "error"]
    assert [(e.message, e.code, e.diagnostic) for e in errors] == [("overloaded", "529", "try later")]
    assert not [event for event in rig.of("notice", "assistant/") if "overloaded" in str(event.raw)]


@pytest.mark.behaviour("P-124")
async def test_the_same_failure_is_not_written_twice_in_a_row_and_its_diagnostic_does_not_repeat_it(rig):
    async def fail(session, request):
        failed = FailedTurn(turn_id=session.turn, error="no", diagnostic="no")
        session.emit(failed, failed)

    rig.provider.starting = fail
    rig.agent.followup("go")
    await rig.agent.when_idle()
    [end] = rig.of("turn/end")
    assert end.data.reason.diagnostic is None


@pytest.mark.behaviour("P-125")
async def test_a_stream_gives_the_events_of_its_turn_then_its_end_and_stops(rig):
    seen = [event.type async for event in rig.agent.stream("go")]
    assert seen[0] == "turn/start"
    assert seen[-1] == "turn/end"
    assert seen.count("turn/end") == 1
    assert "assistant/message" in seen


async def test_leaving_a_stream_early_leaves_nothing_behind(rig):
    rig.provider.starting = accept
    before = rig.agent.session._observers
    async for event in rig.agent.stream("go"):
        if event.type == "user/message":
            break
    assert rig.agent.session._observers == before
    await rig.logged("turn/accepted")
    rig.session.end()
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed"]


async def test_leaving_a_stream_early_cancels_the_turn_if_asked(rig):
    rig.provider.starting = accept
    async with rig.agent.stream("go", cancel_on_leave=True) as stream:
        async for event in stream:
            if event.type == "turn/accepted":
                break
    await rig.agent.when_idle()
    assert rig.reasons() == ["aborted"]


async def test_following_a_log_gives_each_event_once_also_the_last_ones_and_ends_with_the_agent(rig):
    await rig.agent.run("go")
    seen = []

    async def follow() -> None:
        async for events in follow_log(rig.agent, 1):
            seen.extend(event.seq for event in events)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await anyio.wait_all_tasks_blocked()
        await rig.agent.run("again")
        await rig.handle.dispose()
    assert seen == list(range(1, len(rig.agent.session)))


async def test_leaving_a_log_early_leaves_nothing_behind(rig):
    await rig.agent.run("go")
    before = rig.agent.session._observers
    async with contextlib.aclosing(follow_log(rig.agent, 0)) as pages:
        async for _events in pages:
            break
    assert rig.agent.session._observers == before
    assert rig.agent._farewell == set()


@pytest.mark.behaviour("P-130")
async def test_the_prompt_keeps_its_id_and_the_providers_id_comes_with_the_acknowledgement(rig):
    message = rig.agent.followup("go")
    await rig.agent.when_idle()
    [prompt] = rig.of("user/message")
    [acknowledged] = rig.of("user/acknowledged")
    assert prompt.data.message.id == message.id
    assert (acknowledged.data.message_id, acknowledged.data.provider_message_id) == (message.id, f"p-{message.id}")


@pytest.mark.behaviour("P-131")
async def test_a_command_of_the_provider_is_logged_before_its_output_and_starts_no_turn_there(rig):
    async def clear(session):
        session.emit(Notice(message="cleared"))

    rig.provider.commands["/clear"] = clear
    rig.agent.followup("/clear")
    await rig.agent.when_idle()
    assert rig.session.requests == []
    assert rig.of("turn/start")[0].data.trigger.kind == "command"
    inside = rig.types()
    assert inside.index("user/message") < inside.index("notice") < inside.index("turn/end")
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("P-132")
@pytest.mark.parametrize("replacing", [False, True])
async def test_a_stale_conversation_is_opened_again_once_and_the_turn_is_tried_again(rig, replacing):
    if replacing:
        rig.provider.starting = accept
        rig.agent.followup("first")
        await rig.logged("turn/accepted")
    else:
        await rig.agent.run("first")
    stale = rig.session

    async def starting(session, request):
        if session is stale:
            raise StaleSession("gone")
        return await answer(session, request)

    rig.provider.starting = starting
    result = await rig.agent.run("second", replace=replacing)
    assert result.text == "ok"
    assert stale.closed
    assert rig.provider.opened[-1].handle.native_id == "native-1"
    assert len(rig.provider.sessions) == 2


async def test_a_conversation_that_stays_stale_fails_the_turn(rig):
    async def starting(session, request):
        raise StaleSession("gone for good")

    rig.provider.starting = starting
    with pytest.raises(TurnFailed, match="gone for good"):
        await rig.agent.run("go")
    assert len(rig.provider.sessions) == 2


@pytest.mark.behaviour("P-142")
async def test_usage_stays_when_a_completion_has_none(rig):
    async def starting(session, request):
        session.emit(UsageUpdated(usage=Usage(input_tokens=3)))
        session.end()

    rig.provider.starting = starting
    assert (await rig.agent.run("go")).usage == Usage(input_tokens=3)
    rig.provider.starting = answer
    assert (await rig.agent.run("again")).usage == Usage(input_tokens=3)


async def test_a_usage_that_is_not_finite_is_dropped_as_a_whole(rig):
    async def starting(session, request):
        session.emit(UsageUpdated(usage=Usage(input_tokens=3)))
        session.emit(TurnCompleted(turn_id=session.turn, usage=Usage(input_tokens=9, total_cost_usd=float("nan"))))

    rig.provider.starting = starting
    assert (await rig.agent.run("go")).usage == Usage(input_tokens=3)


class Observer:
    def __init__(self) -> None:
        self.statuses: list[str] = []

    @hookimpl
    def agent_status(self, agent, status):
        self.statuses.append(status)


@pytest.mark.behaviour("D-239")
async def test_agent_status_tells_one_running_and_one_idle_for_a_turn(rig):
    observer = Observer()
    await rig.host.load(observer, name="observer")
    await rig.agent.run("go")
    await rig.agent.when_idle()
    assert observer.statuses == ["running", "idle"]
