"""What a client is shown of an agent, live or only stored; pure."""

from __future__ import annotations

from typing import Final

from greenroom.agents import (
    STATE_NAMES,
    Agent,
    AgentRecord,
    AgentSnapshot,
    AgentState,
    Closed,
    Failed,
    Initializing,
    Resting,
    Running,
)

UNKNOWN_ERROR: Final = "the agent failed"
"""Of an agent in another process whose record names no error."""


def snapshot(
    record: AgentRecord, agent: Agent | None, *, available: bool = True, elsewhere: bool = False
) -> AgentSnapshot:
    """Show an agent.

    Args:
        agent: the live one, None if there is none in this host.
        available: its provider is known here.
        elsewhere: another process drives it; its record says what it does. Else an agent that is not live is closed,
            whatever its record says: nothing runs after a crash.
    """
    if agent is not None:
        questions = tuple(agent.questions.values())
        return AgentSnapshot(record=record, state=agent.state, questions=questions, live=True, available=available)
    return AgentSnapshot(record=record, state=stored_state(record, elsewhere=elsewhere), available=available)


def stored_state(record: AgentRecord, *, elsewhere: bool) -> AgentState:
    """The state of an agent that is not live in this host."""
    error = record.last_error
    if not elsewhere or record.state == "closed":
        return Closed(error)
    if record.state == "running":
        return Running(None, error)
    if record.state == "error":
        return Failed(error or UNKNOWN_ERROR)
    return Initializing() if record.state == "initializing" else Resting(error)


def error_of(state: AgentState) -> str | None:
    """The last error that a state carries."""
    return None if isinstance(state, Initializing) else state.last_error


def name_of(state: AgentState) -> str:
    """The name of a state on the wire and in records."""
    return STATE_NAMES[type(state)]
