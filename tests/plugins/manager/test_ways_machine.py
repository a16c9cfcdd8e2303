"""Every way against every other, in any order: never two writers, nothing left over, the records agree with what is.

The ways are started without waiting for each other; the provider opens and closes slowly, fails, hangs for a while and
dies. What may be raised is one of the errors that are documented; what must not happen is checked at every opening
and at the end.
"""

from __future__ import annotations

import itertools
import random

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from greenroom.agents import STATE_NAMES, AgentSpec, Closed
from greenroom.errors import GreenroomError
from greenroom.providers import ProviderError
from greenroom_manager.ways._marks import NAMESPACE
from greenroom_testing import ScriptedProvider, accept

from .house import House, house

FAMILY = {"p": None, "c": "p", "g": "c", "x": "y", "y": "x"}
"""Each agent and its parent: a line of three, and a circle."""

WAYS = ("create", "open", "close", "reload", "archive", "unarchive", "detach", "delete")
MORE = ("open for history", "rehydrate", "run", "drop the caller")
TROUBLE = ("opening fails", "closing fails", "slow", "fast", "die", "wait", "settle")


class Provider(ScriptedProvider):
    """Opens one writer for each agent, or says that there were two."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.two: list[str] = []
        self.coming: list[str] = []
        self.fails_to_open = self.fails_to_close = 0
        self.pace = 3
        self.opening, self.closing = self._slowly_open, self._slowly_close

    async def _slowly_open(self, session) -> None:
        agent_id = session.request.session_id
        if agent_id in self.coming or any(
            not other.closed and other.request.session_id == agent_id for other in self.sessions
        ):
            self.two.append(agent_id)
        self.coming.append(agent_id)
        try:
            await self._take_time()
            if self.fails_to_open:
                self.fails_to_open -= 1
                raise ProviderError("no program")
        finally:
            self.coming.remove(agent_id)

    async def _slowly_close(self, _session) -> None:
        await self._take_time()
        if self.fails_to_close:
            self.fails_to_close -= 1
            raise ProviderError("it would not die")

    async def _take_time(self) -> None:
        for _ in range(self.random.randint(0, self.pace)):
            await anyio.lowlevel.checkpoint()


class Race:
    """Ways that were begun and not waited for."""

    def __init__(self, home: House, provider: Provider, tasks) -> None:
        self.home, self.provider, self.tasks = home, provider, tasks
        self.unexpected: list[BaseException] = []
        self.going_on = 0
        self.for_history: set[str] = set()

    def begin(self, way: str, agent_id: str) -> None:
        self.going_on += 1
        self.for_history |= {agent_id} if way == "open for history" else set()
        self.tasks.start_soon(self._run, self._call(way, agent_id), way)

    def _call(self, way: str, agent_id: str):
        directory = self.home.directory
        if way == "create":
            return lambda: self.home.create(agent_id, parent=FAMILY.get(agent_id), title=agent_id)
        if way == "open for history":
            return lambda: directory.open(agent_id, purpose="history")
        if way == "rehydrate":
            return lambda: directory.reload(agent_id, rehydrate=True)
        if way == "run":
            return lambda: self._talk(agent_id)
        if way == "drop the caller":
            return lambda: self._give_up(agent_id)
        return lambda: getattr(directory, way)(agent_id)

    async def _run(self, call, way: str) -> None:
        try:
            await call()
        except (GreenroomError, ValueError):
            pass  # refused, or failed as it may
        except Exception as error:
            error.add_note(f"in {way}")
            self.unexpected.append(error)
        finally:
            self.going_on -= 1

    async def _talk(self, agent_id: str) -> None:
        agent = self.home.live(agent_id)
        if agent is not None and not isinstance(agent.state, Closed):
            agent.followup("hello")

    async def _give_up(self, agent_id: str) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                self.going_on += 1
                tasks.start_soon(self._run, self._call("create", agent_id), "create")
                for _ in range(self.provider.random.randint(0, 20)):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

    async def trouble(self, what: str) -> None:
        provider = self.provider
        match what:
            case "opening fails":
                provider.fails_to_open += 1
            case "closing fails":
                provider.fails_to_close += 1
            case "slow" | "fast":
                provider.pace = 20 if what == "slow" else 0
            case "die":
                alive = [session for session in provider.sessions if not session.closed]
                for session in alive[-1:]:
                    session.closed = True
                    session.link.lost("it died")
            case "wait":
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            case _:
                await self.settle()

    async def steps(self, most: int) -> None:
        """Let what was begun get some way on."""
        for _ in range(self.provider.random.choice((0, 1, self.provider.random.randint(0, most)))):
            await anyio.lowlevel.checkpoint()

    async def settle(self) -> None:
        """Every waiter resolves."""
        with anyio.fail_after(120):
            while self.going_on or not self.home.ways.idle:  # noqa: ASYNC110 - many tasks, no one event
                await anyio.sleep(0.001)

    async def verify(self) -> None:
        """What holds whenever nothing goes on."""
        home, provider = self.home, self.provider
        assert self.unexpected == [], self.unexpected
        assert provider.two == [], f"two writers of {provider.two}"
        writers, live = home.writers(), [agent.id for agent in home.host.agents.list()]
        assert len(set(writers)) == len(writers)
        unfinished = home.host.agents._pipeline._unfinished
        assert set(writers) <= set(live) | unfinished.keys()
        shown = {s.record.id: s for s in await home.directory.list(archived=True, internal=True)}
        assert set(live) <= shown.keys(), "live without a record"
        assert {entry.id for entry in await home.store.list()} <= shown.keys(), "a session without a record"
        for agent_id, snapshot in shown.items():
            archived = snapshot.record.archived_at is not None
            if agent_id not in live:
                assert isinstance(snapshot.state, Closed)
                assert snapshot.record.state in ("closed", "idle")
            else:
                agent = home.live(agent_id)
                assert snapshot.record.state == STATE_NAMES[type(agent.state)]
                assert not archived or agent_id in self.for_history or isinstance(agent.state, Closed), "it works on"
        assert len(home.ways.holdings) == len(live)
        assert home.ways._creating.making == home.ways._creating.leaving == {}
        assert home.ways._reloading._going_on == {}
        assert [key for space, key in home.medium.records if space == NAMESPACE] == []
        assert home.host.agents._pipeline.lives.keys() == set(live)

    async def end(self) -> None:
        """Close everything, now that nothing fails."""
        provider = self.provider
        provider.fails_to_open = provider.fails_to_close = 0
        for agent in list(self.home.host.agents.list()):
            await self.home.directory.close(agent.id)
        pipeline = self.home.host.agents._pipeline
        for agent_id in list(pipeline._unfinished):
            await pipeline._finish(agent_id)
        assert self.home.host.agents.list() == []
        assert self.home.writers() == []
        for snapshot in await self.home.directory.list(archived=True, internal=True):
            assert snapshot.record.state in ("closed", "idle")
            assert not snapshot.live
        assert len(self.home.ways.holdings) == 0


async def play(there, schedule, seed: int) -> None:
    provider = Provider(seed)
    async with house(provider=provider) as home, anyio.create_task_group() as tasks:
        race = Race(home, provider, tasks)
        for agent_id in there:
            await home.create(agent_id, parent=FAMILY[agent_id], title=agent_id)
        for step in schedule:
            if isinstance(step, str):
                await race.trouble(step)
                if step == "settle":
                    await race.verify()
            else:
                race.begin(*step)
                await race.steps(30)
        await race.settle()
        await race.verify()
        await race.end()


STEP = st.one_of(
    st.tuples(st.sampled_from(WAYS + MORE), st.sampled_from(sorted(FAMILY))),
    st.tuples(st.sampled_from(WAYS), st.just("p")),
    st.sampled_from(TROUBLE),
)


@pytest.mark.timeout(1200)  # a soak plays ten times as many
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    there=st.sets(st.sampled_from(sorted(FAMILY))),
    schedule=st.lists(STEP, min_size=10, max_size=40),
    seed=st.integers(0, 2**16),
)
@example("p", [("close", "p"), "settle", "slow", ("open", "p"), ("archive", "p"), ("open", "p")], 3)
@example("pc", [("archive", "p"), ("detach", "c"), ("open", "c"), ("delete", "p")], 0)
@example("xy", [("archive", "x"), ("delete", "y"), ("archive", "y")], 1)
def test_any_order_of_the_ways_leaves_one_writer_at_most_and_records_that_agree(backend, there, schedule, seed) -> None:
    anyio.run(play, sorted(there), schedule, seed, backend=backend)


@pytest.mark.anyio
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("was", ["live", "stored", "archived", "unknown", "at work"])
async def test_two_ways_at_once_end_both_and_leave_one_writer_at_most(anyio_backend, first, was) -> None:
    provider = Provider(3)
    async with house(provider=provider) as home, anyio.create_task_group() as tasks:
        race = Race(home, provider, tasks)
        for number, (second, steps) in enumerate(itertools.product(WAYS, (0, 5))):
            agent_id = f"{number}"
            if was != "unknown":
                await home.directory.create(AgentSpec(id=agent_id, title="T"))
            if was == "at work":
                provider.starting = accept
                home.live(agent_id).followup("go on")
            elif was in ("stored", "archived"):
                await getattr(home.directory, "close" if was == "stored" else "archive")(agent_id)
            race.begin(first, agent_id)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            race.begin(second, agent_id)
            await race.settle()
            if home.live(agent_id) is not None:
                assert home.writers().count(agent_id) == 1
        await race.verify()
        await race.end()
