from __future__ import annotations

import pytest

from greenroom.agents import AgentOptions

pytestmark = pytest.mark.anyio

CHOSEN = {"model": "m-2", "mode": "careful", "thinking": "high", "features": {"fast": True}, "max_output_tokens": 9}


async def test_what_was_chosen_reaches_the_provider_when_its_session_is_opened_and_stands_in_the_log(rig):
    handle = await rig.create(options=CHOSEN)
    [*_, opened] = rig.provider.opened
    assert {name: getattr(opened, name) for name in CHOSEN} == CHOSEN
    config = handle.session.state.config
    assert (config.thinking, config.features) == ("high", {"fast": True})


async def test_a_resume_uses_what_was_chosen_last_and_its_own_choice_wins(rig):
    agent = await rig.create(options=CHOSEN)
    await agent.when_idle()
    await rig.handle.dispose()
    for options, thinking in ((None, "high"), (AgentOptions(thinking="low"), "low"), (None, "low")):
        handle = await rig.host.agents.resume(agent.id, options, owner=rig.host.scope)
        assert (rig.provider.opened[-1].thinking, rig.provider.opened[-1].features) == (thinking, {"fast": True})
        await handle.dispose()
