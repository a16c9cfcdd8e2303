"""One prompt, from the inbox to the end of its turn."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio


async def test_a_prompt_becomes_a_turn_with_the_answer_in_it(rig):
    result = await rig.agent.run("hello")
    assert result.text == "ok"
    assert result.reason.kind == "completed"
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
