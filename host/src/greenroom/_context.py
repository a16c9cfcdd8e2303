"""Who called: the context of a hook call, and the initiator of a chain."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from greenroom._scope import Scope

INITIATOR: Final[ContextVar[Any]] = ContextVar("greenroom_initiator", default=None)
"""The agent whose asynchronous chain caused the running code.

Attribution only: it says nothing about liveness and gives no permission.
"""


@dataclass(frozen=True, slots=True)
class CallContext:
    """Where a hook call comes from; every implementation gets its own copy.

    Attributes:
        scope: the scope of the agent (or the host's) that the call is about.
        agent, parent, session: ids, or None outside an agent.
        turn, step: numbers, or None outside a turn.
        tool_call: the id of the tool call, or None.
        plugin, generation: whose implementation is being called; filled in by
            the dispatcher.
    """

    scope: Scope
    agent: str | None = None
    parent: str | None = None
    session: str | None = None
    turn: int | None = None
    step: int | None = None
    tool_call: str | None = None
    plugin: str | None = None
    generation: int | None = None

    def for_plugin(self, plugin: str, generation: int) -> CallContext:
        """Return the copy that names the implementation being called."""
        return replace(self, plugin=plugin, generation=generation)
