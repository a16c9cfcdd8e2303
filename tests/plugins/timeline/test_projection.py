"""The projected view: how rows fold into entries, and which entries a page holds."""

from __future__ import annotations

import pytest
from timeline_lines import World

from greenroom.providers import ReadDetail, ShellDetail, UnknownDetail
from greenroom.timeline import Cursor

pytestmark = pytest.mark.anyio


async def entries(world, **query):
    query.setdefault("limit", 0)
    return (await world.timeline.fetch("s", view="projected", **query)).entries


async def open_turn(world):
    log = await world.create()
    log.turn()
    return log


def spans(found):
    return [(entry.seq, entry.end) for entry in found]


@pytest.mark.behaviour("P-297")
async def test_neighbouring_pieces_of_text_merge_into_one_entry_with_its_ranges(world):
    log = await open_turn(world)
    first = log.piece("hel")
    log.usage()
    log.piece("lo ")
    last = log.piece("there", final=True)
    [entry] = await entries(world)
    assert (entry.seq, entry.end, entry.source_ranges, entry.merged) == (first, last, ((first, last),), True)
    assert (entry.type, entry.data["text"], entry.data["final"]) == ("assistant/message", "hello there", True)


@pytest.mark.behaviour("P-298")
async def test_neighbouring_pieces_of_reasoning_merge(world):
    log = await open_turn(world)
    first = log.think("a")
    last = log.think("b")
    log.piece("c")
    thought, said = await entries(world)
    assert (thought.type, thought.data["text"], spans([thought])) == ("assistant/reasoning", "ab", [(first, last)])
    assert (said.data["text"], said.merged) == ("c", False)


@pytest.mark.behaviour("P-299")
async def test_a_call_stands_at_its_first_row_and_names_the_rows_it_is_made_of(world):
    log = await open_turn(world)
    call = log.call("c1")
    log.notice()
    update = log.update("c1", "so far")
    log.usage()
    again = log.update("c1", "more")
    log.notice()
    result = log.result("c1")
    log.notice()
    tool, *_ = await entries(world)
    assert (tool.type, tool.seq, tool.end, tool.data["status"]) == ("tool/call", call, result, "completed")
    assert tool.source_ranges == ((call, call), (update, again), (result, result))


@pytest.mark.behaviour("P-300")
async def test_the_canonical_view_gives_every_row_as_it_is(world):
    log = await open_turn(world)
    written = [log.piece("a"), log.piece("b"), log.call("c1"), log.update("c1"), log.result("c1")]
    rows = (await world.timeline.fetch("s")).rows
    events = {event.seq: event for event in await world.events()}
    assert [row.seq for row in rows] == written
    assert all(bytes(row.item) == events[row.seq].raw for row in rows)


async def tools_and_notes(world):
    """Five calls of three rows and a notice each: (first, last) of each call, in order, notices between."""
    log = await open_turn(world)
    calls = []
    for number in range(5):
        first = log.call(f"c{number}")
        log.update(f"c{number}", "x")
        calls.append((first, log.result(f"c{number}")))
        log.notice()
    return calls


@pytest.mark.behaviour("P-301")
async def test_a_limit_of_the_tail_counts_entries_and_gives_whole_ones(world):
    calls = await tools_and_notes(world)
    found = await entries(world, limit=3)
    assert spans(found)[1:] == [calls[4], (calls[4][1] + 1,) * 2]
    assert found[1].source_ranges == (calls[4],)


@pytest.mark.behaviour("P-302")
async def test_a_limit_after_a_cursor_counts_entries_from_the_front(world):
    calls = await tools_and_notes(world)
    page = await world.timeline.fetch("s", direction="after", limit=3, view="projected")
    assert spans(page.entries) == [calls[0], (calls[0][1] + 1,) * 2, calls[1]]
    assert (page.has_older, page.has_newer) == (False, True)
    page = await world.timeline.fetch("s", cursor=page.end, direction="after", limit=1, view="projected")
    assert spans(page.entries) == [(calls[1][1] + 1,) * 2]


