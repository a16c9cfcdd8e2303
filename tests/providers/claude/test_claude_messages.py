"""What the model writes, the calls it makes, and their results."""

from __future__ import annotations

import json

import pytest
from claude_frames import (
    begun,
    blocks,
    delta,
    events_of,
    feed,
    of,
    result,
    returned,
    start,
    stream,
    system,
    text,
    tool,
    whole,
)
from claude_recordings import VERSIONS

from greenroom import providers as p
from greenroom_claude import Translator


class TestText:
    def test_a_whole_message_after_its_stream_says_nothing_twice(self) -> None:
        events = feed(
            begun("a"), start(), delta("Hel"), delta("lo"), whole("Hello"), stream("message_stop"), whole("Hello")
        )
        assert text(events) == "Hello"
        (done,) = of(p.MessageDone, events)
        assert (done.message_id, done.text, done.interrupted) == ("m1", "Hello", False)

    def test_only_the_suffix_that_was_not_streamed_is_added(self) -> None:
        events = feed(begun("a"), start(), delta("Hel"), whole("Hello"))
        assert [event.text for event in of(p.TextDelta, events)] == ["Hel", "lo"]

    def test_a_message_without_a_stream_is_shown_whole(self) -> None:
        assert text(feed(begun("a"), whole("Hello"))) == "Hello"

    @pytest.mark.behaviour("P-469")
    def test_the_id_of_a_frame_is_never_the_id_of_a_message(self) -> None:
        events = feed(begun("a"), start(None), delta("Hi"), whole("Hi", None))
        ids = {event.message_id for event in of(p.TextDelta, events)}
        assert ids == {"message-1"}
        assert text(events) == "Hi"

    @pytest.mark.behaviour("P-468")
    def test_an_end_before_its_start_is_put_together(self) -> None:
        usage = {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 3}
        events = feed(begun("a"), stream("message_delta", delta={}, usage=usage), start(), delta("Hi"), whole("Hi"))
        assert text(events) == "Hi"
        assert of(p.UsageUpdated, events)[0].usage.context_used == 12

    def test_pieces_without_any_start_are_put_together(self) -> None:
        events = feed(begun("a"), delta("Hel"), delta("lo"), whole("Hello", None))
        assert text(events) == "Hello"

    def test_two_blocks_of_one_answer_have_two_ids(self) -> None:
        events = feed(
            begun("a"), start(), delta("one", 0), whole("one"), delta("two", 1), whole("two"), stream("message_stop")
        )
        assert [(e.message_id, e.text) for e in of(p.MessageDone, events)] == [("m1", "one"), ("m1.1", "two")]

    @pytest.mark.parametrize("folder", VERSIONS)
    def test_thinking_is_told_apart_from_the_answer(self, folder: str) -> None:
        events = events_of(f"{folder}/thinking_text")
        thought = "".join(event.text for event in of(p.ReasoningDelta, events))
        assert thought == "The user wants a number. Twelve is a fine number."
        assert [event.reasoning for event in of(p.MessageDone, events)] == [True, False]
        assert "Twelve is a fine" not in text(events)

    def test_hidden_thinking_shows_nothing(self) -> None:
        assert of(p.ReasoningDelta, events_of("claude/thinking_omitted")) == []

    def test_an_answer_that_was_cut_by_the_user_is_marked(self) -> None:
        events = events_of("claude/interrupt_text")
        assert [event.interrupted for event in of(p.MessageDone, events)] == [True, False]

    def test_an_abandoned_half_is_closed_and_the_retry_is_another_message(self) -> None:
        abandoned = {"api_message_id": "m1", "from_block_index": 0}
        events = feed(
            begun("a"), start(), delta("half an ans"),
            {**stream("message_stop"), "abandoned_blocks": abandoned},
            whole("The whole answer", "m2"), result("a"),
        )  # fmt: skip
        assert [(e.message_id, e.interrupted) for e in of(p.MessageDone, events)] == [("m1", True), ("m2", False)]
        assert len(of(p.TurnCompleted, events)) == 1

    def test_an_unknown_kind_of_block_is_kept(self) -> None:
        block = {"type": "hologram", "data": 1}
        (raw,) = of(p.Raw, feed(begun("a"), blocks(block)))
        assert (raw.kind, raw.payload) == ("block/hologram", block)


