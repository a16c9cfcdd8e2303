"""Recordings of Claude Code played by the replay provider, through this translator."""

from __future__ import annotations

from pathlib import Path

import pytest
from claude_recordings import DATA, names

import greenroom_claude
import greenroom_driver
import greenroom_normalize
import greenroom_replay
from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentSpec
from greenroom.providers import TERMINAL, ProviderError
from greenroom_claude import ClaudeSettings
from greenroom_claude._spec import spec
from greenroom_replay._recording import parse_recording
from greenroom_session_invariants import SessionInvariants

CLAUDE = {"claude": spec(ClaudeSettings())}


@pytest.mark.parametrize("name", names())
def test_a_recording_is_turns_that_end_once(name: str) -> None:
    lines = (DATA / f"{name}.jsonl").read_bytes().splitlines()
    try:
        script = parse_recording(lines, name, CLAUDE, "claude")
    except ProviderError as error:
        assert "holds no turn" in error.args[0]  # noqa: PT017 - a session that was only asked or set up has none
        return
    for turn in script.turns:
        assert [isinstance(step.event, TERMINAL) for step in turn].count(True) == 1
        assert isinstance(turn[-1].event, TERMINAL)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "said"),
    [("simple_text", "Hello! I am a stub, streamed word by word."), ("thinking_text", ""), ("multi_turn", "")],
)
async def test_a_recording_is_played_as_a_session(tmp_path: Path, name: str, said: str) -> None:
    table = {"plugins.replay.file": str(DATA / "claude" / f"{name}.jsonl"), "plugins.replay.speed": "full"}
    given = {"driver": greenroom_driver, "normalize": greenroom_normalize, "companion": SessionInvariants(),
             "claude": greenroom_claude, "replay": greenroom_replay}  # fmt: skip
    async with Host(load_settings(overrides=table), discovery=False, plugins=given) as host:
        made = AgentSpec(cwd=tmp_path, options=AgentOptions(provider="replay"))
        agent = (await host.agents.create(made, owner=host.scope)).agent
        result = await agent.run("show me")
        assert result.reason.kind == "completed"
        assert said in result.text
        assert not [row for row in host.diagnostics.recent if row.code == "event_refused"]
