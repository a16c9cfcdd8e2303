"""The inbox over a list of events."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.agents import Inbox, InboxError, consumed_work
from greenroom.sessions import Event, Message
from greenroom.sessions.vocabulary import InboxSpliced, Reason, StepStart, Text, Trigger, TurnEnd, TurnStart, UserSource

NAMES = {InboxSpliced: "inbox/spliced", TurnStart: "turn/start", TurnEnd: "turn/end", StepStart: "step/start"}


def message(name: str) -> Message:
    return Message(name, (Text(name),), UserSource())


class Log:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.seen: list[tuple] = []
        self.told: list[tuple] = []
        self.inbox = Inbox(self.append, lambda fate, message, turn: self.told.append((fate, message.id, turn)))

    def append(self, data) -> None:
        self.events.append(Event(len(self.events), 0, NAMES[type(data)], msgspec.json.encode(data)))
        self.seen.append((self.inbox.next_turn, self.inbox.next_step) if hasattr(self, "inbox") else ())

    def add(self, target, *names) -> None:
        for name in names:
            self.inbox.add(target, message(name))

    def ids(self) -> tuple[list[str], list[str]]:
        return [m.id for m in self.inbox.next_turn], [m.id for m in self.inbox.next_step]


@pytest.fixture
def log() -> Log:
    return Log()


def refold(events) -> Inbox:
    inbox = Inbox(lambda splice: pytest.fail("a restore appends nothing"), lambda *fate: pytest.fail("nor tells it"))
    inbox.restore(events)
    return inbox


def test_a_restored_inbox_has_the_lists_of_the_live_one(log):
    log.add("next-turn", "a", "b", "c")
    log.add("next-step", "x", "y")
    log.inbox.claim(1, boundary=True)
    log.inbox.replace("c", message("d"))
    log.inbox.remove("b")
    log.add("next-step", "z")
    again = refold(log.events)
    assert (again.next_turn, again.next_step) == (log.inbox.next_turn, log.inbox.next_step)


@pytest.mark.behaviour("D-200")
@pytest.mark.parametrize(
    "splice",
    [
        InboxSpliced("next-turn", 2, 0, (message("n"),)),
        InboxSpliced("next-turn", 0, 2),
        InboxSpliced("next-step", 0, 0, (message("a"),)),
        InboxSpliced("next-turn", 1, 0, (message("n"), message("n"))),
    ],
)
def test_an_invalid_stored_splice_makes_the_restore_fail_with_its_seq(log, splice):
    log.add("next-turn", "a")
    log.append(splice)
    with pytest.raises(InboxError, match="seq 1"):
        refold(log.events)


@pytest.mark.behaviour("D-201")
def test_replace_finds_a_message_in_either_list_and_is_one_splice(log):
    log.add("next-turn", "a", "b")
    log.add("next-step", "x")
    log.events.clear()
    assert log.inbox.replace("a", message("A"))
    assert log.inbox.replace("x", message("X"))
    assert log.ids() == (["A", "b"], ["X"])
    assert [(e.data.target, e.data.removed, len(e.data.inserted), e.data.outcome) for e in log.events] == [
        ("next-turn", 1, 1, "canceled"),
        ("next-step", 1, 1, "canceled"),
    ]
    assert log.told[-2:] == [("discarded", "x", None), ("inserted", "X", None)]


def test_a_message_may_be_replaced_by_one_of_the_same_id(log):
    log.add("next-turn", "a")
    changed = Message("a", (Text("other"),), UserSource())
    assert log.inbox.replace("a", changed)
    assert log.inbox.next_turn == (changed,)


@pytest.mark.behaviour("D-202")
def test_coordinates_normalise_before_they_are_logged(log):
    log.add("next-turn", "a", "b", "c")
    log.inbox.splice("next-turn", -1, 5, (message("C"),))
    log.inbox.splice("next-turn", 99, 1, (message("d"),))
    log.inbox.splice("next-turn", -99, 1)
    assert log.ids()[0] == ["b", "C", "d"]
    assert [(e.data.start, e.data.removed) for e in log.events[3:]] == [(2, 1), (3, 0), (0, 1)]


@pytest.mark.behaviour("D-202")
def test_an_identity_that_is_pending_in_either_list_is_refused_and_nothing_changes(log):
    log.add("next-turn", "a")
    for target in ("next-turn", "next-step"):
        with pytest.raises(InboxError, match="'a' is pending"):
            log.inbox.add(target, message("a"))
    assert len(log.events) == 1
    assert log.ids() == (["a"], [])


@pytest.mark.behaviour("D-202")
def test_removing_or_replacing_an_unknown_message_says_so_and_logs_nothing(log):
    assert not log.inbox.remove("nobody")
    assert not log.inbox.replace("nobody", message("a"))
    assert log.inbox.take("nobody", 1) is None
    assert log.events == []


@pytest.mark.behaviour("D-203")
def test_clear_writes_two_cancellations_next_step_first(log):
    log.add("next-turn", "a", "b")
    log.add("next-step", "x")
    log.events.clear()
    log.told.clear()
    assert log.inbox.clear() == 3
    assert [(e.data.target, e.data.removed, e.data.outcome) for e in log.events] == [
        ("next-step", 1, "canceled"),
        ("next-turn", 2, "canceled"),
    ]
    assert log.told == [("discarded", "x", None), ("discarded", "a", None), ("discarded", "b", None)]
    assert len(log.inbox) == 0


def test_a_claim_takes_all_context_and_at_a_border_one_prompt_and_tells_it_afterwards(log):
    log.add("next-turn", "a", "b")
    log.add("next-step", "x", "y")
    log.events.clear()
    log.told.clear()
    claim = log.inbox.claim(7, boundary=True)
    assert [m.id for m in claim.messages] == ["x", "y", "a"]
    assert claim.prompt == message("a")
    assert [(e.data.target, e.data.removed, e.data.outcome) for e in log.events] == [
        ("next-step", 2, None),
        ("next-turn", 1, None),
    ]
    assert log.told == [("claimed", "x", 7), ("claimed", "y", 7), ("claimed", "a", 7)]


def test_inside_a_turn_a_claim_leaves_the_prompts(log):
    log.add("next-turn", "a")
    log.add("next-step", "x")
    assert [m.id for m in log.inbox.claim(1, boundary=False).messages] == ["x"]
    assert log.ids() == (["a"], [])


def test_a_splice_that_changes_nothing_is_not_logged(log):
    assert log.inbox.clear() == 0
    assert log.inbox.claim(1, boundary=True).messages == ()
    assert log.events == []


def test_observers_of_the_session_see_the_lists_before_the_splice(log):
    log.add("next-turn", "a")
    log.inbox.claim(1, boundary=True)
    assert log.seen[-1] == ((message("a"),), ())


def test_a_refused_append_leaves_the_lists_as_they_were_and_tells_nothing(log):
    log.add("next-turn", "a")

    def refuse(_splice) -> None:
        raise ValueError("full")

    log.inbox._append = refuse
    log.told.clear()
    for change in (log.inbox.clear, lambda: log.inbox.claim(1, boundary=True), lambda: log.add("next-step", "x")):
        with pytest.raises(ValueError, match="full"):
            change()
    assert log.ids() == (["a"], [])
    assert log.told == []


class TestConsumedWork:
    def turn(self, log, number: int, *, claim: bool = False, step: bool = False, end: str | None = "completed") -> None:
        log.append(TurnStart(number, Trigger("message")))
        if claim:
            log.inbox.claim(number, boundary=True)
        if step:
            log.append(StepStart(number, 1))
        if end:
            log.append(TurnEnd(number, Reason(end)))

    @pytest.mark.behaviour("D-227")
    def test_without_consumed_work_there_is_nothing_to_tell(self, log):
        assert consumed_work(log.events) is None
        self.turn(log, 1)
        assert consumed_work(log.events) is None

    @pytest.mark.behaviour("D-227")
    def test_the_latest_turn_that_entered_a_step_is_told(self, log):
        self.turn(log, 1, step=True)
        self.turn(log, 2, step=True)
        self.turn(log, 3)
        told = consumed_work(log.events)
        assert (told.turn, told.reason) == (2, Reason("completed"))

    @pytest.mark.behaviour("D-228")
    @pytest.mark.parametrize("end", ["error", "aborted", "blocked"])
    def test_a_turn_that_claimed_input_and_failed_or_was_stopped_or_refused_counts(self, log, end):
        log.add("next-turn", "a")
        self.turn(log, 1, claim=True, end=end)
        assert consumed_work(log.events).reason == Reason(end)

    @pytest.mark.behaviour("D-229")
    def test_a_turn_without_input_or_that_emptied_its_own_claim_is_ignored(self, log):
        self.turn(log, 1, end="aborted")
        log.add("next-turn", "a")
        self.turn(log, 2, claim=True, end="completed")
        assert consumed_work(log.events) is None

    @pytest.mark.behaviour("D-230")
    def test_a_claim_outside_a_turn_is_credited_to_none(self, log):
        log.add("next-turn", "a")
        log.inbox.claim(None, boundary=True)
        self.turn(log, 1, end="aborted")
        assert consumed_work(log.events) is None

    @pytest.mark.behaviour("D-231")
    def test_what_was_canceled_after_the_last_turn_counts_as_dropped_and_a_replacement_does_not(self, log):
        self.turn(log, 1, step=True)
        log.add("next-turn", "a", "b")
        log.inbox.replace("a", message("c"))
        assert consumed_work(log.events).dropped == 0
        log.inbox.clear()
        assert (consumed_work(log.events).turn, consumed_work(log.events).dropped) == (1, 2)

    @pytest.mark.behaviour("D-231")
    def test_a_later_turn_absorbs_what_was_dropped_before_it(self, log):
        log.add("next-turn", "a")
        log.inbox.clear()
        assert consumed_work(log.events).dropped == 1
        self.turn(log, 1, step=True)
        assert consumed_work(log.events).dropped == 0
