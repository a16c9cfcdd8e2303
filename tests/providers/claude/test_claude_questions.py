"""Questions of the agent, and the answers that it gets."""

from __future__ import annotations

import pytest
from claude_frames import asks, begun, events_of, feed, of, system
from claude_recordings import VERSIONS, rows

from greenroom import providers as p
from greenroom.errors import GreenroomError
from greenroom_claude import Translator
from greenroom_claude._control import MalformedAnswer

QUESTIONS = {
    "questions": [
        {"question": "Which colour?", "header": "Colour", "options": [{"label": "Red"}], "multiSelect": False},
        {"question": "Which sizes?", "header": "Sizes", "options": [{"label": "S"}], "multiSelect": True},
    ]
}


def ask(name: str = "Bash", given: dict | None = None, **more) -> tuple[Translator, p.PermissionRequest]:
    translator = Translator()
    events = feed(asks(name, given or {"command": "ls"}, **more), translator=translator)
    return translator, of(p.PermissionRequested, events)[0].request


def answer(translator: Translator, response: p.PermissionResponse) -> dict:
    return translator.answer("q1", response)["response"]["response"]


@pytest.mark.parametrize("folder", VERSIONS)
def test_a_question_about_a_tool_says_which_call_it_is_about(folder: str) -> None:
    (asked,) = of(p.PermissionRequested, events_of(f"{folder}/permission_allow"))
    request = asked.request
    assert (request.name, request.kind) == ("Bash", "tool")
    assert request.input == {"command": "touch made.txt", "description": "Make a file"}
    assert request.call_id in {event.call_id for event in of(p.ToolStarted, events_of(f"{folder}/permission_allow"))}
    assert [action.id for action in request.actions] == ["allow", "allow_always", "deny"]
    assert request.suggestions[0]["type"] == "addRules"


@pytest.mark.parametrize("folder", VERSIONS)
@pytest.mark.parametrize("scenario", ["permission_allow", "permission_deny", "permission_always_allow_bash"])
def test_our_answer_resolves_the_question_once_although_it_is_echoed(folder: str, scenario: str) -> None:
    events = events_of(f"{folder}/{scenario}")
    (asked,), (resolved,) = of(p.PermissionRequested, events), of(p.PermissionResolved, events)
    assert (resolved.request_id, resolved.by) == (asked.request.id, "user")


@pytest.mark.parametrize("folder", VERSIONS)
def test_a_question_that_the_agent_withdraws_is_resolved_by_the_system(folder: str) -> None:
    (resolved,) = of(p.PermissionResolved, events_of(f"{folder}/interrupt_permission"))
    assert resolved.by == "system"
    assert isinstance(resolved.response, p.PermissionDeny)


def test_the_answers_of_the_recordings_are_written_byte_for_byte() -> None:
    """What a person chose in the recorded scenarios gives the frames that the agent accepted there."""
    cases = {
        "permission_deny_interrupt": p.PermissionDeny(message="Stop.", interrupt=True),
        "ask_user_question": p.PermissionAllow(
            updated_input={"answers": {"Colour": "Blue", "Which sizes?": ["S", "L"]}}
        ),
    }
    for scenario, response in cases.items():
        translator, expected = Translator(), None
        for direction, frame in rows(f"claude/{scenario}"):
            if direction == "in" and frame["type"] == "control_response":
                expected = frame
                assert translator.answer(frame["response"]["request_id"], response) == expected
            translator.feed(frame) if direction == "out" else translator.sent(frame)
        assert expected is not None


def test_allowing_hands_the_input_back() -> None:
    translator, _ = ask()
    assert answer(translator, p.PermissionAllow()) == {"behavior": "allow", "updatedInput": {"command": "ls"}}


def test_allowing_may_rewrite_the_input() -> None:
    translator, _ = ask()
    changed = p.PermissionAllow(updated_input={"command": "ls -l"})
    assert answer(translator, changed)["updatedInput"] == {"command": "ls -l"}


def test_always_allowing_sends_the_rules_back_that_were_offered() -> None:
    rule = {"type": "addRules", "rules": [{"toolName": "Bash"}]}
    translator, _ = ask(permission_suggestions=[rule])
    assert answer(translator, p.PermissionAllow(action="allow_always"))["updatedPermissions"] == [rule]


def test_without_a_rule_to_remember_there_is_no_such_button() -> None:
    _, request = ask()
    assert [action.id for action in request.actions] == ["allow", "deny"]


def test_denying_always_has_words() -> None:
    translator, _ = ask()
    assert answer(translator, p.PermissionDeny()) == {"behavior": "deny", "message": "The user said no."}


def test_an_answer_to_no_question_is_an_error() -> None:
    with pytest.raises(GreenroomError, match="no question"):
        Translator().answer("q1", p.PermissionAllow())


