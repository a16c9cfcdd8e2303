"""The real binary against a scripted model on loopback, through our process shell and translator."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from claude_box import Box, alive, driven, eventually, real_binary
from claude_frames import of, text
from claude_recordings import check
from stub_anthropic import Stub, error, thinking, tool_use, turn
from stub_anthropic import text as says

from greenroom import providers as p
from greenroom_claude import _binary
from greenroom_claude._arguments import Options
from greenroom_claude._files import list_sessions, read_children, read_rows
from greenroom_claude._history import history
from greenroom_claude._process import ControlRefused, ProcessExited, spawn

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]
SLEEP = "echo begun; python3 -c 'import time; time.sleep(60)'"


def boxed(tmp_path: Path, *turns: Any, **options: Any) -> tuple[Stub, Box]:
    stub = Stub(list(turns), **options)
    return stub, Box(tmp_path, stub)


async def allow(driver: Any, asked: p.PermissionRequested, response: p.PermissionResponse | None = None) -> None:
    await driver.write(driver.translator.answer(asked.request.id, response or p.PermissionAllow()))


async def test_a_turn_is_text_from_its_first_piece_to_its_end(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(thinking("Hm."), says("Hello from the loopback.")))
    with stub:
        async with driven(box.launch()) as driver:
            end = await driver.turn("Hi")
    assert isinstance(end, p.TurnCompleted)
    assert end.usage.context_used
    assert text(driver.events) == "Hello from the loopback."
    assert of(p.Raw, driver.events) == []
    check(driver.events)


@pytest.mark.behaviour("P-445", "P-467")
async def test_ten_turns_on_one_process(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, *(turn(says(f"answer {n}")) for n in range(10)))
    with stub:
        async with driven(box.launch()) as driver:
            ends = [await driver.turn(f"question {n}") for n in range(10)]
    assert len({end.turn_id for end in ends}) == 10
    assert len(of(p.SessionStarted, driver.events)) == 1
    check(driver.events)


async def test_a_tool_is_asked_for_run_and_answered(tmp_path: Path) -> None:
    call = tool_use("Bash", {"command": "touch made.txt", "description": "Make a file"})
    stub, box = boxed(tmp_path, turn(call), turn(says("Made.")))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.prompt("Make a file")
            await allow(driver, await driver.until(lambda e: isinstance(e, p.PermissionRequested)))
            await driver.until(lambda e: isinstance(e, p.TurnCompleted))
        assert (box.cwd / "made.txt").exists()
    (finished,) = of(p.ToolFinished, driver.events)
    assert (finished.name, finished.status) == ("Bash", "completed")
    assert len(of(p.PermissionResolved, driver.events)) == 1
    check(driver.events)


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


async def test_an_interrupt_of_an_idle_agent_harms_nothing(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("Fine.")))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.process.control("interrupt")
            assert isinstance(await driver.turn("Hi"), p.TurnCompleted)


@pytest.mark.behaviour("P-446")
@pytest.mark.parametrize(("status", "kind", "code"), [(401, "authentication_error", "authentication_failed"),
                                                      (529, "overloaded_error", "server_error")])  # fmt: skip
async def test_a_failing_model_fails_the_turn_and_the_next_one_works(tmp_path: Path, status, kind, code) -> None:
    stub, box = boxed(tmp_path, *[error(status, kind, "no")] * 2, turn(says("Back.")))
    with stub:
        async with driven(box.launch()) as driver:
            end = await driver.turn("Hi")
            assert isinstance(end, p.TurnFailed)
            assert end.code == code
            while stub.leftover().get("main", 0) > 1:
                stub.take({}, "main")
            assert isinstance(await driver.turn("Again"), p.TurnCompleted)
    check(driver.events)


async def test_a_connection_that_is_cut_in_the_middle_is_tried_again(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("The whole answer at last."), cut=2), turn(says("The whole answer at last.")))
    with stub:
        async with driven(box.launch()) as driver:
            assert isinstance(await driver.turn("Hi"), p.TurnCompleted)
    assert text(driver.events).endswith("The whole answer at last.")
    check(driver.events)


async def test_an_error_in_the_middle_of_an_answer_is_tried_again_without_a_stream(tmp_path: Path) -> None:
    broken = turn(says("Half of this is lost."), sse_error=["overloaded_error", "Overloaded"])
    stub, box = boxed(tmp_path, broken, turn(says("The whole answer at last.")))
    with stub:
        async with driven(box.launch()) as driver:
            assert isinstance(await driver.turn("Hi"), p.TurnCompleted)
    assert text(driver.events).endswith("The whole answer at last.")
    check(driver.events)


async def test_a_frame_of_two_megabytes_arrives(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir(parents=True, exist_ok=True)
    call = tool_use("Write", {"file_path": str(tmp_path / "ws" / "big.txt"), "content": "0123456789" * 200_000})
    stub, box = boxed(tmp_path, turn(call, chunk=100_000), turn(says("Written.")))
    with stub:
        async with driven(box.launch(Options(mode="acceptEdits"))) as driver:
            assert isinstance(await driver.turn("Write much"), p.TurnCompleted)
        assert (box.cwd / "big.txt").stat().st_size == 2_000_000
    assert max(len(json.dumps(frame)) for frame in driver.frames) > 2_000_000
    check(driver.events)


async def test_a_message_during_a_tool_joins_the_turn(tmp_path: Path) -> None:
    slow = tool_use("Bash", {"command": "python3 -c 'import time; time.sleep(2)'; echo slept", "description": "Wait"})
    stub, box = boxed(tmp_path, turn(slow), turn(says("I saw your note.")))
    with stub:
        async with driven(box.launch(Options(mode="bypassPermissions"), env=box.env(IS_SANDBOX="1"))) as driver:
            first = await driver.prompt("Wait a little")
            await driver.until(lambda e: isinstance(e, p.ToolProgress))
            ident = "11111111-1111-4111-8111-111111111111"
            message = {"role": "user", "content": "By the way: be brief."}
            frame = {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "", "uuid": ident}
            driver._add(driver.translator.sent(frame, steer=True))
            await driver.process.write(frame)
            end = await driver.until(lambda e: isinstance(e, p.TERMINAL))
    assert end.turn_id == first
    joined = [event for event in of(p.UserEcho, driver.events) if event.provider_message_id == ident]
    assert [(event.client_message_id, event.turn_id) for event in joined] == [(ident, first)]
    assert [event.turn_id for event in of(p.TurnStarted, driver.events)] == [first]
    check(driver.events)


async def test_a_job_that_ends_while_a_prompt_is_written_does_not_end_the_prompts_turn(
    tmp_path: Path, soak_count
) -> None:
    tries = soak_count(20)
    for number in range(tries):
        root = tmp_path / str(number)
        job = tool_use("Bash", {"command": "python3 -c 'import time; time.sleep(0.4)'", "description": "Wait",
                                "run_in_background": True})  # fmt: skip
        turns = [turn(job), turn(says("Started.")), turn(says("The job ended."), match="task-notification"),
                 turn(says("For your prompt."), match="Second prompt")]  # fmt: skip
        stub, box = boxed(root, *turns)
        with stub:
            async with driven(box.launch(Options(mode="bypassPermissions"), env=box.env(IS_SANDBOX="1"))) as driver:
                await driver.turn("Run it in the background")
                seen = len(driver.events)
                await anyio.sleep(0.8 * number / tries)  # before, while and after the job ends
                second = await driver.prompt("Second prompt")
                end = await driver.until(
                    lambda e, second=second: isinstance(e, p.TERMINAL) and e.turn_id == second, after=seen
                )
                assert isinstance(end, p.TurnCompleted)
        ours = "".join(event.text for event in of(p.TextDelta, driver.events) if event.turn_id == second)
        assert "For your prompt." in ours
        check(driver.events)


async def test_two_agents_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    stubs = [boxed(tmp_path / name, turn(says(f"I am {name}."))) for name in ("one", "two")]
    said: dict[int, str] = {}

    async def talk(number: int) -> None:
        stub, box = stubs[number]
        with stub:
            async with driven(box.launch()) as driver:
                await driver.turn("Who are you?")
                said[number] = text(driver.events)

    async with anyio.create_task_group() as tasks:
        for number in range(2):
            tasks.start_soon(talk, number)
    assert said == {0: "I am one.", 1: "I am two."}


@pytest.mark.behaviour("P-475")
async def test_a_resumed_conversation_reaches_the_model_and_is_not_shown_again(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("Noted, Ann.")), turn(says("Your name is Ann.")))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.turn("My name is Ann")
            native = driver.translator.native_id
        async with driven(box.launch(Options(resume=native))) as resumed:
            await resumed.turn("What is my name?")
            assert resumed.translator.native_id == native
    assert text(resumed.events) == "Your name is Ann."
    assert "My name is Ann" in json.dumps(stub.messages()[-1]["messages"])
    (session,) = list_sessions(box.config)
    assert (session.id, session.first_prompt, session.cwd) == (native, "My name is Ann", str(box.cwd))
    events = history(read_rows(session.path), read_children(session.path))
    assert [event.text for event in of(p.UserEcho, events)] == ["My name is Ann", "What is my name?"]
    assert text(events) == "Noted, Ann.Your name is Ann."
    check(events)


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


async def test_a_broken_line_on_its_input_ends_it_and_the_turn_fails(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("A long answer. " * 50), hang=3))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.prompt("Hi")
            await driver.until(lambda e: isinstance(e, p.TextDelta))
            await driver.process._stdin.send(b"this is no frame\n")
            with anyio.fail_after(20):
                await driver.process.exited.wait()
            ends = driver.translator.closed(driver.process.obituary(), diagnostic=driver.process.stderr_tail)
    assert driver.process.exit_status == 1
    (failed,) = of(p.TurnFailed, ends)
    assert failed.error == "the agent's process exited with status 1"
    assert "Error parsing" in (failed.diagnostic or "")


async def test_killing_it_in_a_tool_call_leaves_nothing_that_works(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(tool_use("Bash", {"command": SLEEP, "description": "Sleep"})))
    with stub:
        async with driven(box.launch(Options(mode="bypassPermissions"), env=box.env(IS_SANDBOX="1"))) as driver:
            await driver.prompt("Sleep")
            await driver.until(lambda e: isinstance(e, p.ToolProgress))
            agent = psutil.Process(driver.process.pid)
            tools = await eventually(lambda: agent.children(recursive=True))
            os.kill(driver.process.pid, signal.SIGKILL)
            await driver.process.exited.wait()
            stopped = await driver.process.stop()
            assert stopped.left == ()
            assert not [tool for tool in tools if tool.is_running() and tool.status() != psutil.STATUS_ZOMBIE]
    check(driver.events + driver.translator.closed(driver.process.obituary()))


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


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux only")
async def test_a_host_that_is_killed_leaves_no_agent_and_no_tool(tmp_path: Path, soak_count) -> None:
    for number in range(soak_count(20)):
        stub, box = boxed(tmp_path / str(number), turn(tool_use("Bash", {"command": SLEEP, "description": "Sleep"})))
        launch = box.launch(Options(mode="bypassPermissions"), env=box.env(IS_SANDBOX="1"))
        host = tmp_path / "host.py"
        host.write_text(textwrap.dedent(f"""
            import anyio, sys
            from pathlib import Path
            from greenroom_claude._process import Launch, spawn

            async def main():
                launch = Launch(argv={launch.argv!r}, cwd=Path({str(launch.cwd)!r}), env={launch.env!r})
                process = await spawn(launch)

                async def on_frame(frame):
                    if frame["type"] == "assistant":
                        print("tool", flush=True)

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(process.run, on_frame)
                    message = {{"role": "user", "content": "Sleep"}}
                    prompt = {{"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}}
                    await process.write(prompt)

            anyio.run(main)
        """))  # fmt: skip
        with stub:
            started = await anyio.open_process([sys.executable, str(host)], stdout=subprocess.PIPE)
            async with started:
                assert started.stdout
                with anyio.fail_after(30):
                    assert (await started.stdout.receive()).startswith(b"tool")
                started.kill()
                await eventually(lambda marker=launch.marker: not alive(marker))


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


async def test_a_command_between_turns_starts_nothing(tmp_path: Path) -> None:
    stub, box = boxed(tmp_path, turn(says("Hello.")))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.turn("Hi")
            await driver.process.control("set_model", model="haiku")
            notice = await driver.until(lambda e: isinstance(e, p.Notice))
            assert notice.message.startswith("Set model to")
            assert driver.translator.open_turn is None
    assert len(of(p.TurnStarted, driver.events)) == 1


@pytest.mark.parametrize("command", ["/context", "/compact", "/clear"])
async def test_a_slash_command_is_a_turn_that_ends(tmp_path: Path, command: str) -> None:
    stub, box = boxed(tmp_path, turn(says("Hello.")))
    with stub:
        async with driven(box.launch()) as driver:
            await driver.turn("Hi")
            assert isinstance(await driver.turn(command), p.TERMINAL)
    check(driver.events)


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
