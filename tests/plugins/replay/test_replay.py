"""The provider in a host: with the driver, the store in memory and nobody's account."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import greenroom_driver
import greenroom_replay
from greenroom import Host, load_settings
from greenroom.agents import Agent, AgentHandle, AgentOptions, AgentSpec, Canceled, RunResult
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionAllow, PermissionDeny, ProviderError
from greenroom.sessions import Event

pytestmark = pytest.mark.anyio

RECORDING = Path(__file__).resolve().parents[2] / "data/recordings/claude/permission_allow.jsonl"
ASKING = (
    '{"turn": "one"}',
    '{"type": "tool_started", "call_id": "c", "name": "Edit", "input": {}}',
    '{"type": "permission_requested", "request": {"id": "q", "name": "Edit", "call_id": "c"}}',
    '{"if": "allow", "type": "tool_finished", "call_id": "c", "name": "Edit", "status": "completed"}',
    '{"if": "allow", "type": "text_delta", "text": "done", "message_id": "m"}',
    '{"if": "deny", "type": "tool_finished", "call_id": "c", "name": "Edit", "status": "failed", "error": "denied"}',
    '{"if": "deny", "type": "text_delta", "text": "left", "message_id": "m"}',
    '{"type": "turn_completed", "usage": {"output_tokens": 7}}',
)
ENDLESS = (
    '{"turn": "one"}',
    '{"type": "text_delta", "text": "x", "message_id": "m"}',
    '{"after": 9e9, "type": "idle"}',
)
TWO = (
    '{"turn": "one"}',
    '{"type": "text_delta", "text": "first", "message_id": "m"}',
    '{"turn": "two"}',
    '{"type": "text_delta", "text": "second", "message_id": "m"}',
)


@pytest.fixture
def rig(tmp_path: Path) -> Callable[..., object]:
    """Open a host that plays these lines."""

    @asynccontextmanager
    async def open_host(*lines: str, speed: object = "full", file: Path | None = None) -> AsyncIterator[Host]:
        script = file or tmp_path / "script.jsonl"
        if file is None:
            script.write_text("\n".join(['{"script": 1, "model": "m-1"}', *lines]))
        settings = tmp_path / "greenroom.toml"
        settings.write_text(f"[plugins.replay]\nfile = {json.dumps(str(script))}\nspeed = {json.dumps(speed)}\n")
        plugins = {"driver": greenroom_driver, "replay": greenroom_replay}
        async with Host(load_settings(user_file=settings), discovery=False, plugins=plugins) as host:
            assert [record.error for record in host.plugins()] == [None, None]
            yield host

    return open_host


async def create(host: Host, **options: str) -> AgentHandle:
    return await host.agents.create(AgentSpec(options=AgentOptions(provider="replay", **options)), owner=host.scope)


async def play(agent: Agent, answer: object = None) -> tuple[list[Event], RunResult]:
    """Run a turn and answer its questions; return what was logged in it and how it ended."""
    events: list[Event] = []
    stream = agent.stream("go")
    async for event in stream:
        events.append(event)
        if event.type == "permission/asked":
            await agent.respond(event.data.request.id, answer)
    assert stream.result is not None
    return events, stream.result


async def test_each_prompt_plays_the_next_turn_and_after_the_last_the_first_again(rig) -> None:
    async with rig(*TWO) as host:
        agent = (await create(host)).agent
        assert [(await agent.run("go")).text for _ in range(3)] == ["first", "second", "first"]


async def test_what_is_played_again_is_said_under_new_ids(rig) -> None:
    async with rig(*ASKING) as host:
        agent = (await create(host)).agent
        logged = [(await play(agent, PermissionAllow()))[0] for _ in range(2)]
        calls = [event.data.call_id for events in logged for event in events if event.type == "tool/call"]
        asked = [event.data.request for events in logged for event in events if event.type == "permission/asked"]
        assert len(set(calls)) == 2
        assert len({request.id for request in asked}) == 2
        assert [request.call_id for request in asked] == calls


@pytest.mark.parametrize(
    ("answer", "text", "status"),
    [(PermissionAllow(), "done", "completed"), (PermissionDeny(message="no"), "left", "failed")],
)
async def test_the_answer_to_a_question_chooses_what_is_played(rig, answer, text: str, status: str) -> None:
    async with rig(*ASKING) as host:
        events, result = await play((await create(host)).agent, answer)
        assert (result.text, result.reason.kind) == (text, "completed")
        assert [event.data.status for event in events if event.type == "tool/result"] == [status]
        assert result.usage is not None
        assert result.usage.output_tokens == 7


async def test_a_denial_that_interrupts_ends_the_turn(rig) -> None:
    async with rig(*ASKING) as host:
        _, result = await play((await create(host)).agent, PermissionDeny(message="stop", interrupt=True))
        assert result.reason.kind == "aborted"


async def test_an_answer_to_no_question_is_refused(rig) -> None:
    async with rig(*TWO) as host:
        agent = (await create(host)).agent
        with pytest.raises(ProviderError):
            await agent.respond("none", PermissionAllow())


async def test_an_interrupt_really_stops_and_the_next_prompt_goes_on(rig) -> None:
    async with rig(*ENDLESS, *TWO[2:], speed=1) as host:
        agent = (await create(host)).agent
        async for event in (stream := agent.stream("go")):
            if event.type == "assistant/message":
                assert await agent.cancel() is Canceled.SETTLED
        assert stream.result is not None
        assert stream.result.reason.kind == "aborted"
        assert (await agent.run("go")).text == "second"


async def test_a_resumed_session_plays_on_where_it_was(rig) -> None:
    async with rig(*TWO) as host:
        handle = await create(host)
        await handle.agent.run("go")
        await handle.dispose()
        resumed = await host.agents.resume(handle.agent.id, owner=host.scope)
        assert (await resumed.agent.run("go")).text == "second"


async def test_closing_in_the_middle_of_a_turn_leaves_nothing(rig) -> None:
    async with rig(*ENDLESS, speed=1) as host:
        before = host.effects()
        handle = await create(host)
        async for event in handle.agent.stream("go"):
            if event.type == "assistant/message":
                break
        with anyio.fail_after(30):
            await handle.dispose()
        assert host.effects() == before


async def test_a_foreign_model_is_told_to_the_person_and_changes_nothing(rig) -> None:
    async with rig(*TWO) as host:
        agent = (await create(host, model="other")).agent
        events, result = await play(agent)
        assert result.text == "first"
        [notice] = [event.data.message for event in events if event.type == "notice"]
        assert notice == "a replay has no model to choose; what you hear was said by m-1"


async def test_the_original_speed_waits_and_full_speed_does_not(rig) -> None:
    waiting = ('{"turn": "one"}', '{"after": 0.05, "type": "text_delta", "text": "x", "message_id": "m"}')
    took = []
    for speed in (1, "full"):
        async with rig(*waiting, speed=speed) as host:
            agent = (await create(host)).agent
            events, _ = await play(agent)
            times = [event.time for event in events if event.type in {"turn/accepted", "assistant/message"}]
            took.append(times[1] - times[0])
    assert took[0] >= 45  # milliseconds; a clock of another kind than the one that waits
    assert took[1] < took[0]


async def test_a_recording_goes_on_as_it_was_answered_and_says_so(rig) -> None:
    from greenroom import hookimpl
    from greenroom.providers import ProviderSpec
    from greenroom_claude import Translator

    class Recorded:
        @hookimpl
        def providers(self):
            return [ProviderSpec(id="claude", label="C", steps="provider", load=None, translator=Translator)]

    async with rig(file=RECORDING) as host:
        await host.load(Recorded(), name="recorded")
        events, result = await play((await create(host)).agent, PermissionDeny(message="no"))
        assert result.reason.kind == "completed"
        assert result.text == "Made made.txt."
        [notice] = [event.data.message for event in events if event.type == "notice"]
        assert notice == "this is a recording: it goes on as it was answered then (allow)"


async def test_a_recording_without_its_plugin_fails_the_creation_and_names_the_provider(rig) -> None:
    async with rig(file=RECORDING) as host:
        with pytest.raises(GreenroomError, match="recording of 'claude'"):
            await create(host)
        assert host.agents.list() == []


async def test_availability_says_what_is_wrong_with_the_file_and_the_catalogue_names_the_model(rig, tmp_path) -> None:
    async with rig(*TWO) as host:
        provider = host.providers["replay"].load()
        found = await provider.availability()
        assert (found.ok, found.login) == (True, "none needed")
        assert [model.id for model in (await provider.catalogue(cwd=tmp_path)).models] == ["m-1"]
    async with rig(file=tmp_path / "gone.jsonl") as host:
        found = await host.providers["replay"].load().availability()
        assert not found.ok
        assert found.problem is not None
        assert "gone.jsonl cannot be read" in found.problem


async def test_without_settings_the_demo_is_played() -> None:
    plugins = {"driver": greenroom_driver, "replay": greenroom_replay}
    async with Host(
        load_settings(overrides={"plugins.replay.speed": "full"}), discovery=False, plugins=plugins
    ) as host:
        agent = (await create(host)).agent
        _, first = await play(agent, PermissionAllow())
        _, second = await play(agent)
        assert "The test passes" in first.text
        assert "report.py line 14" in second.text


@pytest.mark.parametrize("speed", [0, -1, "fast", float("inf")])
def test_a_speed_that_is_none_is_refused(speed: object) -> None:
    with pytest.raises(ValueError, match="speed"):
        greenroom_replay.ReplaySettings(speed=speed)
