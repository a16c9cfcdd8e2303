from __future__ import annotations

import re
from pathlib import Path

import pytest

from greenroom.providers import (
    PermissionRequested,
    ProviderError,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from greenroom_replay._plugin import DEMO
from greenroom_replay._script import parse_script

HEAD = '{"script": 1, "title": "T", "model": "m-1"}'
ASKS = '{"type": "permission_requested", "request": {"id": "q", "name": "Edit"}}'


def test_a_script_is_a_head_and_turns_of_timed_events() -> None:
    script = parse_script([HEAD, '{"turn": "one"}', '{"after": 0.5, "type": "text_delta", "text": "hi"}'], "s")
    assert (script.title, script.model) == ("T", "m-1")
    [[said, end]] = script.turns
    assert (said.event, said.after, said.when) == (TextDelta(text="hi"), 0.5, None)
    assert end.event == TurnCompleted()


def test_empty_lines_say_nothing() -> None:
    assert len(parse_script(["", HEAD, "  ", '{"turn": "one"}', ""], "s").turns) == 1


def test_a_turn_that_ends_itself_gets_no_second_terminal_and_what_follows_is_left_out() -> None:
    lines = [HEAD, '{"turn": "one"}', '{"type": "turn_failed", "error": "no"}', '{"type": "text_delta", "text": "x"}']
    [turn] = parse_script(lines, "s").turns
    assert [step.event for step in turn] == [TurnFailed(error="no")]


def test_a_terminal_under_a_condition_does_not_end_the_turn_for_the_other_answer() -> None:
    lines = [HEAD, '{"turn": "one"}', ASKS, '{"if": "deny", "type": "turn_failed", "error": "no"}']
    [turn] = parse_script(lines, "s").turns
    assert [(type(step.event), step.when) for step in turn][1:] == [(TurnFailed, "deny"), (TurnCompleted, None)]


def test_a_question_waits_and_one_that_the_provider_withdraws_does_not() -> None:
    withdrawn = '{"type": "permission_resolved", "request_id": "q", "by": "system", "response": {"behavior": "deny"}}'
    for lines, waits in (([ASKS], True), ([ASKS, withdrawn], False)):
        [turn] = parse_script([HEAD, '{"turn": "one"}', *lines], "s").turns
        assert isinstance(turn[0].event, PermissionRequested)
        assert turn[0].waits is waits


def test_what_the_player_says_by_itself_is_left_out() -> None:
    lines = [HEAD, '{"turn": "one"}', '{"type": "turn_started"}', '{"type": "session_started", "native_id": "x"}']
    [turn] = parse_script(lines, "s").turns
    assert [step.event for step in turn if isinstance(step.event, TurnStarted)] == []
    assert len(turn) == 1


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['{"turn": "one"}'], "s, line 1: a script begins with"),
        (['{"script": 2}'], "s, line 1: a script begins with"),
        (["[]"], "s, line 1: a script begins with"),
        (['{"script": 1, "model": 3}'], "s, line 1: model is a text"),
        ([HEAD], "s has no turn"),
        ([HEAD, '{"type": "text_delta", "text": "x"}'], "s, line 2: an event stands in front of the first turn"),
        ([HEAD, '{"turn": "one"}', "{"], "s, line 3: "),
        ([HEAD, '{"turn": "one"}', '{"type": "no_such"}'], "s, line 3: "),
        ([HEAD, '{"turn": "one"}', '{"type": "text_delta"}'], "s, line 3: "),
        ([HEAD, '{"turn": "one"}', '{"after": -1, "type": "idle"}'], "s, line 3: after is a number of seconds"),
        ([HEAD, '{"turn": "one"}', '{"after": true, "type": "idle"}'], "s, line 3: after is a number of seconds"),
        ([HEAD, '{"turn": "one"}', '{"after": "1", "type": "idle"}'], "s, line 3: after is a number of seconds"),
        ([HEAD, '{"turn": "one"}', '{"if": "maybe", "type": "idle"}'], "s, line 3: if is allow or deny"),
        ([HEAD, '{"turn": "one"}', "7"], "s, line 3: "),
    ],
)
def test_a_line_that_is_none_of_a_script_is_refused_with_its_number(lines: list[str], said: str) -> None:
    with pytest.raises(ProviderError) as caught:
        parse_script(lines, "s")
    assert caught.value.args[0].startswith(said)


def test_the_demo_shows_text_reasoning_tools_a_todo_list_and_a_question_in_two_turns() -> None:
    script = parse_script(DEMO.read_bytes().splitlines(), DEMO.name)
    kinds = {type(step.event).__name__ for turn in script.turns for step in turn}
    assert len(script.turns) >= 2
    assert kinds >= {"TextDelta", "ReasoningDelta", "ToolStarted", "ToolFinished", "PermissionRequested", "Todo"}


@pytest.mark.parametrize("answer", ["allow", "deny"])
def test_every_call_of_the_demo_is_answered_whatever_the_person_says(answer: str) -> None:
    for turn in parse_script(DEMO.read_bytes().splitlines(), DEMO.name).turns:
        played = [step.event for step in turn if step.when in {None, answer}]
        started = [e.call_id for e in played if type(e).__name__ == "ToolStarted"]
        assert sorted(started) == sorted(e.call_id for e in played if type(e).__name__ == "ToolFinished")
        assert type(played[-1]).__name__ == "TurnCompleted"


def test_the_script_of_the_readme_can_be_played() -> None:
    readme = (Path(__file__).resolve().parents[3] / "plugins/replay/README.md").read_text()
    [example] = re.findall(r"^```json\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    [turn] = parse_script(example.splitlines(), "README").turns
    assert [type(step.event).__name__ for step in turn] == [
        "TextDelta",
        "PermissionRequested",
        "TextDelta",
        "TextDelta",
        "TurnCompleted",
    ]
