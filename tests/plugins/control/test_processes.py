"""Hosts that are killed and clients that are restarted, in processes of their own: every row, once."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
import pytest

from greenroom.agents import HostGone
from greenroom.errors import GreenroomError
from greenroom.sessions import SessionOwned
from greenroom.timeline import Page
from greenroom_control import Remote
from greenroom_control._address import serving_path
from greenroom_sqlite import SqliteStore

from .procs import LIMIT, lines, processes, replay, update_of

pytestmark = pytest.mark.anyio
# ruff: noqa: ASYNC110, ASYNC240 - other processes have no events, and a small file blocks nobody


@pytest.fixture(scope="module")
def forked():
    with processes() as started:
        yield started


def _page(fields) -> Page:
    return msgspec.json.decode(msgspec.json.encode(fields["page"]), type=Page)


def _cursor(cursor):
    return None if cursor is None else {"epoch": cursor.epoch, "seq": cursor.seq}


@asynccontextmanager
async def _connected(data: Path):
    """A connection to the host that serves the folder, as soon as there is one."""
    remote = Remote(serving_path(data))
    with anyio.fail_after(LIMIT):
        while True:
            try:
                await remote.__aenter__()
                break
            except HostGone:
                await anyio.sleep(0.005)
    try:
        yield remote
    finally:
        await remote.__aexit__()


async def _whole(remote) -> dict:
    """What the server shows of the whole line, page by page."""
    rows, cursor = {}, None
    while True:
        page = _page(await remote.call("fetch", agent="s", cursor=_cursor(cursor), direction="after", limit=1_000))
        assert not rows.keys() & {row.seq for row in page.rows}
        rows |= lines.items(page.rows)
        if not page.has_newer:
            return rows
        cursor = page.end


class Follower:
    """A client by the protocol alone, which loses its connection all the time."""

    def __init__(self, data: Path, choose: random.Random) -> None:
        self.data, self.random = data, choose
        self.client = lines.Client()

    async def step(self, length: float = 0.03) -> None:
        """One connection: poll, or follow for a while, fast or slow."""
        async with _connected(self.data) as remote:
            if self.random.random() < 0.4:
                await self.poll(remote, self.random.choice([1, 3, 9, 200]))
            else:
                with anyio.move_on_after(self.random.random() * length):
                    await self._follow(remote)
                await self.fill(remote)

    async def _follow(self, remote) -> None:
        async with remote.follow("subscribe", agent="s", cursor=_cursor(self.client.cursor)) as updates:
            async for fields in updates:
                self.client.take(update_of(fields))
                if self.random.random() < 0.05:
                    await anyio.sleep(0.01)

    async def poll(self, remote, limit: int = 200) -> None:
        while True:
            cursor = self.client.cursor
            direction = "tail" if cursor is None else "after"
            page = _page(
                await remote.call("fetch", agent="s", cursor=_cursor(cursor), direction=direction, limit=limit)
            )
            self.client.newer(page)
            if not page.has_newer:
                break
        await self.fill(remote)

    async def fill(self, remote) -> None:
        while self.client.wants_older:
            oldest = _cursor(self.client.oldest)
            page = _page(await remote.call("fetch", agent="s", cursor=oldest, direction="before", limit=200))
            if page.epoch != self.client.cursor.epoch:
                return
            self.client.older(page)


async def _schedule(forked, data: Path, seed: int):
    choose = random.Random(seed)
    data.mkdir()
    first = forked.start("write", str(data), seed, None)
    follower = Follower(data, choose)
    for _ in range(choose.randint(2, 6)):
        await _tolerant(follower.step)
    async with anyio.create_task_group() as tasks:  # killed while the client is at it
        tasks.start_soon(_tolerant, follower.step)
        await anyio.sleep(choose.random() * 0.02)
        await anyio.to_thread.run_sync(forked.kill, first)
        second = forked.start("write", str(data), seed + 1, choose.randint(3, 12))
    for _ in range(choose.randint(1, 4)):
        await _tolerant(follower.step)
    with anyio.fail_after(LIMIT):
        while not (data / "done").exists():
            await anyio.sleep(0.005)
    async with _connected(data) as remote:
        await follower.poll(remote)
        shown = await _whole(remote)
    await anyio.to_thread.run_sync(forked.kill, second)
    store = SqliteStore(data / "sessions.db")
    events = await store.read_from("s", 0, limit=None)
    await store.aclose()
    return follower.client, shown, lines.expected_rows(events), events


async def _tolerant(step) -> None:
    """A connection breaks in the middle, or the session is not there yet."""
    with suppress(GreenroomError):
        await step()


@pytest.mark.behaviour("X-002")
@pytest.mark.timeout(1200)
async def test_a_client_ends_with_exactly_the_rows_of_the_server_through_disconnects_lags_recasts_and_a_kill(
    forked, tmp_path, soak_count
) -> None:
    recasts = 0
    for seed in range(soak_count(100)):
        try:
            client, shown, expected, events = await _schedule(forked, tmp_path / str(seed), 1_000 * seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        assert client.rows == shown == expected, f"seed {seed}"
        reasons = [event.data.reason for event in events if event.type == "session/recast"]
        assert reasons.count("repair") == 1
        recasts += client.resets
    assert recasts


@pytest.mark.behaviour("X-002")
async def test_a_cursor_from_before_a_kill_is_stale_after_it(forked, tmp_path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    first = forked.start("write", str(data), 1, None)
    follower = Follower(data, random.Random(1))
    while not follower.client.rows:
        await _tolerant(follower.step)
    old = follower.client.cursor
    await anyio.to_thread.run_sync(forked.kill, first)
    second = forked.start("write", str(data), 2, 1)
    async with _connected(data) as remote:
        with anyio.fail_after(LIMIT):
            while True:
                with suppress(GreenroomError):
                    page = _page(await remote.call("fetch", agent="s", cursor=_cursor(old), direction="after"))
                    if page.epoch != old.epoch:
                        break
                await anyio.sleep(0.005)
        assert (page.stale_cursor, page.reset) == (True, True)
        async with remote.follow("subscribe", agent="s", cursor=_cursor(old)) as updates:
            snapshot = update_of(await anext(updates)).page
        assert (snapshot.stale_cursor, snapshot.reset, snapshot.epoch) == (True, True, page.epoch)
    await anyio.to_thread.run_sync(forked.kill, second)


async def _restarted(forked, data: Path, file: Path, over: anyio.Event) -> int:
    """A client process that is killed every 100 ms."""
    count = 0
    while not over.is_set():
        pid = forked.start("follow", str(data), str(file))
        count += 1
        with anyio.move_on_after(0.1):
            await over.wait()
        await anyio.to_thread.run_sync(forked.kill, pid)
    return count


@pytest.mark.timeout(120)
async def test_two_client_processes_have_the_same_rows_although_one_is_killed_every_100_ms(forked, tmp_path) -> None:
    data, steady, restless = tmp_path / "data", tmp_path / "steady", tmp_path / "restless"
    data.mkdir()
    host = forked.start("talk", str(data))
    reader = forked.start("follow", str(data), str(steady))
    over, restarts = anyio.Event(), []

    async def restless_one() -> None:
        restarts.append(await _restarted(forked, data, restless, over))

    async with _connected(data) as remote, anyio.create_task_group() as tasks:
        tasks.start_soon(restless_one)
        tasks.start_soon(_answer, data)
        await _has(remote)
        answer = await remote.call("send", agent="s", text="talk", wait=True)
        shown = await _whole(remote)
        last = max(shown)
        with anyio.fail_after(LIMIT):
            for file in (steady, restless):
                while (cursor := replay(file)[1].cursor) is None or cursor.seq < last:
                    await anyio.sleep(0.02)
        over.set()
    assert answer["reason"] == {"kind": "completed"}
    assert restarts[0] > 3
    assert len(shown) > 100
    for file in (steady, restless):
        client = replay(file)[1]
        assert list(client.rows.items()) == list(shown.items())
    for pid in (reader, host):
        await anyio.to_thread.run_sync(forked.kill, pid)


async def _has(remote) -> None:
    """Wait until the host has its session."""
    with anyio.fail_after(LIMIT):
        while "s" not in (await remote.call("hello", protocol=1))["sessions"]:
            await anyio.sleep(0.005)


async def _answer(data: Path) -> None:
    """Another client: answers the question as soon as it is open."""
    async with _connected(data) as remote:
        await _has(remote)
        async with remote.follow("state.subscribe", agent="s") as changes:
            async for change in changes:
                for question in change["snapshot"].get("questions", ()):
                    await remote.call("permissions.allow", agent="s", request=question["id"])
                    return


@pytest.mark.parametrize("who", [0, 1])
async def test_either_client_can_answer_and_the_other_one_sees_it_answered(forked, tmp_path, who) -> None:
    data = tmp_path / "data"
    data.mkdir()
    host = forked.start("talk", str(data))
    answered = None
    async with _connected(data) as one, _connected(data) as two:
        answering, watching = (one, two)[:: 1 if who else -1]
        await _has(one)
        await one.call("send", agent="s", text="talk")
        with anyio.fail_after(LIMIT):
            async with watching.follow("state.subscribe", agent="s") as changes:
                async for change in changes:
                    open_now = [question["id"] for question in change["snapshot"].get("questions", ())]
                    if open_now and answered is None:
                        [answered] = open_now
                        await answering.call("permissions.allow", agent="s", request=answered)
                    elif answered is not None and not open_now:
                        break
            assert await watching.call("permissions.list", agent="s") == {"questions": []}
            await watching.call("permissions.allow", agent="s", request=answered)  # the same again is harmless
            with pytest.raises(GreenroomError):
                await watching.call("permissions.deny", agent="s", request=answered)
    await anyio.to_thread.run_sync(forked.kill, host)


async def test_a_session_of_a_live_host_is_refused_to_another_process(forked, tmp_path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    host = forked.start("write", str(data), 1, None)
    store = SqliteStore(data / "sessions.db")
    async with _connected(data) as remote:
        await _has(remote)
        with anyio.fail_after(LIMIT):
            while not [entry for entry in await store.list() if entry.next_seq]:
                await anyio.sleep(0.01)
        with pytest.raises(SessionOwned, match=f"process {host}"):
            await store.acquire("s")
        assert Path((await store.entry("s")).owner.endpoint).parent == data / "endpoints"
    await store.aclose()
    await anyio.to_thread.run_sync(forked.kill, host)
