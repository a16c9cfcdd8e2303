"""Sub-agents, background work, compaction, and what the agent tells between the lines."""

from __future__ import annotations

import pytest
from claude_frames import (
    begun,
    blocks,
    delta,
    events_of,
    feed,
    of,
    prompt,
    result,
    returned,
    start,
    system,
    text,
    tool,
    whole,
)
from claude_recordings import VERSIONS

from greenroom import providers as p
from greenroom_claude import Translator
from greenroom_claude._history import prompt_text
from greenroom_claude._tasks import from_text

PARENT = {"parent_tool_use_id": "t1", "agent_id": "child", "subagent_type": "Explore", "task_description": "Look"}


class TestSubAgents:
    @pytest.mark.parametrize("folder", VERSIONS)
    def test_what_a_sub_agent_does_stays_out_of_the_conversation(self, folder: str) -> None:
        events = events_of(f"{folder}/subagent")
        names = [event.name for event in of(p.ToolStarted, events)]
        assert names == ["Agent"]
        inner = [event.item for event in of(p.SubAgent, events) if event.action == "item"]
        assert [item.name for item in inner if isinstance(item, p.ToolStarted)] == ["Bash"]

    def test_its_text_has_a_line_of_its_own(self) -> None:
        events = events_of("claude/subagent_forward_text")
        items = [event.item for event in of(p.SubAgent, events) if event.action == "item"]
        assert "Counting." in [item.text for item in items if isinstance(item, p.TextDelta)]
        assert "Counting." not in text(events)

    @pytest.mark.parametrize("name", ["claude/subagent", "claude/subagent_background", "claude-2.1.197/subagent"])
    def test_it_is_running_then_completed(self, name: str) -> None:
        states = [event.status for event in of(p.SubAgent, events_of(name)) if event.action == "upsert"]
        assert states == ["running", "completed"]

    def test_two_at_once_are_kept_apart(self) -> None:
        events = of(p.SubAgent, events_of("claude/subagent_parallel"))
        assert len({event.child_id for event in events}) == 2
        assert len({event.call_id for event in events}) == 2

    @pytest.mark.behaviour("P-470")
    def test_the_call_shows_what_the_sub_agent_did_under_one_id(self) -> None:
        events = events_of("claude/subagent")
        shown = [e for e in events if isinstance(e, p.ToolProgress | p.ToolFinished) and e.detail is not None]
        assert len({event.call_id for event in shown}) == 1
        assert shown[-1].detail.log == "[Bash] ls | wc -l"
        assert (shown[-1].detail.description, shown[-1].detail.agent_type) == ("Count files", "general-purpose")
        assert isinstance(shown[-1], p.ToolFinished)

    @pytest.mark.behaviour("P-470")
    def test_of_many_actions_the_last_ones_are_kept(self) -> None:
        calls = [blocks(tool("Bash", {"command": f"echo {n} " + "x" * 300}, f"c{n}"), **PARENT) for n in range(250)]
        events = feed(begun("a"), blocks(tool("Agent", {"description": "Look"})), *calls, returned("done"))
        detail = of(p.ToolFinished, events)[-1].detail
        assert (len(detail.actions), detail.actions[0].index, detail.actions[-1].index) == (200, 50, 249)
        assert len(detail.log.splitlines()) == 200
        assert len(detail.actions[-1].summary) == 160

    @pytest.mark.behaviour("P-470")
    def test_an_action_that_is_said_twice_is_one(self) -> None:
        call = blocks(tool("Bash", {"command": "ls"}, "c1"), **PARENT)
        events = feed(begun("a"), blocks(tool("Agent", {"description": "Look"})), call, call, returned("done"))
        assert len(of(p.ToolFinished, events)[-1].detail.actions) == 1

    def test_a_sub_agent_inside_a_sub_agent_has_its_own_line(self) -> None:
        inner = {**PARENT, "parent_tool_use_id": "c1", "agent_id": "grandchild"}
        events = feed(
            begun("a"), blocks(tool("Agent", {"description": "Look"})),
            blocks(tool("Agent", {"description": "Deeper"}, "c1"), **PARENT), whole("deep", "m9", **inner),
        )  # fmt: skip
        assert [(e.child_id, type(e.item).__name__) for e in of(p.SubAgent, events)] == [
            ("child", "ToolStarted"), ("grandchild", "TextDelta"),
        ]  # fmt: skip
        assert text(events) == ""

    def test_its_question_is_asked_like_any_other(self) -> None:
        (asked,) = of(p.PermissionRequested, events_of("claude/subagent_permission"))
        assert asked.request.name == "Bash"

    def test_work_that_goes_on_is_known(self) -> None:
        translator = Translator()
        task = {"task_id": "x", "task_type": "local_bash", "description": "Count"}
        feed(system("background_tasks_changed", tasks=[task]), translator=translator)
        assert translator.background == (task,)
        feed(system("background_tasks_changed", tasks=[]), translator=translator)
        assert translator.background == ()