class TestCalls:
    @pytest.mark.behaviour("P-460", "P-480")
    def test_the_input_of_a_call_grows_by_whole_values_only(self) -> None:
        events = events_of("claude/permission_allow")
        started, *more = [event for event in events if isinstance(event, p.ToolStarted | p.ToolProgress)]
        assert (started.name, started.input) == ("Bash", {})
        whole_input = {"command": "touch made.txt", "description": "Make a file"}
        assert [event.input for event in more] == [{"command": "touch made.txt"}, whole_input]

    def test_a_half_value_is_never_shown(self) -> None:
        opening = stream("content_block_start", index=0, content_block=tool("Bash", {}))
        pieces = json.dumps({"command": "rm -rf build", "timeout": 1200})
        frames = [
            stream("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": piece})
            for piece in pieces
        ]
        shown = [event.input for event in of(p.ToolProgress, feed(begun("a"), start(), opening, *frames))]
        assert shown == [{"command": "rm -rf build"}, {"command": "rm -rf build", "timeout": 1200}]

    @pytest.mark.behaviour("P-480")
    @pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
    def test_every_kind_of_call_is_started_and_finished(self, kind: str) -> None:
        events = feed(begun("a"), blocks({**tool("x", {"q": 1}), "type": kind}), returned("ok"), result("a"))
        assert [event.call_id for event in of(p.ToolStarted, events)] == ["t1"]
        (finished,) = of(p.ToolFinished, events)
        assert (finished.status, finished.output, finished.error) == ("completed", "ok", None)

    @pytest.mark.behaviour("P-480")
    def test_a_call_without_an_id_is_dropped(self) -> None:
        block = tool("x", {})
        del block["id"]
        events = feed(begun("a"), blocks(block), returned("ok", ident=None))
        assert of(p.ToolStarted | p.ToolFinished, events) == []

    @pytest.mark.behaviour("P-480")
    def test_a_failed_call_has_an_error_even_if_the_tool_said_nothing(self) -> None:
        (finished,) = of(p.ToolFinished, feed(begun("a"), blocks(tool("x", {})), returned("", is_error=True)))
        assert (finished.status, bool(finished.error)) == ("failed", True)

    @pytest.mark.behaviour("P-461", "P-471")
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("plain", "plain"),
            ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
            ([{"type": "text", "text": "a"}, {"type": "image", "source": {}}], "a\n[image]"),
            ([{"type": "web_search_result", "title": "T", "url": "u"}], "T"),
            ({"type": "web_fetch_result", "content": "page"}, "page"),
            ({"type": "code_execution_tool_result_error", "error_code": "unavailable"}, "unavailable"),
            ("<tool_use_error>No such tool</tool_use_error>", "No such tool"),
            ([], None),
            (None, None),
            (7, None),
        ],
    )
    def test_a_result_of_any_shape_becomes_the_same_text_each_time(self, content, said) -> None:
        for _ in range(2):
            (finished,) = of(p.ToolFinished, feed(begun("a"), blocks(tool("x", {})), returned(content)))
            assert finished.output == said

    @pytest.mark.behaviour("P-471")
    def test_text_beside_a_result_is_no_user_message(self) -> None:
        frame = returned("ok")
        frame["message"]["content"].append({"type": "text", "text": "a reminder"})
        events = feed(begun("a"), blocks(tool("x", {})), frame)
        assert of(p.UserEcho, events) == []
        assert len(of(p.ToolFinished, events)) == 1

    @pytest.mark.behaviour("P-471")
    @pytest.mark.parametrize("kind", ["mcp_tool_result", "web_search_tool_result", "bash_code_execution_tool_result"])
    def test_results_of_other_kinds_finish_their_calls(self, kind: str) -> None:
        frame = returned("ok")
        frame["message"]["content"][0]["type"] = kind
        assert len(of(p.ToolFinished, feed(begun("a"), blocks(tool("x", {})), frame))) == 1

    def test_a_result_inside_the_answer_finishes_its_call(self) -> None:
        found = {"type": "web_search_tool_result", "tool_use_id": "t1", "content": []}
        events = feed(begun("a"), blocks({**tool("web_search", {}), "type": "server_tool_use"}), blocks(found))
        assert [event.call_id for event in of(p.ToolFinished, events)] == ["t1"]

    def test_the_structured_result_travels_beside_the_text(self) -> None:
        (finished,) = [e for e in of(p.ToolFinished, events_of("claude/file_tools")) if e.name == "Edit"]
        assert finished.raw["structuredPatch"][0]["newLines"] == 2
        assert finished.output.startswith("The file /workspace/hello.py has been updated")

    def test_a_denied_call_failed_with_the_words_of_the_person(self) -> None:
        (finished,) = of(p.ToolFinished, events_of("claude/permission_deny"))
        assert (finished.status, finished.error) == ("failed", "Not today, says the user.")

    def test_two_calls_at_once_keep_their_results_apart(self) -> None:
        events = feed(
            begun("a"), blocks(tool("x", {}, "t1")), blocks(tool("y", {}, "t2")),
            returned("for y", "t2"), returned("for x", "t1"), result("a"),
        )  # fmt: skip
        assert [(e.name, e.output) for e in of(p.ToolFinished, events)] == [("y", "for y"), ("x", "for x")]

    def test_a_call_id_may_come_again_in_a_later_turn(self) -> None:
        first = (begun("a"), blocks(tool("x", {})), returned("1"), result("a"))
        again = (begun("b"), blocks(tool("x", {}), ident="m2"), returned("2"), result("b"))
        assert [e.output for e in of(p.ToolFinished, feed(*first, *again))] == ["1", "2"]

    @pytest.mark.parametrize(
        ("end", "status"),
        [({}, "unknown"), ({"is_error": True, "result": "API Error"}, "canceled")],
    )
    def test_a_call_that_its_turn_leaves_open_is_closed_before_the_end(self, end, status) -> None:
        events = feed(begun("a"), blocks(tool("x", {})), result("a", **end))
        assert isinstance(events[-2], p.ToolFinished)
        assert events[-2].status == status
        late = feed(begun("a"), blocks(tool("x", {})), result("a", **end), returned("late"))
        assert [event.output for event in of(p.ToolFinished, late)] == [None, "late"]


