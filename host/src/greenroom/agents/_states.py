"""What clients are shown of an agent: five classes, so that an impossible combination cannot be built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Initializing:
    """From its registration until mode and model are known."""


@dataclass(frozen=True, slots=True)
class Running:
    """Something runs: the foreground turn `turn`, or (None) a turn that the provider began by itself."""

    turn: int | None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """At rest after a failed turn; a new run clears it."""

    last_error: str


@dataclass(frozen=True, slots=True)
class Resting:
    """At rest."""

    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """The farewell of an agent that has left; never in the live table."""

    last_error: str | None = None


AgentState: TypeAlias = Initializing | Running | Failed | Resting | Closed
"""The lifecycle of an agent for clients (table 3 of the lifecycles)."""

STATE_NAMES: dict[type[AgentState], str] = {
    Initializing: "initializing",
    Running: "running",
    Failed: "error",
    Resting: "idle",
    Closed: "closed",
}
"""The names on the wire."""
