"""`greenroom run` and `greenroom log` as a person uses them: real processes, real terminals, no account."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path

import anyio
import pytest

from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentSpec

from .terminal import FULL_SPEED, GREENROOM, LIMIT, Terminal, greenroom, script

FAST = (*FULL_SPEED, "run", "--provider", "replay")
ENDLESS = '{"after": 3600, "type": "text_delta", "text": "never"}'


def _session(output: str) -> str:
    found = re.search(r"session ([0-9a-f-]{36})\s*$", output)
    assert found is not None, output
    return found.group(1)


def _log(cwd: Path, session: str = "last") -> list[dict]:
    done = greenroom("log", session, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _wait_until_stored(cwd: Path) -> None:
    """Wait until another process can read a session that is being written."""
    deadline = time.monotonic() + LIMIT
    while greenroom("log", "last", cwd=cwd).returncode and time.monotonic() < deadline:
        pass


def _playing(file: Path, *words: str, speed: str = "full") -> list[str]:
    settings = ["--set", f"plugins.replay.file={file}", "--set", f"plugins.replay.speed={speed}"]
    return [*settings, "run", "--provider", "replay", *words]


def _hanging(folder: Path) -> Path:
    """A script whose first turn says something and does not end; the second one completes."""
    return script(
        folder / "hang.jsonl",
        '{"turn": "one"}',
        '{"type": "text_delta", "text": "working on it", "message_id": "m"}',
        ENDLESS,
        '{"turn": "two"}',
        '{"type": "text_delta", "text": "here again", "message_id": "m"}',
    )


def test_a_run_without_any_account_replays_the_demo_and_says_so(tmp_path: Path) -> None:
    only_replay = ("--no-plugins=greenroom-claude,greenroom-codex", *FULL_SPEED)
    done = greenroom(*only_replay, "run", "show me", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "this replays a recorded session, no model is asked" in done.stderr
    for shown in ("words.py", "Bash pytest -q test_words.py", "exit code 1", "I left the file as it is"):
        assert shown in done.stdout
    assert re.search(r"\d+\.\d s · 2140 tokens in, 312 out · session ", done.stdout.splitlines()[-1])


def test_a_tool_call_is_one_line_with_its_result(tmp_path: Path) -> None:
    done = greenroom(*FAST, "show me", cwd=tmp_path)
    lines = [line for line in done.stdout.splitlines() if "test_words.py" in line]
    assert lines == ["✗ Bash pytest -q test_words.py → exit code 1"]


def test_without_a_terminal_a_question_is_denied_with_a_clear_line(tmp_path: Path) -> None:
    done = greenroom(*FAST, "show me", cwd=tmp_path)
    assert "denied without asking: Edit words.py (there is no terminal)" in done.stderr
    answers = [event["data"] for event in _log(tmp_path) if event["type"] == "permission/answered"]
    assert [answer["response"]["behavior"] for answer in answers] == ["deny"]


@pytest.mark.parametrize(("typed", "verdict"), [("y\n", "allow"), ("n\n", "deny"), ("\n", "deny"), ("\x04", "deny")])
def test_on_a_terminal_a_question_is_asked_and_the_answer_counts(tmp_path: Path, typed: str, verdict: str) -> None:
    with Terminal(*FAST, "show me", cwd=tmp_path) as terminal:
        terminal.wait_for(r"allow Edit words.py\? \[y/N\] ")
        terminal.type(typed)
        terminal.wait_for("The test passes" if verdict == "allow" else "I left the file as it is")
        assert terminal.end() == 0
    answers = [event["data"] for event in _log(tmp_path) if event["type"] == "permission/answered"]
    assert [(a["response"]["behavior"], a["by"]) for a in answers] == [(verdict, "user")]


def test_log_prints_the_session_with_its_prompt_and_run_goes_on_in_it(tmp_path: Path) -> None:
    first = greenroom(*FAST, "show me", cwd=tmp_path)
    log = greenroom("log", "last", cwd=tmp_path)
    assert log.returncode == 0
    assert log.stdout.splitlines()[0] == "> show me"
    assert "I left the file as it is" in log.stdout
    second = greenroom(*FULL_SPEED, "run", "--session", "last", "and then?", cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    assert "report.py line 14" in second.stdout
    assert _session(second.stdout) == _session(first.stdout)
    assert [e["data"]["turn"] for e in _log(tmp_path) if e["type"] == "turn/end"] == [1, 2]


def test_log_projected_prints_entries_and_goes_on_from_the_cursor_that_it_named(tmp_path: Path) -> None:
    greenroom(*FAST, "show me", cwd=tmp_path)
    log = greenroom("log", "last", "--projected", cwd=tmp_path)
    assert log.returncode == 0, log.stderr
    assert log.stdout.splitlines()[0] == "> show me"
    assert "✗ Bash pytest -q test_words.py → exit code 1" in log.stdout
    cursor = log.stderr.split()[-1]
    greenroom(*FULL_SPEED, "run", "--session", "last", "and then?", cwd=tmp_path)
    after = greenroom("log", "last", "--projected", "--after", cursor, cwd=tmp_path)
    assert after.stdout.splitlines()[0] == "> and then?"


def test_a_session_is_continued_without_a_prompt(tmp_path: Path) -> None:
    greenroom(*FAST, "show me", cwd=tmp_path)
    done = greenroom(*FULL_SPEED, "run", "--session", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "> Continue."


def test_the_prompt_may_come_from_a_pipe(tmp_path: Path) -> None:
    assert greenroom(*FAST, cwd=tmp_path, text="from a pipe\n").returncode == 0
    [said] = [event["data"]["message"] for event in _log(tmp_path) if event["type"] == "user/message"]
    assert said["content"] == [{"type": "text", "text": "from a pipe"}]


def test_no_prompt_at_all_is_an_error_with_a_hint(tmp_path: Path) -> None:
    done = greenroom(*FAST, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no prompt\nhint: ")


def test_json_prints_the_events_and_last_how_the_run_went(tmp_path: Path) -> None:
    done = greenroom(*FAST, "--json", "show me", cwd=tmp_path)
    *events, last = map(json.loads, done.stdout.splitlines())
    assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[0]["seq"] + len(events)))
    assert (events[-1]["type"], last["turn"], last["reason"]) == ("turn/end", 1, {"kind": "completed"})
    assert last["usage"]["output_tokens"] == 312


def test_the_exit_status_is_1_when_the_turn_failed(tmp_path: Path) -> None:
    failing = script(tmp_path / "f.jsonl", '{"turn": "one"}', '{"type": "turn_failed", "error": "out of luck"}')
    done = greenroom(*_playing(failing, "try"), cwd=tmp_path)
    assert done.returncode == 1
    assert "error: out of luck" in done.stdout


def test_ctrl_c_cancels_the_turn_and_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    hanging = _hanging(tmp_path)
    with Terminal(*_playing(hanging, "begin", speed="1"), cwd=tmp_path) as terminal:
        terminal.wait_for("working on it")
        terminal.interrupt()
        terminal.wait_for("canceling the turn; once more to leave at once")
        assert terminal.end() == 130
    ends = [event["data"]["reason"] for event in _log(tmp_path) if event["type"] == "turn/end"]
    assert ends == [{"kind": "aborted", "cause": "user"}]
    done = greenroom(*_playing(hanging, "--session", "last", "go on"), cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "here again")


def test_ctrl_c_while_a_question_is_open_ends_the_question_too(tmp_path: Path) -> None:
    with Terminal(*FAST, "show me", cwd=tmp_path) as terminal:
        terminal.wait_for(r"allow Edit words.py\? \[y/N\] ")
        terminal.interrupt()
        assert terminal.end() == 130
    answers = [event["data"] for event in _log(tmp_path) if event["type"] == "permission/answered"]
    assert [(a["response"]["behavior"], a["by"]) for a in answers] == [("deny", "system")]


def test_a_second_ctrl_c_leaves_at_once_and_the_session_can_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "deaf.py").write_text(
        "import anyio\n"
        "from greenroom import hookimpl\n"
        "@hookimpl(timeout=60)\n"
        "async def pre_step(ctx, messages):\n"
        "    print('held', flush=True)\n"
        "    with anyio.CancelScope(shield=True):\n"
        "        await anyio.sleep(50)\n"
    )
    hanging = _hanging(tmp_path)
    words = ("--set", f"plugins.load={json.dumps([str(tmp_path / 'deaf.py')])}")
    with Terminal(*words, *_playing(hanging, "begin"), cwd=tmp_path) as terminal:
        terminal.wait_for("held")
        terminal.interrupt()
        terminal.wait_for("once more to leave at once")
        _wait_until_stored(tmp_path)
        terminal.interrupt()
        assert terminal.end() == 130
    done = greenroom(*_playing(script(tmp_path / "ok.jsonl", '{"turn": "one"}'), "--session", "last"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "> begin" in done.stdout  # it was claimed and not yet told to anybody, so it waits again


def _queue(folder: Path, file: Path, text: str) -> None:
    """Leave a session behind in whose queue a prompt waits."""

    async def main() -> None:
        settings = load_settings(overrides={"plugins.replay.file": str(file)})
        async with Host(settings, data_directory=Path(os.environ["GREENROOM_HOME"])) as host:
            spec = AgentSpec(cwd=folder, options=AgentOptions(provider="replay"))
            handle = await host.agents.create(spec, owner=host.scope)
            handle.agent.send(text, "next-turn", wake=False)
            await handle.dispose()

    anyio.run(main)


def test_what_waits_in_the_queue_goes_before_the_prompt(tmp_path: Path) -> None:
    file = script(tmp_path / "s.jsonl", '{"turn": "one"}', '{"turn": "two"}')
    _queue(tmp_path, file, "queued")
    done = greenroom(*_playing(file, "--session", "last", "then this"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(">")] == ["> queued", "> then this"]


def test_without_a_prompt_what_waits_is_all_that_is_run(tmp_path: Path) -> None:
    file = script(tmp_path / "s.jsonl", '{"turn": "one"}')
    _queue(tmp_path, file, "queued")
    assert greenroom(*_playing(file, "--session", "last"), cwd=tmp_path).returncode == 0
    said = [e["data"]["message"]["content"][0]["text"] for e in _log(tmp_path) if e["type"] == "user/message"]
    assert said == ["queued"]


def test_a_prompt_whose_turn_never_came_waits_and_the_exit_status_is_1(tmp_path: Path) -> None:
    file = script(tmp_path / "s.jsonl", '{"turn": "one"}', '{"type": "turn_failed", "error": "no"}')
    _queue(tmp_path, file, "queued")
    done = greenroom(*_playing(file, "--session", "last", "then this"), cwd=tmp_path)
    assert done.returncode == 1
    assert "the prompt waits in the queue: greenroom run --session " in done.stderr
    again = greenroom(*_playing(file, "--session", "last"), cwd=tmp_path)
    assert "> then this" in again.stdout


def test_a_reader_that_goes_away_ends_the_run_quietly(tmp_path: Path) -> None:
    said = ('{"after": 0.1, "type": "text_delta", "text": "on and on\\n", "message_id": "m"}',) * 50
    talking = script(tmp_path / "t.jsonl", '{"turn": "one"}', *said)
    errors = tmp_path / "errors"
    command = [GREENROOM, *_playing(talking, "begin", speed="1")]
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"session ")
        process.stdout.close()
        assert process.wait(timeout=LIMIT) == 141
    assert errors.read_text() == ""
    assert [e["data"]["reason"]["kind"] for e in _log(tmp_path) if e["type"] == "turn/end"] == ["aborted"]


def test_ctrl_c_before_anything_has_begun_ends_the_command(tmp_path: Path) -> None:
    with Terminal(*FAST, "show me", cwd=tmp_path) as terminal:
        terminal.wait_for("session [0-9a-f-]{36}\n")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "Traceback" not in terminal.seen


def test_a_session_keeps_its_directory(tmp_path: Path) -> None:
    done = greenroom("run", "--session", "last", "--cwd", str(tmp_path), "x", cwd=tmp_path)
    assert done.returncode == 2
    assert "a session keeps its directory" in done.stderr


def test_last_needs_a_session(tmp_path: Path) -> None:
    for command in (("log", "last"), ("run", "--session", "last", "x")):
        done = greenroom(*command, cwd=tmp_path)
        assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: there is no session yet")


def test_log_follows_a_session_that_another_process_writes(tmp_path: Path) -> None:
    greenroom(*FAST, "show me", cwd=tmp_path)
    with Terminal("log", "last", "--follow", cwd=tmp_path) as follower:
        follower.wait_for("> show me")
        assert greenroom(*FULL_SPEED, "run", "--session", "last", "and then?", cwd=tmp_path).returncode == 0
        follower.wait_for("> and then?.*report.py line 14")
        follower.interrupt()
        assert follower.end() == 130


def test_providers_are_listed_and_checked(tmp_path: Path) -> None:
    listed = json.loads(greenroom("providers", "list", "--json", cwd=tmp_path).stdout)
    assert "replay" in [row["id"] for row in listed]
    done = greenroom("providers", "check", "replay", "--json", cwd=tmp_path)
    [row] = json.loads(done.stdout)
    assert done.returncode == 0
    assert (row["usable"], row["version"], row["login"], row["models"]) == (True, "0.1.0", "none needed", "demo-1")


def test_a_provider_that_cannot_be_used_is_checked_with_its_reason(tmp_path: Path) -> None:
    done = greenroom("--set", "plugins.replay.file=gone.jsonl", "providers", "check", "replay", "--json", cwd=tmp_path)
    [row] = json.loads(done.stdout)
    assert done.returncode == 1
    assert (row["usable"], "gone.jsonl cannot be read" in row["problem"]) == (False, True)


def test_an_unknown_provider_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    done = greenroom("run", "-p", "nobody", "x", cwd=tmp_path)
    assert done.returncode == 1
    assert "there is no provider 'nobody'" in done.stderr
    assert "replay" in done.stderr