class TestTodos:
    @pytest.mark.parametrize("folder", VERSIONS)
    def test_a_list_that_is_written_whole(self, folder: str) -> None:
        lists = [[(i.text, i.status) for i in e.items] for e in of(p.Todo, events_of(f"{folder}/todo_write"))]
        assert lists == [
            [("Look", "in_progress"), ("Leap", "pending")],
            [("Look", "completed"), ("Leap", "in_progress")],
        ]

    @pytest.mark.parametrize("folder", VERSIONS)
    def test_a_list_that_is_written_item_by_item(self, folder: str) -> None:
        lists = [[(i.text, i.status) for i in e.items] for e in of(p.Todo, events_of(f"{folder}/task_list_tools"))]
        assert lists == [
            [("Look", "pending")],
            [("Look", "pending"), ("Leap", "pending")],
            [("Look", "in_progress"), ("Leap", "pending")],
            [("Look", "completed"), ("Leap", "pending")],
        ]

    def test_an_item_may_be_renamed_and_deleted(self) -> None:
        def change(ident: str, given: dict, raw: dict):
            return blocks(tool("TaskUpdate", given, ident)), returned("ok", ident, raw)

        create = (
            blocks(tool("TaskCreate", {"subject": "A"})),
            returned("ok", raw={"task": {"id": "1", "subject": "A"}}),
        )
        rename = change("t2", {"taskId": "1", "subject": "B"}, {"taskId": "1"})
        delete = change("t3", {"taskId": "1", "status": "deleted"}, {"taskId": "1"})
        lists = [[i.text for i in e.items] for e in of(p.Todo, feed(begun("a"), *create, *rename, *delete))]
        assert lists == [["A"], ["B"], []]


class TestUsage:
    @pytest.mark.behaviour("P-474")
    def test_each_request_says_how_full_the_context_is_and_nothing_adds_up(self) -> None:
        translator = Translator()
        used = {"input_tokens": 100, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 5}
        events = feed(
            begun("a"), start("m1", **used), stream("message_delta", usage={"output_tokens": 10}),
            start("m2", **used), stream("message_delta", usage={"output_tokens": 20}),
            result("a", usage={"input_tokens": 310, "output_tokens": 30}, modelUsage={"m": {"contextWindow": 1000}}),
            translator=translator,
        )  # fmt: skip
        assert [event.usage.context_used for event in of(p.UsageUpdated, events)] == [155, 165, 155, 175]
        (end,) = of(p.TurnCompleted, events)
        assert (end.usage.context_used, end.usage.context_max, end.usage.input_tokens) == (175, 1000, 310)

    @pytest.mark.behaviour("P-474")
    def test_without_numbers_in_the_stream_the_result_says_it(self) -> None:
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 2, "iterations": []}
        (end,) = of(p.TurnCompleted, feed(begun("a"), whole("Hi"), result("a", usage=usage)))
        assert end.usage.context_used == 17

    @pytest.mark.behaviour("P-474")
    def test_what_the_agent_states_itself_wins_and_stays(self) -> None:
        stated = system("task_progress", usage={"total_tokens": 999})
        events = feed(begun("a"), start("m1", input_tokens=5), stated, start("m2", input_tokens=7), result("a"))
        assert [event.usage.context_used for event in of(p.UsageUpdated, events)] == [5, 999]
        assert of(p.TurnCompleted, events)[0].usage.context_used == 999

    def test_the_tokens_of_a_sub_agent_are_not_those_of_the_conversation(self) -> None:
        progress = system("task_progress", tool_use_id="t1", subagent_type="Explore", usage={"total_tokens": 999})
        assert of(p.UsageUpdated, feed(begun("a"), progress)) == []

    def test_the_largest_window_counts_and_an_unknown_one_is_left_out(self) -> None:
        models = {"a": {"contextWindow": 200_000}, "b": {"contextWindow": 1_000_000}, "c": {}}
        (end,) = of(p.TurnCompleted, feed(begun("a"), result("a", modelUsage=models)))
        assert end.usage.context_max == 1_000_000
        (end,) = of(p.TurnCompleted, feed(begun("a"), result("a", usage={"input_tokens": 1})))
        assert end.usage.context_max is None

    def test_a_cost_that_is_no_number_drops_all_of_the_usage(self) -> None:
        (end,) = of(p.TurnCompleted, feed(begun("a"), result("a", total_cost_usd=10**400)))
        assert end.usage is None
