"""Every recorded history is taken over as an agent; the real binary goes on with what was imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from claude_box import Box
from claude_recordings import DATA
from claude_rig import ClaudePlugin, Rig, hosted
from stub_anthropic import Stub, turn
from stub_anthropic import text as says

import greenroom_timeline
from greenroom import providers as p
from greenroom.agents import Agent, AgentDirectory, AgentExists
from greenroom.timeline import TimelineService
from greenroom_claude._files import find_session, list_sessions, project_folder, read_history
from greenroom_claude._settings import ClaudeSettings
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedProvider

pytestmark = pytest.mark.timeout(300)
SESSIONS = DATA / "claude_sessions"
FILES = sorted(SESSIONS.glob("*/projects/*/*.jsonl"))


def copied(config: Path, cwd: Path, files: list[Path]) -> list[str]:
    """Copy histories into a configuration folder as if they had worked in `cwd`; their ids, the latest last."""
    folder = config / "projects" / project_folder(str(cwd))
    folder.mkdir(parents=True, exist_ok=True)
    place = json.dumps(str(cwd))
    for number, path in enumerate(files):
        beside = path.with_suffix("")
        if beside.is_dir():
            shutil.copytree(beside, folder / path.stem)
        file = folder / path.name
        file.write_text(path.read_text().replace('"/workspace"', place))
        os.utime(file, (number, number))
    return [path.stem for path in files]


class Quiet(ScriptedProvider):
    """In place of a process, for what happens before there is one."""


@asynccontextmanager
async def keeper(box: Box, data: Path, *, stub: Stub, quiet: bool) -> AsyncIterator[tuple[Rig, AgentDirectory]]:
    """A host with everything that an import touches."""
    plugins = {"manager": ManagerPlugin(), "timeline": greenroom_timeline.plugin}
    if quiet:
        plugin = ClaudePlugin(box, ClaudeSettings(), dict(box.given))
        plugin.provider.open = Quiet().open
        plugin.provider.availability = Quiet().availability
        plugins["claude"] = plugin
    async with hosted(box, stub=stub, data=data, plugins=plugins) as rig:
        yield rig, rig.host.service(AgentDirectory)


def asked(events: list[p.ProviderEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, p.UserEcho)]


def answered(events: list[p.ProviderEvent]) -> str:
    return "".join(event.text or "" for event in events if isinstance(event, p.MessageDone) and not event.reasoning)


@pytest.mark.asyncio
async def test_every_history_is_taken_over_and_shown_as_it_was(tmp_path: Path) -> None:
    box = Box(tmp_path, stub := Stub([]))
    copied(box.config, box.cwd, FILES)
    assert len(FILES) > 70
    async with keeper(box, tmp_path / "data", stub=stub, quiet=True) as (rig, directory):
        for path in FILES:
            history = read_history(find_session(box.config, path.stem))
            agent = await directory.import_native(None, path.stem)
            assert await wrong(rig, agent, history) == [], path
            with pytest.raises(AgentExists, match=agent.id):
                await directory.import_native("claude", path.stem)
            assert (await directory.find(path.stem)).record.id == agent.id
            await directory.close(agent.id)
            assert await rig.host.sessions.store.verify(agent.id) == []
        assert list((await directory.importable()).sessions) == []


async def wrong(rig: Rig, agent: Agent, history: list[p.ProviderEvent]) -> list[str]:
    """What of a history is not shown by the agent that took it over."""
    log = await agent.session.events()
    opened = [event.data.trigger.kind for event in log if event.type == "turn/start"]
    page = await rig.host.service(TimelineService).fetch(agent.id, direction="after", limit=0, view="projected")
    shown = [(entry.type, json.loads(bytes(entry.item))) for entry in page.entries]
    prompts = [item["message"]["content"][0]["text"] for kind, item in shown if kind == "user/message"]
    calls = {event.call_id for event in history if isinstance(event, p.ToolStarted)}
    checks = {
        "turns": opened == ["import"] * sum(isinstance(event, p.TurnStarted) for event in history),
        "prompts": prompts == asked(history),
        "answers": "".join(item["text"] for kind, item in shown if kind == "assistant/message") == answered(history),
        "calls": {item["call_id"] for kind, item in shown if kind == "tool/call"} == calls,
        "times": all(event.time > 1_700_000_000_000 for event in log),
    }
    return [name for name, right in checks.items() if not right]


@pytest.mark.asyncio
async def test_a_torn_history_with_unknown_rows_is_taken_over_as_far_as_it_goes(tmp_path: Path) -> None:
    (path,) = (SESSIONS / "multi_turn").glob("projects/*/*.jsonl")
    box = Box(tmp_path, stub := Stub([]))
    copied(box.config, box.cwd, [path])
    file = find_session(box.config, path.stem)
    lines = file.read_text().splitlines()
    odd = [json.dumps({"type": "brand-new", "uuid": "x", "content": "?"}), "[1, 2]", "", "not json"]
    file.write_text("\n".join([odd[0], *lines[:-1], *odd, lines[-1][: len(lines[-1]) // 2]]))
    async with keeper(box, tmp_path / "data", stub=stub, quiet=True) as (_rig, directory):
        agent = await directory.import_native("claude", path.stem)
        types = [event.type for event in await agent.session.events()]
        assert types.count("turn/start") == types.count("turn/end") == 2
        assert types.count("user/message") == 2


@pytest.mark.asyncio
async def test_a_conversation_that_began_in_another_folder_is_refused_and_says_where(tmp_path: Path) -> None:
    (path,) = (SESSIONS / "simple_text").glob("projects/*/*.jsonl")
    box, other = Box(tmp_path, stub := Stub([])), tmp_path / "elsewhere"
    other.mkdir()
    copied(box.config, box.cwd, [path])
    async with keeper(box, tmp_path / "data", stub=stub, quiet=False) as (rig, directory):
        with pytest.raises(p.StaleSession, match=f"only in {box.cwd}"):
            await directory.import_native("claude", path.stem, cwd=other)
        assert list(await rig.host.sessions.store.list()) == []


NAMED = ["multi_turn", "file_tools", "subagent", "auto_compact", "interrupt_tool", "parallel_tools", "error_529"]


@pytest.mark.asyncio
async def test_the_real_binary_goes_on_with_what_was_imported_and_goes_back_in_it(tmp_path: Path, soak_count) -> None:
    names = NAMED if soak_count(10) > 1 else NAMED[:1]
    for name in names:
        root = tmp_path / name
        path = min((SESSIONS / name).glob("projects/*/*.jsonl"))
        box = Box(root, stub := Stub([turn(says("I go on.")), turn(says("Otherwise."))]))
        copied(box.config, box.cwd, [path])
        prompts = asked(read_history(find_session(box.config, path.stem)))
        async with keeper(box, root / "data", stub=stub, quiet=False) as (rig, directory):
            agent = await directory.import_native("claude", path.stem)
            assert (await agent.run("Go on, please")).text == "I go on."
            given = json.dumps(rig.stub.messages()[-1]["messages"])
            if name != "auto_compact":  # there the summary stands for what was said
                assert json.dumps(prompts[-1])[1:-1] in given
            await agent.when_idle()
            assert (await agent.hydrate()).added == 0
            ids = [event.data.message.id for event in await agent.session.events(types=["user/message"])]
            await directory.rewind(agent.id, ids[-1])
            assert (await agent.run("Something else")).text == "Otherwise."
            given = json.dumps(rig.stub.messages()[-1]["messages"])
            assert "I go on." not in given
            await directory.close(agent.id)
        (session,) = list_sessions(box.config)
        assert session.id == path.stem


def greenroom(box: Box, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with the plugins that are installed, in front of a box."""
    env = {**os.environ, **box.given, "PATH": os.environ["PATH"], "GREENROOM_HOME": str(data)}
    command = [str(Path(sys.executable).with_name("greenroom")), *arguments]
    return subprocess.run(command, env=env, cwd=box.cwd, capture_output=True, text=True, timeout=240, check=False)


