"""The plugin lifecycle is exactly the table of the design, and nothing else moves it."""

from __future__ import annotations

import pytest

from greenroom._lifecycle import PLUGIN, Machine, PluginMove, PluginState, diagram
from greenroom.errors import IllegalMove

# The table of the design, written out a second time, so that a slip in the literal shows.
DESIGN = """
discovered: load loading, block blocked
loading:    loaded loaded, fail failed, stop unloaded, leak leaked
loaded:     start starting, unload unloaded
starting:   ready active, fail failing, stop draining
active:     drain draining, replace draining, crash failing
draining:   drained unloaded, fail failed
failing:    drained failed, fail failed
failed:     load loading, block blocked
unloaded:   load loading, block blocked
blocked:    load loading
leaked:
"""

EXPECTED: dict[tuple[str, str], str] = {}
for _line in DESIGN.strip().splitlines():
    _state, _, _moves = _line.partition(":")
    for _pair in filter(None, (part.split() for part in _moves.split(","))):
        EXPECTED[_state, _pair[0]] = _pair[1]

PAIRS = [(state, move) for state in PluginState for move in PluginMove]


@pytest.mark.parametrize(("state", "move"), PAIRS)
def test_every_pair_of_state_and_move_does_what_the_design_says(state: PluginState, move: PluginMove) -> None:
    machine = Machine(PLUGIN, state)
    expected = EXPECTED.get((state.value, move.value))
    assert machine.allows(move) is (expected is not None)
    if expected is not None:
        assert machine.fire(move) == expected
        assert machine.state == expected
        return
    with pytest.raises(IllegalMove):
        machine.fire(move)
    assert machine.state is state


def test_the_table_knows_every_state_and_the_design_names_no_other() -> None:
    assert set(PLUGIN) == set(PluginState)
    assert {line.split(":")[0] for line in DESIGN.strip().splitlines()} == {s.value for s in PluginState}
    assert {move for _, move in EXPECTED} == {m.value for m in PluginMove}


def test_an_illegal_move_names_owner_state_move_and_what_is_possible() -> None:
    machine = Machine(PLUGIN, PluginState.LOADED, owner="acme-audit:audit")
    with pytest.raises(IllegalMove, match=r"acme-audit:audit: cannot ready while loaded; possible: start, unload") as e:
        machine.fire(PluginMove.READY)
    assert e.value.plugin == "acme-audit:audit"


def test_a_leaked_plugin_can_do_nothing() -> None:
    with pytest.raises(IllegalMove, match="possible: nothing"):
        Machine(PLUGIN, PluginState.LEAKED).fire(PluginMove.LOAD)


def test_state_cannot_be_assigned() -> None:
    machine = Machine(PLUGIN, PluginState.DISCOVERED)
    with pytest.raises(AttributeError):
        machine.state = PluginState.ACTIVE  # type: ignore[misc]  # the point of the test


def test_the_diagram_has_one_arrow_for_each_move_of_the_table() -> None:
    lines = diagram(PLUGIN).splitlines()
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> discovered"]
    arrows = {line.strip() for line in lines[2:]}
    assert arrows == {f"{s} --> {t}: {m}" for (s, m), t in EXPECTED.items()} | {"leaked --> [*]"}
