"""Clients that lose the connection, lag, are restarted with their host: in the end they have the server's rows."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack

import anyio
import anyio.lowlevel
import pytest
from timeline_lines import Client, World, Writer, expected_rows

pytestmark = pytest.mark.anyio


async def settle():
    """Let the others run until they wait, without a clock."""
    for _ in range(12):
        await anyio.lowlevel.checkpoint()


class Follower:
    """A client with a cursor: polls or subscribes, reads or does not."""

    def __init__(self, world, choose):
        self.world, self.random = world, choose
        self.client = Client()

    async def poll(self, limit=None):
        """Fetch what is new, and after a reset what is older too."""
        timeline = self.world.timeline
        limit = limit or self.random.randint(1, 9)
        while True:
            cursor = self.client.cursor
            direction = "tail" if cursor is None else "after"
            page = await timeline.fetch("s", cursor=cursor, direction=direction, limit=limit)
            self.client.newer(page)
            if not page.has_newer:
                break
        await self.fill(limit)

    async def fill(self, limit=200):
        while self.client.wants_older:
            page = await self.world.timeline.fetch("s", cursor=self.client.oldest, direction="before", limit=limit)
            if page.epoch != self.client.cursor.epoch:
                return  # it started over meanwhile; the next poll says so
            self.client.older(page)

    async def follow(self, steps):
        """Subscribe, and read while others write; the connection breaks at any point."""
        async with AsyncExitStack() as stack:
            updates = await stack.enter_async_context(self.world.timeline.subscribe("s", self.client.cursor))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(self._read, updates)
            for step in steps:
                await step()
                for _ in range(self.random.randint(0, 3)):
                    await anyio.lowlevel.checkpoint()
                if self.random.random() < 0.5:
                    await settle()
            if self.random.random() < 0.5:
                await settle()
            tasks.cancel_scope.cancel()
        await self.fill()

    async def _read(self, updates):
        async for update in updates:
            self.client.take(update)
            if self.random.random() < 0.1:
                for _ in range(self.random.randint(1, 30)):  # now it is slow
                    await anyio.lowlevel.checkpoint()


class Schedule:
    def __init__(self, seed, sizes):
        self.random = random.Random(seed)
        self.world = World(sizes)
        self.seed = seed

    async def run(self):
        self.writer = Writer(self.seed, await self.world.create())
        await self.write()
        await self.writer.log.session.flush()  # so that a crash leaves a session to resume
        followers = [Follower(self.world, self.random) for _ in range(2)]
        for _ in range(self.random.randint(2, 7)):
            action = self.random.choice([self.write, self.write, self.burst, self.recast, self.pause, self.crash, None])
            if action is not None:
                await action()
            follower = self.random.choice(followers)
            if self.random.random() < 0.4:
                await follower.poll()
            else:
                steps = self.random.choices([self.write, self.burst, self.recast, self.pause], [5, 2, 1, 1], k=3)
                await follower.follow(steps)
        expected = expected_rows(await self.world.events())
        for follower in followers:
            await follower.poll()
            assert follower.client.rows == expected  # each once: the client refuses a row that it has
        return followers

    async def write(self):
        self.writer.write(self.random.randint(1, 6))

    async def burst(self):
        self.writer.write(self.random.randint(10, 30))

    async def recast(self):
        if self.random.random() < 0.5:
            self.writer.recast()
            self.writer.write(self.random.randint(0, 4))

    async def pause(self):
        """The agent is closed, and resumed some time later."""
        await self.world.close()
        if self.random.random() < 0.5:
            await settle()
        self.writer.log = await self.world.resume()

    async def crash(self):
        if self.random.random() < 0.5:
            await self.writer.log.session.flush()
        self.writer.write(self.random.randint(0, 6))
        self.writer.log = await self.world.crash()
        self.writer.users.clear()


@pytest.mark.timeout(900)
async def test_a_client_ends_with_exactly_the_rows_of_the_server_whatever_happened_in_between(
    small, soak_count, anyio_backend
):
    lags = recasts = resets = 0
    # of five schedules one runs on the slower loop
    seeds = [seed for seed in range(soak_count(10_000)) if (seed % 5 == 0) == (anyio_backend == "trio")]
    for seed in seeds:
        try:
            followers = await Schedule(seed, small).run()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        lags += sum(follower.client.lags for follower in followers)
        recasts += sum(follower.client.recasts for follower in followers)
        resets += sum(follower.client.resets for follower in followers)
    assert lags > 20
    assert recasts > 20
    assert resets > recasts  # also those that were told by a poll


async def until_the_turn_ends(world, wait, seen):
    for _ in range(wait):
        await anyio.lowlevel.checkpoint()
    client = Client()
    async with world.timeline.subscribe("s") as updates:
        async for update in updates:
            client.take(update)
            ends = [seq for seq, (kind, _) in client.rows.items() if kind == "turn/end"]
            if ends:
                seen.append(len(ends))
                await settle()
                return


async def test_a28_a_subscription_during_completion_gives_the_end_of_the_turn_exactly_once(
    small, soak_count, anyio_backend
):
    for seed in range(soak_count(1_000)):
        choose = random.Random(seed)
        log = await (world := World(small if choose.random() < 0.5 else None)).create()
        log.turn()
        seen = []

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(until_the_turn_ends, world, choose.randint(0, 12), seen)
            for number in range(choose.randint(0, 8)):
                log.piece(f"{number} ", "m")
                await anyio.lowlevel.checkpoint()
            log.fail()
        assert seen == [1, 1, 1], f"seed {seed}"
