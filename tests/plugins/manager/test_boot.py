"""What a host puts right when it starts, and sessions that have no record yet."""

from __future__ import annotations

import itertools

import anyio
import msgspec
import pytest

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentRecord, AgentSpec, Closed, Resting, Running
from greenroom.errors import HookError
from greenroom.providers import TurnFailed
from greenroom.sessions import Medium, MemoryStore, SessionDamaged
from greenroom_manager import ManagerPlugin
from greenroom_manager._records import NAMESPACE
from greenroom_manager._row import UnreadableRecord, decode, encode
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

from .house import Store, house

pytestmark = pytest.mark.anyio


def table(medium):
    return MemoryStore(medium).records(NAMESPACE)


async def begin(agent, text):
    accepted = anyio.Event()
    agent.session.observe(lambda event: accepted.set() if event.type == "turn/accepted" else None)
    agent.followup(text)
    await accepted.wait()
    await agent.flush()


def plain_host(medium, provider, **more):
    """A host without a keeper of agents."""
    plugins = {"driver": greenroom_driver, "store": Store(medium), "scripted": ScriptedPlugin(provider)}
    return Host(load_settings(), discovery=False, plugins=plugins, **more)


async def killed_at_work(medium, provider):
    provider.starting = accept
    async with house(medium, provider, kill=True) as home:
        agent = await home.create("a", title="t")
        await begin(agent, "x")
        await anyio.wait_all_tasks_blocked()
        written = dict(medium.records)
    medium.records.update(written)  # what is killed writes no records; the store in memory goes on taking them
    assert decode("a", (await table(medium).get("a")).value).state == "running"


