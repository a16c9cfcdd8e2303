"""The beginning of a session, as the seed of another."""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.sessions._errors import ForkRefused
from greenroom.sessions._event import Event
from greenroom.sessions._store import SessionStore


async def fork_seed(store: SessionStore, session_id: str, boundary: int | None = None) -> Sequence[Event]:
    """The events up to and including seq `boundary` (None: all), which must lie outside a turn.

    Any end of a turn is a legal boundary, and so is bookkeeping behind it. Raises
    ForkRefused (`invalid_boundary`, `open_turn`), SessionNotFound, SessionDamaged.
    """
    length = (await store.entry(session_id)).next_seq
    if boundary is not None and (type(boundary) is not int or not 0 <= boundary < length):
        raise ForkRefused(
            f"session {session_id} has no event {boundary}: its last one is {length - 1}",
            code="invalid_boundary",
            session_id=session_id,
        )
    stop = length if boundary is None else boundary + 1
    last = await store.read_from(session_id, 0, before=stop, types=["turn/start", "turn/end"], limit=1, newest=True)
    if last and last[0].type == "turn/start":
        raise ForkRefused(
            f"session {session_id} is inside turn {last[0].data.turn} at seq {stop - 1}",
            code="open_turn",
            session_id=session_id,
        )
    return await store.read_from(session_id, 0, before=stop, limit=None)
