"""Random logs and random windows: pages agree with the rules written down without any index."""

from __future__ import annotations

import random

import pytest
from timeline_lines import World, Writer, expected_rows, items

from greenroom.timeline import Cursor

pytestmark = pytest.mark.anyio


async def back(timeline, view, limit):
    """Everything, page by page from the end."""
    page = await timeline.fetch("s", limit=limit, view=view)
    found = [*page.rows, *page.entries]
    while page.has_older:
        page = await timeline.fetch("s", cursor=page.start, direction="before", limit=limit, view=view)
        assert len(page.rows) <= limit
        found = [*page.rows, *page.entries, *found]
    return found


async def forth(timeline, view, limit):
    """Everything, page by page from the beginning."""
    page = await timeline.fetch("s", direction="after", limit=limit, view=view)
    found = [*page.rows, *page.entries]
    while page.has_newer:
        page = await timeline.fetch("s", cursor=page.end, direction="after", limit=limit, view=view)
        found += [*page.rows, *page.entries]
    return found


async def check(world, timeline, choose):
    events = await world.events()
    rows = expected_rows(events)
    whole = list(timeline.project(events))
    limit = choose.randint(1, 7)
    for walk in (back, forth):
        assert items(await walk(timeline, "canonical", limit)) == rows
        assert await walk(timeline, "projected", limit) == whole
    assert items((await timeline.fetch("s", limit=0)).rows) == rows
    assert list((await timeline.fetch("s", limit=0, view="projected")).entries) == whole
    cursor = Cursor((await timeline.fetch("s")).epoch, choose.randint(-1, len(events)))
    told = (await timeline.fetch("s", cursor=cursor, direction="after", limit=0)).patches
    page = await timeline.fetch("s", cursor=cursor, direction="after", limit=limit, view="projected")
    assert page.patches == tuple(patch for patch in told if patch.seq <= page.end.seq)
    page = await timeline.fetch("s")
    assert (page.window.min, page.window.max) == ((min(rows), max(rows)) if rows else (None, None))


async def one_log(seed, small):
    choose = random.Random(seed)
    world = World(small if choose.random() < 0.8 else None)
    log = await world.create()
    writer = Writer(seed, log)
    for _ in range(choose.randint(1, 4)):
        writer.write(choose.randint(1, 40))
        if choose.random() < 0.3:
            writer.recast()
        if choose.random() < 0.7:
            await check(world, world.timeline, choose)
    await log.session.flush()
    await check(world, world.timeline, choose)
    fresh = World(small)
    fresh.store = world.store
    fresh._registry()
    await check(fresh, fresh.timeline, choose)  # only stored, as another process sees it


async def test_pages_of_random_logs_side_by_side_are_the_whole(small, soak_count, anyio_backend):
    for seed in range(soak_count(600)):
        try:
            await one_log(seed, small)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