class TestNotifications:
    @pytest.mark.behaviour("P-473")
    def test_a_notification_opens_the_turn_that_it_causes(self) -> None:
        events = events_of("claude/bash_background")
        (place,) = [i for i, e in enumerate(events) if isinstance(e, p.ToolStarted) and e.name == "task_notification"]
        assert events[place - 1] == p.TurnStarted(turn_id="auto-1")
        started, finished = events[place : place + 2]
        assert started.call_id == finished.call_id
        assert (finished.status, finished.turn_id, finished.detail.icon) == ("completed", "auto-1", "wrench")
        assert "completed (exit code 0)" in finished.detail.label

    @pytest.mark.behaviour("P-473", "P-479")
    @pytest.mark.parametrize(
        ("word", "status"),
        [
            ("completed", "completed"),
            ("failed", "failed"),
            ("error", "failed"),
            ("killed", "canceled"),
            ("odd", "completed"),
        ],
    )
    def test_a_notification_in_a_user_message_is_a_call_too(self, word: str, status: str) -> None:
        tags = f"<task-id>b1</task-id><status>{word}</status><summary>Done</summary>"
        events = feed(begun("a"), prompt("u9", f"<task-notification>{tags}</task-notification>"))
        (finished,) = of(p.ToolFinished, events)
        assert (finished.call_id, finished.name, finished.status) == (
            "task_notification_u9",
            "task_notification",
            status,
        )
        assert finished.error == ("Done" if status == "failed" else None)
        assert of(p.UserEcho, events) == []

    @pytest.mark.behaviour("P-479")
    @pytest.mark.parametrize("said", [None, "", "hello", "<task-notification/>", "task-notification"])
    def test_a_text_without_an_envelope_is_no_notification(self, said) -> None:
        assert from_text(said, "u") is None

    @pytest.mark.behaviour("P-479")
    def test_without_any_id_the_content_gives_one(self) -> None:
        said = "<task-notification><summary>Done</summary></task-notification>"
        found = from_text(said, None)
        assert found is not None
        assert found == from_text(said, None)
        assert len(found.call_id) == len("task_notification_") + 12

    def test_work_in_the_foreground_is_not_announced_beside_its_call(self) -> None:
        assert [e.name for e in of(p.ToolStarted, events_of("claude/subagent"))] == ["Agent"]

    def test_work_that_was_stopped_between_turns_is_a_notice(self) -> None:
        events = feed(system("task_notification", task_id="x", status="stopped", summary="Count"))
        assert events == [p.Notice(message="Stopped: Count", code="task_stopped")]


class TestCompaction:
    @pytest.mark.behaviour("P-472")
    def test_it_begins_and_ends_with_its_summary_and_numbers(self) -> None:
        begin, end = of(p.Compaction, events_of("claude/auto_compact"))
        assert begin.phase == "start"
        assert (end.phase, end.trigger, end.tokens_before, end.tokens_after) == ("end", "auto", 990014, 2617)
        assert end.summary.startswith("This session is being continued")

    @pytest.mark.behaviour("P-472")
    @pytest.mark.parametrize(
        "data",
        [
            {"compact_metadata": {"trigger": "manual", "pre_tokens": 9}},
            {"compactMetadata": {"trigger": "manual", "preTokens": 9}},
            {"compactMetaData": {"trigger": "manual", "preTokens": 9}},
        ],
    )
    def test_its_numbers_are_found_under_every_spelling(self, data) -> None:
        events = feed(begun("a"), system("compact_boundary", **data), start(), delta("on"), result("a"))
        begin, end = of(p.Compaction, events)
        assert (begin.phase, end.phase, end.trigger, end.tokens_before) == ("start", "end", "manual", 9)

    @pytest.mark.behaviour("P-472")
    def test_a_trigger_that_is_not_named_is_auto(self) -> None:
        events = feed(begun("a"), system("compact_boundary"), result("a"))
        assert of(p.Compaction, events)[-1].trigger == "auto"

    def test_one_that_fails_says_why(self) -> None:
        states = (system("status", status="compacting"), system("status", status=None, compact_result="failed"))
        assert [(e.phase, e.error) for e in of(p.Compaction, feed(begun("a"), *states))] == [
            ("start", None), ("end", "failed"),
        ]  # fmt: skip

    def test_one_without_an_end_ends_with_its_turn(self) -> None:
        events = feed(begun("a"), system("status", status="compacting"), result("a"))
        assert [type(e).__name__ for e in events[-2:]] == ["Compaction", "TurnCompleted"]
        assert events[-2].phase == "end"

    @pytest.mark.behaviour("P-472")
    @pytest.mark.parametrize(
        "frame",
        [
            {**prompt("u", "Output token limit hit. Resume directly."), "isSynthetic": True},
            {**prompt("u", "A skill's text"), "isMeta": True},
            prompt("u", "[Request interrupted by user]"),
            prompt("u", "[Request interrupted by user for tool use]"),
            prompt("u", "No response requested."),
            prompt("u", "<command-name>/model</command-name>"),
            prompt("u", "<local-command-stdout></local-command-stdout>"),
        ],
    )
    def test_what_nobody_typed_is_no_user_message(self, frame) -> None:
        assert of(p.UserEcho | p.Notice, feed(begun("a"), frame)) == []


