"""The lifecycles of the driver as literals: the phase of an agent, and a run.

Tables 2 and 4 of the design of lifecycles. `greenroom`'s own machine for plugins is private to the host, so this is
the same form with its few lines of walking; the tests over every (state, move) pair and the diagrams come from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Generic, TypeVar

from greenroom.errors import IllegalMove

S = TypeVar("S", bound=StrEnum)
M = TypeVar("M", bound=StrEnum)


class Phase(StrEnum):
    """What an agent does; `running` spans all turns of one drain of the inbox and the gaps between them."""

    IDLE = "idle"
    MAINTENANCE = "maintenance"
    RUNNING = "running"


class PhaseMove(StrEnum):
    """What can happen to the phase."""

    WAKE = "wake"
    MAINTAIN = "maintain"
    REST = "rest"


PHASE: Final[Mapping[Phase, Mapping[PhaseMove, Phase]]] = {
    Phase.IDLE: {PhaseMove.WAKE: Phase.RUNNING, PhaseMove.MAINTAIN: Phase.MAINTENANCE},
    Phase.MAINTENANCE: {PhaseMove.REST: Phase.IDLE},
    Phase.RUNNING: {PhaseMove.REST: Phase.IDLE},
}

STATUS: Final[Mapping[Phase, str]] = {Phase.IDLE: "idle", Phase.MAINTENANCE: "idle", Phase.RUNNING: "running"}
"""What the public sees of a phase."""


class RunState(StrEnum):
    """Where a run stands."""

    STARTING = "starting"
    """The provider was, or will be, asked for the turn; what it says is held."""
    ACTIVE = "active"
    """The provider has accepted the turn, or has begun it by itself."""
    STOPPING = "stopping"
    """Its completing terminal is there; `turn_stopping` decides whether the turn closes."""
    SETTLED = "settled"


class RunMove(StrEnum):
    """What can happen to a run."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    FINISH = "finish"
    SETTLE = "settle"


RUN: Final[Mapping[RunState, Mapping[RunMove, RunState]]] = {
    RunState.STARTING: {
        RunMove.ACCEPT: RunState.ACTIVE,
        RunMove.REFUSE: RunState.SETTLED,
        RunMove.SETTLE: RunState.SETTLED,  # a withdrawn prompt, or the exit of the process
    },
    RunState.ACTIVE: {RunMove.FINISH: RunState.STOPPING, RunMove.SETTLE: RunState.SETTLED},
    RunState.STOPPING: {RunMove.SETTLE: RunState.SETTLED},
    RunState.SETTLED: {},
}


class Walker(Generic[S, M]):
    """One state and its table."""

    __slots__ = ("_owner", "_table", "state")

    def __init__(self, table: Mapping[S, Mapping[M, S]], state: S, owner: str) -> None:
        self._table = table
        self._owner = owner
        self.state = state

    def fire(self, move: M) -> S:
        """Make a move and return the new state.

        Raises:
            IllegalMove: the table lists no such move here; nothing has changed.
        """
        after = self._table[self.state].get(move)
        if after is None:
            possible = ", ".join(self._table[self.state]) or "nothing"
            raise IllegalMove(f"{self._owner}: cannot {move} while {self.state}; possible: {possible}")
        self.state = after
        return after
