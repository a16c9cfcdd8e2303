"""Text hygiene, names and status words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.providers import TodoItem
from greenroom_normalize import (
    clean_text,
    flatten,
    leaf_name,
    mcp_name,
    normalize_tool_call,
    status_of,
    todo_items,
    truncate,
    unwrap_command,
    unwrap_output,
)


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jx", "x"),
        ("\x1b(Bx\x1b7", "x"),
        ("a\x00b\x08c\x7f", "abc"),
        ("tab\tand\r\nline\n", "tab\tand\nline\n"),
        ("10%\r20%\r100%\ndone", "100%\ndone"),
        ("name?\r\n", "name?\n"),
        ("zwj \U0001f469\u200d\U0001f680 é", "zwj \U0001f469\u200d\U0001f680 é"),
        ("\x1b", ""),
    ],
)
def test_nothing_that_a_terminal_hides_stays(dirty: str, clean: str) -> None:
    assert clean_text(dirty) == clean


@given(st.text())
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once) == once


def test_recorded_terminal_output_loses_its_carriage_returns(recorded) -> None:
    source = "codex_rollouts/background_terminal.jsonl"
    found = normalize_tool_call("any", "exec_command", *recorded.codex_call(source, "exec_command"))
    assert found is not None
    assert found.output == "name?\n"


@given(st.text(min_size=40, max_size=300), st.integers(40, 120))
def test_a_truncated_text_fits_and_says_what_is_missing(text: str, limit: int) -> None:
    cut = truncate(text, limit)
    assert len(cut) <= limit
    if len(text) > limit:
        kept, _, marker = cut.rpartition("\n… [")
        assert text.startswith(kept)
        assert int(marker.split()[0]) == len(text) - len(kept)
    else:
        assert cut == text


@pytest.mark.parametrize("unit", ["e\u0301", "\U0001f469\u200d\U0001f680", "❤\ufe0f"])
@pytest.mark.parametrize("limit", range(40, 48))
def test_the_cut_never_stands_inside_a_character(unit: str, limit: int) -> None:
    kept = truncate(unit * 60, limit).rpartition("\n… [")[0]
    assert kept == unit * (len(kept) // len(unit))


def test_a_limit_without_room_for_the_marker_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        truncate("x" * 100, 5)


@pytest.mark.behaviour("P-461")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"stdout": "", "stderr": ""}, ""),
        ({"content": [{"type": "text", "text": "5"}], "structuredContent": None}, "5"),
        ({"aggregatedOutput": "a\n", "exitCode": 0}, "a\n"),
        ([{"type": "inputText", "text": "42"}, {"type": "inputImage", "imageUrl": "data:"}], "42\n[image]"),
        ([{"type": "image", "source": {"data": "…"}}], "[image]"),
        ({"answers": 1}, None),
        ([], None),
        (None, None),
        (7, None),
    ],
)
def test_results_of_every_shape_are_flattened(value: object, text: str | None) -> None:
    assert flatten(value) == text


@pytest.mark.parametrize(
    ("name", "parts", "leaf"),
    [
        ("mcp__host__add", ("host", "add"), "add"),
        ("mcp__host__a__b", ("host", "a__b"), "b"),
        ("stub.add", ("stub", "add"), "add"),
        ("Bash", None, "Bash"),
        ("mcp__host", None, "host"),
        ("mcp____x", None, "x"),
        (".x", None, "x"),
        ("", None, ""),
    ],
)
def test_server_and_tool_are_kept_apart(name: str, parts: object, leaf: str) -> None:
    assert mcp_name(name) == parts
    assert leaf_name(name) == leaf


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("failed", "failed"), ("Errored", "failed"), ("denied", "failed"), ("declined", "failed"),
        ("cancelled", "canceled"), ("aborted", "canceled"), ("interrupted", "canceled"),
        ("done", "completed"), ("succeeded", "completed"), ("inProgress", "running"), ("purple", "running"),
    ],
)  # fmt: skip
def test_status_words(word: str, status: str) -> None:
    assert status_of(word) == status


def test_no_status_word_means_completed_when_there_is_output() -> None:
    assert status_of(None, has_output=True) == "completed"
    assert status_of(None) == "running"


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("/bin/bash -lc 'touch a && echo b'", "touch a && echo b"),
        (["bash", "-lc", "ls | wc"], "ls | wc"),
        (["zsh", "-c", "ls"], "ls"),
        (["git", "commit", "-m", "two words"], "git commit -m 'two words'"),
        ("bash script.sh", "bash script.sh"),
        ("bash -lc 'open", "bash -lc 'open"),
        ([], None),
        (3, None),
    ],
)
def test_commands_are_taken_out_of_their_shell(command: object, plain: str | None) -> None:
    assert unwrap_command(command) == plain


@pytest.mark.parametrize(
    ("text", "body", "status"),
    [
        ("Exit code 2\nboom", "boom", 2),
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nok", "ok", 0),
        ("no envelope\nOutput:\nx", "no envelope\nOutput:\nx", None),
        ("Output: mine", "Output: mine", None),
    ],
)
def test_the_envelope_of_an_output_is_taken_off(text: str, body: str, status: int | None) -> None:
    assert unwrap_output(text) == (body, status)


def test_todo_items_of_both_families(recorded) -> None:
    given, output = recorded.claude_call("claude/todo_write", "TodoWrite")
    assert todo_items(given) == (TodoItem("Look", "in_progress"), TodoItem("Leap", "pending"))
    assert todo_items(output) == todo_items(given)
    plan, _ = recorded.codex_call("codex_rollouts/plan_update.jsonl", "update_plan", 1)
    assert todo_items(plan) == (TodoItem("Look", "completed"), TodoItem("Fix", "completed"))
    assert todo_items({"command": "ls"}) is None
