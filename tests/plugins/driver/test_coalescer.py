"""The window, without a loop: a clock that the test moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.providers import (
    Notice,
    ReasoningDelta,
    ShellDetail,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    Usage,
    UsageUpdated,
)
from greenroom_driver._coalescer import PIECE_CHARS, WINDOW, Coalescer


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """A coalescer, its clock, and everything that came out of it."""

    def __init__(self, *, leading: bool = False, **options) -> None:
        self.clock = Clock()
        self.coalescer = Coalescer(self.clock, leading=leading, **options)
        self.out: list = []

    def push(self, *events) -> None:
        for event in events:
            ready = self.coalescer.push(event)
            assert ready is not None
            self.out += ready

    def wait(self, seconds: float = WINDOW) -> None:
        self.clock.now += seconds
        self.out += self.coalescer.due()

    def flush(self) -> None:
        self.out += self.coalescer.flush()


def text(value: str, message: str | None = "m", turn: str | None = "t") -> TextDelta:
    return TextDelta(text=value, message_id=message, turn_id=turn)


def thought(value: str) -> ReasoningDelta:
    return ReasoningDelta(text=value, message_id="m", turn_id="t")


def start(call: str, turn: str | None = "t", **more) -> ToolStarted:
    return ToolStarted(call_id=call, name="Bash", turn_id=turn, **more)


def progress(call: str, output: str, turn: str | None = "t") -> ToolProgress:
    return ToolProgress(call_id=call, name="Bash", turn_id=turn, detail=ShellDetail(command="make", output=output))


def end(call: str) -> ToolFinished:
    return ToolFinished(call_id=call, name="Bash", turn_id="t")


@pytest.mark.behaviour("P-250")
def test_chunks_of_one_tick_become_one_item_after_the_window():
    rig = Rig()
    rig.push(text("a"), text("b"), text("c"))
    assert rig.out == []
    rig.wait()
    assert rig.out == [text("abc")]


@pytest.mark.behaviour("P-251")
def test_the_window_is_60_ms_unless_the_constructor_says_otherwise():
    for options, window in (({}, 0.060), ({"window": 0.5}, 0.5)):
        rig = Rig(**options)
        rig.push(text("a"))
        assert rig.coalescer.deadline == rig.clock.now + window
        rig.wait(window - 0.001)
        assert rig.out == []
        rig.wait(0.001)
        assert rig.out == [text("a")]


@pytest.mark.behaviour("P-252")
def test_a_flush_drains_what_is_held_at_once():
    rig = Rig()
    rig.push(text("a"), start("c"))
    rig.flush()
    assert rig.out == [text("a"), start("c")]
    assert rig.coalescer.deadline is None


@pytest.mark.behaviour("P-253")
@pytest.mark.parametrize(
    "event", [Notice(message="n"), TurnCompleted(turn_id="t"), UsageUpdated(usage=Usage(input_tokens=1))]
)
def test_other_events_are_not_consumed_and_disturb_nothing(event):
    rig = Rig()
    rig.push(text("a"))
    assert rig.coalescer.push(event) is None
    rig.push(text("b"))
    rig.wait()
    assert rig.out == [text("ab")]


@pytest.mark.behaviour("P-254")
def test_text_and_reasoning_do_not_merge_and_keep_their_order():
    rig = Rig()
    rig.push(text("a"), text("b"), thought("c"), thought("d"))
    rig.wait()
    assert rig.out == [text("ab"), thought("cd")]


@pytest.mark.behaviour("P-255")
def test_strict_alternation_keeps_every_boundary():
    rig = Rig()
    events = [kind(str(n)) for n in range(5) for kind in (text, thought)]
    rig.push(*events)
    rig.wait()
    assert rig.out == events


@pytest.mark.behaviour("P-256")
def test_providers_do_not_merge():
    rig = Rig()
    rig.out += rig.coalescer.switch("one")
    rig.push(text("a"), start("c"))
    rig.out += rig.coalescer.switch("one")
    assert rig.out == []
    rig.out += rig.coalescer.switch("two")
    assert rig.out == [text("a"), start("c")]
    rig.push(text("b"), start("c"))
    rig.wait()
    assert rig.out == [text("a"), start("c"), text("b"), start("c")]


@pytest.mark.behaviour("P-257")
def test_turns_do_not_merge():
    rig = Rig()
    rig.push(text("a", turn="1"), text("b", turn="2"))
    rig.push(start("c", turn="1"), start("c", turn="2"))
    rig.wait()
    assert rig.out == [text("a", turn="1"), text("b", turn="2"), start("c", turn="1"), start("c", turn="2")]


@pytest.mark.behaviour("P-275")
def test_the_token_of_a_turn_separates_also_where_one_has_none():
    rig = Rig()
    rig.push(text("a", turn=None), text("b", turn="1"), text("c", turn=None))
    rig.wait()
    assert [event.text for event in rig.out] == ["a", "b", "c"]


@pytest.mark.behaviour("P-258")
def test_empty_text_is_consumed_and_leaves_no_item():
    rig = Rig()
    rig.push(text(""), thought(""))
    assert rig.coalescer.deadline is None
    rig.flush()
    assert rig.out == []


@pytest.mark.behaviour("P-259")
def test_whitespace_survives_to_the_byte():
    rig = Rig()
    parts = [" ", "\n", "\t\r\n", "  x  ", "\u00a0", "\u2028"]
    rig.push(*map(text, parts))
    rig.wait()
    assert [event.text for event in rig.out] == ["".join(parts)]


@pytest.mark.behaviour("P-260")
@given(st.text(min_size=1), st.data())
def test_any_fragmentation_is_rebuilt_exactly(whole, data):
    rig = Rig(leading=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    for begin, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        rig.push(text(whole[begin:stop]))
        rig.wait(data.draw(st.sampled_from([0.0, 0.01, WINDOW])))
    rig.flush()
    assert "".join(event.text for event in rig.out) == whole


@pytest.mark.behaviour("P-261")
def test_two_agents_have_two_buffers():
    one, two = Rig(), Rig()
    one.push(text("a"))
    two.push(text("b"))
    one.flush()
    assert one.out == [text("a")]
    assert two.out == []
    two.wait()
    assert two.out == [text("b")]


@pytest.mark.behaviour("P-263")
def test_a_second_flush_does_nothing():
    rig = Rig()
    rig.push(text("a"))
    rig.flush()
    rig.flush()
    assert rig.out == [text("a")]


@pytest.mark.behaviour("P-264", "P-292")
def test_what_arrives_while_a_flush_is_written_goes_to_the_next_buffer_once():
    rig = Rig()
    rig.push(text("a"), thought("b"))
    written = []
    for event in rig.coalescer.flush():
        written.append(event)
        rig.push(text("late"))
        written += rig.coalescer.flush() if len(written) > 5 else []
    assert written == [text("a"), thought("b")]
    rig.wait()
    assert rig.out == [text("latelate")]


@pytest.mark.behaviour("P-265")
def test_after_a_flush_by_hand_the_old_window_duplicates_nothing():
    rig = Rig()
    rig.push(text("a"))
    rig.flush()
    rig.wait()
    rig.wait()
    assert rig.out == [text("a")]


@pytest.mark.behaviour("P-266")
def test_the_last_flush_leaves_no_deadline_and_a_late_wake_up_finds_nothing():
    rig = Rig()
    rig.push(text("a"), start("c"))
    stale = rig.coalescer.deadline
    rig.flush()
    assert rig.coalescer.deadline is None
    rig.clock.now = stale + 1
    assert rig.coalescer.due() == ()


@pytest.mark.behaviour("P-267")
def test_the_deadline_of_a_flushed_buffer_does_not_release_its_successor_early():
    rig = Rig()
    rig.push(text("old"))
    stale = rig.coalescer.deadline
    rig.wait(0.05)
    rig.flush()
    rig.push(text("new"))
    rig.clock.now = stale
    assert rig.coalescer.due() == ()
    rig.wait()
    assert rig.out == [text("old"), text("new")]


@pytest.mark.behaviour("P-268")
def test_the_shape_of_the_first_chunk_is_kept():
    rig = Rig()
    first = TextDelta(text="a", message_id="m", turn_id="t", from_history=True)
    rig.push(first, text("b"))
    rig.wait()
    assert rig.out == [TextDelta(text="ab", message_id="m", turn_id="t", from_history=True)]


@pytest.mark.behaviour("P-269")
def test_of_the_states_of_a_running_call_the_latest_wins():
    rig = Rig()
    rig.push(progress("c", "1"), progress("c", "2"), progress("c", "3"))
    rig.wait()
    assert rig.out == [progress("c", "3")]


def test_a_start_stays_a_start_and_takes_the_latest_state():
    rig = Rig()
    rig.push(start("c", input={"command": "make"}), progress("c", "1"))
    rig.wait()
    [call] = rig.out
    assert isinstance(call, ToolStarted)
    assert call.input == {"command": "make"}
    assert call.detail == ShellDetail(command="make", output="1")


@pytest.mark.behaviour("P-270")
def test_interleaved_calls_fold_apart_in_the_order_of_their_first_states():
    rig = Rig()
    rig.push(progress("x", "1"), progress("y", "1"), progress("x", "2"), progress("y", "2"))
    rig.wait()
    assert rig.out == [progress("x", "2"), progress("y", "2")]


@pytest.mark.behaviour("P-271")
def test_a_terminal_state_goes_out_at_once_behind_the_pending_text():
    rig = Rig()
    rig.push(start("c"), text("a"), end("c"))
    assert rig.out == [start("c"), text("a"), end("c")]
    assert rig.coalescer.deadline is None


@pytest.mark.behaviour("P-272")
def test_text_and_calls_keep_their_order_of_arrival():
    rig = Rig()
    rig.push(text("a"), progress("x", "1"), text("b"), progress("y", "1"), thought("c"))
    rig.wait()
    assert rig.out == [text("a"), progress("x", "1"), text("b"), progress("y", "1"), thought("c")]


@pytest.mark.behaviour("P-273")
def test_the_first_fragment_after_a_quiet_window_leads():
    rig = Rig(leading=True)
    rig.push(text("a"))
    assert rig.out == [text("a")]
    rig.push(text("b"), text("c"))
    assert rig.out == [text("a")]
    rig.wait()
    assert rig.out == [text("a"), text("bc")]
    rig.push(text("d"))  # the window that the piece opened still runs
    assert rig.out == [text("a"), text("bc")]
    rig.wait()
    rig.wait()
    rig.push(text("e"))
    assert rig.out == [text("a"), text("bc"), text("d"), text("e")]


@pytest.mark.behaviour("P-274")
def test_fragments_of_different_messages_are_not_spliced():
    rig = Rig()
    rig.push(text("a", "1"), text("b", "2"), text("c", "1"))
    rig.wait()
    assert rig.out == [text("a", "1"), text("b", "2"), text("c", "1")]


def test_a_piece_that_reaches_the_limit_of_a_text_goes_out_before_its_window_ends():
    rig = Rig()
    rig.push(text("a" * (PIECE_CHARS - 1)))
    assert rig.out == []
    rig.push(text("b"))
    assert [len(event.text) for event in rig.out] == [PIECE_CHARS]
