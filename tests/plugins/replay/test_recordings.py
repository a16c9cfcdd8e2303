from __future__ import annotations

import json
from pathlib import Path

import pytest

from greenroom.providers import (
    ConfigChanged,
    PermissionRequested,
    ProviderError,
    ProviderSpec,
    Raw,
    TextDelta,
    TurnCompleted,
    TurnFailed,
    decode_event,
)
from greenroom_replay._recording import parse_recording

RECORDINGS = Path(__file__).resolve().parents[2] / "data/recordings"


class Plain:
    """A translator of a made-up provider whose messages are provider events already."""

    def sent(self, message):
        return [decode_event(message)] if "type" in message else []

    def received(self, message):
        return [decode_event(message)]


PLAIN = {"plain": ProviderSpec(id="plain", label="Plain", steps="provider", load=None, translator=Plain)}
MUTE = {"plain": ProviderSpec(id="plain", label="Plain", steps="provider", load=None)}


def line(t: float, direction: str = "out", **message) -> str:
    return json.dumps({"dir": direction, "t": t, "msg": message})


START = json.dumps({"dir": "meta", "t": 0, "msg": {"argv": ["/usr/bin/plain", "-p"]}})


def read(*lines: str, providers=PLAIN, provider: str | None = None):
    return parse_recording(lines, "r.jsonl", providers, provider)


def test_a_recording_becomes_turns_with_the_time_between_their_events() -> None:
    script = read(
        START,
        line(1.0, type="text_delta", text="a"),
        line(1.5, type="text_delta", text="b"),
        line(1.75, type="turn_completed"),
        line(9.0, type="text_delta", text="c"),
        line(9.5, type="turn_completed"),
    )
    assert [[(type(s.event), s.after) for s in turn] for turn in script.turns] == [
        [(TextDelta, 0.0), (TextDelta, 0.5), (TurnCompleted, 0.25)],
        [(TextDelta, 0.0), (TurnCompleted, 0.5)],
    ]


def test_what_was_written_and_what_was_read_is_translated_and_the_rest_is_not() -> None:
    script = read(
        START,
        line(1, "in", type="raw", kind="in"),
        line(2, "out", type="raw", kind="out"),
        line(3, "err", text="noise"),
        line(4, type="turn_completed"),
    )
    assert [step.event.kind for step in script.turns[0] if isinstance(step.event, Raw)] == ["in", "out"]


def test_the_model_is_the_one_that_was_heard() -> None:
    script = read(START, line(1, type="config_changed", model="m-2"), line(2, type="turn_completed"))
    assert script.model == "m-2"
    assert ConfigChanged(model="m-2") in [step.event for step in script.turns[0]]


def test_a_question_knows_how_it_was_answered_then() -> None:
    asked = line(1, type="permission_requested", request={"id": "q", "name": "Edit"})
    answered = line(9, "in", type="permission_resolved", request_id="q", response={"behavior": "allow"})
    [turn] = read(START, asked, answered, line(9.5, type="turn_completed")).turns
    assert [(type(s.event), s.waits, s.recorded, s.after) for s in turn] == [
        (PermissionRequested, True, "allow", 0.0),
        (TurnCompleted, False, None, 0.5),
    ]


def test_a_recording_that_ends_inside_a_turn_ends_it_with_an_error() -> None:
    [turn] = read(START, line(1, type="text_delta", text="a")).turns
    assert isinstance(turn[-1].event, TurnFailed)
    assert turn[-1].event.code == "recording_ended"


def test_without_the_plugin_of_its_provider_the_error_names_it() -> None:
    for providers in ({}, MUTE):
        with pytest.raises(ProviderError, match="recording of 'plain', and no plugin here translates") as caught:
            read(START, line(1, type="turn_completed"), providers=providers)
        assert caught.value.hint is not None
        assert "install the plugin of plain" in caught.value.hint


def test_a_file_that_does_not_say_whose_it_is_needs_the_setting() -> None:
    with pytest.raises(ProviderError, match="does not say which provider"):
        read(line(1, type="turn_completed"))
    assert len(read(line(1, type="turn_completed"), provider="plain").turns) == 1


@pytest.mark.parametrize("bad", ["{", "7", '{"dir": "out"}', '{"dir": "out", "t": "x", "msg": {}}', "[1]"])
def test_a_line_that_is_none_of_a_recording_is_refused_with_its_number(bad: str) -> None:
    with pytest.raises(ProviderError, match=r"r\.jsonl, line 2: no line of a recording"):
        read(START, bad)


def test_a_recording_without_a_turn_is_refused() -> None:
    with pytest.raises(ProviderError, match="holds no turn of plain"):
        read(START)


@pytest.mark.parametrize("name", ["permission_allow", "multi_turn", "thinking_text", "file_tools", "subagent"])
def test_a_real_recording_is_played_through_the_translator_of_its_provider(name: str) -> None:
    from greenroom_claude import Translator

    spec = ProviderSpec(id="claude", label="C", steps="provider", load=None, translator=Translator)
    lines = (RECORDINGS / "claude" / f"{name}.jsonl").read_bytes().splitlines()
    script = parse_recording(lines, name, {"claude": spec})
    assert script.turns
    assert all(isinstance(turn[-1].event, TurnCompleted) for turn in script.turns)
    assert any(isinstance(step.event, TextDelta) for turn in script.turns for step in turn)
