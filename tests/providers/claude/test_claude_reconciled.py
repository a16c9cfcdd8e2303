"""What was recorded live and what Claude Code kept of the same conversation are one conversation in the log."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from claude_recordings import DATA, processes

import greenroom_driver
import greenroom_normalize
from greenroom import Host, load_settings
from greenroom import providers as p
from greenroom.agents import AgentOptions, AgentSpec
from greenroom_claude import Translator
from greenroom_claude._files import read_history
from greenroom_claude._wire import user_text
from greenroom_session_invariants import SessionInvariants
from greenroom_testing import ScriptedPlugin, ScriptedProvider

pytestmark = pytest.mark.asyncio
SESSIONS = DATA / "claude_sessions"
BOTH = sorted(folder.name for folder in SESSIONS.iterdir() if (DATA / "claude" / f"{folder.name}.jsonl").exists())


def live(name: str) -> Iterator[p.ProviderEvent]:
    """What was said live; a prompt counts as typed elsewhere, since nobody here has asked for it."""
    for conversation in processes(f"claude/{name}"):
        translator = Translator()
        for direction, frame in conversation:
            if direction == "in" and isinstance(frame, dict) and frame.get("type") == "user":
                yield p.UserEcho(text=user_text(frame["message"]) or "", provider_message_id=frame.get("uuid") or "")
            events = translator.feed(frame) if direction == "out" else translator.sent(frame)
            yield from (event for event in events if not isinstance(event, p.UserEcho))
        yield from translator.closed("the process ended")


LATER = {"bash_timeout": 1}
"""What only the history tells: that a command in the background was ended when the recorded process was."""


@pytest.mark.parametrize("name", BOTH)
async def test_the_history_of_a_recorded_conversation_adds_nothing_to_what_was_logged_live(name: str) -> None:
    (path,) = (SESSIONS / name).glob("projects/*/*.jsonl")
    provider = ScriptedProvider()
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "normalize": greenroom_normalize,
        "invariants": SessionInvariants(),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        handle = await host.agents.create(AgentSpec(options=AgentOptions(provider="scripted")), owner=host.scope)
        for event in live(name):
            provider.session.emit(event)
        await handle.agent.flush()
        await handle.agent.when_idle()
        provider.past = read_history(path)
        done = await handle.agent.hydrate()
        assert (done.added, done.completed, done.refused) == (LATER.get(name, 0), 0, 0)
        assert done.known > 0
        again = await handle.agent.hydrate()
        assert (again.added, again.completed) == (0, 0)
