"""The real binary behind host and driver: processes that die, hosts that die, conversations that go on."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import textwrap
import time
from pathlib import Path

import anyio
import psutil
import pytest
from claude_box import Box, alive, eventually
from claude_rig import NOTHING_ASKED, Elsewhere, hosted
from stub_anthropic import Stub, tool_use, turn
from stub_anthropic import text as says

from greenroom_claude._files import list_sessions, read_rows
from greenroom_claude._history import branch, prompt_text

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]
SLEEP = "echo begun; python3 -c 'import time; time.sleep(600)'"
SLEEPS = tool_use("Bash", {"command": SLEEP, "description": "Sleep"})


def prompts(box: Box) -> list[str]:
    """What was typed, on the branch of the only native conversation."""
    (session,) = list_sessions(box.config)
    return [text for row in branch(read_rows(session.path)) if (text := prompt_text(row)) is not None]


async def test_a_kill_in_a_tool_call_ends_the_turn_and_the_tool_and_the_next_turn_resumes(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(SLEEPS), turn(says("Back again.")), env=NOTHING_ASKED) as rig:
        await rig.create(mode="bypassPermissions")
        rig.agent.followup("Sleep")
        await rig.logged("tool/call")
        agent = psutil.Process(rig.process.pid)
        tools = await eventually(lambda: agent.children(recursive=True))
        # Killed before it has written its history, it would begin anew: that is another test.
        await eventually(lambda: list_sessions(rig.box.config) and prompts(rig.box) == ["Sleep"])
        os.kill(agent.pid, signal.SIGKILL)
        end = await rig.logged("turn/end")
        assert end.data.reason.code == "provider_exited"
        assert "SIGKILL" in end.data.reason.message
        await eventually(lambda: not [t for t in tools if t.is_running() and t.status() != psutil.STATUS_ZOMBIE])
        await rig.agent.when_idle()
        assert (await rig.agent.run("And now?")).text == "Back again."
        assert prompts(rig.box) == ["Sleep", "And now?"]


async def test_an_agent_that_exits_between_turns_is_started_again(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one")), turn(says("two"))) as rig:
        await rig.create()
        await rig.agent.run("first")
        process = rig.process
        os.kill(process.pid, signal.SIGTERM)
        with anyio.fail_after(20):
            await process.exited.wait()
        await rig.until(lambda: rig.live is None)
        assert rig.agent.status == "idle"
        assert (await rig.agent.run("second")).text == "two"
        assert prompts(rig.box) == ["first", "second"]


async def test_a_broken_line_on_its_input_ends_the_turn_with_the_reason(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("A long answer. " * 50), hang=3), turn(says("Back."))) as rig:
        await rig.create()
        rig.agent.followup("Hi")
        await rig.logged("assistant/message")
        await rig.process._stdin.send(b"this is no frame\n")
        reason = (await rig.logged("turn/end")).data.reason
        assert (reason.kind, reason.message) == ("error", "the agent's process exited with status 1")
        assert "Error parsing" in reason.diagnostic
        await rig.agent.when_idle()
        assert (await rig.agent.run("Again")).text == "Back."


async def test_closing_the_host_in_a_tool_call_leaves_nothing(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(SLEEPS), env=NOTHING_ASKED) as rig:
        await rig.create(mode="bypassPermissions")
        rig.agent.followup("Sleep")
        await rig.logged("tool/call")
        marker = rig.live._setting.marker
        assert alive(marker)
        await rig.handle.dispose()
        assert alive(marker) == []
        assert rig.reasons() == ["aborted"]


@pytest.mark.behaviour("P-475")
async def test_another_host_goes_on_with_the_conversation_and_logs_nothing_twice(tmp_path: Path) -> None:
    box = Box(tmp_path, stub := Stub([turn(says("Noted, Ann.")), turn(says("Your name is Ann."))]))
    data = tmp_path / "data"
    async with hosted(box, stub=stub, data=data) as rig:
        session = (await rig.create()).id
        await rig.agent.run("My name is Ann")
        await rig.handle.dispose()
    stub = Stub([turn(says("Your name is Ann."))])
    box.given["ANTHROPIC_BASE_URL"] = stub.url
    async with hosted(box, stub=stub, data=data) as rig:
        await rig.resume(session)
        assert (await rig.agent.run("What is my name?")).text == "Your name is Ann."
        assert "My name is Ann" in json.dumps(rig.stub.messages()[-1]["messages"])
        assert [event async for event in rig.live.history()]
        said = await rig.agent.session.events(0, types=["user/message"])
        assert len(said) == 2
        assert len(await rig.agent.session.events(0, types=["provider/session"])) == 1
    assert prompts(box) == ["My name is Ann", "What is my name?"]


async def test_a_conversation_is_taken_back_to_before_a_message(tmp_path: Path) -> None:
    turns = [turn(says(text)) for text in ("one", "two", "other two")]
    async with hosted(tmp_path, *turns) as rig:
        await rig.create()
        await rig.agent.run("first")
        await rig.agent.run("second")
        await rig.agent.when_idle()
        second = rig.of("user/message")[-1].data.message.id
        await rig.agent.revert(second)
        assert (await rig.agent.run("second, better")).text == "other two"
        given = json.dumps(rig.stub.messages()[-1]["messages"])
        assert '"one"' in given
        assert '"two"' not in given
        assert prompts(rig.box) == ["first", "second, better"]


async def test_a_conversation_is_taken_back_to_its_beginning(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one")), turn(says("another"))) as rig:
        await rig.create()
        await rig.agent.run("first")
        await rig.agent.when_idle()
        await rig.agent.revert(rig.of("user/message")[0].data.message.id)
        assert (await rig.agent.run("begin again")).text == "another"
        assert '"first"' not in json.dumps(rig.stub.messages()[-1]["messages"])
        assert len(rig.of("provider/session")) == 2


async def test_the_history_of_the_agent_can_be_read_into_the_log(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one"))) as rig:
        await rig.create()
        await rig.agent.run("first")
        await rig.agent.reopen(rehydrate=True)
        (recast,) = rig.of("session/recast")
        after = [event for event in rig.events if event.seq > recast.seq]
        assert ["first" in repr(e.data) for e in after if e.type == "user/message"] == [True]
        assert "".join(e.data.text for e in after if e.type == "assistant/message") == "one"


HOST = """
    import json, sys
    from pathlib import Path
    sys.path.insert(0, {here!r})
    import anyio
    from claude_box import Box
    from claude_rig import Elsewhere, hosted, NOTHING_ASKED

    async def main():
        model = Elsewhere({url!r})
        box = Box(Path({root!r}), model)
        async with hosted(box, stub=model, data=Path({data!r}), env=NOTHING_ASKED) as rig:
            await rig.create(mode="bypassPermissions")
            rig.agent.followup("Sleep")
            await rig.logged("tool/call")
            await rig.agent.flush()
            print(json.dumps({{"session": rig.agent.id, "marker": rig.live._setting.marker}}), flush=True)
            await anyio.sleep_forever()

    anyio.run(main)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a killed host leaves behind is found through /proc")
