"""What clients get wrong, and readers that misbehave."""

from __future__ import annotations

import math

import anyio
import anyio.lowlevel
import pytest
from timeline_lines import Client, expected_rows

from greenroom.sessions import MemoryStore, SessionDamaged, SessionNotFound
from greenroom.timeline import Cursor

pytestmark = pytest.mark.anyio

VIEWS = ("canonical", "projected")
DIRECTIONS = ("tail", "after", "before")


async def some_line(world):
    log = await world.create()
    log.turn()
    log.user("u1")
    for text in "abc":
        log.piece(text, "m")
    log.call("c1")
    log.acknowledge("u1")
    log.result("c1")
    return log


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("direction", DIRECTIONS)
async def test_any_cursor_and_limit_gets_a_page_that_is_consistent_in_itself(small_world, direction, view):
    log = await some_line(small_world)
    epoch = log.session.epoch
    whole = await small_world.timeline.fetch("s", limit=0, view=view)
    for seq in (-(10**18), -2, -1, *range(len(log.session) + 2), 10**9, 2**63, 10**30):
        for limit in (0, -1, 1, 10**9, 10**30, math.inf, 0.1, 1.9):
            page = await small_world.timeline.fetch(
                "s", cursor=Cursor(epoch, seq), direction=direction, limit=limit, view=view
            )
            found = [*page.rows, *page.entries]
            assert not page.reset
            assert all(shown in (*whole.rows, *whole.entries) for shown in found)
            assert [shown.seq for shown in found] == sorted({shown.seq for shown in found})
            if direction == "after" and seq < 0 and limit in (0, -1, 10**9):
                assert found == [*whole.rows, *whole.entries]
            if direction == "after" and seq >= len(log.session):
                assert found == []


@pytest.mark.parametrize("limit", [math.nan, "200", None, True, [1]])
async def test_a_limit_that_is_no_number_is_refused(world, limit):
    await world.create()
    with pytest.raises(ValueError, match="limit"):
        await world.timeline.fetch("s", limit=limit)


@pytest.mark.parametrize("query", [{"direction": "sideways"}, {"view": "pretty"}])
async def test_an_unknown_direction_or_view_is_refused_with_the_known_ones(world, query):
    await world.create()
    with pytest.raises(ValueError, match="tail, after, before, canonical, projected"):
        await world.timeline.fetch("s", **query)


@pytest.mark.parametrize("session_id", ["nobody", "with.dots-and_more"])
async def test_an_unknown_session_is_refused_and_leaves_nothing(world, session_id):
    for _ in range(3):
        with pytest.raises(SessionNotFound):
            await world.timeline.fetch(session_id)
    assert session_id not in world.timeline._feeds


async def test_a_reader_that_raises_disturbs_nobody(world):
    log = await world.create()
    calm = Client()
    async with world.timeline.subscribe("s") as updates:
        calm.take(await anext(updates))
        with pytest.raises(RuntimeError, match="reader"):
            async with world.timeline.subscribe("s") as others:
                async for _ in others:
                    raise RuntimeError("a broken reader")
        log.notice("one")
        calm.take(await anext(updates))
    assert list(calm.rows) == [0]
    assert world.timeline._feeds["s"].readers == 0


async def test_1000_readers_that_never_read_cost_no_memory_and_can_still_read_later(small_world):
    log = await small_world.create()
    log.notice("first")
    timeline = small_world.timeline
    async with anyio.create_task_group() as tasks:
        gate, ready, done = anyio.Event(), [], []

        async def sleeper():
            client = Client()
            async with timeline.subscribe("s") as updates:
                client.take(await anext(updates))
                ready.append(client)
                await gate.wait()
                while len(client.rows) < 201:
                    client.take(await anext(updates))
                done.append(client)

        for _ in range(1_000):
            tasks.start_soon(sleeper)
        while len(ready) < 1_000:
            await anyio.lowlevel.checkpoint()
        for number in range(200):
            log.notice(str(number))
        await timeline.fetch("s")
        line = timeline._feeds["s"].line
        assert len(line.changes) <= 2 * small_world.sizes.keep
        gate.set()
    expected = expected_rows(await small_world.events())
    assert len(done) == 1_000
    assert all(client.rows == expected for client in done)


class Broken(MemoryStore):
    """A store that fails when it is told to."""

    broken = False

    async def read_from(self, *args, **query):
        if self.broken:
            raise SessionDamaged("the disk is gone")
        return await super().read_from(*args, **query)


async def test_a_store_that_fails_fails_the_page_and_not_the_next_one(small_world):
    small_world.store = Broken()
    small_world._registry()
    log = await some_line(small_world)
    for number in range(50):
        log.notice(str(number))
    await log.session.flush()
    await small_world.close()
    small_world.store.broken = True
    for _ in range(2):
        with pytest.raises(SessionDamaged, match="disk"):
            await small_world.timeline.fetch("s")
    small_world.store.broken = False
    page = await small_world.timeline.fetch("s", limit=0)
    assert {row.seq for row in page.rows} == set(expected_rows(await small_world.events()))


async def test_lines_that_nobody_follows_are_let_go_and_come_back(world):
    from greenroom_timeline._service import LINES

    for number in range(LINES + 10):
        log = await world.create(f"s{number}")
        log.notice(str(number))
        await world.timeline.fetch(f"s{number}")
    assert len(world.timeline._feeds) <= LINES + 1
    assert [row.data["message"] for row in (await world.timeline.fetch("s0")).rows] == ["0"]


async def test_a_patch_for_a_row_that_never_was_is_left_out(small_world):
    log = await some_line(small_world)
    before = await small_world.timeline.fetch("s")
    log.acknowledge("nobody")
    log.settle("nothing")
    log.did("no-child", "x")
    log.child("orphan", title="x")
    page = await small_world.timeline.fetch("s", cursor=before.end, direction="after")
    assert (page.rows, page.patches, page.end) == ((), (), before.end)
