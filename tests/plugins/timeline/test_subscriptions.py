"""Following a line: what a reader gets, and when."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import msgspec
import pytest
from timeline_lines import Client, expected_rows

from greenroom.sessions import SessionNotFound
from greenroom.timeline import Cursor, Lagged, Patched, Recast, RowAdded, Snapshot

pytestmark = pytest.mark.anyio


async def settle():
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def take(updates, count):
    return [await anext(updates) for _ in range(count)]


async def test_a_reply_that_was_streamed_is_one_row_and_one_update_of_the_epoch_that_fetch_reports(world):
    log = await world.create()
    log.turn()
    async with world.timeline.subscribe("s") as updates:
        await anext(updates)
        seq = log.piece("a whole reply", "m", final=True)
        log.usage()
        log.end()
        update = await anext(updates)
        page = await world.timeline.fetch("s")
        assert (update.row.seq, page.rows) == (seq, (update.row,))
        assert (updates.cursor, page.end) == (Cursor(page.epoch, seq),) * 2


async def test_a_snapshot_comes_first_then_each_row_and_patch_with_the_one_before(world):
    log = await world.create()
    log.turn()
    row = log.user("u1")
    async with world.timeline.subscribe("s") as updates:
        snapshot = await anext(updates)
        assert [shown.seq for shown in snapshot.page.rows] == [row]
        log.usage()
        piece = log.piece("a")
        patch = log.acknowledge("u1", "p")
        first, second = await take(updates, 2)
        assert isinstance(first, RowAdded)
        assert (first.prev, first.row.seq) == (row, piece)
        assert isinstance(second, Patched)
        assert (second.prev, second.patch.seq, second.patch.update) == (piece, patch, row)


async def test_what_is_written_between_the_subscription_and_its_first_read_comes_once(world):
    log = await world.create()
    log.notice("before")
    async with world.timeline.subscribe("s") as updates:
        log.notice("between")
        snapshot = await anext(updates)
        assert [row.data["message"] for row in snapshot.page.rows] == ["before", "between"]
        log.notice("after")
        assert (await anext(updates)).row.data["message"] == "after"


async def test_a_reader_with_a_cursor_gets_everything_above_it_in_pages(world):
    log = await world.create()
    for number in range(500):
        log.notice(str(number))
    epoch = (await world.timeline.fetch("s")).epoch
    async with world.timeline.subscribe("s", Cursor(epoch, 49)) as updates:
        pages = [update.page for update in await take(updates, 3)]
        assert [len(page.rows) for page in pages] == [200, 200, 50]
        assert [page.has_newer for page in pages] == [True, True, False]


async def test_a_reader_that_fell_behind_is_told_and_loses_nothing(small_world):
    log = await small_world.create()
    client = Client()
    async with small_world.timeline.subscribe("s") as updates:
        client.take(await anext(updates))
        for number in range(100):
            log.notice(str(number))
            if number == 50:
                await small_world.timeline.fetch("s")  # another client keeps the line moving
        lagged, snapshot = await take(updates, 2)
        assert isinstance(lagged, Lagged)
        assert lagged.cursor.seq == -1
        client.take(lagged)
        client.take(snapshot)
        assert list(client.rows) == list(range(100))
        log.notice("live again")
        client.take(await anext(updates))
    assert client.rows == expected_rows(await small_world.events())


async def test_a_recast_announces_the_new_epoch_and_then_shows_the_new_line(world):
    log = await world.create()
    for number in range(5):
        log.notice(str(number))
    async with world.timeline.subscribe("s") as updates:
        old = (await anext(updates)).page
        seq = log.recast(2, "rewind")
        log.notice("new")
        recast, snapshot = await take(updates, 2)
        assert isinstance(recast, Recast)
        assert (recast.seq, recast.reason, recast.keep_before) == (seq, "rewind", 2)
        assert recast.epoch == log.session.epoch != old.epoch
        assert isinstance(snapshot, Snapshot)
        assert (snapshot.page.epoch, snapshot.page.reset) == (recast.epoch, True)
        assert [row.data["message"] for row in snapshot.page.rows] == ["0", "1", "new"]


async def test_a_stale_cursor_makes_the_first_snapshot_a_new_start(world):
    log = await world.create()
    log.notice("one")
    old = (await world.timeline.fetch("s")).end
    log.recast()
    async with world.timeline.subscribe("s", old) as updates:
        first = await anext(updates)
        if isinstance(first, Recast):
            first = await anext(updates)
        assert first.page.reset
        assert first.page.stale_cursor


async def test_a_subscription_outlives_the_agent_and_goes_on_when_the_session_is_resumed(world):
    log = await world.create()
    log.notice("one")
    async with world.timeline.subscribe("s") as updates:
        await anext(updates)
        log.notice("two")
        await world.close()
        assert (await anext(updates)).row.data["message"] == "two"
        with anyio.move_on_after(0):
            await anext(updates)
        log = await world.resume()
        log.notice("three")
        assert (await anext(updates)).row.data["message"] == "three"


async def test_a_session_that_is_only_stored_can_be_followed_from_its_snapshot(world):
    log = await world.create()
    log.notice("one")
    await world.close()
    async with world.timeline.subscribe("s") as updates:
        assert len((await anext(updates)).page.rows) == 1


async def test_an_update_is_encoded_once_for_all_readers(world):
    log = await world.create()
    async with world.timeline.subscribe("s") as one, world.timeline.subscribe("s") as two:
        await anext(one)
        await anext(two)
        log.notice("hello")
        first, second = await anext(one), await anext(two)
        assert first is second
        assert first.wire is second.wire
        assert msgspec.json.decode(first.wire) == {
            "kind": "row",
            "row": {"seq": 0, "time": first.row.time, "type": "notice", "item": {"level": "info", "message": "hello"}},
            "prev": -1,
        }


async def test_a_cancelled_read_took_nothing(world):
    log = await world.create()
    async with world.timeline.subscribe("s") as updates:
        await anext(updates)
        for _ in range(3):
            with anyio.move_on_after(0):
                await anext(updates)
        log.notice("one")
        assert (await anext(updates)).row.seq == 0


async def test_an_unknown_session_is_refused_when_the_subscription_begins(world):
    with pytest.raises(SessionNotFound):
        async with world.timeline.subscribe("nobody"):
            pytest.fail("it began")


async def test_readers_come_to_their_end_when_the_timeline_closes(world):
    await world.create()
    ended = []

    async def read():
        async with world.timeline.subscribe("s") as updates:
            async for _ in updates:
                pass
            ended.append(True)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await settle()
        world.timeline.close()
    assert ended == [True]
