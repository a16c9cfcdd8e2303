"""Who caused the running code."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from greenroom.agents import NoInitiator, current_initiator, require_initiator, with_initiator, without_initiator
from greenroom.agents._initiator import Initiators

pytestmark = pytest.mark.anyio


class FakeAgent:
    def __init__(self, initiators: Initiators) -> None:
        self.initiators = initiators


@pytest.fixture
async def host() -> Initiators:
    return Initiators()


@pytest.mark.behaviour("D-218")
async def test_outside_there_is_no_initiator_and_requiring_one_fails(host):
    assert current_initiator() is None
    with pytest.raises(NoInitiator):
        require_initiator()


@pytest.mark.behaviour("D-218")
async def test_a_boundary_needs_a_host_that_is_not_closing(host):
    await host.aclose()
    with pytest.raises(NoInitiator), with_initiator(FakeAgent(host)):
        pass


@pytest.mark.behaviour("D-219")
async def test_the_value_inside_is_the_callers_own_and_the_initiator_is_visible_across_awaits(host):
    agent, value = FakeAgent(host), object()

    async def operation():
        await anyio.lowlevel.checkpoint()
        assert require_initiator() is agent
        return value

    with with_initiator(agent):
        assert await operation() is value
    assert current_initiator() is None


@pytest.mark.behaviour("D-221")
async def test_overlapping_chains_are_isolated(host):
    one, two = FakeAgent(host), FakeAgent(host)
    entered = [anyio.Event(), anyio.Event()]
    seen = []

    async def chain(agent, mine, other):
        with with_initiator(agent):
            mine.set()
            await other.wait()
            seen.append(current_initiator())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chain, one, entered[0], entered[1])
        tasks.start_soon(chain, two, entered[1], entered[0])
    assert set(seen) == {one, two}


@pytest.mark.behaviour("D-222")
async def test_nested_and_cleared_boundaries_restore_on_return_and_on_a_raise(host):
    one, two = FakeAgent(host), FakeAgent(host)
    with with_initiator(one):
        with with_initiator(two):
            assert current_initiator() is two
            with without_initiator():
                assert current_initiator() is None
            assert current_initiator() is two
        assert current_initiator() is one
        with pytest.raises(KeyError), with_initiator(two):
            raise KeyError
        with pytest.raises(KeyError), without_initiator():
            raise KeyError
        assert current_initiator() is one
    assert current_initiator() is None


@pytest.mark.behaviour("D-222")
async def test_a_boundary_restores_when_its_chain_is_cancelled(host):
    with anyio.CancelScope() as scope:
        with with_initiator(FakeAgent(host)):
            scope.cancel()
            await anyio.lowlevel.checkpoint()
    assert current_initiator() is None


@pytest.mark.behaviour("D-223")
async def test_closing_refuses_new_boundaries_drains_the_active_and_ends_what_was_kept(host):
    agent = FakeAgent(host)
    inside, go, kept = anyio.Event(), anyio.Event(), []
    order = []

    async def keeper(*, task_status):
        kept.append(current_initiator())
        task_status.started()
        await closed.wait()
        kept.append(current_initiator())

    closed = anyio.Event()

    async def chain(tasks):
        with with_initiator(agent):
            await tasks.start(keeper)
            inside.set()
            await go.wait()
            order.append(current_initiator())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(chain, tasks)
        await inside.wait()

        async def close():
            await host.aclose()
            order.append("closed")
            closed.set()

        tasks.start_soon(close)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(NoInitiator), with_initiator(agent):
            pass
        go.set()
    assert order == [agent, "closed"]
    assert kept == [agent, None]


@pytest.mark.behaviour("D-225")
async def test_a_chain_that_closes_its_own_host_does_not_wait_for_itself(host):
    with with_initiator(FakeAgent(host)), with_initiator(FakeAgent(host)):
        with anyio.fail_after(1):
            await host.aclose()
        assert current_initiator() is None


@pytest.mark.behaviour("D-226")
async def test_the_closing_chain_is_excused_while_unrelated_ones_drain(host):
    one, other = FakeAgent(host), FakeAgent(host)
    inside, go = anyio.Event(), anyio.Event()
    order = []

    async def unrelated():
        with with_initiator(other):
            inside.set()
            await go.wait()
        order.append("drained")

    async def closing():
        with with_initiator(one):
            await host.aclose()
            order.append("closed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(unrelated)
        await inside.wait()
        tasks.start_soon(closing)
        await anyio.wait_all_tasks_blocked()
        assert order == []
        go.set()
    assert order == ["drained", "closed"]
