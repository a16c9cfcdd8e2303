"""Turns: ours, the agent's own, and how each of them ends."""

from __future__ import annotations

import pytest
from claude_frames import begun, delta, events_of, feed, of, prompt, result, start, text, whole
from claude_recordings import VERSIONS, check, processes

from greenroom import providers as p
from greenroom_claude import Translator


@pytest.mark.behaviour("P-440")
@pytest.mark.parametrize("folder", VERSIONS)
def test_a_simple_turn_is_started_then_text_then_completed(folder: str) -> None:
    events = events_of(f"{folder}/simple_text")
    kinds = [type(e) for e in events if isinstance(e, p.TurnStarted | p.TextDelta | p.TurnCompleted)]
    assert kinds == [p.TurnStarted, *[p.TextDelta] * kinds.count(p.TextDelta), p.TurnCompleted]
    assert text(events) == "Hello! I am a stub, streamed word by word."


@pytest.mark.behaviour("P-441")
@pytest.mark.parametrize("folder", VERSIONS)
def test_one_prompt_is_echoed_once_and_under_our_own_id(folder: str) -> None:
    ((_, sent),) = [
        row for row in next(processes(f"{folder}/simple_text")) if row[1].get("type") == "user" and row[0] == "in"
    ]
    (echo,) = of(p.UserEcho, events_of(f"{folder}/simple_text"))
    assert (echo.text, echo.provider_message_id, echo.client_message_id) == ("Say hello", sent["uuid"], sent["uuid"])


@pytest.mark.behaviour("P-447")
def test_an_echo_without_an_id_repeats_nothing() -> None:
    frame = prompt("x")
    del frame["uuid"]
    assert of(p.UserEcho, feed(begun("a"), frame)) == []


def test_a_message_that_was_typed_elsewhere_is_told_apart_from_ours() -> None:
    (echo,) = of(p.UserEcho, feed({**prompt("other", "typed there"), "isReplay": True}))
    assert (echo.text, echo.provider_message_id, echo.client_message_id) == ("typed there", "other", None)


@pytest.mark.behaviour("P-443", "P-455")
@pytest.mark.parametrize("folder", VERSIONS)
def test_what_the_agent_does_by_itself_is_a_turn_of_its_own(folder: str) -> None:
    events = events_of(f"{folder}/bash_background")
    ours, own = [event for event in events if isinstance(event, p.TurnStarted | p.TurnCompleted)][:2], events
    assert ours[0].turn_id == ours[1].turn_id
    starts = [event.turn_id for event in of(p.TurnStarted, own)]
    assert starts[1] == "auto-1"
    assert of(p.TurnCompleted, events)[1].turn_id == "auto-1"
    assert {e.turn_id for e in of(p.TextDelta, events)} == {starts[0], "auto-1"}


@pytest.mark.behaviour("P-457")
def test_output_without_a_prompt_is_one_turn_however_it_comes() -> None:
    events = feed(start(), delta("a"), delta("b"), start("m2"), delta("c"), whole("c", "m2"))
    assert [event.turn_id for event in of(p.TurnStarted, events)] == ["auto-1"]
    assert {event.turn_id for event in of(p.TextDelta, events)} == {"auto-1"}


@pytest.mark.behaviour("P-456")
def test_a_prompt_that_is_taken_up_completes_a_turn_of_the_agents_own() -> None:
    translator = Translator()
    events = feed(start(), delta("by myself"), translator=translator)
    events += translator.sent(prompt("a"))
    events += feed(begun("a"), start("m2"), delta("for you"), result("a"), translator=translator)
    marks = [(type(e).__name__, e.turn_id) for e in events if isinstance(e, p.TurnStarted | p.TurnCompleted)]
    assert marks == [
        ("TurnStarted", "auto-1"), ("TurnCompleted", "auto-1"), ("TurnStarted", "a"), ("TurnCompleted", "a"),
    ]  # fmt: skip


def test_a_turn_of_the_agents_own_in_front_of_ours_does_not_end_ours() -> None:
    translator = Translator()
    events = translator.sent(prompt("a"))
    events += feed(
        begun("a"),
        {"type": "system", "subtype": "init", "session_id": "s"},
        start("m1"), delta("the job ended"), result(origin={"kind": "task-notification"}),
        {"type": "system", "subtype": "init", "session_id": "s", "user_message_uuids": ["a"]},
        start("m2"), delta("hello"), result("a"),
        translator=translator,
    )  # fmt: skip
    marks = [(type(e).__name__, e.turn_id) for e in events if isinstance(e, p.TurnStarted | p.TurnCompleted)]
    assert marks == [
        ("TurnStarted", "a"), ("TurnStarted", "auto-1"), ("TurnCompleted", "auto-1"), ("TurnCompleted", "a"),
    ]  # fmt: skip
    assert [(e.text, e.turn_id) for e in of(p.TextDelta, events)] == [("the job ended", "auto-1"), ("hello", "a")]


