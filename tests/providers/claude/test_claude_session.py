"""The session over a small fake agent: what no real one does on command."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from claude_box import alive

from greenroom import providers as p
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Text, UserSource
from greenroom_claude import ClaudeSettings
from greenroom_claude import _session as session_module
from greenroom_claude._provider import ClaudeProvider
from greenroom_claude._session import ClaudeSession
from greenroom_testing import RecordingLink

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

AGENT = """
    #!{python}
    import json, os, sys
    def say(**frame): print(json.dumps(frame), flush=True)
    def answer(frame, **fields):
        response = {{"subtype": "success", "request_id": frame["request_id"], "response": fields}}
        say(type="control_response", response=response)
    def life(uuid, state): say(type="command_lifecycle", command_uuid=uuid, state=state)
    def begin(uuid):
        life(uuid, "started")
        say(type="system", subtype="init", session_id="native-1", user_message_uuids=[uuid])
    def text(said):
        block = {{"type": "text", "text": said}}
        say(type="assistant", message={{"id": said, "content": [block]}}, session_id="native-1")
    def result(**more): say(type="result", subtype="success", is_error=False, session_id="native-1", **more)
    def note(value):
        with open({log!r}, "a") as file: file.write(json.dumps(value) + "\\n")
    note(sys.argv)
    for line in sys.stdin:
        frame = json.loads(line)
        kind = frame["type"]
        request = frame.get("request", {{}})
        note(frame)
        if request.get("subtype") == "initialize":
            {initialize}
            answer(frame, models=[], commands=[])
        elif request:
            {request}
            answer(frame)
        elif kind == "user":
            uuid = frame["uuid"]
            {user}
