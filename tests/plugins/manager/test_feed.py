"""Subscribers of a host's agents: what they get, in which order, and what they cannot harm."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from greenroom.agents import AgentChange, AgentNotFound, AgentRecord, AgentSnapshot, Closed, Resting
from greenroom_manager._feed import Subscription

pytestmark = pytest.mark.anyio


async def take(changes, count):
    with anyio.fail_after(5):
        return [await anext(changes) for _ in range(count)]


async def drain(changes):
    """Everything that is there now."""
    found = []
    while len(changes):
        found.append(await anext(changes))
    return found


def change(agent_id, time=1, *, gone=False):
    record = AgentRecord(id=agent_id, provider="p", created_at=1, updated_at=time)
    return AgentChange(agent_id=agent_id, snapshot=None if gone else AgentSnapshot(record=record, state=Closed()))


async def test_a_subscriber_gets_what_is_there_first_and_then_every_change_in_order(home):
    await home.family(("stored", None))
    await home.create("live", title="one")
    async with home.directory.subscribe() as changes:
        first = await take(changes, 2)
        assert {one.agent_id: one.snapshot.live for one in first} == {"stored": False, "live": True}
        await home.directory.update("live", title="two")
        await home.directory.update("stored", title="three")
        await home.directory.close("live")
        await home.directory.delete("stored")
        rest = await drain(changes)
    assert [one.snapshot.record.title for one in rest[:2]] == ["two", "three"]
    assert [one.snapshot.state for one in rest if one.agent_id == "live"][-1] == Closed()
    assert rest[-1] == AgentChange(agent_id="stored", snapshot=None)
    times = [one.snapshot.record.updated_at for one in rest if one.snapshot is not None and one.agent_id == "live"]
    assert times == sorted(times)


async def test_a_subscriber_sees_an_agent_begin_to_work_and_rest(home):
    agent = await home.create()
    async with home.directory.subscribe() as changes:
        await agent.run("work")
        await agent.when_idle()
        states = [type(one.snapshot.state).__name__ for one in await drain(changes)]
    assert [name for at, name in enumerate(states) if at == 0 or states[at - 1] != name] == [
        "Resting",
        "Running",
        "Resting",
    ]


@pytest.mark.behaviour("P-192")
async def test_who_follows_all_agents_hears_nothing_of_internal_ones(home):
    await home.create("before", internal=True)
    async with home.directory.subscribe() as changes:
        agent = await home.create("hidden", internal=True)
        await agent.run("work")
        await home.directory.delete("before")
        await home.create("shown")
        assert {one.agent_id for one in await drain(changes)} == {"shown"}


@pytest.mark.behaviour("P-193")
async def test_who_follows_an_internal_agent_by_its_id_hears_of_it_alone(home):
    agent = await home.create("hidden", internal=True)
    await home.create("other")
    async with home.directory.subscribe("hidden") as changes:
        assert [one.agent_id for one in await take(changes, 1)] == ["hidden"]
        await agent.run("work")
        await home.directory.update("other", title="x")
        assert {one.agent_id for one in await drain(changes)} == {"hidden"}


@pytest.mark.behaviour("P-194")
@pytest.mark.parametrize("agent_id", ["", "a b", "a/b", "x" * 129, "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
async def test_following_what_is_no_id_is_refused(home, agent_id):
    with pytest.raises(ValueError, match=r"\S"):
        async with home.directory.subscribe(agent_id):
            pass


async def test_following_an_agent_that_is_not_there_is_refused(home):
    with pytest.raises(AgentNotFound):
        async with home.directory.subscribe("nobody"):
            pass
    assert len(home.directory.feed) == 0


@pytest.mark.behaviour("P-195")
async def test_a_subscriber_that_raises_harms_neither_the_others_nor_the_log(home):
    agent = await home.create()
    with pytest.raises(ZeroDivisionError):
        async with home.directory.subscribe() as mine:
            await anext(mine)
            1 / 0  # noqa: B018 - what it raises is the point
    async with home.directory.subscribe() as changes:

        def raising(*_given):
            raise RuntimeError("a listener")

        home.directory._book.observe(raising)
        home.directory._context.moved.append(raising)
        before = len(agent.session)
        result = await agent.run("work")
        await agent.when_idle()
        assert result.reason.kind == "completed"
        assert len(agent.session) > before
        assert (await drain(changes))[-1].snapshot.state == Resting()
    assert {"record_observer_failed", "listener_failed"} <= set(home.said)


@pytest.mark.behaviour("P-201")
async def test_marking_an_agent_unread_or_read_reaches_every_subscriber(home):
    await home.create("a")
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(home.directory.subscribe()) for _ in range(3)]
        for reader in readers:
            await drain(reader)
        await home.directory.mark_unread("a")
        for reader in readers:
            assert [one.snapshot.record.unread.reason for one in await drain(reader)] == ["marked"]
        await home.directory.mark_read("a")
        for reader in readers:
            assert [one.snapshot.record.unread for one in await drain(reader)] == [None]


async def test_a_thousand_subscribers_share_one_snapshot_and_leave_nothing_behind(home):
    await home.create("a")
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(home.directory.subscribe()) for _ in range(1_000)]
        for reader in readers:
            await drain(reader)
        await home.directory.update("a", title="x")
        latest = [(await drain(reader))[-1].snapshot for reader in readers]
        assert {snapshot.record.title for snapshot in latest} == {"x"}
        assert len({id(snapshot) for snapshot in latest}) == 1
    assert len(home.directory.feed) == 0


async def test_a_subscriber_that_never_reads_holds_a_bounded_number_of_changes_and_is_given_the_latest():
    subscription = Subscription(kept=10)
    for time in range(1_000):
        subscription.put(change(f"agent-{time % 3}", time))
    assert len(subscription) <= 10
    found = {one.agent_id: one.snapshot.record.updated_at for one in await drain(subscription)}
    assert found == {"agent-0": 999, "agent-1": 997, "agent-2": 998}


async def test_a_slow_subscriber_is_given_the_latest_of_more_agents_than_it_may_be_behind():
    subscription = Subscription(kept=10)
    for time in range(500):
        subscription.put(change(f"agent-{time % 50}", time))
    assert len(subscription) <= 2 * 50
    latest = {one.agent_id: one.snapshot.record.updated_at for one in await drain(subscription)}
    assert sorted(latest.values()) == list(range(450, 500))


async def test_a_slow_subscriber_hears_of_a_deletion_only_if_it_knew_the_agent():
    subscription = Subscription(kept=10)
    subscription.put(change("known"))
    await drain(subscription)
    subscription.put(change("known", gone=True))
    for time in range(100):
        subscription.put(change(f"short-lived-{time}"))
        subscription.put(change(f"short-lived-{time}", gone=True))
    assert len(subscription) <= 10
    gone = [one.agent_id for one in await drain(subscription) if one.snapshot is None]
    assert gone[0] == "known"


async def test_a_reader_that_is_cancelled_while_it_waits_loses_no_change(home):
    await home.create("a")
    async with home.directory.subscribe() as changes:
        await drain(changes)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anext, changes)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await home.directory.update("a", title="x")
        assert (await take(changes, 1))[0].snapshot.record.title == "x"
