"""Which changes of an agent want attention, and what becomes of its mark."""

from __future__ import annotations

import pytest

from greenroom.agents import PARENT_LABEL, AgentRecord, Unread
from greenroom_manager._attention import NOTHING, Edge, Seen, concerns_people, edge, marked, read, unread

RECORD = AgentRecord(id="a", provider="scripted", created_at=1, updated_at=1)
IDLE, RUNNING, ERROR = Seen("idle"), Seen("running"), Seen("error")
ASKING = Seen("running", 1)


@pytest.mark.behaviour("P-199")
@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        (RUNNING, IDLE, Edge("finished", "finished")),
        (RUNNING, ERROR, Edge("error", "error")),
        (IDLE, ERROR, Edge("error", "error")),
        (ASKING, ERROR, Edge("error", "error")),
        (IDLE, RUNNING, Edge(None, "clear")),
        (ERROR, RUNNING, Edge(None, "clear")),
        (IDLE, IDLE, NOTHING),
        (ERROR, ERROR, NOTHING),
        (ERROR, IDLE, NOTHING),
    ],
)
def test_from_running_to_rest_it_has_finished_and_into_error_it_has_failed(before, after, follows):
    assert edge(before, after, None) == follows


@pytest.mark.behaviour("P-199")
@pytest.mark.parametrize("reason", ["finished", "error", "marked"])
@pytest.mark.parametrize("after", [IDLE, ERROR])
def test_one_that_is_unread_already_is_not_told_again(reason, after):
    assert edge(RUNNING, after, Unread(reason, 1)) == NOTHING


@pytest.mark.behaviour("P-172")
def test_the_first_open_question_is_told_and_marks_nothing():
    assert edge(RUNNING, ASKING, None) == Edge("permission")
    assert edge(IDLE, Seen("idle", 1), Unread("finished", 1)) == Edge("permission")


@pytest.mark.behaviour("P-173")
def test_a_second_one_while_the_first_is_open_is_not_told():
    assert edge(ASKING, Seen("running", 2), None) == NOTHING
    assert edge(Seen("running", 2), ASKING, None) == NOTHING


def test_a_mark_that_a_person_has_made_outlives_a_run():
    by_hand = unread(RECORD, 7)
    assert by_hand.unread == Unread("marked", 7)
    assert marked(by_hand, "clear", 8) == by_hand
    assert marked(marked(RECORD, "finished", 5), "clear", 8).unread is None


def test_reading_takes_every_mark_away_and_marking_again_keeps_the_first():
    finished = marked(RECORD, "finished", 5)
    assert unread(finished, 9) == finished
    assert read(finished).unread is None


def test_internal_agents_and_those_that_work_for_another_one_concern_nobody():
    assert concerns_people(RECORD)
    assert not concerns_people(AgentRecord(id="a", provider="p", created_at=1, updated_at=1, internal=True))
    child = AgentRecord(id="a", provider="p", created_at=1, updated_at=1, labels={PARENT_LABEL: "b"})
    assert not concerns_people(child)
