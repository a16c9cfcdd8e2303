"""A sample of a log with everything that a store could lose, and what the tests of stores share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from greenroom.sessions import (
    Event,
    Header,
    Replace,
    SessionLease,
    SessionStore,
)
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    ContextMessage,
    Message,
    Reason,
    Trigger,
    TurnEnd,
    TurnStart,
    UserSource,
)

_encode = msgspec.json.Encoder().encode
TURN = 6
"""Events in each turn of `sample_log`."""


def sample_header(session_id: str = "s1") -> Header:
    """A header with every field that a store could lose."""
    return Header(
        id=session_id,
        epoch=f"epoch of {session_id}",
        created_at=1_700_000_000_000,
        cwd="/project",
        provider="scripted",
        parent_session="parent",
        seed_length=3,
        origin="fork",
        delegation_depth=2,
    )


def sample_log(turns: int, *, seq: int = 0, close_last: bool = True) -> list[Event]:
    """Whole turns: a start, pieces of a message, a replacement, a plugin's event, an end."""
    found: list[Event] = []
    for turn in range(seq // TURN + 1, seq // TURN + 1 + turns):
        at = seq + len(found)
        context = ContextMessage(Message("c", (), UserSource()))
        piece = AssistantMessage(turn, 1, f"piece of {turn} \u2028 é", f"m{turn}")
        found += [
            Event(at, 5000 - at, "turn/start", _encode(TurnStart(turn, Trigger("message")))),
            Event(at + 1, 5000 - at, "assistant/message", _encode(piece)),
            Event(at + 2, at, "assistant/message", _encode(piece), surface="append", sources=(at + 1,)),
            Event(at + 3, at, "context/message", _encode(context), surface=Replace((at + 2, at + 2)), sources=()),
            Event(at + 4, at, "sample/event", b'{"any":[1,null,{"json":true}]}', ignorable=True),
            Event(at + 5, at, "turn/end", _encode(TurnEnd(turn, Reason("completed")))),
        ]
    return found if close_last else found[:-1]


class StoreTests:
    """What the tests of stores share. Two stores of one place behave like two processes on one store."""

    pytestmark = pytest.mark.anyio

    def open_store(self, place: Path) -> SessionStore:
        """A store object of its own on what is kept at the place."""
        raise NotImplementedError

    async def kill(self, store: SessionStore) -> None:
        """End the store as a killed process would: nothing is flushed, no lease released."""
        raise NotImplementedError

    @asynccontextmanager
    async def stores(self, place: Path, count: int = 1) -> AsyncIterator[Sequence[SessionStore]]:
        """Some stores of one place, closed at the end."""
        opened = [self.open_store(place) for _ in range(count)]
        try:
            yield opened
        finally:
            for store in opened:
                await store.aclose()

    async def write(self, store: SessionStore, events: Sequence[Event], session_id: str = "s1") -> SessionLease:
        """A new session with these events, flushed."""
        lease = await store.create(sample_header(session_id))
        lease.append(events)
        await lease.flush()
        return lease
