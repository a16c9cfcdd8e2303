"""The real binary goes back to before a message, and whatever dies in between brings nothing back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest
from claude_box import Box
from claude_rig import Rig, hosted
from stub_anthropic import Stub, turn
from stub_anthropic import text as says

from greenroom_claude._files import list_sessions, read_rows
from greenroom_claude._history import branch, prompt_text

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]


def prompts(box: Box) -> list[str]:
    """What was typed, on the branch of the only native conversation."""
    (session,) = list_sessions(box.config)
    return [text for row in branch(read_rows(session.path)) if (text := prompt_text(row)) is not None]


async def talk(rig: Rig, *texts: str) -> list[str]:
    """Say these; the ids of our messages."""
    for said in texts:
        await rig.agent.run(said)
    await rig.agent.when_idle()
    return [event.data.message.id for event in await rig.agent.session.events(0, types=["user/message"])]


def asked(rig: Rig) -> str:
    """What the model was sent last."""
    return json.dumps(rig.stub.messages()[-1]["messages"])


async def test_the_line_is_cut_and_the_next_answer_follows_the_cut(tmp_path: Path) -> None:
    turns = [turn(says(text)) for text in ("one", "two", "other two", "three")]
    async with hosted(tmp_path, *turns) as rig:
        await rig.create()
        _first, second = await talk(rig, "first", "second")
        opened = [event.seq for event in rig.of("turn/start")]
        await rig.agent.revert(second)
        (recast,) = rig.of("session/recast")
        assert (recast.data.reason, recast.data.keep_before) == ("rewind", opened[1])
        assert (await rig.agent.run("second, better")).text == "other two"
        assert '"one"' in asked(rig)
        assert '"two"' not in asked(rig)
        assert prompts(rig.box) == ["first", "second, better"]
        await rig.agent.when_idle()
        assert (await rig.agent.hydrate()).added == 0
        pid, known = (
            rig.process.pid,
            {e.data.message_id: e.data.provider_message_id for e in rig.of("user/acknowledged")},
        )
        await rig.live.revert(known[second])  # as after a crash: it is cut off already, so nothing is done
        assert rig.process.pid == pid
        assert (await rig.agent.run("third")).text == "three"
        assert '"other two"' in asked(rig)


async def test_a_hydration_before_the_next_prompt_brings_nothing_back(tmp_path: Path) -> None:
    async with hosted(tmp_path, *[turn(says(text)) for text in ("one", "two")]) as rig:
        await rig.create()
        _first, second = await talk(rig, "first", "second")
        await rig.agent.revert(second)
        done = await rig.agent.hydrate()
        assert (done.found, done.known, done.added) == (2, 2, 0)
        await rig.agent.reopen(rehydrate=True)
        last = rig.of("session/recast")[-1]
        assert [e.data.message.content[0].text for e in rig.of("user/message") if e.seq > last.seq] == ["first"]


async def test_a_process_that_dies_before_the_next_prompt_brings_nothing_back(tmp_path: Path) -> None:
    turns = [turn(says(text)) for text in ("one", "two", "other two")]
    async with hosted(tmp_path, *turns) as rig:
        await rig.create()
        _first, second = await talk(rig, "first", "second")
        await rig.agent.revert(second)
        process = rig.process
        os.kill(process.pid, signal.SIGKILL)
        with anyio.fail_after(20):
            await process.exited.wait()
        await rig.until(lambda: rig.live is None)
        assert (await rig.agent.run("second, better")).text == "other two"
        assert '"two"' not in asked(rig)
        assert prompts(rig.box) == ["first", "second, better"]


@pytest.mark.parametrize("cut", [0, 1])
async def test_a_host_that_ends_before_the_next_prompt_brings_nothing_back(tmp_path: Path, cut: int) -> None:
    box, data = Box(tmp_path, stub := Stub([turn(says("one")), turn(says("two"))])), tmp_path / "data"
    async with hosted(box, stub=stub, data=data) as rig:
        session = (await rig.create()).id
        ids = await talk(rig, "first", "second")
        await rig.agent.revert(ids[cut])
        await rig.handle.dispose()
    stub = Stub([turn(says("another"))])
    box.given["ANTHROPIC_BASE_URL"] = stub.url
    async with hosted(box, stub=stub, data=data) as rig:
        await rig.resume(session)
        assert (await rig.agent.hydrate()).added == 0
        assert (await rig.agent.run("again")).text == "another"
        assert ['"first"' in asked(rig), '"second"' in asked(rig)] == [cut == 1, False]
        assert len(await rig.agent.session.events(0, types=["session/recast"])) == 1
