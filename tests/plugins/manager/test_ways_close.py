"""Closing an agent: once whoever asks, in order, and what keeps its lease when it does not work."""

from __future__ import annotations

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import AgentError, AgentNotFound, AgentSpec, Closed, DisposeFailed
from greenroom.providers import ProviderError, SubAgent, TextDelta
from greenroom.sessions import SessionExists
from greenroom_testing import ScriptedProvider, accept

from .house import Fails, Gate, house

pytestmark = pytest.mark.anyio


def heals(home) -> None:
    home.provider.closing = ScriptedProvider().closing


@pytest.mark.behaviour("P-067")
async def test_concurrent_closes_share_one_run(home) -> None:
    await home.create("a")
    home.provider.closing = gate = Gate()
    ended = []

    async def close() -> None:
        await home.directory.close("a")
        ended.append(home.live("a"))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(close)
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        gate.go.set()
    assert gate.calls == 1
    assert ended == [None] * 5
    assert home.ways.idle


async def test_closing_what_is_closed_does_nothing_and_what_nobody_knows_is_not_found(home) -> None:
    await home.create("a", title="A")
    await home.directory.close("a")
    before = await home.record("a")
    await home.directory.close("a")
    assert await home.record("a") == before
    with pytest.raises(AgentNotFound):
        await home.directory.close("nobody")


async def test_a_close_goes_on_when_the_one_who_asked_stops_waiting(home) -> None:
    await home.create("a")
    home.provider.closing = gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.close, "a")
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    gate.go.set()
    await home.until(lambda: home.live("a") is None and home.ways.idle)
    assert (await home.record("a")).state == "closed"


