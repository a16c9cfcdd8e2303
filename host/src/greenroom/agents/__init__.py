"""Agents: what drives a session in this process."""

from __future__ import annotations

from greenroom.agents._consumed import ConsumedWork, consumed_work
from greenroom.agents._inbox import Claim, Inbox, InboxError
from greenroom.agents._initiator import (
    NoInitiator,
    current_initiator,
    require_initiator,
    with_initiator,
    without_initiator,
)

__all__ = [
    "Claim",
    "ConsumedWork",
    "Inbox",
    "InboxError",
    "NoInitiator",
    "consumed_work",
    "current_initiator",
    "require_initiator",
    "with_initiator",
    "without_initiator",
]