async def test_nothing_is_running_after_a_kill(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    await killed_at_work(medium, provider)
    async with house(medium, provider) as home:
        await anyio.wait_all_tasks_blocked()
        assert decode("a", (await table(medium).get("a")).value).state == "closed"
        [shown] = await home.directory.list()
        assert (shown.state, shown.record.title) == (Closed(), "t")


async def test_an_agent_that_was_killed_at_work_can_be_closed_archived_and_opened_again(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    await killed_at_work(medium, provider)
    async with house(medium, provider) as home:
        await home.directory.close("a")
        assert (await home.directory.archive("a")).failed == {}
        await home.directory.unarchive("a")
        agent = await home.directory.open("a")
        assert agent.state == Resting()


async def test_what_another_process_drives_is_left_alone_and_shown_as_running(anyio_backend):
    medium, provider, mine = Medium(), ScriptedProvider(), ScriptedProvider()
    provider.starting = accept
    async with house(medium, provider) as theirs:
        agent = await theirs.create("a")
        await begin(agent, "x")
        await anyio.wait_all_tasks_blocked()
        async with house(medium, mine) as home:
            await anyio.wait_all_tasks_blocked()
            [shown] = await home.directory.list()
            assert (shown.state, shown.live) == (Running(None), False)
            assert (await home.directory.find("a")).state == Running(None)
            assert decode("a", (await table(medium).get("a")).value).state == "running"
        provider.session.end()
        await agent.when_idle()


async def test_sessions_that_were_made_before_there_were_records_are_listed_and_get_one(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    async with plain_host(medium, provider) as host:
        spec = AgentSpec(id="old", title="an old one", labels={"k": "v"}, options=AgentOptions(mode="plan"))
        handle = await host.agents.create(spec, owner=host.scope, setup=lambda _agent: None)
        await handle.agent.run("work")
        await handle.agent.set_mode("auto")
    assert await table(medium).list() == []
    async with house(medium, provider) as home:
        [shown] = await home.directory.list()
        assert await table(medium).get("old") is not None
    record = shown.record
    assert (record.id, record.title, record.labels, record.state) == ("old", "an old one", {"k": "v"}, "closed")
    assert (record.provider, record.native.native_id, record.had_setup) == ("scripted", "native-1", True)
    assert record.completed_at is not None
    assert record.created_at <= record.updated_at


async def test_sessions_without_a_record_keep_their_order_by_time(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    async with plain_host(medium, provider, clock=itertools.count(1_000).__next__) as host:
        for name in ("first", "second", "third"):
            handle = await host.agents.create(AgentSpec(id=name), owner=host.scope)
            await handle.agent.run("work")
            await handle.dispose()
    async with house(medium, provider) as home:
        assert [shown.record.id for shown in await home.directory.list()] == ["third", "second", "first"]


async def test_an_agent_that_a_plugin_makes_without_the_directory_has_a_record_and_is_followed(anyio_backend):
    async with house() as home:
        handle = await home.host.agents.create(AgentSpec(id="plain", title="t"), owner=home.host.scope)
        await handle.agent.initialized()
        async with home.directory.subscribe("plain") as changes:
            assert (await anext(changes)).snapshot.live
            await handle.dispose()
        assert (await home.directory.find("plain")).state == Closed()
        await home.directory.open("plain")
        assert (await home.record("plain")).title == "t"


async def test_a_keeper_that_comes_late_takes_up_the_agents_that_are_live_already(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    async with plain_host(medium, provider) as host:
        handle = await host.agents.create(AgentSpec(id="early"), owner=host.scope)
        await handle.agent.initialized()
        before = host.effects()
        await host.load(ManagerPlugin(), name="manager")
        await anyio.wait_all_tasks_blocked()
        assert decode("early", (await table(medium).get("early")).value).state == "idle"
        await host.unload("manager")
        assert host.effects() == before
        assert handle.agent.state == Resting()
        assert (await handle.agent.run("goes on")).reason.kind == "completed"


async def test_a_record_of_a_newer_version_is_left_out_by_name_and_harms_no_other(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()
    async with house(medium, provider) as home:
        await home.family(("old", None), ("new", None))
    row = await table(medium).get("new")
    newer = msgspec.json.encode({**msgspec.json.decode(row.value), "version": 99})
    await table(medium).put("new", newer)
    async with house(medium, provider) as home:
        assert [shown.record.id for shown in await home.directory.list()] == ["old"]
        for ask in (home.directory.find, home.directory.archive, home.directory.open, home.directory.mark_read):
            with pytest.raises(UnreadableRecord, match="version 99"):
                await ask("new")
        with pytest.raises((HookError, UnreadableRecord)):
            await home.host.agents.resume("new", owner=home.host.scope)
        assert home.host.agents.get("new") is None
        assert "record_unreadable" in home.said
        await home.directory.open("old")
    assert (await table(medium).get("new")).value == newer


async def test_a_store_whose_records_cannot_be_read_does_not_keep_the_host_from_starting(anyio_backend, monkeypatch):
    medium, provider = Medium(), ScriptedProvider()
    kept = Store(medium)

    async def damaged(*_given, **_named):
        raise SessionDamaged("a record does not match its checksum")

    monkeypatch.setattr("greenroom.sessions._memory_lease.MemoryRecords.list", damaged)
    plugins = {"driver": greenroom_driver, "store": kept, "scripted": ScriptedPlugin(provider)}
    manager = ManagerPlugin()
    async with Host(load_settings(), discovery=False, plugins={**plugins, "manager": manager}) as host:
        await anyio.wait_all_tasks_blocked()
        assert host.plugin("manager").state == "active"
        assert "boot_incomplete" in [entry.code for entry in host.diagnostics.recent]
        handle = await host.agents.create(AgentSpec(id="a"), owner=host.scope)
        assert (await handle.agent.run("works")).reason.kind == "completed"


async def test_the_error_of_a_failed_turn_is_still_known_after_a_restart(anyio_backend):
    medium, provider = Medium(), ScriptedProvider()

    async def fail(session, _request):
        session.emit(TurnFailed(turn_id=session.turn, error="out of credit"))

    provider.starting = fail
    async with house(medium, provider) as home:
        agent = await home.create("a")
        agent.followup("x")
        await agent.when_idle()
    async with house(medium, provider) as home:
        assert (await home.record("a")).last_error == "out of credit"
        assert (await home.directory.find("a")).state == Closed("out of credit")


async def test_a_record_whose_provider_is_not_installed_is_shown_as_not_available(anyio_backend):
    medium = Medium()
    record = AgentRecord(id="gone", provider="nobody", created_at=1, updated_at=1)
    await table(medium).put("gone", encode(record))
    async with house(medium) as home:
        [shown] = await home.directory.list()
        assert (shown.record.id, shown.available) == ("gone", False)
