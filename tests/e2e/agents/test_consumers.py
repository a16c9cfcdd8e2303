"""What a consumer of agents may rely on, whoever drives them."""

from __future__ import annotations

import pytest

from greenroom.agents import AgentClosed, Canceled

from .conftest import spec

pytestmark = pytest.mark.anyio


@pytest.fixture
async def agent(host):
    return (await host.agents.create(spec(), owner=host.scope)).agent


def said(agent) -> list[str]:
    return [e.data.message.content[0].text for e in agent.session.tail if e.type in {"user/message", "context/message"}]


async def test_a_prompt_is_answered_in_a_turn_of_its_own(agent):
    result = await agent.run("hello")
    assert result.text
    assert result.reason.kind == "completed"


async def test_followups_are_turns_in_their_order(agent):
    for word in ("one", "two", "three"):
        agent.followup(word)
    await agent.when_idle()
    assert said(agent) == ["one", "two", "three"]
    assert [e.data.turn for e in agent.session.tail if e.type == "turn/start"] == [1, 2, 3]


async def test_injected_context_waits_and_enters_before_the_next_prompt(agent):
    agent.inject("by the way", plugin="test")
    assert said(agent) == []
    await agent.run("hello")
    assert said(agent) == ["by the way", "hello"]


async def test_at_rest_a_cancel_clears_what_waits_and_says_that_nothing_ran(agent):
    agent.send("later", "next-turn", wake=False)
    assert await agent.cancel() is Canceled.NOT_RUNNING
    assert len(agent.inbox) == 0


async def test_a_session_is_driven_on_where_it_ended(host):
    first = await host.agents.create(spec(), owner=host.scope)
    await first.agent.run("one")
    await first.dispose()
    again = (await host.agents.resume(first.agent.id, owner=host.scope)).agent
    await again.run("two")
    starts = [event.data.turn for event in await again.session.events() if event.type == "turn/start"]
    assert starts == [1, 2]


async def test_after_its_disposal_it_cannot_be_driven(host):
    handle = await host.agents.create(spec(), owner=host.scope)
    await handle.dispose()
    with pytest.raises(AgentClosed):
        handle.agent.followup("too late")
