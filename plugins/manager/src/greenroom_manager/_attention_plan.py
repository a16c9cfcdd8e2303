"""Whom to tell: a pure function of the clients and what they report. Times are ms since the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from greenroom.agents import AttentionReason, ClientReport

PRESENT: Final = 180_000
"""For how long after doing something a person counts as being there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to tell.

    Attributes:
        client: the place in the list of the client that is to show it, None = none of them.
        push: nobody is there: it may be sent to where the person is.
        seen: somebody is looking at the agent already; then nobody is told.
    """

    client: int | None = None
    push: bool = False
    seen: bool = False


def plan(clients: Sequence[ClientReport | None], agent_id: str, reason: AttentionReason, now: int) -> Plan:
    """Whom to tell that an agent wants attention.

    Somebody who is there and looks at it: nobody. Else the present client that was active last shows it, the first
    of several. Nobody there: it may be pushed, unless it is an error, which waits for whoever comes.

    Args:
        clients: what each has reported last; None for one that has sent no heartbeat.
    """
    there = {place: client for place, client in enumerate(clients) if client is not None and _present(client, now)}
    if any(client.visible and client.focus == agent_id for client in there.values()):
        return Plan(seen=True)
    able = {place: client for place, client in there.items() if client.visible or client.kind != "mobile"}
    if able:  # an app in the background of a phone shows nothing; it is pushed to
        return Plan(client=max(able, key=lambda place: (_active(able[place], now), -place)))
    return Plan(push=reason != "error")


def _active(client: ClientReport, now: int) -> int:
    """When it was active; a clock that is ahead of ours must not win for ever."""
    return min(client.active_at, now)


def _present(client: ClientReport, now: int) -> bool:
    return now - _active(client, now) <= PRESENT
