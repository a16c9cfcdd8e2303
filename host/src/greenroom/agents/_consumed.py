"""Which turn last consumed work, and what was dropped since: a fold over a session's events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from greenroom.sessions import Event
from greenroom.sessions.vocabulary import InboxSpliced, Reason


@dataclass(frozen=True, slots=True)
class ConsumedWork:
    """The answer of `consumed_work`.

    Attributes:
        turn: the latest turn that entered a step, or claimed input and did not complete; None if there is none.
        reason: why it ended, None while it is open.
        dropped: queued messages that were canceled after it.
    """

    turn: int | None = None
    reason: Reason | None = None
    dropped: int = 0


@dataclass(slots=True)
class _Open:
    turn: int
    claimed: bool = False
    stepped: bool = False


def consumed_work(events: Iterable[Event]) -> ConsumedWork | None:
    """Say which turn consumed work last; None if neither a turn nor a dropped message has anything to tell.

    A turn that took nothing, or that emptied its own claim and completed, is ignored. A claim outside a turn is
    credited to none. A replacement drops nothing, and a later turn absorbs what was dropped before it.
    """
    told = ConsumedWork()
    at: _Open | None = None
    for event in events:
        if event.type == "turn/start":
            at = _Open(event.data.turn)
        elif event.type == "step/start" and at is not None:
            at.stepped = True
            told = ConsumedWork(at.turn)
        elif event.type == "inbox/spliced":
            told = _spliced(told, at, event.data)
        elif event.type == "turn/end" and at is not None:
            if at.stepped or (at.claimed and event.data.reason.kind != "completed"):
                told = ConsumedWork(at.turn, event.data.reason)
            at = None
    return None if told == ConsumedWork() else told


def _spliced(told: ConsumedWork, at: _Open | None, splice: InboxSpliced) -> ConsumedWork:
    if splice.outcome == "canceled":
        lost = 0 if splice.inserted else splice.removed
        return replace(told, dropped=told.dropped + lost)
    if splice.removed and at is not None:
        at.claimed = True
    return told