@pytest.mark.behaviour("P-444", "P-451")
@pytest.mark.parametrize("folder", VERSIONS)
def test_an_interrupted_turn_is_canceled_and_the_next_one_works(folder: str) -> None:
    events = events_of(f"{folder}/interrupt_text")
    first, second = [event for event in events if isinstance(event, p.TERMINAL)]
    assert isinstance(first, p.TurnCanceled)
    assert isinstance(second, p.TurnCompleted)
    assert first.turn_id != second.turn_id


@pytest.mark.parametrize(
    "name", ["claude/interrupt_tool", "claude/interrupt_permission", "claude-2.1.197/interrupt_permission"]
)
def test_a_call_that_was_interrupted_is_canceled_not_failed(name: str) -> None:
    finished = of(p.ToolFinished, events_of(name))
    assert [event.status for event in finished] == ["canceled"]


@pytest.mark.behaviour("P-454")
def test_a_stale_abort_does_not_fail_the_turn_that_replaced_it() -> None:
    translator = Translator()
    abort = {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_streaming"}
    events = feed(
        begun("a"), start(), result("a", **abort), begun("b"), result("a", late=1, **abort), translator=translator
    )
    assert [e.turn_id for e in events if isinstance(e, p.TERMINAL)] == ["a"]
    events = feed(start("m2"), delta("fine"), result("b"), translator=translator)
    (end,) = [e for e in events if isinstance(e, p.TERMINAL)]
    assert isinstance(end, p.TurnCompleted)
    assert end.turn_id == "b"


@pytest.mark.behaviour("P-445")
@pytest.mark.parametrize("name", ["claude/multi_turn", "claude/queued_message_next_turn", "claude/set_model_and_mode"])
def test_turns_one_after_the_other_have_their_own_ids_and_nothing_leaks(name: str) -> None:
    events = events_of(name)
    ids = [event.turn_id for event in of(p.TurnStarted, events)]
    assert len(set(ids)) == len(ids) >= 2
    current = None
    for event in events:
        if isinstance(event, p.TurnStarted):
            current = event.turn_id
        elif isinstance(event, p.TextDelta | p.ToolStarted | p.ToolFinished | p.MessageDone):
            assert event.turn_id == current


@pytest.mark.behaviour("P-446")
@pytest.mark.parametrize(
    ("scenario", "code", "says"),
    [
        ("error_400", "unknown", "400"),
        ("error_401", "authentication_failed", "API key"),
        ("error_403", "authentication_failed", "authenticate"),
        ("error_404_model", "model_not_found", "model"),
        ("error_429", "rate_limit", "429"),
        ("error_500", "server_error", "500"),
        ("error_529", "server_error", "529"),
        ("error_credit", "billing_error", "Credit balance"),
        ("error_refused_connection", "server_error", "refused"),
        ("no_api_key", "authentication_failed", "Not logged in"),
    ],
)
def test_a_failed_request_fails_the_turn_although_it_calls_itself_a_success(scenario, code, says) -> None:
    events = events_of(f"claude/{scenario}")
    (failed,) = [event for event in events if isinstance(event, p.TERMINAL)]
    assert isinstance(failed, p.TurnFailed)
    assert failed.code == code
    assert says in failed.error
    assert text(events) == ""  # the error is said once


def test_a_retry_is_a_notice_and_the_turn_goes_on() -> None:
    events = events_of("claude/error_529_then_ok")
    (notice,) = of(p.Notice, events)
    assert (notice.level, notice.code) == ("warning", "api_retry")
    assert "529" in notice.message
    assert len(of(p.TurnCompleted, events)) == 1


@pytest.mark.behaviour("P-442", "P-467")
@pytest.mark.parametrize("name", ["claude/simple_text", "claude/error_529", "claude/interrupt_text"])
def test_nothing_runs_after_a_result(name: str) -> None:
    translator = Translator()
    for conversation in processes(name):
        for direction, frame in conversation:
            translator.feed(frame) if direction == "out" else translator.sent(frame)
            if direction == "out" and frame.get("type") == "result":
                assert translator.open_turn is None
    assert translator.closed("gone") == []


@pytest.mark.behaviour("P-452")
def test_another_session_id_in_the_middle_of_a_turn_is_a_notice() -> None:
    init = {"type": "system", "subtype": "init", "session_id": "one", "user_message_uuids": ["a"]}
    events = feed(init, start(), {**init, "session_id": "two"}, delta("still here"), result("a"))
    assert [event.native_id for event in of(p.SessionStarted, events)] == ["one", "two"]
    assert [event.code for event in of(p.Notice, events)] == ["session_changed"]
    assert len(of(p.TurnCompleted, events)) == 1
    check(events)


def test_the_same_session_id_again_is_no_news() -> None:
    init = {"type": "system", "subtype": "init", "session_id": "one"}
    assert len(of(p.SessionStarted, feed(init, init))) == 1


@pytest.mark.behaviour("P-463")
def test_a_turn_with_nothing_but_metadata_before_its_first_message_completes() -> None:
    status = {"type": "system", "subtype": "status", "status": "requesting"}
    events = feed(begun("a"), status, {"type": "system", "subtype": "hook_started"}, status, whole("Hi"), result("a"))
    assert [type(e) for e in events if isinstance(e, p.TERMINAL)] == [p.TurnCompleted]
    assert text(events) == "Hi"


def test_an_init_alone_starts_nothing() -> None:
    translator = Translator()
    assert (
        of(p.TurnStarted, feed({"type": "system", "subtype": "init", "session_id": "s"}, translator=translator)) == []
    )
    assert translator.closed("gone") == []


def test_a_command_between_turns_leaves_nothing_running() -> None:
    translator = Translator()
    echo = {**prompt("x", "<local-command-stdout>Set model to haiku</local-command-stdout>"), "isReplay": True}
    events = feed(echo, translator=translator)
    assert events == [p.Notice(message="Set model to haiku")]
    assert translator.open_turn is None


def test_a_result_that_comes_twice_ends_nothing_twice() -> None:
    end = result("a")
    assert len(of(p.TurnCompleted, feed(begun("a"), start(), end, end, begun("b"), end))) == 1


def test_a_prompt_that_was_taken_back_from_the_queue_is_canceled() -> None:
    events = events_of("claude/cancel_queued")
    (canceled,) = of(p.TurnCanceled, events)
    assert canceled.reason == "taken back"
    assert canceled.turn_id not in {event.turn_id for event in of(p.TurnStarted, events)}


def test_a_message_that_joins_the_turn_is_acknowledged_inside_it() -> None:
    translator = Translator()
    events = translator.sent(prompt("a"))
    events += feed(begun("a"), {**prompt("a"), "isReplay": True}, start(), translator=translator)
    events += translator.sent(prompt("b", "and this"), steer=True)
    events += feed(begun("b"), {**prompt("b", "and this"), "isReplay": True}, start("m2"), translator=translator)
    events += feed({**result("a"), "user_message_uuids": ["a", "b"]}, translator=translator)
    assert [event.turn_id for event in of(p.TurnStarted, events)] == ["a"]
    assert [(e.client_message_id, e.turn_id) for e in of(p.UserEcho, events)] == [("a", "a"), ("b", "a")]
    assert len(of(p.TurnCompleted, events)) == 1


def test_a_session_that_does_not_exist_fails_what_was_asked() -> None:
    frame = {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "errors": ["No conversation found"],
    }
    translator = Translator()
    assert feed(frame, translator=translator)[0] == p.Notice(
        level="error", message="No conversation found", code="error_during_execution"
    )
    translator.sent(prompt("a"))
    (failed,) = feed(frame, translator=translator)
    assert isinstance(failed, p.TurnFailed)


def test_a_turn_whose_answer_was_cut_says_so() -> None:
    (end,) = of(p.TurnCompleted, feed(begun("a"), start(), result("a", stop_reason="max_tokens")))
    assert end.max_tokens


def test_each_model_request_of_a_turn_is_a_step() -> None:
    events = events_of("claude/file_tools")
    assert len(of(p.StepBoundary, events)) == 5
    assert events_of("claude/simple_text").count(p.StepBoundary()) == 0


@pytest.mark.behaviour("P-464")
def test_the_death_of_the_process_carries_what_it_said_last() -> None:
    translator = Translator()
    feed(begun("a"), start(), translator=translator)
    (failed,) = translator.closed("exit status 1", diagnostic="the tail of stderr")
    assert failed == p.TurnFailed(
        turn_id="a", error="exit status 1", code="process_exited", diagnostic="the tail of stderr"
    )
