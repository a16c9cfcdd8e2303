"""What a tool's rows may hold: checked when they are written, so that no client has to repair anything."""

from __future__ import annotations

import pytest
from timeline_lines import World

from greenroom.sessions import EventRefused

AT = {"turn": 1, "step": 1, "call_id": "c"}
SHELL = {"type": "shell", "command": "ls"}


@pytest.fixture
async def log(world: World):
    log = await world.create()
    log.turn()
    return log


def result(log, **fields):
    return log.session.append("tool/result", {**AT, "detail": SHELL, **fields}, surface="append").data


pytestmark = pytest.mark.anyio


@pytest.mark.behaviour("P-393")
@pytest.mark.parametrize("status", ["completed", "canceled", "unknown"])
async def test_each_status_of_a_call_that_did_not_fail_is_taken(log, status):
    assert result(log, status=status).status == status


@pytest.mark.behaviour("P-393")
async def test_a_call_that_runs_and_one_that_failed_are_taken(log):
    call = log.session.append("tool/call", {**AT, "detail": SHELL, "name": "Bash", "input": {}}).data
    assert call.detail.command == "ls"
    assert result(log, status="failed", error="no").error == "no"


@pytest.mark.behaviour("P-394")
@pytest.mark.parametrize(
    "fields",
    [
        {"status": "finished"},
        {"status": "completed", "detail": {"type": "shell"}},
        {"status": "completed", "detail": {"type": "teleport", "to": "x"}},
        {"status": "completed", "detail": "ls"},
        {"status": "completed", "call_id": ""},
        {"status": "completed", "call_id": None},
    ],
)
async def test_what_is_no_result_is_refused_and_leaves_no_row(log, world, fields):
    with pytest.raises(EventRefused):
        result(log, **fields)
    assert (await world.timeline.fetch("s")).rows == ()


@pytest.mark.behaviour("P-395")
@pytest.mark.parametrize(
    "fields", [{"status": "failed"}, {"status": "completed", "error": "x"}, {"status": "canceled", "error": "x"}]
)
async def test_an_error_without_a_failure_and_the_reverse_are_refused_and_not_repaired(log, fields):
    with pytest.raises(EventRefused, match="error exactly when"):
        result(log, **fields)


@pytest.mark.behaviour("P-396")
async def test_the_detail_of_a_sub_agent_is_taken(log):
    detail = {
        "type": "sub_agent",
        "description": "look",
        "agent_type": "scout",
        "child_id": "k",
        "log": "read a.txt",
        "actions": [{"index": 0, "tool": "Read", "summary": "a.txt"}],
    }
    [action] = result(log, status="completed", detail=detail).detail.actions
    assert (action.index, action.tool, action.summary) == (0, "Read", "a.txt")


@pytest.mark.behaviour("P-397")
async def test_the_detail_of_a_sub_agent_needs_no_actions(log):
    assert result(log, status="completed", detail={"type": "sub_agent", "log": "x"}).detail.actions == ()