def test_the_command_lists_imports_once_shows_and_goes_back(tmp_path: Path, soak_count) -> None:
    with Stub([]) as stub:
        box, data = Box(tmp_path, stub), tmp_path / "data"
        chosen = [min((SESSIONS / name).glob("projects/*/*.jsonl")) for name in ("multi_turn", "simple_text")]
        more = [path for path in FILES if path not in chosen] if soak_count(10) > 1 else []
        *others, first, second = copied(box.config, box.cwd, [*more, *chosen])

        listed = json.loads(greenroom(box, data, "agents", "import", "--json", "--provider", "claude").stdout)
        assert [row["native_id"] for row in listed["sessions"]] == [second, first, *reversed(others)][:50]
        assert listed["errors"] == {}

        made = greenroom(box, data, "agents", "import", first, "--json")
        assert made.returncode == 0, made.stderr
        agent = json.loads(made.stdout)["id"]
        again = greenroom(box, data, "agents", "import", first)
        assert again.returncode != 0
        assert agent in again.stderr
        rest = json.loads(greenroom(box, data, "agents", "import", "--all", "--json").stdout)
        assert [row["native_id"] for row in rest["results"]] == [second, *reversed(others)]
        assert [row for row in rest["results"] if "error" in row] == []

        shown = greenroom(box, data, "log", agent, "--projected", "--json")
        page = json.loads(shown.stdout)
        said = [entry["item"]["message"] for entry in page["entries"] if entry["type"] == "user/message"]
        assert [message["content"][0]["text"] for message in said] == ["First question", "Second question"]

        back = greenroom(box, data, "agents", "rewind", agent, said[1]["id"])
        assert back.returncode == 0, back.stderr
        left = greenroom(box, data, "log", agent, "--projected").stdout
        assert "First question" in left
        assert "Second question" not in left
