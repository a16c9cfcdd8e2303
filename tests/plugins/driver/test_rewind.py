"""Going back to before a message: when it is refused, what it cuts, and that a forgetful provider is told again."""

from __future__ import annotations

import pytest

from greenroom.agents import AgentBusy, AgentError
from greenroom.providers import Capability, ProviderError, TextDelta, TurnCompleted, TurnStarted, Unsupported, UserEcho
from greenroom.sessions import EventRefused
from greenroom_testing import ScriptedSession, accept, answer

pytestmark = pytest.mark.anyio


class Forgetful(ScriptedSession):
    """Keeps a cut only for as long as it lives, like an agent that writes it with its next prompt."""

    failing = False

    async def revert(self, provider_message_id: str) -> None:
        if self.provider.session_type.failing:
            raise ProviderError("it does not want to")
        await super().revert(provider_message_id)


@pytest.fixture(autouse=True)
def forgetful(provider):
    provider.session_type = type("Session", (Forgetful,), {})


def prompts(rig) -> list[str]:
    return [event.data.message.id for event in rig.of("user/message")]


async def talk(rig, *texts: str) -> list[str]:
    for text in texts:
        await rig.agent.run(text)
        await rig.agent.when_idle()
    return prompts(rig)


async def test_the_line_is_cut_in_front_of_the_turn_that_the_message_opened(rig):
    _first, second = await talk(rig, "first", "second")
    opened = rig.of("turn/start")[-1].seq
    epoch = rig.agent.session.epoch
    await rig.agent.revert(second)
    (recast,) = rig.of("session/recast")
    assert (recast.data.reason, recast.data.keep_before) == ("rewind", opened)
    assert rig.agent.session.epoch == recast.data.epoch != epoch
    assert rig.session.reverted == [f"p-{second}"]
    assert [message.content[0].text for message in rig.agent.session.derive_messages() if message.role == "user"] == [
        "first"
    ]


@pytest.mark.behaviour("P-246")
async def test_a_rewind_waits_for_the_acknowledgement_and_uses_the_providers_id(rig):
    rig.provider.starting = accept
    pending = rig.agent.followup("never repeated")
    await rig.logged("turn/accepted")
    rig.session.say("answer")
    rig.session.end()
    await rig.logged("turn/end")
    await rig.agent.when_idle()
    with pytest.raises(AgentError, match="has not acknowledged"):
        await rig.agent.revert(pending.id)
    assert rig.session.reverted == []
    rig.session.emit(UserEcho(text="", provider_message_id="theirs", client_message_id=pending.id))
    await rig.settle()
    rig.provider.past = [
        TurnStarted(turn_id="t"), UserEcho(text="never repeated", provider_message_id="theirs"),
        TextDelta(text="answer", message_id="m"), TurnCompleted(turn_id="t"),
    ]  # fmt: skip
    await rig.agent.hydrate()
    await rig.agent.revert(pending.id)
    assert rig.session.reverted == ["theirs"]


async def test_a_rewind_is_refused_while_a_turn_runs(rig):
    (first,) = await talk(rig, "first")
    rig.provider.starting = accept
    rig.agent.followup("go")
    await rig.logged("turn/accepted", 2)
    with pytest.raises(AgentBusy):
        await rig.agent.revert(first)
    assert rig.of("session/recast") == []


async def test_a_rewind_is_refused_by_a_provider_that_cannot_go_back(rig):
    (first,) = await talk(rig, "first")
    rig.provider.capabilities -= {Capability.REVERT}
    rig.agent._driver.connection.spec = rig.provider.spec
    with pytest.raises(Unsupported):
        await rig.agent.revert(first)
    assert rig.session.reverted == rig.of("session/recast") == []


async def test_a_message_that_is_not_on_the_line_cannot_be_gone_back_to(rig):
    _first, second = await talk(rig, "first", "second")
    with pytest.raises(AgentError, match="not on this line"):
        await rig.agent.revert("unknown")
    await rig.agent.revert(second)
    with pytest.raises(AgentError, match="not on this line"):
        await rig.agent.revert(second)
    assert len(rig.of("session/recast")) == 1


