"""A very long session: what it costs does not depend on its length, and memory stays bounded."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from greenroom.sessions import FOLDED_TYPES, Event
from greenroom.sessions.vocabulary import AssistantMessage, Reason, Trigger, TurnEnd, TurnStart
from greenroom_sqlite import SqliteStore
from greenroom_testing import sample_header

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

TURN = 200
_encode = msgspec.json.Encoder().encode


def event(seq: int) -> Event:
    """Turns of 200 events; each text says its own seq."""
    turn, place = seq // TURN + 1, seq % TURN
    if place == 0:
        return Event(seq, seq, "turn/start", _encode(TurnStart(turn, Trigger("message"))))
    if place == TURN - 1:
        return Event(seq, seq, "turn/end", _encode(TurnEnd(turn, Reason("completed"))))
    return Event(seq, seq, "assistant/message", _encode(AssistantMessage(turn, 1, f"piece {seq}", f"m{seq // 20}")))


@pytest.mark.timeout(300)
async def test_a_session_of_a_million_events_is_written_checked_resumed_and_paged(path, soak_count):
    count = soak_count(1_000_000)
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    for start in range(0, count, 1000):
        lease.append([event(seq) for seq in range(start, start + 1000)])
        await lease.room()
    await lease.release()

    assert list(await store.verify("s1")) == []
    entry = await store.entry("s1")
    assert entry.next_seq == count
    for at in (0, count // 2, count - 200):
        assert list(await store.read_from("s1", at, limit=200)) == [event(seq) for seq in range(at, at + 200)]
    folded = await store.read_from("s1", types=sorted(FOLDED_TYPES), limit=None)
    assert [e.seq for e in folded] == [s for s in range(count) if s % TURN in (0, TURN - 1)]
    assert list(await store.find("s1", f"m{count // 40}")) == [
        seq for seq in range(count // 2, count // 2 + 20) if seq % TURN not in (0, TURN - 1)
    ]
    lease = await store.acquire("s1")
    assert lease.next_seq == count
    await store.aclose()


@pytest.mark.timeout(120)
async def test_checking_a_long_session_takes_no_more_memory_than_a_short_one(path):
    store = SqliteStore(path, barrier="normal")
    peaks = []
    for session_id, count in (("short", 4_000), ("long", 40_000)):
        lease = await store.create(sample_header(session_id))
        for start in range(0, count, 1000):
            lease.append([event(seq) for seq in range(start, start + 1000)])
            await lease.room()
        await lease.release()
        await store.verify(session_id)
        tracemalloc.start()
        assert list(await store.verify(session_id)) == []
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1_000_000
    await store.aclose()
