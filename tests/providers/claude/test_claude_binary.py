"""The real binary against a scripted model on loopback, through our process shell and translator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from claude_box import Box, driven, real_binary
from claude_frames import of
from claude_recordings import check
from stub_anthropic import Stub, tool_use, turn
from stub_anthropic import text as says

from greenroom import providers as p
from greenroom_claude import _binary
from greenroom_claude._arguments import Options
from greenroom_claude._process import ControlRefused, ProcessExited, spawn

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]
SLEEP = "echo begun; python3 -c 'import time; time.sleep(60)'"


def boxed(tmp_path: Path, *turns: Any, **options: Any) -> tuple[Stub, Box]:
    stub = Stub(list(turns), **options)
    return stub, Box(tmp_path, stub)


async def allow(driver: Any, asked: p.PermissionRequested, response: p.PermissionResponse | None = None) -> None:
    await driver.write(driver.translator.answer(asked.request.id, response or p.PermissionAllow()))


@pytest.mark.behaviour("P-444", "P-451", "P-453")
async def test_an_interrupt_ends_the_turn_and_the_same_process_goes_on(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("A long answer. " * 50), hang=3), turn(says("Still here.")))
    with stub:
        async with driven(box.launch()) as driver:
            pid = driver.process.pid
            await driver.prompt("Tell me something long")
            await driver.until(lambda e: isinstance(e, p.TextDelta))
            await driver.process.control("interrupt")
            end = await driver.until(lambda e: isinstance(e, p.TERMINAL))
            assert isinstance(end, p.TurnCanceled)
            assert isinstance(await driver.turn("Still here?"), p.TurnCompleted)
            assert driver.process.pid == pid
            assert driver.process.exit_status is None
    check(driver.events)


async def test_a_conversation_that_does_not_exist_ends_the_process_with_a_reason(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path)
    with stub:
        process = await spawn(box.launch(Options(resume="00000000-0000-4000-8000-000000000000")))
        frames: list[dict[str, Any]] = []

        async def keep(frame: dict[str, Any]) -> None:
            frames.append(frame)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.run, keep)
            with pytest.raises(ProcessExited):
                await process.control("initialize", timeout=30)
            await process.stop()
        assert process.exit_status == 1
        assert "No conversation found" in json.dumps(frames) + process.stderr_tail


async def test_stopping_it_in_a_tool_call_is_quick_and_clean(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(tool_use("Bash", {"command": SLEEP, "description": "Sleep"})))
    with stub:
        async with driven(box.launch(Options(mode="bypassPermissions"), env=box.env(IS_SANDBOX="1"))) as driver:
            await driver.prompt("Sleep")
            await driver.until(lambda e: isinstance(e, p.ToolProgress))
            stopped = await driver.process.stop()
        assert stopped.rung == "eof"  # after the interrupt nothing keeps it
        (end,) = [event for event in driver.events if isinstance(event, p.TERMINAL)]
        assert isinstance(end, p.TurnCanceled)


async def test_what_an_agent_inside_an_agent_inherits_is_taken_off_and_the_marker_arrives(tmp_path: Path) -> None:
    show = tool_use("Bash", {"command": "env", "description": "Show"})
    stub, box = boxed(tmp_path, turn(show), turn(says("Shown.")))
    nested = {"CLAUDE_CODE_MESSAGING_TOKEN": "outer", "CLAUDE_CODE_SESSION_ID": "outer", "IS_SANDBOX": "1", "ODD": "1"}
    with stub:
        async with driven(box.launch(Options(mode="bypassPermissions"), env=box.env(**nested))) as driver:
            await driver.turn("Show")
    (finished,) = of(p.ToolFinished, driver.events)
    env = dict(line.split("=", 1) for line in (finished.output or "").splitlines() if "=" in line)
    assert env["CLAUDE_CODE_MESSAGING_TOKEN"] != "outer"
    assert env["CLAUDE_CODE_SESSION_ID"] == driver.translator.native_id
    assert "ODD" not in env
    assert env["GREENROOM_AGENT_ID"] == box.marker["GREENROOM_AGENT_ID"]


@pytest.mark.behaviour("P-448")
async def test_the_environment_of_a_launch_reaches_the_process_also_on_resume(tmp_path: Path) -> None:
    show = tool_use("Bash", {"command": "echo $GREENROOM_AGENT_ID", "description": "Show"})
    stub, box = boxed(tmp_path, turn(show), turn(says("1")), turn(show), turn(says("2")))
    env = box.env(IS_SANDBOX="1")
    with stub:
        async with driven(box.launch(Options(mode="bypassPermissions"), env=env)) as driver:
            await driver.turn("Show")
            native = driver.translator.native_id
        async with driven(box.launch(Options(mode="bypassPermissions", resume=native), env=env)) as resumed:
            await resumed.turn("Show")
    for each in (driver, resumed):
        assert [event.output for event in of(p.ToolFinished, each.events)] == [box.marker["GREENROOM_AGENT_ID"]]


async def test_project_settings_of_a_folder_that_is_not_trusted_do_nothing(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("1")), turn(says("2")))
    hook = {"hooks": [{"type": "command", "command": f"touch {tmp_path}/hooked"}]}
    (box.cwd / ".claude").mkdir()
    (box.cwd / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    (box.cwd / "CLAUDE.md").write_text("Project rule: sing.")
    with stub:
        async with driven(box.launch(Options(isolated=True))) as driver:
            await driver.turn("Hi")
        assert not (tmp_path / "hooked").exists()
        assert "Project rule: sing." not in json.dumps(stub.messages())
        async with driven(box.launch()) as driver:
            await driver.turn("Hi")
        assert (tmp_path / "hooked").exists()


async def test_a_request_that_this_version_does_not_know_is_refused_with_its_word(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path)
    with stub:
        async with driven(box.launch()) as driver:
            with pytest.raises(ControlRefused) as refused:
                await driver.process.control("no_such_request")
            assert refused.value.code == "unsupported_request"


class TestAvailability:
    async def test_the_binary_of_the_wheel_tells_its_version_and_login(self, tmp_path: Path) -> None:
        stub, box = boxed(tmp_path)
        with stub:
            found = await _binary.availability(None, {**box.env(), "PATH": "/usr/bin:/bin"})
        assert (found.ok, found.binary, found.login) == (True, real_binary(), "api key")
        assert found.version

    async def test_without_a_login_it_says_how(self, tmp_path: Path) -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path)}
        found = await _binary.availability(None, env)
        assert not found.ok
        assert "not logged in" in (found.problem or "")
        assert "ANTHROPIC_API_KEY" in (found.hint or "")

    async def test_without_a_binary_it_says_what_to_install(self, monkeypatch) -> None:
        monkeypatch.setattr(_binary, "_in_wheel", lambda: None)
        found = await _binary.availability(None, {"PATH": "/nonexistent"})
        assert not found.ok
        assert "install" in (found.hint or "")

    async def test_the_setting_comes_before_the_path_and_the_path_before_the_wheel(self, tmp_path: Path) -> None:
        def agent(name: str, version: str) -> str:
            script = tmp_path / name / "claude"
            script.parent.mkdir()
            script.write_text(f"#!/bin/sh\n[ $1 = auth ] && echo '{{\"loggedIn\": true}}' && exit\necho {version}\n")
            script.chmod(0o755)
            return str(script)

        chosen, on_path = agent("chosen", "2.9.1"), agent("on_path", "2.9.2")
        env = {"PATH": f"{Path(on_path).parent}:/usr/bin:/bin"}
        assert (await _binary.availability(chosen, env)).version == "2.9.1"
        assert (await _binary.availability(None, env)).version == "2.9.2"
        assert _binary.find_binary(None, {"PATH": "/nonexistent"}).source == "wheel"

    @pytest.mark.parametrize(
        ("script", "problem"),
        [
            ("echo 1.0.3", "too old"),
            ("echo hello", "did not answer"),
            ("exit 3", "did not answer"),
            ("exec sleep 60", "no answer in"),
        ],
    )
    async def test_a_binary_that_cannot_be_used_is_named(self, tmp_path: Path, monkeypatch, script, problem) -> None:
        monkeypatch.setattr(_binary, "PROBE", 0.5)
        binary = tmp_path / "claude"
        binary.write_text(f"#!/bin/sh\n{script}\n")
        binary.chmod(0o755)
        found = await _binary.availability(str(binary), {"PATH": "/usr/bin:/bin"})
        assert not found.ok
        assert problem in (found.problem or "")

    async def test_a_setting_that_names_nothing_is_a_problem(self) -> None:
        found = await _binary.availability("/no/such/claude", {"PATH": "/usr/bin:/bin"})
        assert "/no/such/claude" in (found.problem or "")
