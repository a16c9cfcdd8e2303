"""Turns that the provider begins by itself."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import Failed, Resting, Running
from greenroom.providers import (
    Idle,
    Notice,
    PermissionRequest,
    PermissionRequested,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Usage,
    UsageUpdated,
    UserEcho,
)
from greenroom_testing import accept, answer

pytestmark = pytest.mark.anyio


def say(text: str, turn: str | None = None) -> TextDelta:
    return TextDelta(text=text, message_id="m", turn_id=turn)


@pytest.mark.behaviour("P-134")
async def test_events_without_a_run_make_the_agent_run_and_rest_and_are_logged(rig):
    rig.session.emit(TurnStarted(turn_id="own"), say("a", "own"))
    await rig.logged("assistant/message")
    assert rig.agent.state == Running(None)
    rig.session.emit(TurnCompleted(turn_id="own"))
    await rig.agent.when_idle()
    assert rig.agent.state == Resting()
    assert rig.of("turn/start")[0].data.trigger.kind == "autonomous"
    assert rig.texts() == ["a"]


@pytest.mark.behaviour("P-136")
async def test_waiting_for_a_start_ends_for_a_turn_of_the_providers_own(rig):
    rig.session.emit(TurnStarted(turn_id="own"))
    with anyio.fail_after(1):
        await rig.agent.started()
    assert rig.agent.state == Running(None)
    rig.session.emit(TurnCompleted(turn_id="own"))


@pytest.mark.behaviour("P-138", "P-139", "X-004")
async def test_during_a_foreground_run_its_events_are_logged_and_not_given_to_the_reader(rig):
    rig.provider.starting = accept
    stream = rig.agent.stream("go")
    await rig.logged("turn/accepted")
    rig.session.emit(TurnStarted(turn_id="own"), say("theirs", "own"))
    await rig.until(lambda: "theirs" in rig.texts())
    assert rig.agent.state == Running(1)
    rig.session.emit(TurnFailed(turn_id="own", error="theirs failed"))
    rig.session.say("ours")
    rig.session.end()
    seen = [event async for event in stream]
    assert [e.data.text for e in seen if e.type == "assistant/message" and e.data.text] == ["ours"]
    assert stream.result.reason.kind == "completed"
    assert "theirs" in rig.texts()
    owners = [event.data.provider_turn for event in rig.of("step/start")]
    assert owners == [None, "own", None]
    assert len(rig.of("turn/start")) == 1


@pytest.mark.behaviour("X-004")
async def test_before_acceptance_too_it_becomes_steps_of_ours(rig):
    go = anyio.Event()

    async def starting(session, request):
        session.emit(TurnStarted(turn_id="own"), say("theirs", "own"), TurnCompleted(turn_id="own"))
        session.emit(TurnStarted(turn_id=session.turn))
        await go.wait()
        session.say("ours")
        session.end()

    rig.provider.starting = starting
    stream = rig.agent.stream("go")
    await rig.until(lambda: "theirs" in rig.texts())
    assert not rig.of("turn/accepted")
    go.set()
    assert (await stream.finish()).text == "ours"
    assert [event.data.provider_turn for event in rig.of("step/start")] == [None, "own", None]
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("P-140")
async def test_a_terminal_of_an_old_turn_of_its_own_changes_nothing(rig, turn):
    rig.session.emit(TurnStarted(turn_id="own"), TurnCompleted(turn_id="own"))
    rig.session.emit(UsageUpdated(usage=Usage(input_tokens=1)))
    rig.session.emit(PermissionRequested(request=PermissionRequest(id="q", name="sh"), turn_id=turn))
    await rig.logged("permission/asked")
    length, state = len(rig.agent.session), rig.agent.state
    rig.session.emit(TurnFailed(turn_id="own", error="old", usage=Usage(input_tokens=99)))
    await rig.settle()
    assert (len(rig.agent.session), rig.agent.state) == (length, state)
    assert list(rig.agent.questions) == ["q"]


@pytest.mark.behaviour("P-141")
async def test_a_terminal_that_nobody_knows_is_applied_when_nothing_runs(rig):
    rig.session.emit(TurnFailed(turn_id="unseen", error="died in the dark", usage=Usage(input_tokens=7)))
    await rig.logged("turn/end")
    await rig.agent.when_idle()
    assert rig.agent.state == Failed("died in the dark")
    assert rig.of("turn/end")[0].data.usage == Usage(input_tokens=7)


@pytest.mark.behaviour("X-003")
@pytest.mark.parametrize("when", ["at rest", "in a later turn"])
async def test_the_late_result_of_a_call_settles_the_call_that_was_closed_as_unknown(rig, turn, when):
    rig.session.emit(ToolStarted(call_id="c", name="sh", turn_id=turn))
    rig.session.end()
    await rig.agent.when_idle()
    [closed] = rig.of("tool/result")
    assert closed.data.status == "unknown"
    assert closed.seq < rig.of("turn/end")[0].seq
    if when == "in a later turn":
        rig.agent.followup("more")
        await rig.logged("turn/accepted", 2)
    rig.session.emit(ToolFinished(call_id="c", name="sh", output="done", turn_id=turn))
    settled = await rig.logged("tool/settled")
    assert (settled.data.call_id, settled.data.status, settled.data.output) == ("c", "completed", "done")
    assert len(rig.of("tool/call")) == 1


@pytest.mark.behaviour("X-005")
async def test_a_question_or_a_line_of_a_local_command_outside_a_turn_leaves_the_agent_at_rest(rig):
    rig.session.emit(
        PermissionRequested(request=PermissionRequest(id="q", name="sh")),
        Notice(message="/cost: nothing"),
        UserEcho(text="/cost", provider_message_id="p"),
    )
    await rig.logged("notice")
    assert rig.agent.status == "idle"
    assert rig.of("turn/") == []
    assert rig.of("permission/asked")[0].data.turn is None


@pytest.mark.behaviour("X-005")
async def test_a_turn_that_output_opened_ends_at_the_sign_of_rest(rig):
    rig.session.emit(say("by the way"))
    await rig.logged("turn/start")
    assert rig.agent.status == "running"
    rig.session.emit(Idle())
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed"]


async def test_a_prompt_ends_a_turn_that_output_opened_and_opens_its_own(rig):
    rig.session.emit(say("by the way"))
    await rig.logged("turn/start")
    rig.agent.followup("go")
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed", "completed"]
    assert [event.data.trigger.kind for event in rig.of("turn/start")] == ["autonomous", "message"]


async def test_input_that_came_during_a_turn_of_its_own_is_taken_afterwards(rig):
    rig.session.emit(TurnStarted(turn_id="own"))
    await rig.logged("turn/start")
    rig.agent.followup("go")
    await rig.settle()
    assert rig.session.requests == []
    rig.session.emit(TurnCompleted(turn_id="own"))
    await rig.agent.when_idle()
    assert [event.data.trigger.kind for event in rig.of("turn/start")] == ["autonomous", "message"]


async def test_what_was_typed_elsewhere_enters_the_turn_that_it_opens(rig):
    rig.session.emit(UserEcho(text="typed", provider_message_id="p"), TurnStarted(turn_id="own"))
    rig.session.emit(TurnCompleted(turn_id="own"))
    await rig.agent.when_idle()
    assert rig.types() == ["turn/start", "user/message", "turn/end"]
    assert rig.of("user/message")[0].data.message.content[0].text == "typed"


class TestDeath:
    async def test_the_death_of_the_process_ends_the_turn_at_once_with_its_last_words(self, rig, turn):
        rig.session.say("half")
        rig.session.link.lost("exited with status 3", diagnostic="segmentation fault")
        await rig.agent.when_idle()
        [end] = rig.of("turn/end")
        assert (end.data.reason.message, end.data.reason.diagnostic) == ("exited with status 3", "segmentation fault")
        assert rig.texts() == ["half"]

    async def test_at_rest_it_changes_nothing_until_the_next_turn_which_opens_the_conversation_again(self, rig):
        await rig.agent.run("one")
        await rig.agent.when_idle()
        length = len(rig.agent.session)
        rig.session.link.lost("exited")
        await rig.settle()
        assert len(rig.agent.session) == length
        rig.provider.starting = answer
        assert (await rig.agent.run("two")).text == "ok"
        assert len(rig.provider.sessions) == 2
        assert rig.provider.opened[-1].handle.native_id == "native-1"

    async def test_a_task_of_the_provider_that_raises_counts_as_its_death(self, rig, turn):
        async def reader():
            raise ValueError("bad frame")

        rig.session.link.spawn(reader, name="reader")
        await rig.agent.when_idle()
        assert rig.of("turn/end")[0].data.reason.message == "ValueError: bad frame"
        assert rig.host.plugin("driver").state == "active"

    async def test_what_a_dead_session_still_says_does_not_count(self, rig, turn):
        dead = rig.session
        dead.link.lost("exited")
        await rig.agent.when_idle()
        rig.provider.starting = answer
        await rig.agent.run("next")
        length = len(rig.agent.session)
        dead.say("ghost")
        dead.link.lost("again")
        await rig.settle()
        assert "ghost" not in rig.texts()
        assert len(rig.agent.session) == length
