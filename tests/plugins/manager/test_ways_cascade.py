"""Cascades at scale: how many at a time, how long, and that a kill in the middle is finished at the next start."""

from __future__ import annotations

import copy
import math
import random
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from greenroom import Host
from greenroom.agents import AgentDirectory, process_started
from greenroom.providers import ProviderError
from greenroom.sessions import Medium
from greenroom_manager.ways import BOUND
from greenroom_manager.ways._marks import NAMESPACE
from greenroom_testing import ScriptedProvider

from . import victim
from .house import JUMPING, house

SLOWEST = 10.0


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


class Closing:
    """A provider's way of closing that takes its time and counts how many do so at once."""

    def __init__(self, *, bad=()) -> None:
        self.now = self.most = self.calls = 0
        self.bad = set(bad)
        self._random = random.Random(7)

    async def __call__(self, session) -> None:
        self.now, self.calls = self.now + 1, self.calls + 1
        self.most = max(self.most, self.now)
        try:
            await anyio.sleep(SLOWEST if self.calls % 3 else self._random.uniform(0, SLOWEST))
        finally:
            self.now -= 1
        if session.request.session_id in self.bad:
            raise ProviderError("it would not die")


def tree(levels):
    """The id and the parent of each descendant, so many on each level."""
    above = ["root"]
    for depth, count in enumerate(levels):
        level = [(f"{depth}-{n}", above[n % len(above)]) for n in range(count)]
        yield from level
        above = [agent_id for agent_id, _ in level]


@pytest.mark.anyio
@pytest.mark.parametrize(("way", "levels"), [("archive", [200]), ("archive", [80, 70, 50]), ("delete", [100, 100])])
async def test_200_descendants_take_as_long_as_their_levels_and_no_more_at_a_time_than_allowed(way, levels) -> None:
    async with house() as home:
        await home.create("root", title="root")
        for agent_id, parent in tree(levels):
            await home.create(agent_id, parent=parent, title=agent_id)
        home.provider.closing = closing = Closing(bad={"0-7"})
        began = anyio.current_time()
        cascade = await getattr(home.directory, way)("root")
        took = anyio.current_time() - began
        home.provider.closing = ScriptedProvider().closing
        assert closing.most == BOUND == 16
        assert took <= SLOWEST * (1 + sum(math.ceil(count / BOUND) for count in levels))
        kept = {"0-7", "root"} if way == "delete" else {"0-7"}
        assert set(cascade.failed) == kept
        assert len(cascade.results) == 201
        assert home.ways.idle


@pytest.mark.anyio
async def test_a_chain_of_children_is_archived_from_the_top_to_the_bottom() -> None:
    async with house() as home:
        chain = ["root", *(f"c{n}" for n in range(60))]
        for agent_id, parent in zip(chain, [None, *chain], strict=False):
            await home.create(agent_id, parent=parent, title=agent_id)
        cascade = await home.directory.archive("root")
        assert list(cascade.results) == chain
        assert cascade.failed == {}


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["archive", "delete"])
@pytest.mark.parametrize("after", range(0, 14, 2))
async def test_what_a_dead_host_has_begun_is_finished_by_the_next(way, after) -> None:
    medium, gate = Medium(), anyio.Event()
    provider = ScriptedProvider()

    async def closing(_session) -> None:
        closing.calls += 1
        if closing.calls > after:
            gate.set()
            await anyio.sleep_forever()

    closing.calls = 0
    async with anyio.create_task_group() as tasks:
        async with house(medium, provider, kill=True) as home:
            for agent_id, parent in victim.parents(12).items():
                await home.create(agent_id, parent=parent, title=agent_id)
            await home.create("stranger", title="stranger")
            provider.closing = closing
            tasks.start_soon(_contained, getattr(home.directory, way), "root")
            await gate.wait()
            await anyio.wait_all_tasks_blocked()
            # What comes now reaches the store no more, as if the process had been killed.
            medium = _copy(medium)
        tasks.cancel_scope.cancel()
    assert [row.key for row in medium.records.values() if row.key == f"{way}/root"] != []
    async with house(medium) as home:
        await home.until(lambda: (NAMESPACE, f"{way}/root") not in medium.records and home.ways.idle)
        left = {snapshot.record.id for snapshot in await home.directory.list()}
        assert left == {"stranger"}
        assert await home.archived() == (set(victim.parents(12)) if way == "archive" else set())
        assert home.ways.idle


