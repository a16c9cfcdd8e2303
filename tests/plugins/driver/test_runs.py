"""Who owns what the provider says, without a loop: events in, effects out."""

from __future__ import annotations

import itertools

import pytest

from greenroom.providers import (
    Compaction,
    Idle,
    Notice,
    PermissionRequest,
    PermissionRequested,
    TextDelta,
    ToolFinished,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UserEcho,
)
from greenroom_driver._runs import (
    Accepted,
    Ask,
    EndForeign,
    Finish,
    Hold,
    OpenTurn,
    Runs,
    Settle,
    Stale,
    Write,
)


@pytest.fixture
def runs() -> Runs:
    names = itertools.count(1)
    return Runs(lambda: f"auto-{next(names)}")


def text(turn: str | None = None) -> TextDelta:
    return TextDelta(text="x", turn_id=turn)


def kinds(effects) -> list[str]:
    return [type(effect).__name__ for effect in effects]


class TestForeground:
    def test_until_it_is_accepted_everything_but_questions_is_held(self, runs):
        runs.begin()
        question = PermissionRequested(request=PermissionRequest(id="q", name="sh"))
        assert runs.feed(text("1")) == []
        assert runs.feed(Notice(message="n")) == []
        assert runs.feed(question) == [Ask(question)]

    def test_acceptance_comes_first_then_what_was_held_without_the_duplicate_start(self, runs):
        run = runs.begin()
        runs.feed(TurnStarted(turn_id="1"))
        runs.feed(text("1"))
        assert runs.accept(run, "1") == [Accepted(run, "1"), Write(text("1"))]

    @pytest.mark.behaviour("P-111")
    def test_it_settles_on_a_terminal_with_exactly_its_turn(self, runs):
        run = runs.begin()
        runs.accept(run, "1")
        for other in (TurnCompleted(), TurnCompleted(turn_id="2"), TurnFailed(turn_id="3", error="e")):
            assert kinds(runs.feed(other)) == ["Stale"]
        ended = TurnCompleted(turn_id="1")
        assert runs.feed(ended) == [Settle(run, ended)]
        assert runs.active is None

    def test_a_refusal_settles_it_and_releases_what_was_held(self, runs):
        run = runs.begin()
        runs.feed(Notice(message="n"))
        failed = TurnFailed(error="no")
        assert runs.refuse(run, failed) == [Settle(run, failed), Write(Notice(message="n"))]

    def test_an_acceptance_after_its_end_makes_its_turn_stale(self, runs):
        run = runs.begin()
        runs.settle(run, TurnCanceled(reason="withdrawn"))
        assert runs.accept(run, "1") == []
        assert kinds(runs.feed(text("1"))) == ["Stale"]

    @pytest.mark.behaviour("P-129")
    def test_a_terminal_of_a_settled_run_is_stale_ten_thousand_turns_later(self, runs):
        for number in range(10_000):
            run = runs.begin()
            runs.accept(run, str(number))
            runs.feed(TurnCompleted(turn_id=str(number)))
        assert runs.number_of("1") == 2
        assert kinds(runs.feed(TurnCompleted(turn_id="1"))) == ["Stale"]
        run = runs.begin()
        runs.accept(run, "last")
        assert kinds(runs.feed(TurnFailed(turn_id="1", error="late"))) == ["Stale"]
        assert runs.active is run

    def test_somebody_who_wants_to_stop_is_asked_and_what_follows_is_held(self):
        runs = Runs(str, stopping=lambda: True)
        run = runs.begin()
        runs.accept(run, "1")
        ended = TurnCompleted(turn_id="1")
        assert runs.feed(ended) == [Finish(run, ended)]
        assert runs.feed(text("2")) == []
        assert kinds(runs.conclude(run)) == ["Settle", "OpenTurn", "Write"]

    def test_what_is_held_for_a_steer_comes_out_in_order(self, runs):
        run = runs.begin()
        runs.accept(run, "1")
        runs.hold(Hold.STEER)
        assert runs.feed(text("1")) == []
        assert runs.feed(TurnCompleted(turn_id="1")) == []
        assert kinds(runs.release(Hold.STEER)) == ["Write", "Settle"]