@pytest.mark.behaviour("P-303")
async def test_a_page_ends_at_the_largest_end_of_its_entries(world):
    log = await open_turn(world)
    call = log.call("slow")
    log.notice("1")
    log.notice("2")
    result = log.result("slow")
    log.notice("3")
    page = await world.timeline.fetch("s", direction="after", limit=1, view="projected")
    assert page.end.seq == result
    assert spans(page.entries) == [(call, result), (call + 1, call + 1), (call + 2, call + 2)]


@pytest.mark.behaviour("P-228", "P-304")
async def test_entries_that_overlap_a_page_are_taken_in_until_none_is_cut(small_world):
    log = await open_turn(small_world)
    log.notice("before")
    first = log.call("a")
    log.notice()
    log.call("b")
    log.result("a")
    log.notice()
    log.call("c")
    log.result("b")
    log.notice()
    last = log.result("c")
    found = await entries(small_world, limit=1)
    # The last entry is the call c; it overlaps b, which overlaps a.
    assert (found[0].seq, max(entry.end for entry in found)) == (first, last)
    assert sum(count for _, count in _sizes(found)) == last - first + 1
    page = await small_world.timeline.fetch("s", cursor=Cursor(log.session.epoch, first), direction="before",
                                            view="projected")  # fmt: skip
    assert [entry.data["message"] for entry in page.entries] == ["before"]


def _sizes(found):
    return [(entry.seq, sum(last - first + 1 for first, last in entry.source_ranges)) for entry in found]


@pytest.mark.behaviour("P-305")
async def test_before_a_cursor_come_the_last_entries_of_the_earlier_part(world):
    calls = await tools_and_notes(world)
    cursor = Cursor((await world.timeline.fetch("s")).epoch, calls[3][0])
    found = await entries(world, cursor=cursor, direction="before", limit=2)
    assert spans(found) == [calls[2], (calls[2][1] + 1,) * 2]


@pytest.mark.behaviour("P-306")
async def test_where_calls_are_not_folded_a_limit_is_hard(world):
    await tools_and_notes(world)
    for direction in ("tail", "after", "before"):
        for limit in (1, 2, 5, 11):
            assert len((await world.timeline.fetch("s", direction=direction, limit=limit)).rows) == limit


@pytest.mark.behaviour("P-307")
async def test_a_call_that_failed_keeps_its_error(world):
    log = await open_turn(world)
    log.call("c1")
    log.result("c1", "failed", error="no such file")
    [entry] = await entries(world)
    assert (entry.data["status"], entry.data["error"]) == ("failed", "no such file")


@pytest.mark.behaviour("P-307")
@pytest.mark.parametrize("status", ["completed", "canceled"])
async def test_a_call_that_did_not_fail_has_no_error_even_if_it_was_settled_later(world, status):
    log = await open_turn(world)
    log.call("c1")
    log.result("c1", "unknown")
    log.settle("c1", status)
    [entry] = await entries(world)
    assert (entry.data["status"], entry.data.get("error")) == (status, None)


@pytest.mark.behaviour("P-307")
async def test_what_is_unknown_never_replaces_what_is_known_of_a_call(world):
    log = await open_turn(world)
    log.call("c1", "make")
    log.update("c1", detail=UnknownDetail(input=1))
    log.update("c1", detail=ShellDetail("make", output="half"))
    log.result("c1", detail=UnknownDetail(output="whole"))
    [entry] = await entries(world)
    assert entry.data["detail"] == {"type": "shell", "command": "make", "output": "half"}


@pytest.mark.behaviour("P-307")
async def test_fields_of_a_detail_merge_one_by_one_and_another_known_kind_replaces_it(world):
    log = await open_turn(world)
    log.call("c1", "make")
    log.update("c1", detail=ShellDetail("make", cwd="/src"))
    log.result("c1", detail=ShellDetail("make", exit_code=0))
    log.call("c2")
    log.result("c2", detail=ReadDetail("a.txt"))
    made, read = await entries(world)
    assert made.data["detail"] == {"type": "shell", "command": "make", "cwd": "/src", "exit_code": 0}
    assert read.data["detail"] == {"type": "read", "path": "a.txt"}


@pytest.mark.behaviour("P-308")
async def test_text_without_an_id_merges_only_when_no_other_row_lies_between(world):
    log = await open_turn(world)
    log.piece("a")
    log.notice()
    log.piece("b")
    log.usage()  # no row
    log.piece("c")
    texts = [entry.data["text"] for entry in await entries(world) if entry.type == "assistant/message"]
    assert texts == ["a", "bc"]


