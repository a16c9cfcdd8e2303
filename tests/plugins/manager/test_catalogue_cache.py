"""What is kept of providers' answers, and for how long."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from greenroom.providers import Availability, Catalogue, Model, ProviderError
from greenroom_manager._catalogue_cache import ASKING, FOLDERS, FRESH, Cache
from greenroom_manager._catalogue_specs import apply
from greenroom_manager._settings import ProviderSettings
from greenroom_testing import ScriptedProvider

from .house import JUMPING

pytestmark = [pytest.mark.anyio, pytest.mark.behaviour("P-507")]

HERE = Path("/here")


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


class Asked(ScriptedProvider):
    """Counts who asks it, and answers when it is let."""

    def __init__(self, name="cli"):
        super().__init__(name)
        self.asked = []
        self.open = anyio.Event()
        self.open.set()
        self.state = Availability(ok=True)
        self.error = None

    async def availability(self):
        self.asked.append("availability")
        await self.open.wait()
        return self.state

    async def catalogue(self, *, cwd, fresh=False):
        self.asked.append(("fresh" if fresh else "any", cwd))
        if self.error is not None:
            raise self.error
        return Catalogue(models=(Model(id=f"{self.name}-{len(self.asked)}", label="m"),))

    def close(self):
        self.open = anyio.Event()


class Clock:
    def __init__(self):
        self.now = 1_000_000

    def __call__(self):
        return self.now


class Desk:
    """A cache with its providers, its clock and its news."""

    def __init__(self, tasks, *providers, **table):
        self.clock, self.news, self.tasks = Clock(), [], tasks
        self.table = {name: ProviderSettings.model_validate(fields) for name, fields in table.items()}
        self.offers = list(apply({p.name: p.spec for p in providers}, self.table).offers.values())
        self.cache = Cache(
            self.clock, lambda task, _name: tasks.start_soon(task), lambda _cwd, e: self.news.append((e.id, e.status))
        )

    def statuses(self, cwd=HERE):
        return {entry.id: entry.status for entry in self.cache.entries(cwd, self.offers)}

    async def refresh(self, only=None):
        return {entry.id: entry for entry in await self.cache.refresh(HERE, self.offers, only)}


async def settle():
    await anyio.wait_all_tasks_blocked()


async def test_first_it_is_loading_then_each_provider_says_how_it_is_with_an_event():
    good, missing, broken = Asked("good"), Asked("missing"), Asked("broken")
    missing.state = Availability(ok=False, problem="not installed", hint="install it")
    broken.error = ProviderError("no catalogue", hint="try again")
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, good, missing, broken)
        assert set(desk.statuses().values()) == {"loading"}
        await settle()
        assert desk.statuses() == {"good": "ready", "missing": "unavailable", "broken": "error"}
        assert sorted(desk.news) == [("broken", "error"), ("good", "ready"), ("missing", "unavailable")]
        entries = {entry.id: entry for entry in desk.cache.entries(HERE, desk.offers)}
        assert entries["good"].catalogue.models[0].id.startswith("good")
        assert (entries["missing"].problem, entries["missing"].hint) == ("not installed", "install it")
        assert (entries["broken"].problem, entries["broken"].hint) == ("no catalogue", "try again")
        assert missing.asked == ["availability"]


async def test_an_answer_counts_for_five_minutes_and_is_shown_until_the_next_one_is_there():
    provider = Asked()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider)
        desk.statuses()
        await settle()
        desk.clock.now += FRESH
        assert desk.statuses() == {"cli": "ready"}
        await settle()
        assert len(provider.asked) == 2
        desk.clock.now += 1
        assert desk.statuses() == {"cli": "ready"}
        await settle()
        assert len(provider.asked) == 4
    assert FRESH == 300_000


async def test_one_that_does_not_answer_in_half_a_minute_is_an_error():
    slow, quick = Asked("slow"), Asked("quick")
    slow.close()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, slow, quick)
        began = anyio.current_time()
        found = await desk.refresh()
        assert anyio.current_time() - began == pytest.approx(ASKING)
        assert (found["slow"].status, found["slow"].problem) == ("error", "no answer within 30 s")
        assert found["quick"].status == "ready"
    assert ASKING == 30


async def test_there_is_one_warm_up_at_a_time():
    provider = Asked()
    provider.close()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider)
        for _ in range(5):
            desk.statuses()
        desk.statuses(Path("/there"))
        await settle()
        assert provider.asked == ["availability"]
        provider.open.set()
        await settle()
        folders = [asked[1] for asked in provider.asked if asked != "availability"]
        assert sorted(folders) == [HERE, Path("/there")]  # each once, in either order


async def test_an_explicit_refresh_does_not_wait_for_the_warm_up_and_its_answer_stays():
    provider = Asked()
    provider.close()
    held = provider.open
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider)
        desk.statuses()
        await settle()
        provider.open = anyio.Event()
        provider.open.set()
        provider.state = Availability(ok=True, version="new")
        found = await desk.refresh("cli")
        assert found["cli"].availability.version == "new"
        assert ("fresh", HERE) in provider.asked
        provider.state = Availability(ok=True, version="old")
        held.set()
        await settle()
        [entry] = desk.cache.entries(HERE, desk.offers)
        assert entry.availability.version == "new"


async def test_one_that_is_disabled_is_never_asked():
    provider = Asked()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider, cli={"enabled": False})
        assert desk.statuses() == {"cli": "disabled"}
        await settle()
        assert (await desk.refresh())["cli"].status == "disabled"
        assert (await desk.refresh("cli"))["cli"].status == "disabled"
        assert provider.asked == []


async def test_a_clock_that_went_back_makes_no_answer_eternal():
    provider = Asked()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider)
        desk.statuses()
        await settle()
        desk.clock.now -= 10 * FRESH
        desk.statuses()
        await settle()
        assert len(provider.asked) == 4


async def test_only_the_latest_folders_are_kept():
    provider = Asked()
    async with anyio.create_task_group() as tasks:
        desk = Desk(tasks, provider)
        for number in range(FOLDERS * 3):
            desk.statuses(Path(f"/{number}"))
            await settle()
        assert len(desk.cache._folders) == FOLDERS
