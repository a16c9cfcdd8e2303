"""Append something inside a turn, whether one is open or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from greenroom.sessions._errors import EventRefused, SessionNotLive
from greenroom.sessions._event import Event, Surface
from greenroom.sessions.vocabulary import JsonValue, Reason, Trigger, TurnEnd, TurnStart

if TYPE_CHECKING:
    from greenroom.sessions._session import Session


async def append_enclosed(
    session: Session,
    type_name: str,
    payload: JsonValue,
    trigger: str,
    surface: Surface | None,
    sources: Sequence[int] | None,
) -> Event:
    """Join the open turn (no flush), or write start, event and end of a one-shot turn and flush them.

    The turn is decided from the log. If the event is refused the turn is closed and
    flushed all the same, and the refusal is raised, also when the flush fails.
    """
    if not session.live:
        raise SessionNotLive(f"{type_name}: session {session.id} is not entered", session_id=session.id)
    if session.enclosing:
        raise EventRefused(
            f"{type_name}: another one-shot turn of {session.id} is being flushed", session_id=session.id
        )
    if session.state.open_turn is not None:
        return session.append(type_name, payload, surface=surface, sources=sources)
    session.enclosing = True
    try:
        with session.held():
            turn = session.append("turn/start", TurnStart(session.state.next_turn(), Trigger(trigger))).data.turn
            try:
                event = session.append(type_name, payload, surface=surface, sources=sources)
            except EventRefused as refused:
                await _close(session, turn, refused)
                raise
            session.append("turn/end", TurnEnd(turn, Reason("completed")))
            await session.flush()
            return event
    finally:
        session.enclosing = False


async def _close(session: Session, turn: int, refused: EventRefused) -> None:
    reason = Reason("error", message=str(refused), code="refused")
    session.append("turn/end", TurnEnd(turn, reason))
    try:
        await session.flush()
    except Exception as error:  # noqa: BLE001 - the refusal is what the caller asked about; the flush is tried again
        refused.add_note(f"the flush of turn {turn} failed as well: {error}")