class TestForeign:
    @pytest.mark.behaviour("X-004")
    def test_another_turn_inside_ours_becomes_steps_and_its_end_ends_the_step_only(self, runs):
        run = runs.begin()
        runs.accept(run, "1")
        assert runs.feed(TurnStarted(turn_id="x")) == []
        assert runs.feed(text("x")) == [Write(text("x"), "x")]
        assert runs.feed(TurnFailed(turn_id="x", error="theirs")) == [EndForeign("x")]
        assert runs.active is run
        assert runs.feed(text("1")) == [Write(text("1"), None)]

    @pytest.mark.behaviour("X-004")
    def test_before_acceptance_a_second_turn_proves_that_the_first_is_not_ours(self, runs):
        run = runs.begin()
        runs.feed(TurnStarted(turn_id="x"))
        runs.feed(text("x"))
        runs.feed(TurnCompleted(turn_id="x"))
        assert runs.feed(TurnStarted(turn_id="1")) == [Write(text("x"), "x"), EndForeign("x")]
        runs.feed(text("1"))
        assert runs.accept(run, "1") == [Accepted(run, "1"), Write(text("1"))]

    def test_a_receipt_that_came_late_makes_a_turn_ours_that_is_over_already(self, runs):
        run = runs.begin()
        runs.feed(text("1"))
        failed = TurnFailed(turn_id="1", error="e")
        runs.feed(failed)
        runs.feed(text("2"))
        assert kinds(runs.accept(run, "1"))[:2] == ["Accepted", "Settle"]
        assert run.terminal == failed

    def test_what_has_no_turn_belongs_to_the_foreign_one_while_it_is_open(self, runs):
        run = runs.begin()
        runs.accept(run, "1")
        runs.feed(TurnStarted(turn_id="x"))
        assert runs.feed(text()) == [Write(text(), "x")]
        assert runs.feed(TurnCompleted()) == [EndForeign("x")]
        assert runs.feed(text()) == [Write(text(), None)]


class TestAutonomous:
    @pytest.mark.behaviour("P-135")
    def test_a_start_without_an_id_gets_a_minted_one_and_a_terminal_without_one_ends_it(self, runs):
        [opened] = runs.feed(TurnStarted())
        assert isinstance(opened, OpenTurn)
        assert opened.run.provider_turn == "auto-1"
        assert kinds(runs.feed(TurnCompleted())) == ["Settle"]

    @pytest.mark.behaviour("P-144")
    @pytest.mark.parametrize("name", [None, "x"])
    def test_it_settles_on_its_own_id_or_on_none(self, runs, name):
        runs.feed(TurnStarted(turn_id="x"))
        assert kinds(runs.feed(TurnCompleted(turn_id="y"))) == ["Stale"]
        assert kinds(runs.feed(TurnCompleted(turn_id=name))) == ["Settle"]

    @pytest.mark.behaviour("P-141")
    def test_a_terminal_that_nobody_knows_is_applied_when_nothing_competes(self, runs):
        assert kinds(runs.feed(TurnFailed(turn_id="x", error="e"))) == ["OpenTurn", "Settle"]

    @pytest.mark.parametrize("sign", [Idle(), TurnStarted(turn_id="next")])
    def test_one_that_output_opened_ends_at_a_sign_of_rest(self, runs, sign):
        runs.feed(text())
        effects = runs.feed(sign)
        assert isinstance(effects[0], Settle)
        assert isinstance(effects[0].terminal, TurnCompleted)

    def test_one_that_was_announced_does_not_end_at_rest(self, runs):
        runs.feed(TurnStarted(turn_id="x"))
        assert "Settle" not in kinds(runs.feed(Idle()))
        assert runs.active is not None

    @pytest.mark.parametrize(
        "event", [Notice(message="n"), ToolFinished(call_id="c", name="sh"), Idle(), Compaction(phase="end")]
    )
    def test_nothing_but_a_start_or_output_opens_one(self, runs, event):
        assert kinds(runs.feed(event)) == ["Write"]
        assert runs.active is None

    def test_a_compaction_at_rest_is_a_turn_of_its_own(self, runs):
        assert kinds(runs.feed(Compaction(phase="start"))) == ["OpenTurn", "Write"]
        assert kinds(runs.feed(Compaction(phase="end"))) == ["Write", "Settle"]

    def test_what_was_typed_elsewhere_waits_for_the_turn_that_it_opens(self, runs):
        echo = UserEcho(text="typed", provider_message_id="p")
        assert runs.feed(echo) == []
        assert runs.feed(TurnStarted(turn_id="x"))[1:] == [Write(echo, None)]

    def test_a_question_opens_nothing(self, runs):
        question = PermissionRequested(request=PermissionRequest(id="q", name="sh"))
        assert runs.feed(question) == [Ask(question)]
        assert runs.active is None


def test_output_of_a_turn_that_is_over_is_stale(runs):
    runs.feed(TurnStarted(turn_id="x"))
    runs.feed(TurnCompleted(turn_id="x"))
    [stale] = runs.feed(text("x"))
    assert isinstance(stale, Stale)
    assert runs.active is None
