"""What is told: plain words from the last answer, the question, the error."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.agents import AgentRecord
from greenroom.providers import PermissionRequest, ShellDetail, UnknownDetail, Usage
from greenroom.sessions import Event
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    Reason,
    ToolCall,
    Trigger,
    TurnEnd,
    TurnStart,
    UsageUpdated,
)
from greenroom_manager._attention_text import ASKS, FAILED, FINISHED, PREVIEW, last_answer, plain, preview, told

RECORD = AgentRecord(id="a", provider="scripted", created_at=1, updated_at=1)


def log(*data: object) -> list[Event]:
    names = {
        AssistantMessage: "assistant/message",
        ToolCall: "tool/call",
        TurnStart: "turn/start",
        TurnEnd: "turn/end",
        UsageUpdated: "usage/updated",
    }
    return [Event(seq, 0, names[type(item)], msgspec.json.encode(item)) for seq, item in enumerate(data)]


def said(text: str, message_id: str | None = "m") -> AssistantMessage:
    return AssistantMessage(1, 1, text, final=False, message_id=message_id)


START, END = TurnStart(1, Trigger("message")), TurnEnd(1, Reason("completed"))
CALL = ToolCall(1, 1, "c", "sh", None, UnknownDetail())


@pytest.mark.behaviour("P-354", "P-359")
def test_what_finished_is_told_with_the_answer_without_its_markup():
    answer = "## Done\n\nI **fixed** `parse()` in [the reader](src/r.py):\n\n- one _bug_\n```py\nx = 1\n```"
    title, body = told(RECORD, "finished", events=log(START, said(answer), END), questions=())
    assert title == "Agent finished"
    assert body == "Done I fixed parse() in the reader: one bug x = 1"


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        ("a * b * c and snake_case_name", "a * b * c and snake_case_name"),
        ("***both***", "both"),
        ("~~gone~~ ![alt](x.png)", "gone alt"),
        ("1. one\n2) two\n> quoted\n- [x] done", "one two quoted done"),
        ("| a | b |\n|---|:-:|\n| 1 | 2 |", "| a | b | | 1 | 2 |"),
        ("above\n\n---\n\nbelow", "above below"),
    ],
)
def test_only_markup_is_taken_away(markdown, text):
    assert preview(plain(markdown)) == text


@pytest.mark.behaviour("P-355")
def test_labels_of_an_agent_change_nothing_of_what_is_told():
    labelled = AgentRecord(id="a", provider="p", created_at=1, updated_at=1, labels={"ui": "true", "team": "x"})
    events = log(START, said("All good."), END)
    for reason in ("finished", "error", "permission"):
        assert told(labelled, reason, events=events, questions=()) == told(RECORD, reason, events=events, questions=())


@pytest.mark.behaviour("P-360")
@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (PermissionRequest(id="q", name="Bash", title="Run a command", input={"command": "rm -r x"}),
         "Run a command: rm -r x"),
        (PermissionRequest(id="q", name="sh", detail=ShellDetail("make all"), description="Builds"), "sh: make all"),
        (PermissionRequest(id="q", name="plan", kind="plan", title="Plan", description="# Steps\n1. **Write**"),
         "Plan: # Steps Write"),
        (PermissionRequest(id="q", name="ask", kind="question", input={"questions": [{"question": "Which colour?"}]}),
         "ask: Which colour?"),
        (PermissionRequest(id="q", name="odd", input={"questions": "no list", "command": 7}), "odd"),
    ],
)  # fmt: skip
def test_a_question_is_told_by_what_it_is_about(request_, body):
    assert told(RECORD, "permission", events=(), questions=[request_]) == ("Agent asks", body)


@pytest.mark.behaviour("P-361")
def test_an_error_has_its_own_words_and_never_those_of_the_last_answer():
    events = log(START, said("Looking good."), END)
    assert told(RECORD, "error", events=events, questions=()) == ("Agent failed", FAILED)
    failed = AgentRecord(id="a", provider="p", created_at=1, updated_at=1, title="Fix it", last_error="exit\nstatus 1")
    assert told(failed, "error", events=events, questions=()) == ("Fix it failed", "exit status 1")


def test_without_an_answer_or_a_question_there_are_words_all_the_same():
    assert told(RECORD, "finished", events=log(START, CALL, END), questions=())[1] == FINISHED
    assert told(RECORD, "permission", events=(), questions=())[1] == ASKS


@pytest.mark.behaviour("P-362")
def test_the_latest_pieces_that_nothing_stands_between_are_joined():
    events = log(
        START,
        said("Let me look.", "m1"),
        CALL,
        said("It is ", "m2"),
        UsageUpdated(Usage()),
        said("fixed.", "m2"),
        said("Anything else?", "m3"),
        END,
    )
    assert last_answer(events) == "It is fixed.\n\nAnything else?"


def test_what_a_turn_before_the_last_one_said_is_not_told():
    events = log(START, said("Old."), END, TurnStart(2, Trigger("message")), CALL, END)
    assert last_answer(events) == ""


@pytest.mark.behaviour("P-363")
def test_the_question_that_was_asked_last_is_the_one_that_is_told():
    questions = [PermissionRequest(id="q1", name="first"), PermissionRequest(id="q2", name="second")]
    assert told(RECORD, "permission", events=(), questions=questions)[1] == "second"


def test_a_long_text_is_cut_with_an_ellipsis_and_control_characters_go():
    assert preview("x" * 500) == "x" * (PREVIEW - 1) + "…"
    assert preview("a\x1b[31mb\r\nc") == "a [31mb c"
