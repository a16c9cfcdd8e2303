"""How agents and their questions stand on the wire."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, structs

from greenroom.agents import (
    STATE_NAMES,
    Agent,
    AgentRecord,
    AgentSnapshot,
    AgentState,
)
from greenroom.providers import PermissionRequest


class StateView(Struct, frozen=True, omit_defaults=True):
    """The state of an agent; `turn` is the one that runs, None also for one that the provider began."""

    name: str
    turn: int | None = None
    last_error: str | None = None


class AgentView(Struct, frozen=True, omit_defaults=True):
    """One agent: its record without the variables of its environment, its state, the questions that wait."""

    record: AgentRecord
    state: StateView
    questions: tuple[PermissionRequest, ...] = ()
    live: bool = False
    available: bool = True


class ChangeView(Struct, frozen=True):
    """One update of `state.subscribe`; `snapshot` null: the agent was deleted."""

    agent: str
    snapshot: AgentView | None


class QuestionView(Struct, frozen=True):
    """A question that waits, and whose it is."""

    agent: str
    request: PermissionRequest


class CursorParam(Struct, frozen=True, forbid_unknown_fields=True):
    """A cursor as a client sends it."""

    epoch: str
    seq: int


def state_view(state: AgentState) -> StateView:
    """A state by its name."""
    return StateView(STATE_NAMES[type(state)], getattr(state, "turn", None), getattr(state, "last_error", None))


def agent_view(snapshot: AgentSnapshot) -> AgentView:
    """What a client is shown of an agent."""
    return AgentView(
        record=structs.replace(snapshot.record, environment={}),
        state=state_view(snapshot.state),
        questions=tuple(snapshot.questions),
        live=snapshot.live,
        available=snapshot.available,
    )


def live_snapshot(agent: Agent) -> AgentSnapshot:
    """A live agent where nobody keeps records: what its session says."""
    header, config = agent.session.header, agent.session.state.config
    name = STATE_NAMES[type(agent.state)]
    state: Literal["initializing", "running", "error", "idle", "closed"] = name  # type: ignore[assignment]  # its values
    record = AgentRecord(
        id=agent.id,
        provider=agent.options.provider or header.provider or "",
        cwd=header.cwd,
        title=config.title,
        labels={name: value for name, value in (config.labels or {}).items() if value is not None},
        created_at=header.created_at,
        updated_at=header.created_at,
        internal=agent.internal,
        state=state,
    )
    questions = tuple(agent.questions.values())
    return AgentSnapshot(record=record, state=agent.state, questions=questions, live=True)