async def test_a_message_that_joined_a_turn_says_so(rig):
    rig.provider.starting = accept
    rig.agent.followup("go")
    await rig.logged("turn/accepted")
    assert await rig.agent.steer("by the way") == "accepted"
    joined = await rig.logged("steering/message")
    rig.session.end()
    await rig.logged("turn/end")
    await rig.agent.when_idle()
    with pytest.raises(AgentError, match="joined a running turn"):
        await rig.agent.revert(joined.data.message.id)


async def test_a_provider_that_refuses_leaves_the_line_whole(rig):
    (first,) = await talk(rig, "first")
    rig.provider.session_type.failing = True
    with pytest.raises(ProviderError, match="does not want"):
        await rig.agent.revert(first)
    assert rig.of("session/recast") == []


async def test_what_was_typed_elsewhere_can_be_gone_back_to(rig):
    rig.session.emit(UserEcho(text="typed elsewhere", provider_message_id="theirs"), TurnStarted(turn_id="x"))
    rig.session.say("answer", turn="x")
    rig.session.end(turn="x")
    await rig.logged("turn/end")
    await rig.agent.when_idle()
    await rig.agent.revert("theirs")
    assert rig.session.reverted == ["theirs"]


# --- a provider that keeps the cut only with its next prompt -------------------------------


async def resume(rig, host):
    await rig.handle.dispose()
    rig.handle = await host.agents.resume(rig.agent.id, owner=host.scope)


@pytest.mark.parametrize("again", ["resume", "reopen", "lost"])
async def test_a_cut_is_made_again_when_the_conversation_is_opened_before_the_next_prompt(rig, host, again):
    _first, second = await talk(rig, "first", "second")
    await rig.agent.revert(second)
    before = rig.session
    if again == "resume":
        await resume(rig, host)
    elif again == "reopen":
        await rig.agent.reopen()
    else:
        rig.session.link.lost("it died")
        await rig.settle()
        await rig.agent.run("third")
    assert rig.session is not before
    assert rig.session.reverted == [f"p-{second}"]
    assert len(rig.of("session/recast")) == 1


async def test_a_cut_that_a_later_turn_was_built_upon_is_not_made_again(rig, host):
    _first, second = await talk(rig, "first", "second")
    await rig.agent.revert(second)
    await rig.agent.run("second, better")
    await resume(rig, host)
    assert rig.session.reverted == []
    assert [event.type for event in await rig.agent.session.events(0, types=["session/recast"])] == ["session/recast"]


async def test_a_turn_that_failed_behind_the_cut_does_not_prove_that_it_was_kept(rig, host):
    _first, second = await talk(rig, "first", "second")
    await rig.agent.revert(second)

    async def refuse(_session, _request):
        raise ProviderError("not now")

    rig.provider.starting = refuse
    rig.agent.followup("third")
    await rig.logged("turn/end", 3)
    await rig.agent.when_idle()
    rig.provider.starting = answer
    await resume(rig, host)
    assert rig.session.reverted == [f"p-{second}"]


async def test_of_two_cuts_in_a_row_the_last_one_is_made_again(rig, host):
    first, second, third = await talk(rig, "first", "second", "third")
    await rig.agent.revert(third)
    await rig.agent.revert(second)
    await resume(rig, host)
    assert rig.session.reverted == [f"p-{second}"]
    assert first in prompts(rig)


async def test_a_conversation_whose_cut_cannot_be_made_again_is_not_opened(rig, host):
    _first, second = await talk(rig, "first", "second")
    await rig.agent.revert(second)
    await rig.handle.dispose()
    rig.provider.session_type.failing = True
    with pytest.raises(ProviderError, match="does not want"):
        await host.agents.resume(rig.agent.id, owner=host.scope)
    assert all(session.closed for session in rig.provider.sessions)
    rig.provider.session_type.failing = False
    await resume(rig, host)
    assert rig.session.reverted == [f"p-{second}"]


async def test_a_rewind_that_the_log_refuses_is_made_nowhere_in_the_line(rig, monkeypatch):
    (first,) = await talk(rig, "first")

    def refuse(*_arguments):
        raise EventRefused("an invariant")

    monkeypatch.setattr(rig.agent.session, "recast", refuse)
    with pytest.raises(EventRefused):
        await rig.agent.revert(first)
    assert rig.of("session/recast") == []
    assert rig.agent.status == "idle"
