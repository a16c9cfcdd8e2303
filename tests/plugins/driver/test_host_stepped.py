"""Providers whose steps are the driver's: claims at each step, the border of a turn."""

from __future__ import annotations

import anyio
import pytest

from greenroom import block, hookimpl
from greenroom.agents import Canceled
from greenroom.providers import TextDelta, ToolFinished, ToolStarted, TurnCanceled, TurnCompleted
from greenroom_testing import ScriptedProvider

pytestmark = pytest.mark.anyio


@pytest.fixture
def provider():
    return ScriptedProvider(steps="host")


def looping(rig, rounds: int):
    """A provider that takes `rounds` further steps, whatever waits."""
    entered = []

    async def loop(session, turn):
        for _ in range(rounds):
            messages = await session.link.next_step()
            if messages is None:
                break
            entered.append([message.content[0].text for message in messages])
            session.emit(TextDelta(text="step", turn_id=turn))
        session.emit(TurnCompleted(turn_id=turn))

    async def starting(session, request):
        turn = session.turn
        session.link.spawn(lambda: loop(session, turn), name="loop")

    rig.provider.starting = starting
    return entered


async def test_a_turn_may_have_many_steps_and_each_claims_what_waits(rig):
    entered = looping(rig, 3)
    rig.agent.followup("go")
    rig.agent.steer("more")
    await rig.agent.when_idle()
    assert [event.data.step for event in rig.of("step/start")] == [1, 2, 3, 4]
    claimed = [text for texts in entered for text in texts]
    said = [event.data.message.content[0].text for event in rig.of("user/message")]
    assert "more" in (*claimed, *said)
    assert rig.reasons() == ["completed"]


async def test_steering_enters_the_next_step_of_the_running_turn(rig):
    gate = anyio.Event()

    async def loop(session, turn):
        await gate.wait()
        messages = await session.link.next_step()
        session.emit(TextDelta(text=str(len(messages)), turn_id=turn), TurnCompleted(turn_id=turn))

    async def starting(session, request):
        turn = session.turn
        session.link.spawn(lambda: loop(session, turn), name="loop")

    rig.provider.starting = starting
    rig.agent.followup("go")
    await rig.logged("turn/accepted")
    assert await rig.agent.steer("more") == "queued"
    rig.agent.inject("context", plugin="p")
    gate.set()
    await rig.agent.when_idle()
    assert [e.type for e in rig.of("steering/", "context/")] == ["steering/message", "context/message"]
    assert rig.texts() == ["2"]
    assert len(rig.of("turn/start")) == 1


async def test_what_waits_at_the_end_keeps_the_turn_open(rig):
    rig.provider.reply = "ok"

    class More:
        done = False

        @hookimpl
        async def turn_stopping(self, ctx):
            if not self.done:
                self.done = True
                rig.agent.steer("one more thing")

    await rig.host.load(More(), name="more")
    await rig.agent.run("go")
    assert len(rig.of("turn/start")) == 1
    assert [event.data.step for event in rig.of("step/start")] == [1, 2]


async def test_a_blocked_step_ends_the_turn_as_blocked(rig):
    looping(rig, 2)

    class Policy:
        @hookimpl
        def pre_step(self, ctx, messages):
            return block("enough") if ctx.turn and not messages else None

    await rig.host.load(Policy(), name="policy")
    rig.agent.followup("go")
    await rig.agent.when_idle()
    assert rig.reasons() == ["blocked"]


async def test_open_calls_are_closed_before_the_next_step(rig):
    async def loop(session, turn):
        session.emit(ToolStarted(call_id="c", name="sh", turn_id=turn))
        await session.link.next_step()
        session.emit(ToolFinished(call_id="c", name="sh", turn_id=turn), TurnCompleted(turn_id=turn))

    async def starting(session, request):
        turn = session.turn
        session.link.spawn(lambda: loop(session, turn), name="loop")

    rig.provider.starting = starting
    await rig.agent.run("go")
    assert [e.type for e in rig.of("tool/")] == ["tool/call", "tool/result", "tool/settled"]


async def test_a_cancel_while_pre_step_hangs_between_steps_ends_the_turn(rig):
    inside = anyio.Event()

    class Slow:
        @hookimpl
        async def pre_step(self, ctx, messages):
            if not messages:
                inside.set()
                await anyio.sleep_forever()

    await rig.host.load(Slow(), name="slow")
    over = []

    async def loop(session, turn):
        over.append(await session.link.next_step())
        session.emit(TurnCanceled(turn_id=turn, reason="told to"))

    async def starting(session, request):
        turn = session.turn
        session.link.spawn(lambda: loop(session, turn), name="loop")

    rig.provider.starting = starting
    rig.agent.followup("go")
    await inside.wait()
    assert await rig.agent.cancel() is Canceled.SETTLED
    await rig.agent.when_idle()
    assert over == [None]
    assert rig.reasons() == ["aborted"]
