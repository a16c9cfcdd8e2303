"""The list of nodes that the model sees, and what may replace what."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.providers import ShellDetail
from greenroom.sessions import Event, EventRefused, HistoryNotLoaded, Replace, Session, fold_surface
from greenroom.sessions.vocabulary import AssistantMessage, ToolResult


@pytest.fixture
def nodes(script):
    """A turn with four user messages: their seqs."""
    script.turn()
    return [script.user(id=f"u{i}").seq for i in range(4)]


@pytest.mark.behaviour("D-001")
def test_there_is_one_stable_read_only_surface_view(session, script):
    view = session.surface
    script.turn()
    event = script.user()
    assert session.surface is view
    assert list(view) == [event.seq]
    assert view[0] == view[-1] == event.seq
    assert not hasattr(view, "append")
    with pytest.raises(TypeError):
        view[0] = 9


@pytest.mark.behaviour("D-114")
def test_append_markers_build_the_list_and_an_empty_log_has_none(session, script, nodes):
    assert list(fold_surface(()).nodes) == []
    assert list(session.surface) == nodes == list(fold_surface(session.tail).nodes)
    more = script.user(id="later").seq
    assert list(session.surface) == [*nodes, more]


@pytest.mark.behaviour("D-115")
def test_a_seeded_log_reproduces_the_surface(session, script, nodes, vocabulary, header):
    script.context(surface=Replace((nodes[1], nodes[2])))
    again = Session(header, vocabulary, seed=session.tail)
    assert list(again.surface) == list(session.surface)


@pytest.mark.behaviour("D-116", "D-110")
@pytest.mark.parametrize(("first", "last"), [(0, 3), (0, 1), (2, 3), (1, 2), (0, 0), (3, 3), (1, 1)])
def test_a_replacement_splices_the_inclusive_range(session, script, nodes, first, last):
    event = script.context(surface=Replace((nodes[first], nodes[last])))
    expected = [*nodes[:first], event.seq, *nodes[last + 1 :]]
    assert list(session.surface) == expected == list(fold_surface(session.tail).nodes)


def test_a_replacement_can_be_replaced_by_position(session, script, nodes):
    first = script.context(surface=Replace((nodes[0], nodes[1])), id="c1")
    second = script.context(surface=Replace((first.seq, nodes[2])), id="c2")
    assert list(session.surface) == [second.seq, nodes[3]] == list(fold_surface(session.tail).nodes)


@pytest.mark.behaviour("D-117", "D-112")
@pytest.mark.parametrize("ends", [(99, 2), (1, 99), (2, 1), (0, 1)], ids=["start", "end", "reversed", "no node"])
def test_an_impossible_range_is_refused_and_changes_nothing(session, script, nodes, ends):
    before = list(session.surface)
    with pytest.raises(EventRefused, match="surface"):
        script.context(surface=Replace(ends))
    assert list(session.surface) == before
    assert session.surface.replacements == 0
    assert script.user(id="next").seq == len(session) - 1


@pytest.mark.behaviour("D-123")
def test_replacements_are_counted(session, script, nodes):
    for count in range(1, 4):
        script.context(surface=Replace((session.surface[0], session.surface[0])), id=f"c{count}")
        assert session.surface.replacements == count == fold_surface(session.tail).replacements


@pytest.mark.behaviour("D-111")
def test_replacements_leave_no_history_behind(session, script, nodes):
    for count in range(50):
        script.context(surface=Replace((session.surface[0], session.surface[-1])), id=f"c{count}")
    fold = fold_surface(session.tail)
    assert len(fold.nodes) == 1
    assert all(len(getattr(fold, name)) <= 1 for name in fold.__slots__ if hasattr(getattr(fold, name), "__len__"))


@pytest.mark.behaviour("D-101")
def test_sources_may_be_absent_or_valid_and_a_replacement_cites_all_it_shadows(session, script, nodes):
    assert session.tail[1].sources is None
    script.context(id="c0", sources=[0, nodes[0]])
    with pytest.raises(EventRefused, match="do not name the replaced"):
        script.context(id="c1", surface=Replace((nodes[1], nodes[3])), sources=[nodes[1], nodes[3]])
    event = script.context(id="c2", surface=Replace((nodes[1], nodes[3])), sources=nodes[1:])
    assert event.sources == tuple(nodes[1:])


@pytest.mark.behaviour("D-103")
def test_an_assistant_message_may_say_that_it_stands_for_nothing(script):
    script.turn()
    script.step()
    assert script.say(sources=[]).sources == ()


@pytest.mark.behaviour("D-104")
@pytest.mark.parametrize(
    "sources",
    ["12", 5, {1, 2}, [], [1, 1], [2, 1], [1.0], [True], ["1"], [None], [-1], [5], [99], [1, [2]]],
    ids=repr,
)
def test_a_bad_source_list_is_refused(session, script, nodes, sources):
    assert len(session) == 5
    with pytest.raises(EventRefused, match="sources"):
        script.context(sources=sources)
    assert len(session) == 5


@pytest.mark.behaviour("D-104")
def test_a_log_that_is_not_contiguous_does_not_fold(session, script, nodes):
    with pytest.raises(EventRefused, match="from seq 1 to 3"):
        fold_surface([event for event in session.tail if event.seq != 2])


@pytest.fixture
def answered(script):
    """Two tool results in an open step: their seqs."""
    script.turn()
    script.step()
    seqs = []
    for call in ("t1", "t2"):
        script.call(call)
        seqs.append(script.result(call).seq)
    return seqs


@pytest.mark.behaviour("D-105")
def test_a_rewritten_result_replaces_exactly_one_result(session, script, answered):
    with pytest.raises(EventRefused, match="exactly one result, not 2"):
        script.result("t1", "short", surface=Replace((answered[0], answered[1])))
    user = script.user()
    with pytest.raises(EventRefused, match="is a user/message"):
        script.result("t1", "short", surface=Replace((user.seq, user.seq)))
    event = script.result("t1", "short", surface=Replace((answered[0], answered[0])))
    assert list(session.surface) == [event.seq, answered[1], user.seq]


@pytest.mark.behaviour("D-106", "D-107")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("turn", 2),
        ("step", 2),
        ("call_id", "t2"),
        ("status", "unknown"),
        ("detail", ShellDetail("rm")),
        ("detail", ShellDetail("ls", exit_code=0)),
    ],
)
def test_a_rewrite_may_change_the_output_only(session, answered, field, value):
    old = session.tail[answered[0]].data
    new = msgspec.structs.replace(old, output="short", **{field: value})
    where = Replace((answered[0], answered[0]))
    with pytest.raises(EventRefused, match=f"output only, not {field}"):
        session.append("tool/result", new, surface=where)
    session.append("tool/result", msgspec.structs.replace(old, output="short"), surface=where)


@pytest.mark.behaviour("D-106")
def test_a_rewrite_may_not_change_the_error(session, script):
    script.turn()
    script.step()
    script.call()
    failed = ToolResult(1, 1, "t1", "failed", ShellDetail("ls"), error="boom")
    seq = session.append("tool/result", failed, surface="append").seq
    with pytest.raises(EventRefused, match="output only, not error"):
        other = msgspec.structs.replace(failed, error="bang")
        session.append("tool/result", other, surface=Replace((seq, seq)))


@pytest.mark.behaviour("D-108", "D-109")
def test_a_window_folds_without_earlier_events_and_a_replacement_across_its_head_is_refused(session, script, answered):
    script.result("t2", "short", surface=Replace((answered[1], answered[1])))
    window = session.tail[answered[0] + 1 :]
    fold = fold_surface(window)
    assert list(fold.nodes) == [len(session) - 1]
    assert not fold.complete
    script.context(surface=Replace((answered[0], answered[0])))
    with pytest.raises(HistoryNotLoaded, match="not loaded"):
        fold_surface(session.tail[answered[0] + 1 :])


@pytest.mark.behaviour("D-109")
def test_a_rewrite_is_judged_at_an_offset_too(session, script, answered):
    old = session.tail[answered[1]]
    bad = Event(
        len(session), 1, "tool/result", msgspec.json.encode(msgspec.structs.replace(old.data, call_id="other")),
        surface=Replace((answered[1], answered[1])), sources=(answered[1],),
    )  # fmt: skip
    with pytest.raises(EventRefused, match="output only"):
        fold_surface([*session.tail[answered[0] + 1 :], bad])


@pytest.mark.behaviour("D-113", "D-122")
def test_the_fold_refuses_a_missing_marker_and_one_on_another_type(session, script, nodes):
    events = list(session.tail)
    with pytest.raises(EventRefused, match="needs surface"):
        fold_surface([*events[:2], msgspec.structs.replace(events[2], surface=None)])
    with pytest.raises(EventRefused, match="not model-visible"):
        fold_surface([msgspec.structs.replace(events[0], surface="append")])


@pytest.mark.behaviour("D-122")
def test_only_the_final_piece_of_a_message_is_a_node(session, script):
    script.turn()
    script.step()
    script.piece("one ")
    final = script.say("two")
    assert list(session.surface) == [final.seq]
    with pytest.raises(EventRefused, match="needs surface"):
        session.append("assistant/message", AssistantMessage(1, 1, "x", "m2", final=True))


def test_a_rewind_cuts_the_surface_and_a_repair_does_not(session, script, nodes):
    session.recast("repair")
    assert list(session.surface) == nodes
    session.recast("rewind", nodes[2])
    assert list(session.surface) == nodes[:2] == list(fold_surface(session.tail).nodes)


@pytest.mark.anyio
async def test_a_rewind_behind_a_replacement_brings_back_what_was_replaced(session, script, nodes):
    first = script.context(surface=Replace((nodes[0], nodes[3])))
    session.recast("rewind", first.seq)
    assert not session.surface.complete
    await session.load_history()
    assert list(session.surface) == nodes == list(fold_surface(session.tail).nodes)
    assert len(session.derive_messages()) == 4
