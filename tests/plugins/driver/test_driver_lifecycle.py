"""The tables of the driver: every state with every move."""

from __future__ import annotations

import itertools

import pytest

from greenroom.errors import IllegalMove
from greenroom_driver._lifecycle import PHASE, RUN, STATUS, Phase, PhaseMove, RunMove, RunState, Walker

TABLES = [(PHASE, Phase, PhaseMove), (RUN, RunState, RunMove)]
PAIRS = [(table, *pair) for table, states, moves in TABLES for pair in itertools.product(states, moves)]


@pytest.mark.parametrize(("table", "state", "move"), PAIRS)
def test_a_move_leads_where_the_table_says_or_is_refused_with_what_is_possible(table, state, move):
    walker = Walker(table, state, "it")
    if move in table[state]:
        assert walker.fire(move) is table[state][move]
        assert walker.state is table[state][move]
    else:
        with pytest.raises(IllegalMove) as refused:
            walker.fire(move)
        assert walker.state is state
        assert all(str(possible) in str(refused.value) for possible in table[state])


@pytest.mark.parametrize(("table", "states", "moves"), TABLES)
def test_a_table_names_every_state_and_uses_every_move(table, states, moves):
    assert set(table) == set(states)
    assert {move for row in table.values() for move in row} == set(moves)


def test_only_running_is_shown_as_running():
    assert {phase for phase, status in STATUS.items() if status == "running"} == {Phase.RUNNING}
    assert set(STATUS) == set(Phase)


def test_nothing_leads_out_of_a_settled_run():
    assert RUN[RunState.SETTLED] == {}