ENVELOPES = (
    "<task-notification><task-id>t</task-id><status>completed</status></task-notification>",
    "<system-reminder>The list of todos is empty.</system-reminder>",
    "<local-command-caveat>What follows was printed by a command.</local-command-caveat>",
    "<local-command-stdout></local-command-stdout>",
    "[Request interrupted by user]",
)


@pytest.mark.behaviour("P-247")
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_what_the_system_wraps_is_no_user_message_neither_live_nor_in_the_history(envelope: str) -> None:
    assert of(p.UserEcho, feed(begun("a"), prompt("u", envelope), result("a"))) == []
    assert prompt_text(prompt("u", envelope)) is None
    assert [event.text for event in of(p.UserEcho, feed(begun("a"), prompt("u", "typed"), result("a")))] == ["typed"]
    assert prompt_text(prompt("u", "typed")) == "typed"


@pytest.mark.behaviour("P-247")
def test_a_reminder_beside_a_prompt_is_left_out_of_it() -> None:
    typed, frame = "typed <system-reminder>by me</system-reminder>?", prompt("u", "")
    frame["message"]["content"] = [{"type": "text", "text": said} for said in (typed, ENVELOPES[1])]
    [echo] = of(p.UserEcho, feed(begun("a"), frame, result("a")))
    assert echo.text == prompt_text(frame) == typed


class TestNews:
    def test_a_limit_that_comes_near_is_a_warning(self) -> None:
        (notice,) = of(p.Notice, events_of("claude/rate_limit_headers"))
        assert (notice.level, notice.code) == ("warning", "rate_limit")
        assert "92%" in notice.message

    def test_the_agent_says_when_nothing_runs(self) -> None:
        events = events_of("claude/session_state_events")
        assert [type(event) for event in events][-1] is p.Idle

    def test_a_switch_of_the_model_is_told(self) -> None:
        models = [event.model for event in of(p.ConfigChanged, events_of("claude/set_model_and_mode")) if event.model]
        assert models == ["claude-sonnet-5-5", "claude-haiku-5-5"]

    def test_a_permission_that_was_denied_without_a_question_is_a_warning(self) -> None:
        (notice,) = of(p.Notice, events_of("claude/permission_none"))
        assert notice.code == "permission_denied"

    def test_a_hook_that_fails_is_a_warning_and_one_that_works_is_silent(self) -> None:
        assert of(p.Notice, events_of("claude/project_files")) == []
        (notice,) = feed(system("hook_response", hook_name="Stop", outcome="error", stderr="boom"))
        assert "boom" in notice.message

    def test_clearing_the_conversation_changes_its_id(self) -> None:
        translator = Translator()
        init = system("init", session_id="one")
        reset = {"type": "conversation_reset", "new_conversation_id": "two", "trigger": "clear"}
        events = feed(init, reset, translator=translator)
        assert [event.native_id for event in of(p.SessionStarted, events)] == ["one", "two"]
        assert [event.code for event in of(p.Notice, events)] == ["cleared"]
        assert translator.native_id == "two"

    @pytest.mark.behaviour("P-459")
    @pytest.mark.parametrize(
        "shape",
        [{"session_id": "s"}, {"sessionId": "s"}, {"native_id": "s"}, {"session": {"id": "s"}}],
    )
    def test_a_session_id_is_found_under_every_spelling(self, shape) -> None:
        assert of(p.SessionStarted, feed(system("init", **shape)))[0].native_id == "s"
