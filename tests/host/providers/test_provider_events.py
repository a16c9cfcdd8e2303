"""The provider events: their wire form, and what decoding forgives."""

from __future__ import annotations

import math

import msgspec
import pytest

from greenroom import providers as p

EVENTS: list[p.ProviderEvent] = [
    p.SessionStarted(native_id="s"),
    p.TurnStarted(turn_id="t", from_history=True),
    p.TurnCompleted(turn_id="t", usage=p.Usage(input_tokens=1, total_cost_usd=0.5)),
    p.TurnFailed(error="no", code="1", diagnostic="tail"),
    p.TurnCanceled(reason="interrupted"),
    p.StepBoundary(),
    p.TextDelta(text="a", message_id="m"),
    p.ReasoningDelta(text="b"),
    p.MessageDone(message_id="m", text="ab"),
    p.ToolStarted(call_id="c", name="Bash", input={"command": "ls"}, detail=p.ShellDetail("ls")),
    p.ToolProgress(call_id="c", name="Bash", detail=p.UnknownDetail(input=[1], output=None)),
    p.ToolFinished(call_id="c", name="Bash", status="failed", error="exit 1", output="x"),
    p.Todo(items=(p.TodoItem("one", "in_progress"),)),
    p.PermissionRequested(
        request=p.PermissionRequest(id="r", name="Bash", actions=(p.PermissionAction("allow", "Allow", "allow"),))
    ),
    p.PermissionResolved(request_id="r", response=p.PermissionDeny(message="no"), by="system"),
    p.Idle(),
    p.UsageUpdated(usage=p.Usage(context_used=3)),
    p.ConfigChanged(mode="plan", modes=(p.Mode("plan", "Plan"),)),
    p.UserEcho(text="hi", provider_message_id="u"),
    p.SubAgent(action="item", child_id="k", item=p.TextDelta(text="deep")),
    p.Compaction(phase="end", tokens_before=9),
    p.Notice(message="careful", level="warning"),
    p.Raw(kind="odd", payload={"a": [None]}),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_survives_its_wire_form(event: p.ProviderEvent) -> None:
    assert p.decode_event(p.encode_event(event)) == event


def test_there_is_a_sample_of_every_event() -> None:
    assert {type(e) for e in EVENTS} == set(p.ProviderEvent.__args__)


def test_an_event_is_frozen() -> None:
    with pytest.raises(AttributeError):
        EVENTS[6].text = "other"  # type: ignore[misc, union-attr]  # the point of the test


def test_a_constructor_refuses_an_unknown_field() -> None:
    with pytest.raises(TypeError):
        p.TextDelta(text="a", colour="red")  # type: ignore[call-arg]  # the point of the test


def test_a_decoder_ignores_an_unknown_field() -> None:
    assert p.decode_event('{"type": "text_delta", "text": "a", "colour": "red"}') == p.TextDelta(text="a")


def test_a_decoder_refuses_a_wrong_type() -> None:
    with pytest.raises(msgspec.ValidationError):
        p.decode_event('{"type": "text_delta", "text": 7}')


def test_a_lone_surrogate_is_replaced_and_a_pair_is_kept() -> None:
    value = p.decode_wire(b'{"half": "a\\ud83d", "whole": "\\ud83d\\ude00", "\\ude00": 1}')
    assert value == {"half": "a\ufffd", "whole": "\U0001f600", "\ufffd": 1}


def test_a_number_that_is_not_finite_becomes_nothing() -> None:
    assert p.decode_wire(b'{"a": NaN, "b": [Infinity, 1e999], "c": 1}') == {"a": None, "b": [None, None], "c": 1}


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert p.decode_wire(b'["\xff\xfeok"]') == ["\ufffd\ufffdok"]


@pytest.mark.parametrize("line", [b"", b"{", b"nope", b"[" * 200_000])
def test_what_is_no_json_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        p.decode_wire(line)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_drops_the_whole_usage(bad: float) -> None:
    assert p.finite_usage(p.Usage(input_tokens=5, total_cost_usd=bad)) is None


def test_finite_usage_is_kept_as_it_is() -> None:
    usage = p.Usage(input_tokens=5, total_cost_usd=0.1)
    assert p.finite_usage(usage) is usage
    assert p.finite_usage(None) is None