"""


def program(folder: Path, **parts: str) -> ClaudeSettings:
    """Settings that name a fake agent whose reactions are `parts`."""
    log = folder / "frames.jsonl"
    filled = {"initialize": "pass", "request": "pass", "user": "begin(uuid); text('hi'); result()", **parts}
    source = textwrap.dedent(AGENT).strip().format(python=sys.executable, log=str(log), **filled)
    path = folder / "claude"
    path.write_text(source)
    path.chmod(0o755)
    return ClaudeSettings(binary=str(path))


@asynccontextmanager
async def opened(folder: Path, **parts: str) -> AsyncIterator[tuple[ClaudeSession, RecordingLink]]:
    settings = program(folder, **parts)
    provider = ClaudeProvider(settings, {"PATH": "/usr/bin:/bin", "HOME": str(folder)})
    async with anyio.create_task_group() as tasks:
        link = RecordingLink(tasks)
        link.prompt, link.tools = "Be kind.", p.ToolEndpoint(url="http://127.0.0.1:1/mcp", token="very-secret-token")
        session = await provider.open(p.OpenRequest(session_id="s", cwd=folder), link)
        try:
            yield session, link
        finally:
            await session.aclose()
            assert alive(link.env) == []


def prompt(text: str = "Hi") -> p.TurnRequest:
    return p.TurnRequest(turn=1, messages=(message(text),))


def message(text: str) -> Message:
    return Message("m1", (Text(text),), UserSource())


def kinds(link: RecordingLink) -> list[tuple[str, str | None]]:
    wanted = (p.TurnStarted, *p.TERMINAL)
    return [(type(event).__name__, event.turn_id) for event in link.events if isinstance(event, wanted)]


async def ended(link: RecordingLink, turn: str) -> p.ProviderEvent:
    return await link.until(lambda e: isinstance(e, p.TERMINAL) and e.turn_id == turn, limit=20)


@pytest.mark.behaviour("P-456")
async def test_a_prompt_completes_the_turn_that_the_agent_had_begun_by_itself(tmp_path: Path) -> None:
    own = "text('by myself')"
    async with opened(tmp_path, initialize=own) as (session, link):
        await link.until(lambda e: isinstance(e, p.TurnStarted), limit=20)
        turn = await session.start_turn(prompt())
        await ended(link, turn)
    assert kinds(link) == [
        *[("TurnStarted", "auto-1"), ("TurnCompleted", "auto-1")],
        *[("TurnStarted", turn), ("TurnCompleted", turn)],
    ]


@pytest.mark.behaviour("P-443")
async def test_a_turn_of_the_agents_own_ends_with_its_result(tmp_path: Path) -> None:
    async with opened(tmp_path, initialize="text('by myself'); result(origin={{'kind': 'task-notification'}})".replace(
        "{{", "{").replace("}}", "}")) as (session, link):  # fmt: skip
        await link.until(lambda e: isinstance(e, p.TurnCompleted), limit=20)
        assert session._translator.open_turn is None
    assert kinds(link) == [("TurnStarted", "auto-1"), ("TurnCompleted", "auto-1")]


async def test_the_start_returns_when_the_prompt_has_begun_not_when_it_was_queued(tmp_path: Path) -> None:
    async with opened(
        tmp_path, user="life(uuid, 'queued')", request="if request['subtype'] == 'set_model': begin(uuid)"
    ) as (session, link):
        async with anyio.create_task_group() as tasks:
            turns: list[str] = []

            async def start() -> None:
                turns.append(await session.start_turn(prompt()))

            tasks.start_soon(start)
            while not session._starts:
                await anyio.lowlevel.checkpoint()
            await session.set_model("a")  # the fake begins the prompt with it
        assert turns
        assert kinds(link) == [("TurnStarted", turns[0])]


async def test_a_question_lets_the_start_return(tmp_path: Path) -> None:
    ask = (
        "say(type='control_request', request_id='q1', request={'subtype': 'can_use_tool', 'tool_name': 'Bash',"
        " 'input': {}})"
    )
    async with opened(tmp_path, user=ask) as (session, link):
        with anyio.fail_after(20):
            await session.start_turn(prompt())
        await session.respond("q1", p.PermissionDeny())
        assert isinstance(link.events[-1], p.PermissionResolved)


async def test_an_agent_that_dies_before_the_prompt_began_refuses_the_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, user="print('out of memory', file=sys.stderr); os._exit(9)") as (session, link):
        with pytest.raises(p.ProviderError, match="exited with status 9"):
            await session.start_turn(prompt())
        assert link.losses == ["the agent's process exited with status 9"]
        with pytest.raises(p.StaleSession):
            await session.start_turn(prompt())


async def test_the_token_of_the_tools_is_in_no_argument_and_the_prompt_in_the_start(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_session, link):
        pass
    argv, *frames = (tmp_path / "frames.jsonl").read_text().splitlines()
    assert "very-secret-token" not in argv
    assert "Be kind." in frames[0]
    assert "mcp_set_servers" in frames[1]
    assert "Bearer very-secret-token" in frames[1]
    assert link.processes[0].pid == link.processes[0].group


async def test_what_the_agent_took_back_is_named_by_our_own_ids(tmp_path: Path) -> None:
    took = "if request['subtype'] == 'interrupt': answer(frame, cancelled=[uuid]); life(uuid, 'cancelled'); continue"
    async with opened(tmp_path, user="life(uuid, 'queued')", request=took) as (session, link):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.start_turn, prompt())
            while not session._starts:
                await anyio.lowlevel.checkpoint()
            assert await session.interrupt() == p.Interrupted(withdrawn=("m1",))
        assert [name for name, _ in kinds(link)] == ["TurnCanceled"]


async def test_an_old_agent_that_acknowledges_no_queue_still_takes_a_steering_message(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(session_module, "QUEUED", 0.05)
    async with opened(tmp_path, user="begin(uuid) if 'Hi' in line else None") as (session, _link):
        await session.start_turn(prompt())
        assert await session.steer(message("more")) is p.Steered.ACCEPTED


async def test_a_start_that_fails_leaves_no_process_and_says_what_the_agent_said(tmp_path: Path) -> None:
    settings = program(tmp_path, initialize="print('bad config', file=sys.stderr); os._exit(4)")
    provider = ClaudeProvider(settings, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    async with anyio.create_task_group() as tasks:
        link = RecordingLink(tasks)
        with pytest.raises(p.ProviderError, match="bad config"):
            await provider.open(p.OpenRequest(session_id="s", cwd=tmp_path), link)
    assert alive(link.env) == []


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    settings = program(tmp_path, initialize="import time; time.sleep(60)")
    provider = ClaudeProvider(settings, {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    async with anyio.create_task_group() as tasks:
        link = RecordingLink(tasks)
        with anyio.move_on_after(1) as scope:
            await provider.open(p.OpenRequest(session_id="s", cwd=tmp_path), link)
        assert scope.cancelled_caught
        assert link.processes
        assert alive(link.env) == []


async def test_what_the_agent_does_after_the_turn_is_listed_until_it_is_over(tmp_path: Path) -> None:
    tasks_ = "say(type='system', subtype='background_tasks_changed', tasks=[{'task_id': 't', 'description': 'Build'}])"
    async with opened(tmp_path, user=f"begin(uuid); {tasks_}; result()") as (session, link):
        await ended(link, await session.start_turn(prompt()))
        assert session.background() == [p.BackgroundWork(id="t", description="Build")]
    assert link.losses == []
