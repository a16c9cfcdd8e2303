"""Pages: cursors, directions, limits, what is said about the rest of the line."""

from __future__ import annotations

import pytest
from timeline_lines import World

from greenroom.sessions import MemoryStore, SessionDamaged
from greenroom.timeline import Cursor

pytestmark = pytest.mark.anyio


def seqs(page):
    return [row.seq for row in page.rows]


async def notices(world, count):
    log = await world.create()
    for number in range(count):
        log.notice(f"n{number}")
    return log


@pytest.mark.behaviour("P-208")
async def test_a_cursor_of_another_epoch_gets_a_bounded_tail_and_is_told_to_start_over(world):
    await notices(world, 300)
    for limit, expected in ((5, 5), (0, 200), (-1, 200), (10**9, 200)):
        page = await world.timeline.fetch("s", cursor=Cursor("other", 3), direction="after", limit=limit)
        assert (page.stale_cursor, page.reset, page.gap) == (True, True, False)
        assert seqs(page) == list(range(300 - expected, 300))
        assert page.has_older
        assert not page.has_newer
    page = await world.timeline.fetch("s", cursor=Cursor("other", 3), direction="before", view="projected")
    assert (page.stale_cursor, page.reset, len(page.entries)) == (True, True, 200)


class Forgetful(MemoryStore):
    """A store that lost the beginning of its logs."""

    lost = 0

    async def read_from(self, session_id, seq=0, *, types=None, **query):
        if seq < self.lost and types is None:
            raise SessionDamaged("gone", session_id=session_id, seq=seq)
        found = await super().read_from(session_id, seq, types=types, **query)
        return [event for event in found if event.seq >= self.lost]


@pytest.mark.behaviour("P-209", "P-223")
async def test_a_cursor_older_than_what_is_kept_gets_a_bounded_tail_and_hears_of_the_gap(small_world):
    world = small_world
    world.store = Forgetful()
    world._registry()
    log = await notices(world, 400)
    await log.session.flush()
    await world.close()
    world.store.lost = 37
    world._registry()
    epoch = (await world.timeline.fetch("s")).epoch
    for limit in (0, 10**9):
        page = await world.timeline.fetch("s", cursor=Cursor(epoch, 20), direction="after", limit=limit)
        assert (page.gap, page.reset, page.stale_cursor) == (True, True, False)
        assert seqs(page) == list(range(200, 400))
    page = await world.timeline.fetch("s", cursor=Cursor(epoch, 36), direction="after", limit=2)
    assert (page.gap, page.reset, seqs(page)) == (False, False, [37, 38])
    page = await world.timeline.fetch("s", limit=0)
    assert (seqs(page)[0], page.window.min, page.has_older) == (37, 37, False)


@pytest.mark.behaviour("P-210")
async def test_pages_before_a_cursor_hold_the_rows_just_below_it_and_know_what_lies_on_either_side(world):
    await notices(world, 10)
    epoch = (await world.timeline.fetch("s")).epoch
    middle = await world.timeline.fetch("s", cursor=Cursor(epoch, 7), direction="before", limit=3)
    assert (seqs(middle), middle.has_older, middle.has_newer) == ([4, 5, 6], True, True)
    first = await world.timeline.fetch("s", cursor=middle.start, direction="before", limit=4)
    assert (seqs(first), first.has_older, first.has_newer) == ([0, 1, 2, 3], False, True)
    none = await world.timeline.fetch("s", cursor=first.start, direction="before")
    assert (none.rows, none.has_older, none.has_newer, none.start) == ((), False, True, None)


@pytest.mark.behaviour("P-211")
async def test_history_is_never_trimmed_and_limit_0_gives_all_of_it(world):
    log = await notices(world, 3_000)
    log.usage()
    page = await world.timeline.fetch("s", limit=0)
    assert seqs(page) == list(range(3_000))
    assert (page.window.min, page.window.max, page.window.next) == (0, 2_999, 3_001)
    assert (page.has_older, page.has_newer) == (False, False)


@pytest.mark.behaviour("P-212")
async def test_rows_come_from_memory_when_nothing_keeps_them(world):
    log = await notices(world, 20)
    assert world.store._medium.sessions["s"].events == []  # nothing was flushed
    assert len((await world.timeline.fetch("s")).rows) == 20
    assert isinstance(log.session.tail, tuple)


