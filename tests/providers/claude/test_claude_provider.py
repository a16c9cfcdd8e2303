"""The provider without a conversation, and its settings: the real binary and recorded histories."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from claude_box import Box
from claude_rig import Elsewhere, hosted
from stub_anthropic import Stub, turn
from stub_anthropic import text as says

from greenroom import Host, load_settings
from greenroom import providers as p
from greenroom_claude import ClaudeSettings
from greenroom_claude._files import project_folder
from greenroom_claude._provider import ClaudeProvider

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]
HISTORIES = Path(__file__).parents[2] / "data" / "recordings" / "claude_sessions"


def box_of(tmp_path: Path) -> Box:
    return Box(tmp_path, Elsewhere("http://127.0.0.1:9"))


async def test_models_modes_and_commands_are_asked_of_the_agent(tmp_path: Path) -> None:
    box = box_of(tmp_path)
    found = await ClaudeProvider(ClaudeSettings(), box.given).catalogue(cwd=box.cwd)
    assert [model.id for model in found.models if model.default] == ["default"]
    assert {mode.id for mode in found.modes} >= {"default", "plan", "acceptEdits"}
    assert {"compact", "rewind"} <= {command.name for command in found.commands}


async def test_it_tells_what_it_found_without_secrets(tmp_path: Path) -> None:
    box = box_of(tmp_path)
    told = await ClaudeProvider(ClaudeSettings(), box.given).diagnose()
    assert "version: 2." in told
    assert box.given["ANTHROPIC_API_KEY"] not in told


@pytest.mark.parametrize("name", sorted(path.name for path in HISTORIES.iterdir()))
async def test_a_recorded_history_is_listed_imported_and_changed_by_neither(tmp_path: Path, name: str) -> None:
    box = box_of(tmp_path)
    shutil.copytree(HISTORIES / name, box.config, dirs_exist_ok=True)
    before = digests(box.config)
    provider = ClaudeProvider(ClaudeSettings(), box.given)
    for found in await provider.list_native(cwd=None, limit=50):
        events = await provider.import_native(found.handle)
        assert events
        assert all(event.from_history for event in events)
    assert digests(box.config) == before


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def test_a_recorded_conversation_goes_on_with_its_history(tmp_path: Path) -> None:
    stub = Stub([turn(says("Gone on."))])
    box = Box(tmp_path, stub)
    name = next(path.name for path in sorted(HISTORIES.iterdir()) if path.name.startswith("multi_turn"))
    (recorded,) = (HISTORIES / name / "projects").iterdir()
    shutil.copytree(recorded, box.config / "projects" / project_folder(str(box.cwd)))
    async with hosted(box, stub=stub) as rig:
        (found, *_) = await rig.provider.list_native(cwd=None, limit=1)
        rig.provider.open, plain = _resuming(rig.provider.open, found.handle), rig.provider.open
        await rig.create()
        rig.provider.open = plain
        assert (await rig.agent.run("Go on")).text == "Gone on."
        given = json.dumps(stub.messages()[-1]["messages"])
        assert found.first_prompt in given


def _resuming(open_, handle):
    async def opened(request, link):
        import dataclasses

        return await open_(dataclasses.replace(request, handle=handle), link)

    return opened


@pytest.mark.parametrize(
    ("choice", "trusted", "loaded"),
    [("trusted", False, False), ("trusted", True, True), ("always", False, True), ("never", True, False)],
)
async def test_hooks_of_a_folder_run_only_where_they_are_trusted(tmp_path: Path, choice, trusted, loaded) -> None:
    async with hosted(tmp_path, turn(says("1")), settings=ClaudeSettings(project_settings=choice), strict=False) as rig:
        box = rig.box
        hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}
        (box.cwd / ".claude").mkdir()
        (box.cwd / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
        if trusted:
            known = {"projects": {str(tmp_path): {"hasTrustDialogAccepted": True}}}
            (box.config / ".claude.json").write_text(json.dumps(known))
        await rig.create()
        await rig.agent.run("Hi")
        assert (tmp_path / "hooked").exists() == loaded
        told = [event.data.code for event in rig.of("notice")]
        assert ("untrusted_folder" in told) == (not loaded)


async def test_further_arguments_and_variables_reach_the_agent(tmp_path: Path) -> None:
    chosen = ClaudeSettings(arguments=("--append-system-prompt", "Say please."), environment=("ODD_*",))
    async with hosted(tmp_path, turn(says("1")), settings=chosen, env={"ODD_ONE": "1", "EVEN": "2"}) as rig:
        await rig.create()
        await rig.agent.run("Hi")
        assert "Say please." in json.dumps(rig.stub.messages()[-1]["system"])
        env = Path(f"/proc/{rig.process.pid}/environ").read_bytes()  # noqa: ASYNC240 - it is in memory
        assert b"ODD_ONE=1" in env
        assert b"EVEN=2" not in env


async def test_a_setting_with_a_wrong_name_is_refused_by_name() -> None:
    import greenroom_claude

    settings = load_settings(overrides={"plugins.claude.binry": "x"})
    async with Host(settings, discovery=False, plugins={"claude": greenroom_claude}) as host:
        record = host.plugin("claude")
        assert record.state == "failed"
        assert "binry" in record.error


async def test_the_plugin_brings_one_provider_and_imports_no_process_for_it() -> None:
    import greenroom_claude

    async with Host(load_settings(), discovery=False, plugins={"claude": greenroom_claude}) as host:
        spec = host.providers["claude"]
        assert (spec.label, spec.steps) == ("Claude Code", "provider")
        assert p.Capability.RESUME in spec.capabilities
