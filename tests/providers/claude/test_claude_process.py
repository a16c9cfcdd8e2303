"""The process shell on small fake agents: framing, control requests, and the rungs of a stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from claude_box import alive
from hypothesis import given
from hypothesis import strategies as st

from greenroom_claude import _process
from greenroom_claude._descendants import descendants
from greenroom_claude._lines import LineBuffer
from greenroom_claude._process import ControlRefused, Ladder, Launch, ProcessExited, spawn

FAST = Ladder(interrupt=0.3, eof=0.3, term=0.3, kill=5, left=5)
ECHO = """
    for line in sys.stdin:
        frame = json.loads(line)
        request = frame.get("request", {})
        if request.get("subtype") == "die":
            print("last words", file=sys.stderr)
            os._exit(7)
        elif request.get("subtype") == "no":
            say({"type": "control_response", "response": {"subtype": "error", "request_id": frame["request_id"],
                 "error": "Unsupported", "error_code": "unsupported_request"}})
        elif request.get("subtype") == "silence":
            pass
        elif request:
            say({"type": "control_response", "response": {"subtype": "success", "request_id": frame["request_id"],
                 "response": {"asked": request}}})
        else:
            say({"type": "echo", "frame": frame})
"""


def fake(tmp_path: Path, body: str, **env: str) -> Launch:
    """A small agent written in Python: `say(frame)` writes a frame."""
    script = tmp_path / "agent.py"
    head = "import json, os, signal, subprocess, sys, time\ndef say(frame):\n    print(json.dumps(frame), flush=True)\n"
    script.write_text(head + textwrap.dedent(body))
    marker = {"GREENROOM_AGENT_ID": f"test-{uuid.uuid4()}:1"}
    return Launch(
        argv=[sys.executable, str(script)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **env, **marker},
        marker=marker,
    )


class Said(list[dict[str, Any]]):
    """The frames that an agent has written."""

    def __init__(self) -> None:
        super().__init__()
        self.news = anyio.Event()

    async def add(self, frame: dict[str, Any]) -> None:
        self.append(frame)
        news, self.news = self.news, anyio.Event()
        news.set()

    async def until(self, count: int = 1) -> None:
        with anyio.fail_after(20):
            while len(self) < count:
                await self.news.wait()


@asynccontextmanager
async def running(launch: Launch, ladder: Ladder = FAST):
    """The process and the frames that it has written; stopped at the end, with everything it started."""
    process = await spawn(launch)
    frames = Said()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run, frames.add)
        try:
            yield process, frames
        finally:
            await process.stop(ladder)
    assert alive(launch.marker) == []


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"_") or b"x"), max_size=8), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    buffer, out, place = LineBuffer(), [], 0
    while place < len(whole):
        step = data.draw(st.integers(1, 17))
        out += buffer.feed(whole[place : place + step])
        place += step
    assert out == lines
    assert buffer.end() is None


def test_a_line_separator_of_unicode_ends_no_line() -> None:
    line = json.dumps({"a": "\u2028\u0085"}, ensure_ascii=False).encode()
    assert LineBuffer().feed(line + b"\n") == [line]


def test_a_line_over_the_limit_is_dropped_and_the_next_one_is_whole() -> None:
    buffer = LineBuffer(limit=10)
    assert buffer.feed(b"x" * 8) == []
    assert buffer.feed(b"y" * 8 + b"\nshort\n") == [b"short"]
    assert buffer.dropped == 1


@pytest.mark.asyncio
async def test_a_control_request_gets_its_answer(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, _):
        assert await process.control("hello", n=1) == {"asked": {"subtype": "hello", "n": 1}}


@pytest.mark.asyncio
async def test_many_requests_at_once_get_their_own_answers(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, _):
        answers: dict[int, Any] = {}

        async def ask(number: int) -> None:
            answers[number] = (await process.control("hello", n=number))["asked"]["n"]

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(ask, number)
        assert answers == {number: number for number in range(50)}


@pytest.mark.asyncio
async def test_a_refused_request_says_why(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, _):
        with pytest.raises(ControlRefused) as refused:
            await process.control("no")
        assert refused.value.code == "unsupported_request"


@pytest.mark.asyncio
async def test_a_request_that_is_not_answered_times_out_and_leaves_nothing(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, _):
        with pytest.raises(TimeoutError):
            await process.control("silence", timeout=0.05)
        assert process._pending == {}
        assert await process.control("hello")


@pytest.mark.asyncio
async def test_a_request_fails_when_the_process_dies_and_its_last_words_are_kept(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, _):
        with pytest.raises(ProcessExited, match="status 7"):
            await process.control("die")
        await process.exited.wait()
        assert process.exit_status == 7
        assert process.stderr_tail == "last words\n"
        with pytest.raises(ProcessExited):
            await process.control("hello")


@pytest.mark.behaviour("P-464")
@pytest.mark.asyncio
async def test_stderr_that_trails_the_end_of_stdout_is_read(tmp_path: Path) -> None:
    body = """
        os.close(1)
        time.sleep(0.05)
        os.write(2, b"too late?")
        os._exit(3)
    """
    async with running(fake(tmp_path, body)) as (process, _):
        await process.exited.wait()
        assert process.stderr_tail == "too late?"


@pytest.mark.behaviour("P-458")
@pytest.mark.asyncio
async def test_what_is_told_about_a_process_holds_no_secret(tmp_path: Path) -> None:
    body = 'print("bad key", os.environ["ANTHROPIC_API_KEY"], file=sys.stderr); sys.exit(1)'
    async with running(fake(tmp_path, body, ANTHROPIC_API_KEY="sk-ant-very-secret")) as (process, _):
        await process.exited.wait()
        assert process.stderr_tail == "bad key ***\n"


@pytest.mark.asyncio
async def test_of_much_stderr_the_end_is_kept(tmp_path: Path) -> None:
    body = 'sys.stderr.write("x" * 1_000_000 + "the end"); sys.exit(1)'
    async with running(fake(tmp_path, body)) as (process, _):
        await process.exited.wait()
        assert len(process.stderr_tail) == _process.STDERR_KEPT
        assert process.stderr_tail.endswith("the end")


@pytest.mark.asyncio
async def test_lines_that_are_no_frames_are_handed_over_as_such(tmp_path: Path) -> None:
    body = r"""
        print("warning: something", flush=True)
        print("[1, 2]", flush=True)
        sys.stdout.buffer.write(b'{"type": "cut", "text": "a\\ud83d"}\n')
        sys.stdout.buffer.write(b'{"type": "no line feed"}')
        sys.stdout.flush()
    """
    async with running(fake(tmp_path, body)) as (process, frames):
        await process.exited.wait()
    assert [frame["type"] for frame in frames] == ["not_json", "not_json", "cut", "no line feed"]
    assert frames[2]["text"] == "a\ufffd"


@pytest.mark.asyncio
async def test_a_frame_of_two_megabytes_passes_both_ways(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, frames):
        big = {"type": "user", "text": "é" * 1_000_000}
        await process.write(big)
        await frames.until()
        assert frames[0]["frame"] == big


@pytest.mark.asyncio
async def test_frames_of_several_tasks_never_mix(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, frames):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(process.write, {"type": "user", "n": number, "pad": "x" * 100_000})
        await frames.until(20)
        assert sorted(frame["frame"]["n"] for frame in frames) == list(range(20))


@pytest.mark.asyncio
async def test_half_a_character_in_a_prompt_breaks_nothing(tmp_path: Path) -> None:
    async with running(fake(tmp_path, ECHO)) as (process, frames):
        await process.write({"type": "user", "text": "a\ud83d"})
        await frames.until()
        assert frames[0]["frame"]["text"] == "a\ufffd"


@pytest.mark.asyncio
async def test_writing_to_a_process_that_is_gone_is_an_error(tmp_path: Path) -> None:
    async with running(fake(tmp_path, "sys.exit(0)")) as (process, _):
        await process.exited.wait()
        with pytest.raises(ProcessExited):
            for _ in range(20):
                await process.write({"type": "user", "pad": "x" * 100_000})


@pytest.mark.behaviour("P-449")
@pytest.mark.asyncio
async def test_no_shell_reads_the_arguments(tmp_path: Path) -> None:
    launch = fake(tmp_path, 'say({"type": "argv", "argv": sys.argv[1:]})')
    odd = ["$HOME", "a b", "; touch x", "`id`", "*", "--flag=é"]
    async with running(Launch(argv=[*launch.argv, *odd], cwd=tmp_path, env=launch.env, marker=launch.marker)) as (
        _,
        frames,
    ):
        await frames.until()
    assert frames[0]["argv"] == odd
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("what", ["binary", "cwd"])
@pytest.mark.asyncio
async def test_a_process_that_cannot_be_started_says_why(tmp_path: Path, what: str) -> None:
    launch = fake(tmp_path, "")
    if what == "cwd":
        broken = Launch(argv=launch.argv, cwd=tmp_path / "gone", env=launch.env)
        with pytest.raises(ProcessExited, match="gone"):
            await spawn(broken)
        return
    broken = Launch(argv=[str(tmp_path / "no-such-agent")], cwd=tmp_path, env=launch.env, marker=launch.marker)
    async with running(broken) as (process, _):
        await process.exited.wait()
        assert process.exit_status not in {0, None}
        assert "no-such-agent" in process.stderr_tail


class TestStop:
    @pytest.mark.asyncio
    async def test_an_agent_that_ends_with_its_input_is_not_hurt(self, tmp_path: Path) -> None:
        async with running(fake(tmp_path, ECHO)) as (process, _):
            stopped = await process.stop(FAST)
        assert (stopped.rung, stopped.left, process.exit_status) == ("eof", (), 0)

    @pytest.mark.asyncio
    async def test_it_is_interrupted_first(self, tmp_path: Path) -> None:
        async with running(fake(tmp_path, ECHO)) as (process, frames):
            await process.stop(FAST)
        assert [frame["response"]["response"]["asked"]["subtype"] for frame in frames] == ["interrupt"]

    @pytest.mark.asyncio
    async def test_one_that_ignores_its_input_is_asked_by_a_signal(self, tmp_path: Path) -> None:
        async with running(fake(tmp_path, 'say({"type": "up"}); time.sleep(600)')) as (process, frames):
            await frames.until()
            stopped = await process.stop(FAST)
        assert (stopped.rung, process.exit_status) == ("term", -signal.SIGTERM)

    @pytest.mark.asyncio
    async def test_one_that_ignores_the_signal_is_killed(self, tmp_path: Path) -> None:
        body = 'signal.signal(signal.SIGTERM, signal.SIG_IGN); say({"type": "up"}); time.sleep(600)'
        async with running(fake(tmp_path, body)) as (process, frames):
            await frames.until()
            stopped = await process.stop(FAST)
        assert (stopped.rung, process.exit_status) == ("kill", -signal.SIGKILL)

    @pytest.mark.asyncio
    async def test_stopping_twice_changes_nothing(self, tmp_path: Path) -> None:
        async with running(fake(tmp_path, ECHO)) as (process, _):
            await process.stop(FAST)
            assert (await process.stop(FAST)).rung == "exited"

    @pytest.mark.parametrize("how", ["child", "own group", "own session", "orphan"])
    @pytest.mark.asyncio
    async def test_what_it_started_is_ended_too(self, tmp_path: Path, how: str) -> None:
        sleeper = "[sys.executable, '-c', 'import time; time.sleep(600)']"
        middle = f"import subprocess, sys; print(subprocess.Popen({sleeper}, start_new_session=True, stdout=-3).pid)"
        starts = {
            "child": f"pid = subprocess.Popen({sleeper}).pid",
            "own group": f"pid = subprocess.Popen({sleeper}, process_group=0).pid",
            "own session": f"pid = subprocess.Popen({sleeper}, start_new_session=True).pid",
            "orphan": f"pid = int(subprocess.check_output([sys.executable, '-c', {middle!r}]))",
        }
        ignore = "signal.signal(signal.SIGTERM, lambda *_: None)"
        body = f'{ignore}\n{starts[how]}\nsay({{"type": "up", "pid": pid}})\ntime.sleep(600)'
        async with running(fake(tmp_path, body)) as (process, frames):
            await frames.until()
            child = psutil.Process(frames[0]["pid"])
            assert child.is_running()
            stopped = await process.stop(FAST)
        assert stopped == _process.Stopped(rung="kill")
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    @pytest.mark.asyncio
    async def test_what_it_left_behind_when_it_was_killed_is_ended_by_the_next_stop(self, tmp_path: Path) -> None:
        body = """
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            say({"type": "up", "pid": child.pid})
            time.sleep(600)
        """
        async with running(fake(tmp_path, body)) as (process, frames):
            await frames.until()
            os.kill(process.pid, signal.SIGKILL)
            await process.exited.wait()
            assert psutil.pid_exists(frames[0]["pid"])
            await process.stop(FAST)
            assert frames[0]["pid"] not in psutil.pids() or alive(process._launch.marker) == []

    @pytest.mark.asyncio
    async def test_a_tool_that_holds_the_output_does_not_hide_the_exit(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr(_process, "DRAIN", 0.1)
        body = """
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            say({"type": "up"})
            sys.stdout.flush()
            os._exit(5)
        """
        async with running(fake(tmp_path, body)) as (process, frames):
            with anyio.fail_after(10):
                await process.exited.wait()
            assert process.exit_status == 5
            assert frames == [{"type": "up"}]

    @pytest.mark.asyncio
    async def test_a_stop_runs_to_its_end_although_it_is_cancelled(self, tmp_path: Path) -> None:
        async with running(fake(tmp_path, 'say({"type": "up"}); time.sleep(600)')) as (process, frames):
            await frames.until()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await process.stop(FAST)
            assert process.exit_status is not None

    def test_we_ourselves_are_never_among_the_descendants(self) -> None:
        marker = {"PATH": os.environ["PATH"]}
        assert os.getpid() not in {process.pid for process in descendants(os.getppid(), marker)}


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux only")
@pytest.mark.parametrize("guardian", ["setpriv", "python"])
def test_an_agent_does_not_outlive_its_host(tmp_path: Path, guardian: str) -> None:
    launch = fake(tmp_path, 'say({"type": "up"}); time.sleep(600)')
    env = {**launch.env, **({} if guardian == "setpriv" else {"PATH": "/nonexistent"})}
    host = tmp_path / "host.py"
    host.write_text(
        textwrap.dedent(f"""
        import anyio, sys
        from pathlib import Path
        from greenroom_claude._process import Launch, spawn

        async def main():
            process = await spawn(Launch(argv={launch.argv!r}, cwd=Path({str(tmp_path)!r}), env={env!r}))
            await process._stdout.receive()
            print(process.pid, flush=True)
            await anyio.sleep(600)

        anyio.run(main)
        """)
    )
    with subprocess.Popen([sys.executable, str(host)], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        agent = psutil.Process(int(started.stdout.readline()))
        started.kill()
    gone, _ = psutil.wait_procs([agent], timeout=10)
    assert gone