class TestAskUserQuestion:
    def test_it_is_a_question_only_with_a_list_of_questions(self) -> None:
        assert ask("AskUserQuestion", QUESTIONS)[1].kind == "question"
        assert ask("AskUserQuestion", {"questions": "?"})[1].kind == "tool"

    @pytest.mark.parametrize(
        "bad",
        [None, {}, {"answers": {}}, {"answers": {"Weight": "3"}}, {"answers": {"Colour": 3}}, {"answers": ["Red"]}],
    )
    def test_a_malformed_answer_is_refused_and_the_question_stays_open(self, bad) -> None:
        translator, _ = ask("AskUserQuestion", QUESTIONS)
        with pytest.raises(MalformedAnswer):
            translator.answer("q1", p.PermissionAllow(updated_input=bad))
        good = p.PermissionAllow(updated_input={"answers": {"Colour": "Red"}})
        assert answer(translator, good)["updatedInput"]["answers"] == {"Which colour?": "Red"}

    def test_it_may_be_declined(self) -> None:
        translator, _ = ask("AskUserQuestion", QUESTIONS)
        assert answer(translator, p.PermissionDeny(message="Not now"))["behavior"] == "deny"


class TestPlans:
    def test_a_plan_is_shown_with_its_text(self) -> None:
        asked = [
            e.request for e in of(p.PermissionRequested, events_of("claude/plan_mode")) if e.request.kind == "plan"
        ]
        assert asked[0].description == "# Plan\n1. Write a.txt"
        assert [action.id for action in asked[0].actions] == ["reject", "implement"]

    def test_implementing_switches_to_accepting_edits(self) -> None:
        translator, _ = ask("ExitPlanMode", {"plan": "p"})
        body = answer(translator, p.PermissionAllow(action="implement"))
        assert body["updatedPermissions"] == [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]

    @pytest.mark.behaviour("P-466")
    def test_a_plan_that_was_made_out_of_bypass_offers_to_return_there(self) -> None:
        translator = Translator()
        modes = [system("status", permissionMode=mode) for mode in ("bypassPermissions", "plan")]
        events = feed(begun("a"), *modes, asks("ExitPlanMode", {"plan": "p"}), translator=translator)
        request = of(p.PermissionRequested, events)[0].request
        assert [action.id for action in request.actions] == ["reject", "implement", "implement_resume"]
        body = answer(translator, p.PermissionAllow(action="implement_resume"))
        assert body["updatedPermissions"][0]["mode"] == "bypassPermissions"

    @pytest.mark.behaviour("P-466")
    def test_a_plan_that_was_not_made_out_of_bypass_does_not(self) -> None:
        modes = [system("status", permissionMode=mode) for mode in ("default", "plan")]
        events = feed(begun("a"), *modes, asks("ExitPlanMode", {"plan": "p"}))
        assert "implement_resume" not in [a.id for a in of(p.PermissionRequested, events)[0].request.actions]

    def test_modes_are_followed(self) -> None:
        modes = [event.mode for event in of(p.ConfigChanged, events_of("claude/plan_mode")) if event.mode]
        assert modes == ["plan", "default"]


class TestElicitation:
    def test_a_form_of_a_tool_server_is_asked(self) -> None:
        (asked,) = of(p.PermissionRequested, events_of("claude/mcp_stdio_server"))
        request = asked.request
        assert (request.name, request.kind, request.title) == ("elicitation", "other", "little")
        assert request.description == "Your name?"
        assert request.input["requested_schema"]["required"] == ["name"]

    @pytest.mark.parametrize(
        ("response", "body"),
        [
            (p.PermissionAllow(updated_input={"name": "Ann"}), {"action": "accept", "content": {"name": "Ann"}}),
            (p.PermissionDeny(), {"action": "decline"}),
            (p.PermissionDeny(interrupt=True), {"action": "cancel"}),
        ],
    )
    def test_each_answer_has_its_word(self, response, body) -> None:
        translator = Translator()
        form = {"subtype": "elicitation", "mcp_server_name": "s", "message": "?", "requested_schema": {}}
        feed({"type": "control_request", "request_id": "q1", "request": form}, translator=translator)
        assert answer(translator, response) == body


@pytest.mark.parametrize("scenario", ["hooks", "mcp_sdk_server"])
def test_callbacks_for_the_host_are_no_questions(scenario: str) -> None:
    asked = {event.request.name for event in of(p.PermissionRequested, events_of(f"claude/{scenario}"))}
    assert "hook_callback" not in asked
    assert "mcp_message" not in asked


def test_a_question_of_a_sub_agent_after_the_turn_starts_nothing() -> None:
    translator = Translator()
    events = feed(asks("Bash", {"command": "ls"}, agent_id="x"), translator=translator)
    assert [type(event) for event in events] == [p.PermissionRequested]
    assert translator.open_turn is None


def test_the_end_of_the_process_withdraws_every_question() -> None:
    translator, request = ask()
    (resolved,) = translator.closed("gone")
    assert resolved == p.PermissionResolved(
        request_id=request.id, response=p.PermissionDeny(message="withdrawn"), by="system"
    )