@pytest.mark.behaviour("P-225")
async def test_a_cursor_in_the_middle_of_a_message_gives_the_whole_message(small_world):
    log = await open_turn(small_world)
    log.user("u1")
    first = log.piece("a", "m")
    middle = log.piece("b", "m")
    last = log.piece("c", "m", final=True)
    log.notice()
    cursor = Cursor(log.session.epoch, middle)
    for direction in ("after", "before"):
        found = await entries(small_world, cursor=cursor, direction=direction)
        [message] = [entry for entry in found if entry.type == "assistant/message"]
        assert (message.data["text"], spans([message])) == ("abc", [(first, last)])


@pytest.mark.behaviour("P-226")
async def test_a_message_stays_one_although_input_joined_the_turn_in_its_middle(world):
    log = await open_turn(world)
    first = log.piece("before ", "m")
    steer = log.steer("s1")
    last = log.piece("after", "m", final=True)
    message, steering = await entries(world)
    assert (message.data["text"], message.source_ranges) == ("before after", ((first, first), (last, last)))
    assert (steering.seq, steering.type) == (steer, "steering/message")


@pytest.mark.behaviour("P-227")
async def test_the_last_message_is_not_joined_to_one_of_another_id(world):
    log = await open_turn(world)
    log.piece("one", "m1")
    log.piece("two", "m2")
    log.piece("three", "m2")
    assert [entry.data["text"] for entry in await entries(world)] == ["one", "twothree"]


@pytest.mark.behaviour("P-224")
async def test_2000_updates_of_a_running_call_are_one_entry_and_one_state(world):
    log = await open_turn(world)
    call = log.call("c1", "make")
    await entries(world)
    for number in range(2_000):
        last = log.update("c1", f"line {number}")
    [entry] = await entries(world)
    assert (entry.seq, entry.end, entry.source_ranges) == (call, last, ((call, last),))
    assert (entry.data["status"], entry.data["detail"]["output"]) == ("running", "line 1999")
    [kept] = world.timeline._feeds["s"].tail.entries
    assert len(kept.fields["detail"]) == 3  # type, command and the last output: one state


async def test_a_terminal_status_stays_whatever_comes_late(world):
    log = await open_turn(world)
    log.call("c1")
    result = log.result("c1", detail=ShellDetail("ls", output="all"))
    late = log.update("c1", "some")
    [entry] = await entries(world)
    assert (entry.data["status"], entry.data["detail"]["output"]) == ("completed", "all")
    assert entry.source_ranges == ((result - 1, late),)


async def test_an_id_that_comes_again_in_a_later_turn_is_another_call(small_world):
    log = await open_turn(small_world)
    log.call("c1", "one")
    log.result("c1")
    log.end()
    log.turn()
    log.call("c1", "two")
    log.result("c1", "failed", error="x")
    first, second = await entries(small_world)
    assert [(e.data["input"]["command"], e.data["status"]) for e in (first, second)] == [
        ("one", "completed"),
        ("two", "failed"),
    ]


async def test_texts_of_two_steps_do_not_merge_without_an_id(world):
    log = await open_turn(world)
    log.piece("one")
    log.step()
    log.piece("two")
    assert [entry.data["text"] for entry in await entries(world)] == ["one", "two"]


async def test_an_up_to_date_client_of_the_projected_view_gets_the_call_anew_when_its_result_comes(small_world):
    log = await open_turn(small_world)
    call = log.call("c1")
    page = await small_world.timeline.fetch("s", view="projected")
    for number in range(30):
        log.notice(str(number))
    result = log.result("c1")
    page = await small_world.timeline.fetch("s", cursor=page.end, direction="after", limit=0, view="projected")
    assert spans(page.entries)[0] == (call, result)
    assert len(page.entries) == 31


async def test_the_projection_of_a_log_needs_no_service(world):
    log = await open_turn(world)
    log.piece("a", "m")
    log.piece("b", "m")
    other = World()
    assert tuple(other.timeline.project(await world.events())) == await entries(world)