async def _contained(do, agent_id) -> None:
    try:
        await do(agent_id)
    except Exception:
        return


def _copy(medium: Medium) -> Medium:
    return Medium(sessions=copy.deepcopy(medium.sessions), records=dict(medium.records), mails=medium.mails)


@pytest.mark.anyio
async def test_what_was_detached_or_restored_in_time_is_not_archived_by_the_next_host() -> None:
    medium, provider = Medium(), ScriptedProvider()
    async with anyio.create_task_group() as tasks:
        async with house(medium, provider, kill=True) as home:
            for agent_id, parent in (("root", None), ("restored", "root"), ("slow", "root"), ("below", "slow"),
                                     ("detached", "slow")):  # fmt: skip
                await home.create(agent_id, parent=parent, title=agent_id)
                if agent_id != "slow":
                    await home.directory.close(agent_id)
            reached = anyio.Event()

            async def closing(_session) -> None:
                reached.set()
                await anyio.sleep_forever()

            provider.closing = closing
            tasks.start_soon(_contained, home.directory.archive, "root")
            await reached.wait()
            await anyio.wait_all_tasks_blocked()
            await home.directory.unarchive("restored")
            await home.directory.detach("detached")
            medium = _copy(medium)
        tasks.cancel_scope.cancel()
    async with house(medium) as home:
        await home.until(lambda: (NAMESPACE, "archive/root") not in medium.records and home.ways.idle)
        assert await home.archived() == {"root", "slow", "below"}


@pytest.mark.anyio
async def test_what_a_living_process_has_begun_is_left_to_it() -> None:
    medium = Medium()
    async with house(medium) as home:
        await home.family(("root", None), ("child", "root"))
        marks = home.ways._cascades._marks
        mark = await marks.put("archive", "root", [])
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])  # noqa: ASYNC220 - ours
        try:
            theirs = msgspec.structs.replace(
                mark, members=[("root", ""), ("child", "root")], pid=other.pid, started=process_started(other.pid)
            )
            await home.store.records(NAMESPACE).put(mark.key, msgspec.json.encode(theirs))
            async with house(medium) as second:
                await anyio.wait_all_tasks_blocked()
                assert await second.archived() == set()
            other.kill()
            other.wait()
            async with house(medium) as third:
                await third.until(lambda: (NAMESPACE, mark.key) not in medium.records)
                assert await third.archived() == {"root", "child"}
        finally:
            other.kill()
            other.wait()


KILLS = 20
COUNT = 12


async def finished(folder: Path, way: str) -> None:
    """Start a host where another one was killed, and look at what it makes of it."""
    provider = ScriptedProvider()
    plugins = victim.plugins(provider)
    async with Host(victim.settings(), data_directory=folder, discovery=False, plugins=plugins) as host:
        directory, table = host.service(AgentDirectory), host.sessions.store.records(NAMESPACE)
        with anyio.fail_after(30):
            while await table.list() or not directory._ways.idle:  # noqa: ASYNC110 - another process wrote it
                await anyio.sleep(0.01)
        everybody = set(victim.parents(COUNT))
        shown = {snapshot.record.id: snapshot for snapshot in await directory.list(archived=True)}
        archived = {agent_id for agent_id, snapshot in shown.items() if snapshot.record.archived_at is not None}
        if way == "archive":
            assert archived == shown.keys() == everybody
        else:
            assert shown == {}
            assert list(await host.sessions.store.list()) == []
        assert [snapshot.record.state for snapshot in shown.values() if snapshot.record.state == "running"] == []
        assert host.agents.list() == []


@pytest.mark.timeout(900)  # each kill starts a process and a host
@pytest.mark.parametrize("way", ["archive", "delete"])
def test_a_killed_process_is_finished_by_the_next_wherever_it_was(way, soak_count, tmp_path) -> None:
    for number in range(soak_count(KILLS)):
        moment = random.Random(number * 31 + len(way))
        folder = tmp_path / str(number)
        killed_after = moment.randrange(0, COUNT * 3 // 4)
        command = [sys.executable, victim.__file__, str(folder), way, str(COUNT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                ready = False
                closings = 0
                for line in process.stdout:
                    ready = ready or line == "ready\n"
                    closings += ready and line == "closing\n"
                    if line == "done\n" or closings > killed_after:
                        break
                assert ready
            finally:
                process.kill()
        assert process.returncode == -signal.SIGKILL
        anyio.run(finished, folder, way)
