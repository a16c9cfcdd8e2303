"""What goes wrong outside of us: each is told in words that say what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from claude_box import Box
from claude_rig import Elsewhere, hosted
from stub_anthropic import error, turn
from stub_anthropic import text as says

from greenroom import providers as p
from greenroom.agents import TurnFailed
from greenroom_claude import ClaudeSettings
from greenroom_claude import _binary as binary_module
from greenroom_claude._files import list_sessions

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]


def script(folder: Path, body: str) -> ClaudeSettings:
    """Settings that name a small program as the agent."""
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return ClaudeSettings(binary=str(path))


async def refused(rig) -> p.ProviderError:
    """Why no agent could be made."""
    with pytest.raises(p.ProviderError) as found:
        await rig.create()
    return found.value


async def test_no_binary(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(binary_module, "_in_wheel", lambda: None)
    async with hosted(tmp_path, env={"PATH": "/nonexistent"}) as rig:
        told = await refused(rig)
        assert "not installed" in told.args[0]
        assert "npm install" in told.hint
        assert not (await rig.provider.availability()).ok


async def test_a_version_that_is_too_old(tmp_path: Path) -> None:
    async with hosted(tmp_path / "box", settings=script(tmp_path, "echo 1.0.3")) as rig:
        found = await rig.provider.availability()
        assert "1.0.3 is too old" in found.problem
        assert "claude update" in found.hint


async def test_a_program_that_is_something_else(tmp_path: Path) -> None:
    async with hosted(tmp_path / "box", settings=script(tmp_path, "echo 'unknown option' >&2; exit 2")) as rig:
        told = await refused(rig)
        assert "unknown option" in told.args[0]
        assert "exited with status 2" in told.args[0]


async def test_nobody_is_logged_in(tmp_path: Path) -> None:
    async with hosted(tmp_path) as rig:
        del rig.provider._environ["ANTHROPIC_API_KEY"]
        found = await rig.provider.availability()
        assert "not logged in" in found.problem
        await rig.create()
        with pytest.raises(TurnFailed, match="Not logged in"):
            await rig.agent.run("Hi")


@pytest.mark.behaviour("P-446")
@pytest.mark.parametrize(
    ("status", "kind", "said", "told", "code"),
    [
        (401, "authentication_error", "invalid x-api-key", "401|API key", "authentication_failed"),
        (429, "rate_limit_error", "slow down", "429|rate limit", "rate_limit"),
        (529, "overloaded_error", "Overloaded", "529", "server_error"),
        (400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum", "too long", None),
        (400, "invalid_request_error", "Your credit balance is too low", "[Cc]redit balance", "billing_error"),
        (404, "not_found_error", "model: nope", "model", "model_not_found"),
    ],
)
async def test_the_model_refuses(tmp_path: Path, status, kind, said, told, code) -> None:
    async with hosted(tmp_path, *[error(status, kind, said)] * 3, fallback=lambda _: turn(says("Back."))) as rig:
        await rig.create()
        with pytest.raises(TurnFailed, match=told) as failed:
            await rig.agent.run("Hi")
        if code is not None:
            assert failed.value.code == code
        await rig.agent.when_idle()
        while rig.stub.leftover().get("main", 0):
            rig.stub.take({}, "main")
        assert (await rig.agent.run("Again")).text == "Back."


async def test_nobody_answers_at_the_models_address(tmp_path: Path) -> None:
    async with hosted(Box(tmp_path, Elsewhere("http://127.0.0.1:9")), stub=Elsewhere("")) as rig:
        await rig.create()
        with pytest.raises(TurnFailed, match=r"[Cc]onnect"):
            await rig.agent.run("Hi")
        await rig.agent.when_idle()
        assert rig.agent.status == "idle"


async def test_a_rate_limit_in_the_middle_of_an_answer_is_tried_again(tmp_path: Path) -> None:
    broken = turn(says("Half of this is lost."), sse_error=["rate_limit_error", "slow down"])
    async with hosted(tmp_path, broken, turn(says("The whole answer."))) as rig:
        await rig.create()
        assert (await rig.agent.run("Hi")).text.endswith("The whole answer.")


async def test_a_cut_connection_is_tried_again(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("The whole answer."), cut=1), turn(says("The whole answer."))) as rig:
        await rig.create()
        assert (await rig.agent.run("Hi")).text.endswith("The whole answer.")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
async def test_root_may_not_bypass_outside_of_a_sandbox(tmp_path: Path) -> None:
    async with hosted(tmp_path) as rig:
        with pytest.raises(p.ProviderError, match="root") as found:
            await rig.create(mode="bypassPermissions")
        assert "IS_SANDBOX=1" in found.value.hint
        await rig.create()
        assert "bypassPermissions" not in [mode.id for mode in await rig.live.modes()]


async def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one"))) as rig:
        await rig.create()
        await rig.agent.run("Hi")
        await rig.agent.when_idle()
        await rig.handle.dispose()
        shutil.rmtree(rig.box.cwd)
        with pytest.raises(p.ProviderError, match="is gone"):
            await rig.provider.open(p.OpenRequest(session_id="s", cwd=rig.box.cwd), None)


async def test_a_configuration_folder_that_cannot_be_written(tmp_path: Path) -> None:
    async with hosted(tmp_path) as rig:
        rig.box.config.rmdir()
        rig.box.config.write_text("a file where the folder should be")
        told = await refused(rig)
        assert str(rig.box.config) in told.args[0]
        assert "CLAUDE_CONFIG_DIR" in told.hint


async def test_a_conversation_that_is_gone_begins_anew_and_says_so(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one")), turn(says("two"))) as rig:
        await rig.create()
        await rig.agent.run("Hi")
        await rig.agent.when_idle()
        (session,) = list_sessions(rig.box.config)
        await rig.live.aclose()  # it writes a last row when it ends
        session.path.unlink()
        await rig.agent.reopen()
        assert (await rig.agent.run("Again")).text == "two"
        assert [event.data.code for event in rig.of("notice")] == ["nothing_kept"]


async def test_a_history_of_another_version_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("one"))) as rig:
        await rig.create()
        await rig.agent.run("Hi")
        (session,) = list_sessions(rig.box.config)
        lines = session.path.read_text().splitlines()
        odd = [{"type": "brand-new", "uuid": "u1", "parentUuid": None}, {"type": 7}, ["no", "object"]]
        lines[2:2] = [*map(json.dumps, odd), "{torn"]
        session.path.write_text("\n".join(lines) + '\n{"type": "user", "mess')
        events = await rig.provider.import_native(p.Handle(native_id=session.id))
        assert [event.text for event in events if isinstance(event, p.UserEcho)] == ["Hi"]
        assert all(event.from_history for event in events)


async def test_a_prompt_with_half_an_emoji_is_refused_before_it_is_logged(tmp_path: Path) -> None:
    async with hosted(tmp_path, turn(says("Fine."))) as rig:
        await rig.create()
        with pytest.raises(Exception, match="lone surrogate"):
            await rig.agent.run("cut \ud83d here")
        assert (await rig.agent.run("Hi")).text == "Fine."


async def test_a_request_that_nobody_here_knows_is_declined_and_the_agent_goes_on(tmp_path: Path) -> None:
    async with hosted(tmp_path) as rig:
        await rig.create()
        frames = []
        rig.process.write, kept = _keeping(frames), rig.process.write
        await rig.live._on_frame({"type": "control_request", "request_id": "r9", "request": {"subtype": "brand_new"}})
        rig.process.write = kept
        assert [frame["response"]["subtype"] for frame in frames] == ["error"]
        assert frames[0]["response"]["request_id"] == "r9"


def _keeping(frames: list):
    async def write(frame):
        frames.append(frame)

    return write


async def test_an_id_that_looks_like_a_flag_never_becomes_one(tmp_path: Path) -> None:
    async with hosted(tmp_path) as rig:
        handle = p.Handle(native_id="--dangerously-skip-permissions")
        with pytest.raises(p.StaleSession):
            await rig.provider.open(p.OpenRequest(session_id="s", cwd=rig.box.cwd, handle=handle), _Link())


class _Link:
    env: dict[str, str] = {}