@pytest.mark.behaviour("P-213")
async def test_a_store_that_was_injected_gets_every_row_and_serves_them_without_the_session(small_world):
    world = small_world
    log = await notices(world, 50)
    live = await world.timeline.fetch("s", limit=0)
    await log.session.flush()
    assert len(world.store._medium.sessions["s"].events) == 50
    await world.close()
    assert world.sessions.get("s") is None
    assert (await world.timeline.fetch("s", limit=0)).rows == live.rows
    other = World()
    other.store = world.store
    other._registry()
    assert (await other.timeline.fetch("s", limit=0)) == live


@pytest.mark.behaviour("P-215")
async def test_a_limit_is_200_unless_given_and_floored_and_0_or_less_is_all(world):
    await notices(world, 300)
    lengths = [len((await world.timeline.fetch("s", limit=limit)).rows) for limit in (200, 2.9, -1, -1e9, 0, 0.5, 1e9)]
    assert len((await world.timeline.fetch("s")).rows) == 200
    assert lengths == [200, 2, 300, 300, 300, 300, 300]


@pytest.mark.behaviour("P-216")
async def test_an_empty_line_has_no_rows_no_flags_and_no_border_rows(world):
    log = await world.create()
    log.usage()
    for direction in ("tail", "after", "before"):
        for view in ("canonical", "projected"):
            page = await world.timeline.fetch("s", direction=direction, view=view)
            assert (page.rows, page.entries, page.patches, page.start) == ((), (), (), None)
            assert (page.has_older, page.has_newer, page.reset) == (False, False, False)
            assert (page.window.min, page.window.max, page.window.next) == (None, None, 1)


@pytest.mark.behaviour("P-216")
async def test_after_the_end_a_page_is_empty_and_has_older_rows(world):
    await notices(world, 3)
    tail = await world.timeline.fetch("s")
    assert not tail.has_newer
    for seq in (2, 3, 10**12):
        page = await world.timeline.fetch("s", cursor=Cursor(tail.epoch, seq), direction="after")
        assert (page.rows, page.has_older, page.has_newer, page.end.seq) == ((), True, False, 2)
    before_all = await world.timeline.fetch("s", cursor=Cursor(tail.epoch, -1), direction="after")
    assert (seqs(before_all), before_all.has_older) == ([0, 1, 2], False)


@pytest.mark.behaviour("P-217")
async def test_before_without_a_cursor_starts_at_the_end(world):
    await notices(world, 5)
    assert seqs(await world.timeline.fetch("s", direction="before", limit=2)) == [3, 4]


@pytest.mark.behaviour("P-218")
async def test_seqs_increase_and_only_a_recast_changes_the_epoch(world):
    log = await notices(world, 3)
    first = await world.timeline.fetch("s")
    log.turn()
    log.user("u1")
    await log.session.flush()
    await world.close()
    log = await world.resume()
    later = await world.timeline.fetch("s")
    assert later.epoch == first.epoch
    assert seqs(later) == sorted(set(seqs(later)))
    log.recast(2)
    log.notice("after")
    page = await world.timeline.fetch("s")
    assert page.epoch not in (first.epoch, "")
    assert seqs(page) == [0, 1, page.window.max]
    assert page.window.max > later.window.max


@pytest.mark.behaviour("P-219")
async def test_acknowledging_a_prompt_adds_the_id_of_the_provider_and_changes_nothing_else(world):
    log = await world.create()
    log.turn()
    log.user("u1")
    [row] = (await world.timeline.fetch("s")).rows
    seq = log.acknowledge("u1", "native-1")
    [later] = (await world.timeline.fetch("s")).rows
    assert later.data == {**row.data, "provider_message_id": "native-1"}
    assert (later.seq, later.time, later.type, later.patched) == (row.seq, row.time, row.type, seq)


@pytest.mark.behaviour("P-220")
async def test_a_page_cannot_be_changed_and_neither_can_what_it_shows_be_through_it(world):
    await notices(world, 2)
    page = await world.timeline.fetch("s")
    with pytest.raises(AttributeError):
        page.rows[0].seq = 7
    page.rows[0].data["message"] = "changed"
    assert isinstance(page.rows, tuple)
    assert (await world.timeline.fetch("s")).rows[0].data["message"] == "n0"