@pytest.mark.timeout(600)
async def test_a_killed_host_is_followed_by_one_that_resumes_alone(tmp_path: Path, soak_count) -> None:
    took: list[float] = []
    for number in range(soak_count(20)):
        root = tmp_path / str(number)
        stub = Stub([turn(SLEEPS), turn(says("Resumed."))])
        with stub:
            box, data = Box(root, stub), root / "data"
            script = root / "host.py"
            here = str(Path(__file__).parent)
            script.write_text(textwrap.dedent(HOST).format(here=here, url=stub.url, root=str(root), data=str(data)))
            async with await anyio.open_process([sys.executable, str(script)]) as killed:
                with anyio.fail_after(60):
                    told = json.loads(await killed.stdout.receive())
                tools = await eventually(lambda told=told: [x for x in alive(told["marker"]) if _sleeps(x)])
                os.kill(killed.pid, signal.SIGKILL)
                await killed.wait()
            first: list[bool] = []

            async with hosted(box, stub=Elsewhere(stub.url), data=data, env=NOTHING_ASKED) as rig:
                open_ = rig.provider.open

                async def watched(request, link, open_=open_, first=first, told=told):
                    first.append(alive(told["marker"]) == [])  # no frame of the new one can be older than this
                    return await open_(request, link)

                rig.provider.open = watched
                begun = time.monotonic()
                await rig.resume(told["session"])
                took.append(time.monotonic() - begun)
                assert first == [True]
                assert not [pid for pid in tools if psutil.pid_exists(pid) and _sleeps(pid)]
                assert (await rig.agent.run("Go on")).text == "Resumed."
                reasons = [e.data.reason.kind for e in await rig.agent.session.events(0, types=["turn/end"])]
                assert reasons == ["interrupted", "completed"]
            (session,) = list_sessions(box.config)
            rows = [row for row in read_rows(session.path) if row.get("type") in {"user", "assistant"}]
            parents = [row.get("parentUuid") for row in rows]
            assert len(set(parents)) == len(parents)  # nobody has two answers: one branch
            assert prompts(box) == ["Sleep", "Go on"]
    assert statistics.median(took) < 5  # one may meet a machine that does something else


def _sleeps(pid: int) -> bool:
    try:
        return "time.sleep(600)" in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False
