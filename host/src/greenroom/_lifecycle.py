"""The lifecycles of plugins and scopes as literals, and the machine that walks such a literal.

The table is the only statement of what may follow what: error texts, tests and
diagrams are derived from it. The form follows h11's `_state.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from greenroom.errors import IllegalMove

if TYPE_CHECKING:
    from collections.abc import Mapping

S = TypeVar("S", bound=StrEnum)
M = TypeVar("M", bound=StrEnum)


class PluginState(StrEnum):
    """Where one generation of a plugin stands."""

    DISCOVERED = "discovered"
    LOADING = "loading"
    LOADED = "loaded"
    STARTING = "starting"
    ACTIVE = "active"
    DRAINING = "draining"
    FAILING = "failing"
    FAILED = "failed"
    UNLOADED = "unloaded"
    BLOCKED = "blocked"
    LEAKED = "leaked"


class PluginMove(StrEnum):
    """What can happen to one generation of a plugin."""

    LOAD = "load"
    BLOCK = "block"
    LOADED = "loaded"
    FAIL = "fail"
    STOP = "stop"
    LEAK = "leak"
    START = "start"
    UNLOAD = "unload"
    READY = "ready"
    DRAIN = "drain"
    REPLACE = "replace"
    CRASH = "crash"
    DRAINED = "drained"


class Phase(StrEnum):
    """The part of the work on a plugin in which an error arose."""

    DISCOVER = "discover"
    IMPORT = "import"
    CHECK = "check"
    REGISTER = "register"
    ACTIVATE = "activate"
    RUN = "run"
    DRAIN = "drain"


PLUGIN: Final[dict[PluginState, dict[PluginMove, PluginState]]] = {
    PluginState.DISCOVERED: {
        PluginMove.LOAD: PluginState.LOADING,
        PluginMove.BLOCK: PluginState.BLOCKED,
    },
    PluginState.LOADING: {
        PluginMove.LOADED: PluginState.LOADED,
        PluginMove.FAIL: PluginState.FAILED,
        PluginMove.STOP: PluginState.UNLOADED,
        PluginMove.LEAK: PluginState.LEAKED,
    },
    PluginState.LOADED: {
        PluginMove.START: PluginState.STARTING,
        PluginMove.UNLOAD: PluginState.UNLOADED,
    },
    PluginState.STARTING: {
        PluginMove.READY: PluginState.ACTIVE,
        PluginMove.FAIL: PluginState.FAILING,
        PluginMove.STOP: PluginState.DRAINING,
    },
    PluginState.ACTIVE: {
        PluginMove.DRAIN: PluginState.DRAINING,
        PluginMove.REPLACE: PluginState.DRAINING,
        PluginMove.CRASH: PluginState.FAILING,
    },
    PluginState.DRAINING: {
        PluginMove.DRAINED: PluginState.UNLOADED,
        PluginMove.FAIL: PluginState.FAILED,
    },
    PluginState.FAILING: {
        PluginMove.DRAINED: PluginState.FAILED,
        PluginMove.FAIL: PluginState.FAILED,
    },
    PluginState.FAILED: {
        PluginMove.LOAD: PluginState.LOADING,
        PluginMove.BLOCK: PluginState.BLOCKED,
    },
    PluginState.UNLOADED: {
        PluginMove.LOAD: PluginState.LOADING,
        PluginMove.BLOCK: PluginState.BLOCKED,
    },
    PluginState.BLOCKED: {PluginMove.LOAD: PluginState.LOADING},
    PluginState.LEAKED: {},  # a thread that hangs in an import can only be ended with the process
}


class ScopeState(StrEnum):
    """Where a scope stands."""

    NEW = "new"
    OPEN = "open"
    STOPPING = "stopping"
    GONE = "gone"


class ScopeMove(StrEnum):
    """What can happen to a scope."""

    RUN = "run"
    STOP = "stop"
    DRAINED = "drained"


SCOPE: Final[dict[ScopeState, dict[ScopeMove, ScopeState]]] = {
    ScopeState.NEW: {ScopeMove.RUN: ScopeState.OPEN, ScopeMove.STOP: ScopeState.STOPPING},
    ScopeState.OPEN: {ScopeMove.STOP: ScopeState.STOPPING},
    ScopeState.STOPPING: {ScopeMove.DRAINED: ScopeState.GONE},
    ScopeState.GONE: {},
}


class Machine(Generic[S, M]):
    """One state and the table that says how it may change.

    Args:
        table: for each state the moves that are possible in it and where they lead.
        state: the first state.
        owner: whose lifecycle it is, for the text of an `IllegalMove`; for a plugin its id.
    """

    __slots__ = ("_owner", "_state", "_table")

    def __init__(self, table: Mapping[S, Mapping[M, S]], state: S, *, owner: str | None = None) -> None:
        self._table = table
        self._state = state
        self._owner = owner

    @property
    def state(self) -> S:
        """The present state; only `fire` changes it."""
        return self._state

    def allows(self, move: M) -> bool:
        """Whether `fire(move)` would succeed now."""
        return move in self._table[self._state]

    def fire(self, move: M) -> S:
        """Make a move and return the new state.

        Raises:
            IllegalMove: the table lists no such move for the present state, which is kept.
        """
        moves = self._table[self._state]
        if move not in moves:
            subject = f"{self._owner}: " if self._owner else ""
            possible = ", ".join(moves) or "nothing"
            message = f"{subject}cannot {move} while {self._state}; possible: {possible}"
            raise IllegalMove(message, plugin=self._owner)
        self._state = moves[move]
        return self._state

    def __repr__(self) -> str:
        return f"Machine({self._state})"


def diagram(table: Mapping[S, Mapping[M, S]]) -> str:
    """Draw a table as the text of a mermaid state diagram, in the order of the table."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    for state, moves in table.items():
        lines += [f"    {state} --> {target}: {move}" for move, target in moves.items()]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"
