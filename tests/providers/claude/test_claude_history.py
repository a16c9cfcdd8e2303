"""Histories on disk become balanced turns; listing and reading change nothing."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

import pytest
from claude_frames import events_of, of, text
from claude_mutations import mutate
from claude_recordings import DATA, check

from greenroom import providers as p
from greenroom_claude._files import find_session, list_sessions, project_folder, read_children, read_rows
from greenroom_claude._history import branch, history, last_prompt_id, prompt_text

SESSIONS = DATA / "claude_sessions"
FILES = sorted(path for path in SESSIONS.glob("*/projects/*/*.jsonl"))


def read(path: Path) -> list[p.ProviderEvent]:
    return history(read_rows(path), read_children(path))


def only(scenario: str) -> list[p.ProviderEvent]:
    (path,) = (SESSIONS / scenario).glob("projects/*/*.jsonl")
    return read(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-4]}-{path.stem[:8]}")
def test_every_history_is_balanced_turns_of_the_past(path: Path) -> None:
    events = read(path)
    check(events)
    assert all(event.from_history for event in events)
    assert of(p.TurnStarted, events)
    assert of(p.Raw, events) == []


def test_listing_and_reading_change_no_file() -> None:
    def state() -> dict[str, tuple[str, int]]:
        files = [path for path in sorted(SESSIONS.rglob("*")) if path.is_file()]
        return {str(f): (hashlib.sha256(f.read_bytes()).hexdigest(), f.stat().st_mtime_ns) for f in files}

    before = state()
    for scenario in sorted(SESSIONS.iterdir()):
        for session in list_sessions(scenario):
            read(session.path)
    assert state() == before


def test_every_history_is_listed_with_its_first_prompt() -> None:
    listed = {session.path for scenario in SESSIONS.iterdir() for session in list_sessions(scenario)}
    assert listed == set(FILES)


def test_a_listing_is_sorted_and_limited_and_by_folder(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / project_folder("/home/user/my.project_1")
    assert folder.name == "-home-user-my-project-1"
    folder.mkdir(parents=True)
    for number in range(3):
        message = {"role": "user", "content": f"prompt {number}"}
        row = {"type": "user", "uuid": f"u{number}", "message": message, "cwd": f"/w{number % 2}"}
        file = folder / f"s{number}.jsonl"
        file.write_text(json.dumps(row) + "\n")
        os.utime(file, (number, number))
    assert [session.id for session in list_sessions(tmp_path)] == ["s2", "s1", "s0"]
    assert [session.id for session in list_sessions(tmp_path, limit=1)] == ["s2"]
    assert [session.id for session in list_sessions(tmp_path, cwd="/w0")] == ["s2", "s0"]
    assert list_sessions(tmp_path)[0].title == "prompt 2"
    assert list_sessions(tmp_path / "nowhere") == []


def test_a_title_that_was_given_names_the_session() -> None:
    (session,) = list_sessions(SESSIONS / "control_queries")
    assert session.title == "A new title"
    assert find_session(SESSIONS / "control_queries", session.id) == session.path


@pytest.mark.parametrize("bad", ["../x", "a/b", "", "*", "a b"])
def test_an_id_that_could_leave_the_folder_is_not_looked_for(bad: str) -> None:
    assert find_session(SESSIONS / "simple_text", bad) is None


def test_a_history_shows_what_was_said_live() -> None:
    events = only("multi_turn")
    assert [event.text for event in of(p.UserEcho, events)] == ["First question", "Second question"]
    assert len(of(p.TurnCompleted, events)) == 2
    assert text(events)


def test_a_message_has_the_same_ids_in_its_history_as_live() -> None:
    def ids(events: list[p.ProviderEvent]) -> list[tuple[str, str | None]]:
        return [(event.message_id, event.text) for event in of(p.MessageDone, events)]

    for scenario in ("simple_text", "file_tools", "thinking_text", "subagent_background"):
        assert ids(only(scenario)) == ids(events_of(f"claude/{scenario}"))


def test_calls_and_their_results_are_the_same_as_live() -> None:
    def calls(events: list[p.ProviderEvent]) -> list[tuple[str, str, object, str]]:
        return [
            (e.call_id, e.name, e.input, e.status) for e in of(p.ToolFinished, events) if e.name != "task_notification"
        ]

    for scenario in ("file_tools", "tool_error", "interrupt_tool", "permission_deny", "todo_write"):
        assert calls(only(scenario)) == calls(events_of(f"claude/{scenario}"))


@pytest.mark.behaviour("P-473")
def test_a_notification_is_a_turn_of_its_own_with_a_synthetic_call() -> None:
    events = only("bash_background")
    assert [e.status for e in of(p.ToolFinished, events) if e.name == "task_notification"] == ["completed"]
    assert len(of(p.TurnCompleted, events)) == 2


@pytest.mark.behaviour("P-473")
def test_a_notification_that_only_the_queue_holds_is_a_call_too() -> None:
    envelope = (
        "<task-notification><task-id>b1</task-id><status>failed</status><summary>Job</summary></task-notification>"
    )
    rows = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "Go"}},
        {"type": "queue-operation", "operation": "enqueue", "content": envelope},
        {"type": "queue-operation", "operation": "remove", "content": envelope, "reason": "absorbed_mid_turn"},
    ]
    events = history(rows)
    check(events)
    (finished,) = of(p.ToolFinished, events)
    assert (finished.name, finished.status, finished.error) == ("task_notification", "failed", "Job")


def test_an_interrupted_turn_is_canceled_and_a_failed_one_failed() -> None:
    assert [type(event) for event in only("interrupt_tool") if isinstance(event, p.TERMINAL)] == [
        p.TurnCanceled, p.TurnCompleted,
    ]  # fmt: skip
    (failed,) = [event for event in only("error_529") if isinstance(event, p.TERMINAL)]
    assert isinstance(failed, p.TurnFailed)
    assert "529" in failed.error


def test_a_message_that_joined_a_turn_stands_inside_it() -> None:
    events = only("queued_message")
    assert [event.text for event in of(p.UserEcho, events)] == ["Sleep two seconds", "By the way: be brief."]
    assert len(of(p.TurnStarted, events)) == 1


@pytest.mark.behaviour("P-472")
def test_a_compaction_is_a_bracket_with_its_summary() -> None:
    begin, end = of(p.Compaction, only("auto_compact"))
    assert (begin.phase, end.phase, end.trigger, end.tokens_before) == ("start", "end", "auto", 990014)
    assert end.summary.startswith("This session is being continued")


def test_sub_agents_have_their_lines() -> None:
    for scenario, count in (("subagent", 1), ("subagent_parallel", 2), ("subagent_background", 1)):
        events = of(p.SubAgent, only(scenario))
        assert len({event.child_id for event in events}) == count
        assert {event.action for event in events} == {"upsert", "item"}


@pytest.mark.behaviour("P-450")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("  trimmed \n", "trimmed"),
        ([{"type": "text", "text": " one "}, {"type": "image"}, {"type": "text", "text": "two\n"}], "one\n\ntwo"),
        ([{"type": "image"}], None),
        ("   ", None),
        ([], None),
        (None, None),
    ],
)
def test_the_text_of_a_prompt_is_trimmed_and_joined(content, said) -> None:
    assert prompt_text({"type": "user", "uuid": "u", "message": {"role": "user", "content": content}}) == said


@pytest.mark.behaviour("P-472")
@pytest.mark.parametrize(
    "row",
    [
        {"isMeta": True}, {"isSidechain": True}, {"isCompactSummary": True},
        {"message": {"content": "[Request interrupted by user]"}},
        {"message": {"content": "<local-command-stdout>x</local-command-stdout>"}},
        {"message": {"content": "No response requested."}},
        {"message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}},
    ],
)  # fmt: skip
def test_rows_that_nobody_typed_are_no_prompts(row) -> None:
    assert prompt_text({"type": "user", "uuid": "u", "message": {"content": "hello"}, **row}) is None


def test_a_slash_command_is_shown_as_it_was_typed() -> None:
    texts = [event.text for path in FILES if "slash_commands" in str(path) for event in of(p.UserEcho, read(path))]
    assert "/greet Ann" in texts
    assert "/context" in texts


class TestBranches:
    def rows(self) -> list[dict]:
        def row(kind: str, ident: str, parent: str | None, content, message_id: str | None = None) -> dict:
            message = {"role": kind, "content": content, **({"id": message_id} if message_id else {})}
            return {"type": kind, "uuid": ident, "parentUuid": parent, "message": message}

        def call(ident: str) -> list[dict]:
            return [{"type": "tool_use", "id": ident, "name": "Bash", "input": {"command": "ls"}}]

        def back(ident: str) -> list[dict]:
            return [{"type": "tool_result", "tool_use_id": ident, "content": ident}]

        return [
            row("user", "u1", None, "first"),
            row("assistant", "a1", "u1", call("t1"), "m1"),
            row("assistant", "a2", "a1", call("t2"), "m1"),
            {**row("user", "r1", "a1", back("t1")), "sourceToolAssistantUUID": "a1"},
            {**row("user", "r2", "a2", back("t2")), "sourceToolAssistantUUID": "a2"},
            row("user", "u2", "r2", "abandoned"),
            row("assistant", "a3", "u2", [{"type": "text", "text": "abandoned answer"}], "m2"),
            row("user", "u3", "r2", "second"),
            row("assistant", "a4", "u3", [{"type": "text", "text": "kept answer"}], "m3"),
        ]

    def test_what_a_rewind_cut_off_is_gone(self) -> None:
        events = history(self.rows())
        check(events)
        assert [event.text for event in of(p.UserEcho, events)] == ["first", "second"]
        assert text(events) == "kept answer"

    def test_results_of_parallel_calls_are_kept(self) -> None:
        assert [event.output for event in of(p.ToolFinished, history(self.rows()))] == ["t1", "t2"]

    def test_a_parent_that_is_not_in_the_file_is_the_row_before(self) -> None:
        rows = self.rows()
        rows[7]["parentUuid"] = "gone"
        assert rows[0] in branch(rows)

    def test_a_circle_of_parents_ends(self) -> None:
        rows = self.rows()
        rows[0]["parentUuid"] = "a4"
        assert branch(rows)

    def test_the_last_prompt_is_where_a_rewind_goes(self) -> None:
        assert last_prompt_id(self.rows()) == "u3"
        assert last_prompt_id([]) is None


def test_torn_lines_and_unknown_rows_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    row = {"type": "user", "uuid": "u", "message": {"content": "hello"}}
    file.write_bytes(json.dumps(row).encode() + b'\n{"type": "brand-new", "x": 1}\n[1]\n\n{"type": "assis')
    assert [event.text for event in of(p.UserEcho, history(read_rows(file)))] == ["hello"]


def test_damaged_rows_never_raise_and_turns_stay_balanced(soak_count) -> None:
    for seed in range(soak_count(500)):
        rng = random.Random(seed)
        rows = [("out", row) for row in read_rows(rng.choice(FILES))]
        damaged = [row for _, row in mutate(rows, rng) if isinstance(row, dict)]
        check(history(damaged))