class Leaving:
    """Writes down what is seen when an agent leaves."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @hookimpl
    def agent_disposed(self, agent):
        self.steps.append("disposed")

    @hookimpl
    def session_event(self, session, event):
        if event.type == "subagent/upserted" and event.data.status == "canceled":
            self.steps.append("child canceled")
        if event.type == "assistant/message":
            self.steps.append(f"logged {event.data.text}")
        if event.type == "turn/end":
            self.steps.append(f"turn {event.data.reason.kind}")


@pytest.mark.behaviour("P-069", "P-074")
async def test_a_close_logs_what_was_said_ends_provider_children_and_then_says_farewell(home) -> None:
    hooks = Leaving()
    await home.host.load(hooks, name="leaving")
    home.provider.starting = accept
    agent = await home.create("a")
    agent.followup("go on")
    await home.until(lambda: home.provider.session.requests)
    provider = home.provider.session

    async def closing(_session) -> None:
        hooks.steps.append("closing")

    home.provider.closing = closing
    provider.emit(SubAgent(action="upsert", child_id="c", status="running"))
    provider.emit(TextDelta(text="half ", message_id="m", turn_id=provider.turn))
    await home.until(lambda: any(step.startswith("logged") for step in hooks.steps))
    provider.emit(TextDelta(text="a sentence", message_id="m", turn_id=provider.turn))
    async with home.follow("a") as seen:
        await home.directory.close("a")
        hooks.steps.append("close has returned")
        await home.until(lambda: isinstance(seen[-1].snapshot.state, Closed))
    assert provider.closed
    assert (await home.record("a")).state == "closed"
    steps = hooks.steps
    told = [steps.index(step) for step in ("logged a sentence", "closing", "child canceled", "disposed")]
    assert told == sorted(told)
    assert steps[-1] == "close has returned"


@pytest.mark.behaviour("P-070")
async def test_a_close_in_the_middle_of_a_turn_keeps_the_native_id(home) -> None:
    home.provider.starting = accept
    agent = await home.create("a")
    agent.followup("go on")
    await home.until(lambda: home.provider.session.handle is not None and home.provider.session.turn is not None)
    await home.directory.close("a")
    assert (await home.record("a")).native.native_id == "native-1"
    await home.directory.open("a")
    assert home.provider.opened[-1].handle.native_id == "native-1"


@pytest.mark.behaviour("P-071")
async def test_a_close_writes_the_record_once(home) -> None:
    await home.create("a", title="A")
    await home.directory._book.flush()
    before = await home.store.records("agents").get("a")
    await home.directory.close("a")
    after = await home.store.records("agents").get("a")
    assert after.revision == before.revision + 1
    assert b'"closed"' in after.value or b'"state"' not in after.value


@pytest.mark.behaviour("P-072", "P-073")
async def test_a_close_that_fails_is_told_first_and_keeps_the_lease(home) -> None:
    agent = await home.create("a", title="A")
    home.provider.closing = Fails(ProviderError("it would not die"))
    order = []
    async with home.follow("a") as seen:
        try:
            await home.directory.close("a")
        except DisposeFailed as error:
            order = [type(change.snapshot.state) for change in seen], error
            await home.until(lambda: isinstance(seen[-1].snapshot.state, Closed))
    assert "it would not die" in str(order[1])
    assert (await home.record("a")).state == "closed"
    assert "it would not die" in (await home.record("a")).last_error
    assert home.writers() == ["a"]
    assert (await home.store.entry("a")).owner is not None
    opened = len(home.provider.opened)
    for way in (home.directory.open, home.directory.reload):
        with pytest.raises(DisposeFailed):
            await way("a")
    assert len(home.provider.opened) == opened
    with pytest.raises(SessionExists):
        await home.create("a")
    heals(home)
    again = await home.directory.open("a")
    assert again is not agent
    assert home.writers() == ["a"]


@pytest.mark.behaviour("P-072")
async def test_the_closed_state_is_with_the_subscribers_before_the_error_is_raised(home) -> None:
    await home.create("a", title="A")
    home.provider.closing = Fails(ProviderError("it would not die"))
    shown = []
    forget = home.directory._book.observe(lambda *told: shown.append(told[-1].state))
    with pytest.raises(DisposeFailed):
        await home.directory.close("a")
    assert shown[-1] == "closed"
    forget()
    heals(home)


@pytest.mark.behaviour("P-075")
async def test_everybody_who_reads_a_turn_is_told_that_it_was_ended_by_the_close(home) -> None:
    home.provider.starting = accept
    agent = await home.create("a")
    reasons = []

    async def read() -> None:
        reasons.append((await agent.run("go on")).reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await home.until(lambda: home.provider.session.turn is not None)
        await home.directory.close("a")
    assert [(reason.kind, reason.cause) for reason in reasons] == [("aborted", "disposed")]


async def test_an_agent_that_asks_for_its_own_end_is_not_kept_waiting_for_it(home) -> None:
    agent = await home.create("a")
    with agent.initiators.boundary(agent), pytest.raises(AgentError, match="requested"):
        await home.directory.close("a")
    await home.until(lambda: home.live("a") is None)
    assert (await home.record("a")).state == "closed"


async def test_an_agent_that_somebody_else_made_is_left_to_them(home) -> None:
    handle = await home.host.agents.create(AgentSpec(id="a", title="A"), owner=home.host.scope)
    await handle.agent.initialized()
    with pytest.raises(AgentError, match="which alone can end it"):
        await home.directory.close("a")
    cascade = await home.directory.archive("a")
    assert "alone" in cascade.results["a"]
    assert (await home.record("a")).archived_at is None
    assert home.live("a") is handle.agent


async def test_an_agent_that_ended_by_another_way_leaves_no_handle_behind(home) -> None:
    await home.create("a", title="A")
    assert len(home.ways.holdings) == 1
    await home.directory.close("a")
    assert len(home.ways.holdings) == 0


async def test_a_host_that_leaves_tells_everybody_who_waits(anyio_backend) -> None:
    provider, errors = ScriptedProvider(), []
    async with anyio.create_task_group() as tasks:
        async with house(provider=provider) as home:
            await home.create("a", title="A")
            provider.closing = gate = Gate()

            async def close() -> None:
                try:
                    await home.directory.close("a")
                except AgentError as error:
                    errors.append(error)

            async def open_() -> None:
                try:
                    await home.directory.open("a")
                except AgentError as error:
                    errors.append(error)

            tasks.start_soon(close)
            await gate.reached.wait()
            tasks.start_soon(open_)
            await anyio.wait_all_tasks_blocked()
            gate.go.set()
        await anyio.wait_all_tasks_blocked()
        assert home.ways.idle
