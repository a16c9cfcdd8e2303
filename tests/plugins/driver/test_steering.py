"""Steering a provider that runs its own steps: accepted, unavailable, ambiguous."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import CancelRefused
from greenroom.providers import (
    Capability,
    Notice,
    ProviderError,
    Steered,
    TextDelta,
    TurnCompleted,
    TurnStarted,
    UserEcho,
)
from greenroom_testing import EVERYTHING, answer

from .jumping import JUMPING

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


async def unavailable(_session, _message) -> Steered:
    return Steered.UNAVAILABLE


def prompts(rig) -> list[str]:
    return [event.data.message.content[0].text for event in rig.of("user/message", "steering/message")]


@pytest.mark.behaviour("P-163")
async def test_accepted_it_joins_the_turn_without_an_interrupt_and_stands_before_what_came_meanwhile(rig, turn):
    async def slowly(session, message):
        session.say("meanwhile")
        await anyio.sleep(1)
        return Steered.ACCEPTED

    rig.provider.steering = slowly
    assert await rig.agent.steer("more") == "accepted"
    await rig.logged("assistant/message")
    inside = rig.types()
    assert inside.index("steering/message") < inside.index("assistant/message")
    assert rig.session.interrupts == 0
    assert len(rig.of("turn/start")) == 1
    assert len(rig.agent.inbox) == 0


@pytest.mark.behaviour("P-164")
async def test_output_that_was_buffered_before_the_steer_stays_before_it(rig, turn):
    rig.session.say("first")
    rig.session.say("buffered")
    assert await rig.agent.steer("more") == "accepted"
    texts = [(event.type, getattr(event.data, "text", "")) for event in rig.of("assistant/", "steering/")]
    assert texts[-1][0] == "steering/message"
    assert "".join(text for _type, text in texts) == "firstbuffered"


@pytest.mark.behaviour("P-165")
@pytest.mark.parametrize("missing", [True, False])
async def test_unavailable_it_replaces_with_one_interrupt_and_one_new_turn(rig, turn, missing):
    if missing:
        spec = rig.agent._driver.connection.spec
        object.__setattr__(spec, "capabilities", EVERYTHING - {Capability.STEER})
    rig.provider.steering, rig.provider.starting = unavailable, answer
    assert await rig.agent.steer("more", otherwise="replace") == "replaced"
    await rig.agent.when_idle()
    assert rig.session.interrupts == 1
    assert rig.reasons() == ["aborted", "completed"]
    assert prompts(rig) == ["go", "more"]


async def test_unavailable_it_opens_the_next_turn(rig, turn):
    rig.provider.steering = unavailable
    assert await rig.agent.steer("more") == "queued"
    rig.provider.starting = answer
    rig.session.end()
    await rig.agent.when_idle()
    assert rig.reasons() == ["completed", "completed"]
    assert prompts(rig) == ["go", "more"]


@pytest.mark.behaviour("P-166")
async def test_the_fallback_never_replaces_a_newer_turn(rig, turn):
    async def end_and_go_on(session, message):
        session.end()
        session.emit(TurnStarted(turn_id="newer"))
        return Steered.UNAVAILABLE

    rig.provider.steering = end_and_go_on
    outcome = rig.agent.steer("more", otherwise="replace")
    with pytest.raises(CancelRefused, match="newer turn"):
        await outcome
    assert rig.session.interrupts == 0
    assert rig.agent.status == "running"


@pytest.mark.behaviour("P-167")
@pytest.mark.parametrize("how", ["answer", "raise"])
async def test_ambiguous_it_leaves_the_turn_alone_and_is_neither_sent_again_nor_logged_as_said(rig, turn, how):
    async def nobody_knows(session, message):
        if how == "raise":
            raise OSError("broken pipe")
        return Steered.AMBIGUOUS

    rig.provider.steering = nobody_knows
    assert await rig.agent.steer("more", otherwise="replace") == "ambiguous"
    assert rig.agent.status == "running"
    assert rig.session.interrupts == 0
    assert len(rig.session.steered) == 1
    assert len(rig.agent.inbox) == 0
    assert prompts(rig) == ["go"]
    assert [event.data.code for event in rig.of("notice")] == ["steer_ambiguous"]
    canceled = [event for event in rig.of("inbox/spliced") if event.data.outcome == "canceled"]
    assert len(canceled) == 1


@pytest.mark.behaviour("P-168")
@pytest.mark.parametrize("fails", [True, False])
async def test_while_the_turn_is_starting_it_waits_and_then_steers_or_opens_a_turn_of_its_own(rig, fails):
    go = anyio.Event()

    async def starting(session, request):
        if len(session.provider.all_requests) > 1:
            return await answer(session, request)
        await go.wait()
        if fails:
            raise ProviderError("no")
        return None

    rig.provider.starting = starting
    rig.agent.followup("go")
    outcome = rig.agent.steer("more")
    await rig.settle()
    assert not outcome.done
    go.set()
    assert await outcome == ("queued" if fails else "accepted")
    if not fails:
        rig.session.end()
    await rig.agent.when_idle()
    assert prompts(rig) == ["go", "more"]
    assert rig.reasons() == (["error", "completed"] if fails else ["completed"])


@pytest.mark.behaviour("P-169")
async def test_a_replacement_stands_behind_a_pending_steer(rig, turn):
    go = anyio.Event()

    async def slowly(session, message):
        await go.wait()
        return Steered.ACCEPTED

    rig.provider.steering = slowly
    steered = rig.agent.steer("more")
    await rig.settle()
    replaced = rig.agent.replace("other")
    await rig.settle()
    assert rig.session.interrupts == 0
    go.set()
    assert await steered == "accepted"
    rig.provider.starting = answer
    await replaced
    await rig.agent.when_idle()
    assert prompts(rig) == ["go", "more", "other"]
    assert rig.session.interrupts == 1


@pytest.mark.behaviour("P-170")
async def test_early_echoes_of_a_steered_message_are_logged_once(rig, turn):
    async def echoing(session, message):
        echo = UserEcho(text="more", provider_message_id="p", client_message_id=message.id, turn_id=turn)
        session.emit(echo, echo)
        await rig.settle()
        session.emit(echo)
        return Steered.ACCEPTED

    rig.provider.steering = echoing
    await rig.agent.steer("more")
    rig.session.end()
    await rig.agent.when_idle()
    assert prompts(rig) == ["go", "more"]
    assert len(rig.of("user/acknowledged")) == 1


@pytest.mark.behaviour("P-171")
async def test_a_command_of_the_provider_sent_to_a_busy_agent_replaces(rig, turn):
    async def rewind(session):
        session.emit(Notice(message="rewound"))

    rig.provider.commands["/rewind"] = rewind
    assert await rig.agent.steer("/rewind", otherwise="replace") == "replaced"
    await rig.agent.when_idle()
    assert rig.session.steered == []
    assert rig.reasons() == ["aborted", "completed"]
    assert rig.of("turn/start")[1].data.trigger.kind == "command"


@pytest.mark.behaviour("P-143")
async def test_a_turn_of_the_providers_own_can_be_steered(rig):
    rig.session.emit(TurnStarted(turn_id="own"))
    await rig.logged("turn/start")
    assert await rig.agent.steer("more") == "accepted"
    assert rig.session.interrupts == 0
    rig.session.emit(TextDelta(text="a", message_id="m", turn_id="own"), TurnCompleted(turn_id="own"))
    await rig.agent.when_idle()
    assert [event.data.trigger.kind for event in rig.of("turn/start")] == ["autonomous"]
    assert prompts(rig) == ["more"]
    assert rig.reasons() == ["completed"]


@pytest.mark.behaviour("D-238")
async def test_at_rest_a_steered_message_becomes_a_turn(rig):
    assert await rig.agent.steer("hello") == "queued"
    await rig.agent.when_idle()
    assert prompts(rig) == ["hello"]
    assert rig.reasons() == ["completed"]