@pytest.mark.behaviour("P-221")
async def test_rows_of_a_seed_keep_their_places(world):
    log = await notices(world, 4)
    log.usage()
    log.notice("last")
    await log.session.flush()
    entered = world.sessions.enter(await world.sessions.fork("s", child_id="child"))
    assert entered.session.id == "child"
    parent, child = await world.timeline.fetch("s"), await world.timeline.fetch("child")
    assert child.rows == parent.rows
    assert child.epoch != parent.epoch


@pytest.mark.behaviour("P-222")
async def test_a_cursor_beyond_the_end_is_clamped_for_what_lies_before_it(world):
    await notices(world, 5)
    epoch = (await world.timeline.fetch("s")).epoch
    page = await world.timeline.fetch("s", cursor=Cursor(epoch, 10**15), direction="before", limit=2)
    assert (seqs(page), page.has_newer) == ([3, 4], False)


@pytest.mark.behaviour("X-007")
async def test_a_client_whose_cursor_stands_behind_a_patch_of_an_older_row_gets_it_on_reconnect(small_world):
    log = await small_world.create()
    log.turn()
    row = log.user("u1")
    for number in range(40):
        log.notice(f"n{number}")
    page = await small_world.timeline.fetch("s", limit=0)
    seq = log.acknowledge("u1", "native-1")
    later = await small_world.timeline.fetch("s", cursor=page.end, direction="after")
    [patch] = later.patches
    assert (patch.seq, patch.update, patch.data) == (seq, row, {"provider_message_id": "native-1"})
    assert (later.rows, later.end.seq) == ((), seq)


async def test_a_patch_that_lies_in_the_store_comes_with_the_rows_behind_the_cursor(small_world):
    log = await small_world.create()
    log.turn()
    row = log.user("u1")
    for number in range(40):
        log.notice(f"n{number}")
    cursor = (await small_world.timeline.fetch("s")).end
    log.acknowledge("u1")
    for number in range(60):
        log.notice(f"m{number}")
    page = await small_world.timeline.fetch("s", cursor=cursor, direction="after", limit=3)
    assert ([patch.update for patch in page.patches], len(page.rows), page.has_newer) == ([row], 3, True)
    page = await small_world.timeline.fetch("s", cursor=page.end, direction="after", limit=3)
    assert page.patches == ()


async def test_a_turn_that_failed_is_a_row_and_one_that_ended_well_is_none(world):
    log = await world.create()
    log.turn()
    log.end()
    log.turn()
    failed = log.fail("no credit")
    [row] = (await world.timeline.fetch("s")).rows
    assert (row.seq, row.data["reason"]["message"]) == (failed, "no credit")


async def test_rows_that_a_recast_hides_are_gone_and_what_was_said_about_the_others_stays(small_world):
    log = await small_world.create()
    log.turn()
    first = log.user("u1")
    log.piece("hello", final=True)
    cut = log.user("u2")
    log.acknowledge("u1", "native-1")
    log.recast(cut)
    later = log.notice("again")
    page = await small_world.timeline.fetch("s")
    assert seqs(page) == [first, first + 1, later]
    assert page.rows[0].data["provider_message_id"] == "native-1"


async def test_items_of_a_sub_agent_are_bounded_on_its_call_and_counted(small_world):
    log = await small_world.create()
    log.turn()
    call = log.call("c1")
    log.child("k", "c1", title="look")
    for number in range(60):
        log.did("k", str(number))
    expected = {"title": "look", "items": [{"text": str(n)} for n in range(10, 60)], "dropped": 10}
    for number in range(30):
        log.notice(str(number))
    live = await small_world.timeline.fetch("s", limit=0)
    assert live.rows[0].data["children"] == {"k": expected}
    await log.session.flush()
    fresh = World()
    fresh.store = small_world.store
    fresh._registry()
    stored = await fresh.timeline.fetch("s", limit=0)
    assert stored.rows[0].seq == call
    assert stored.rows[0].data["children"] == {"k": expected}


async def test_a_sub_agent_that_was_removed_is_no_longer_shown(world):
    log = await world.create()
    log.turn()
    log.call("c1")
    log.child("k", "c1", title="look")
    log.did("k", "one")
    log.gone("k")
    [row] = (await world.timeline.fetch("s")).rows
    assert row.data["children"] == {}
