"""Agents: what drives a session in this process."""

from __future__ import annotations

from greenroom.agents._agent import Agent, AgentScope, Prompt, agent_of, message_of
from greenroom.agents._agents import AgentHandle, Agents, FactorySlot, ScopedAgents
from greenroom.agents._consumed import ConsumedWork, consumed_work
from greenroom.agents._entries import Entries, Entry
from greenroom.agents._errors import (
    AgentBusy,
    AgentClosed,
    AgentError,
    CancelRefused,
    CreationAborted,
    DisposeFailed,
    NoFactory,
    TurnFailed,
)
from greenroom.agents._inbox import Claim, Inbox, InboxError
from greenroom.agents._initiator import (
    Initiators,
    NoInitiator,
    current_initiator,
    require_initiator,
    with_initiator,
    without_initiator,
)
from greenroom.agents._interfaces import (
    AgentDirectory,
    AgentFactory,
    AgentOptions,
    AgentSpec,
    Canceled,
    Cause,
    Driver,
    HostClient,
    InjectPolicy,
    Otherwise,
    Pending,
)
from greenroom.agents._life import Abort
from greenroom.agents._pipeline import Setup
from greenroom.agents._processes import end_processes, process_started
from greenroom.agents._states import (
    STATE_NAMES,
    AgentState,
    Closed,
    Failed,
    Initializing,
    Resting,
    Running,
)
from greenroom.agents._stream import RunResult, TurnStream

__all__ = [
    "STATE_NAMES",
    "Abort",
    "Agent",
    "AgentBusy",
    "AgentClosed",
    "AgentDirectory",
    "AgentError",
    "AgentFactory",
    "AgentHandle",
    "AgentOptions",
    "AgentScope",
    "AgentSpec",
    "AgentState",
    "Agents",
    "CancelRefused",
    "Canceled",
    "Cause",
    "Claim",
    "Closed",
    "ConsumedWork",
    "CreationAborted",
    "DisposeFailed",
    "Driver",
    "Entries",
    "Entry",
    "FactorySlot",
    "Failed",
    "HostClient",
    "Inbox",
    "InboxError",
    "Initializing",
    "Initiators",
    "InjectPolicy",
    "NoFactory",
    "NoInitiator",
    "Otherwise",
    "Pending",
    "Prompt",
    "Resting",
    "RunResult",
    "Running",
    "ScopedAgents",
    "Setup",
    "TurnFailed",
    "TurnStream",
    "agent_of",
    "consumed_work",
    "current_initiator",
    "end_processes",
    "message_of",
    "process_started",
    "require_initiator",
    "with_initiator",
    "without_initiator",
]
