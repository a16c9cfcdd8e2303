"""Appending inside a turn, whether one is open or not."""

from __future__ import annotations

import anyio
import pytest

from greenroom.sessions import EventRefused, SessionNotLive, StoreStalled
from greenroom.sessions.vocabulary import Notice

pytestmark = pytest.mark.anyio

NOTE = Notice("info", "hello")


@pytest.fixture
async def entered(registry):
    return await registry.create(registry.new_header("a"))


@pytest.fixture
def flushes(entered, monkeypatch):
    """How often the lease was flushed, and with how many events."""
    seen, real = [], entered.lease.flush

    async def flush(barrier=None):
        seen.append(len(entered.session))
        await real(barrier)

    monkeypatch.setattr(entered.lease, "flush", flush)
    return seen


def types(session) -> list[str]:
    return [event.type for event in session.tail]


@pytest.mark.behaviour("D-165")
async def test_it_joins_an_open_turn_without_a_flush(entered, flushes, scripted):
    scripted(entered.session).turn()
    event = await entered.session.append_enclosed("notice", NOTE)
    assert event.seq == 1
    assert flushes == []


@pytest.mark.behaviour("D-166")
async def test_it_makes_a_one_shot_turn_and_flushes_it_each_time_with_a_new_number(entered, flushes):
    session = entered.session
    for _ in range(2):
        await session.append_enclosed("notice", NOTE, trigger="command")
    assert types(session) == ["turn/start", "notice", "turn/end"] * 2
    assert [event.data.turn for event in session.tail if event.type == "turn/start"] == [1, 2]
    assert session.tail[0].data.trigger.kind == "command"
    assert flushes == [3, 6]


@pytest.mark.behaviour("D-167")
async def test_a_refused_event_still_closes_and_flushes_the_turn_and_the_refusal_wins(entered, flushes, monkeypatch):
    session = entered.session
    with pytest.raises(EventRefused, match="unknown"):
        await session.append_enclosed("unknown", NOTE)
    assert types(session) == ["turn/start", "turn/end"]
    assert flushes == [2]

    async def broken(barrier=None):
        raise StoreStalled("full")

    monkeypatch.setattr(entered.lease, "flush", broken)
    with pytest.raises(EventRefused) as caught:
        await session.append_enclosed("unknown", NOTE)
    assert "full" in caught.value.__notes__[0]
    assert session.state.open_turn is None


@pytest.mark.behaviour("D-168")
async def test_a_turn_that_cannot_open_writes_and_flushes_nothing(entered, flushes):
    with pytest.raises(EventRefused, match="trigger kind"):
        await entered.session.append_enclosed("notice", NOTE, trigger="nonsense")
    assert len(entered.session) == 0
    assert flushes == []


@pytest.mark.behaviour("D-169")
async def test_the_session_stays_attached_through_the_flush(registry, entered, monkeypatch):
    session, real, attached = entered.session, entered.lease.flush, []

    async def flush(barrier=None):
        entered.detach()
        await anyio.lowlevel.checkpoint()
        attached.append(registry.get("a") is session)
        await real(barrier)

    monkeypatch.setattr(entered.lease, "flush", flush)
    await session.append_enclosed("notice", NOTE)
    assert attached == [True]
    assert registry.get("a") is None
    with pytest.raises(SessionNotLive):
        await session.append_enclosed("notice", NOTE)


@pytest.mark.behaviour("D-169")
async def test_a_session_that_was_never_entered_is_refused(session):
    with pytest.raises(SessionNotLive):
        await session.append_enclosed("notice", NOTE)
    assert len(session) == 0


@pytest.mark.behaviour("D-170")
async def test_a_failing_flush_leaves_a_balanced_log(entered, monkeypatch):
    async def broken(barrier=None):
        raise StoreStalled("full")

    monkeypatch.setattr(entered.lease, "flush", broken)
    with pytest.raises(StoreStalled):
        await entered.session.append_enclosed("notice", NOTE)
    assert types(entered.session) == ["turn/start", "notice", "turn/end"]


@pytest.mark.behaviour("D-170")
async def test_overlapping_calls_are_refused(entered, monkeypatch):
    session, real, inside, go = entered.session, entered.lease.flush, anyio.Event(), anyio.Event()

    async def slow(barrier=None):
        inside.set()
        await go.wait()
        await real(barrier)

    monkeypatch.setattr(entered.lease, "flush", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.append_enclosed, "notice", NOTE)
        await inside.wait()
        with pytest.raises(EventRefused, match="one-shot turn"):
            await session.append_enclosed("notice", NOTE)
        go.set()
    assert len(session) == 3
    await session.append_enclosed("notice", NOTE)
    assert len(session) == 6
