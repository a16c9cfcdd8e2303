"""`greenroom serve`, `attach`, and commands that go through another process: real processes, no account."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from .terminal import FULL_SPEED, Terminal, greenroom, script

pytestmark = pytest.mark.timeout(180)

ENDLESS = '{"after": 3600, "type": "text_delta", "text": "never"}'
HANGS = (
    '{"turn": "one"}',
    '{"type": "text_delta", "text": "working on it", "message_id": "m"}',
    ENDLESS,
    '{"turn": "two"}',
    '{"type": "text_delta", "text": "here again", "message_id": "m"}',
)


def _log(cwd: Path, session: str = "last") -> list[dict]:
    done = greenroom("log", session, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def serving(cwd: Path, *words: str):
    """A host that serves, in a terminal of its own."""
    with Terminal(*words, "serve", cwd=cwd) as terminal:
        terminal.wait_for(r"serving .*/data at .*serve\.sock \(process \d+\)")
        yield terminal


def _hanging(folder: Path, speed: str = "1") -> list[str]:
    file = script(folder / "hang.jsonl", *HANGS)
    return ["--set", f"plugins.replay.file={file}", "--set", f"plugins.replay.speed={speed}"]


def test_serve_says_what_it_serves_and_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    with serving(tmp_path) as host:
        host.wait_for("providers: .*replay")
        host.interrupt()
        assert host.end() == 0
    assert not (Path(os.environ["GREENROOM_HOME"]) / "endpoints/serve.sock").exists()


def test_serve_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    with serving(tmp_path) as host:
        host._process.send_signal(signal.SIGTERM)
        assert host.end() == 0


def test_a_second_serve_is_refused_with_the_process_that_serves(tmp_path: Path) -> None:
    with serving(tmp_path) as host:
        done = greenroom("serve", cwd=tmp_path)
        assert done.returncode == 1
        assert f"process {host._process.pid} serves" in done.stderr


def test_a_new_agent_goes_to_the_host_that_serves_and_stays_there(tmp_path: Path) -> None:
    with serving(tmp_path, *FULL_SPEED) as host:
        done = greenroom(*FULL_SPEED, "run", "--provider", "replay", "show me", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "words.py" in done.stdout
        assert "denied without asking: Edit words.py" in done.stderr
        assert re.search(r"\d+\.\d s · 2140 tokens in, 312 out · session ", done.stdout.splitlines()[-1])
        more = greenroom(*FULL_SPEED, "run", "--session", "last", "--json", "and then?", cwd=tmp_path)
        assert more.returncode == 0, more.stderr
        *_events, last = map(json.loads, more.stdout.splitlines())
        assert (last["turn"], last["reason"]) == (2, {"kind": "completed"})
        host.interrupt()
        host.wait_for("closing 1 agents")
        assert host.end() == 0
    assert [event["data"]["turn"] for event in _log(tmp_path) if event["type"] == "turn/end"] == [1, 2]


def test_a_run_in_another_process_is_followed_answered_and_left(tmp_path: Path) -> None:
    with Terminal(*FULL_SPEED, "run", "--provider", "replay", "show me", cwd=tmp_path) as runner:
        runner.wait_for(r"allow Edit words.py\? \[y/N\] ")
        with Terminal("attach", "last", cwd=tmp_path) as guest:
            guest.wait_for("> show me")
            guest.wait_for(r"allow Edit words.py\? \[y/N\] ")
            guest.type("y\n")
            guest.wait_for("allowed by user")
            runner.wait_for("The test passes")
            assert runner.end() == 0
            guest.wait_for("the agent has left|went away")
            guest.end()


def test_a_prompt_for_a_session_that_a_live_process_has_goes_through_it(tmp_path: Path) -> None:
    words = _hanging(tmp_path)
    with Terminal(*words, "run", "--provider", "replay", "begin", cwd=tmp_path) as runner:
        runner.wait_for("working on it")
        with Terminal("run", "--session", "last", "go on", cwd=tmp_path) as second:
            runner.wait_for("$")
            _wait_for_queue(tmp_path)
            runner.interrupt()
            assert runner.end() == 130
            second.end()
    events = _log(tmp_path)
    waiting = [m for e in events if e["type"] == "inbox/spliced" for m in e["data"].get("inserted", ())]
    assert [m["content"][0]["text"] for m in waiting][:2] == ["begin", "go on"]


def _wait_for_queue(cwd: Path) -> None:
    for _ in range(50):
        if any("go on" in json.dumps(event) for event in _log(cwd)):
            return
    raise AssertionError("the prompt never arrived")


def test_someone_attached_types_into_an_agent_and_leaves_it_running(tmp_path: Path) -> None:
    with serving(tmp_path, *_hanging(tmp_path)) as host:
        with Terminal("run", "--provider", "replay", "begin", cwd=tmp_path) as runner:
            runner.wait_for("working on it")
            with Terminal("attach", "last", cwd=tmp_path) as guest:
                guest.wait_for("working on it")
                guest.interrupt()
                guest.wait_for("the agent goes on without you")
                assert guest.end() == 0
            runner.interrupt()
            runner.wait_for("canceling the turn")
            assert runner.end() == 130
        with Terminal("attach", "last", cwd=tmp_path) as guest:
            guest.wait_for("> begin")
            guest.type("go on\n")
            guest.wait_for("> go on.*here again")
            guest.interrupt()
            assert guest.end() == 0
        host.interrupt()
        assert host.end() == 0


def test_without_an_owner_attach_opens_the_session_itself(tmp_path: Path) -> None:
    assert greenroom(*FULL_SPEED, "run", "--provider", "replay", "show me", cwd=tmp_path).returncode == 0
    with Terminal(*FULL_SPEED, "attach", "last", cwd=tmp_path) as guest:
        guest.wait_for("> show me.*I left the file as it is")
        guest.type("and then?\n")
        guest.wait_for("> and then.*report.py line 14")
        guest.interrupt()
        guest.wait_for("closing the agent")
        assert guest.end() == 0


def test_log_follows_a_session_of_another_process_to_its_end(tmp_path: Path) -> None:
    with Terminal(*_hanging(tmp_path), "run", "--provider", "replay", "begin", cwd=tmp_path) as runner:
        runner.wait_for("working on it")
        with Terminal("log", "last", "--follow", cwd=tmp_path) as follower:
            follower.wait_for("working on it")
            runner.interrupt()
            assert runner.end() == 130
            follower.wait_for("aborted by user")
            follower.interrupt()
            assert follower.end() == 130


def test_log_goes_on_with_the_next_owner_when_one_is_killed(tmp_path: Path) -> None:
    with Terminal(*_hanging(tmp_path), "run", "--provider", "replay", "begin", cwd=tmp_path) as runner:
        runner.wait_for("working on it")
        with Terminal("log", "last", "--follow", cwd=tmp_path) as follower:
            follower.wait_for("working on it")
            runner._process.kill()
            runner.end()
            greenroom(*_hanging(tmp_path, "full"), "run", "--session", "last", "go on", cwd=tmp_path)
            follower.wait_for("> go on")
            follower.interrupt()
            follower.end()


def test_attach_needs_a_session(tmp_path: Path) -> None:
    done = greenroom("attach", "nobody", cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "error: there is no session nobody")
