"""What the keeper of a host's agents offers front ends: records, the ways in and out, and the answers to questions.

Front ends (the command line, the endpoint, a web page) create agents through it, so that they hold no handle and an
agent outlives the client that asked for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from msgspec import Struct

from greenroom.providers import Handle, NativeSession, PermissionRequest, PermissionResponse, RuntimeInfo, Usage
from greenroom.sessions.vocabulary import JsonObject

if TYPE_CHECKING:
    from greenroom.agents._agent import Agent
    from greenroom.agents._interfaces import AgentOptions, AgentSpec, AnsweredBy
    from greenroom.agents._pipeline import Setup
    from greenroom.agents._states import AgentState

PARENT_LABEL: Final = "greenroom.parent"
"""The label that names the agent on whose behalf this one works; it drives the archive cascade."""

Purpose = Literal["interactive", "history"]
"""Why an agent is opened: to work with it, or only to read what the provider still knows of it."""

AttentionReason = Literal["finished", "error", "permission"]


class AgentSettings(Struct, frozen=True, omit_defaults=True):
    """What the agent was asked to use; None = nothing was asked for, the provider's default."""

    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    features: JsonObject = {}  # msgspec copies an empty default
    max_output_tokens: int | None = None


class Unread(Struct, frozen=True):
    """Somebody has to look: why, and since when (ms since the epoch). A question is shown, but marks nothing unread."""

    reason: Literal["finished", "error", "marked"]
    since: int


class AgentRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of an agent beside its log, whether it is live or not. Times are ms since the epoch.

    Attributes:
        updated_at: strictly increasing; orders listings.
        state: the last one of `STATE_NAMES` that was stored; nothing is `running` after a crash.
        settings: what was asked for; `runtime`: what the provider reported.
        native: what finds the provider's conversation again.
        environment: variables that the creator added, for every start of the agent.
        had_setup: it was composed by a `setup` of its creator, which a resume must give again.
        completed_at: when its last completed turn ended; None after a failed one.
    """

    id: str
    provider: str
    cwd: str | None = None
    title: str | None = None
    labels: dict[str, str] = {}  # msgspec copies an empty default
    created_at: int
    updated_at: int
    archived_at: int | None = None
    internal: bool = False
    state: Literal["initializing", "running", "error", "idle", "closed"] = "closed"
    last_error: str | None = None
    settings: AgentSettings = AgentSettings()
    runtime: RuntimeInfo | None = None
    native: Handle | None = None
    environment: dict[str, str] = {}
    unread: Unread | None = None
    usage: Usage | None = None
    completed_at: int | None = None
    had_setup: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSnapshot:
    """What a client is shown of one agent: its record, its state now, the questions that wait for an answer.

    Attributes:
        live: an agent drives it in this host.
        available: its provider is known here; a record outlives its provider.
    """

    record: AgentRecord
    state: AgentState
    questions: Sequence[PermissionRequest] = ()
    live: bool = False
    available: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange:
    """One message of `AgentDirectory.subscribe`: the snapshot after a change, or None when the agent was deleted."""

    agent_id: str
    snapshot: AgentSnapshot | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """What became of an agent and its descendants, by id: None, or what went wrong with it."""

    results: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def failed(self) -> Mapping[str, str]:
        """Those that failed, with the reason."""
        return {agent_id: error for agent_id, error in self.results.items() if error is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Importable:
    """Native conversations that can be imported, the latest first, and the providers that could not be asked."""

    sessions: Sequence[tuple[str, NativeSession]] = ()
    errors: Mapping[str, str] = field(default_factory=dict)


class AgentDirectory(Protocol):
    """The agents of a host and their records; `host.service(AgentDirectory)`, None without a plugin that keeps them.

    Cancelled: unless said otherwise, what has begun goes on, only the waiting ends. Every method that takes an id
    raises AgentNotFound when no record has it, naming the near misses.
    """

    # reading

    async def list(self, *, archived: bool = False, internal: bool = False) -> Sequence[AgentSnapshot]:
        """All agents, the latest changed first; archived and internal ones only when asked for."""
        ...

    async def find(self, agent_id: str) -> AgentSnapshot:
        """One agent, internal and archived ones too, by its id, by `last`, or by the id of its native conversation."""
        ...

    def subscribe(self, agent_id: str | None = None) -> AbstractAsyncContextManager[AsyncIterator[AgentChange]]:
        """Follow the agents of this host: the current snapshots first, then each change, in order.

        With an id only that agent's, also if it is internal; without one all but internal ones. A reader that does not
        keep up is given the latest snapshot of each agent, not every one in between.

        Raises:
            ValueError: the id is none.
        """
        ...

    async def importable(
        self, *, provider: str | None = None, cwd: Path | None = None, query: str | None = None, limit: int = 200
    ) -> Importable:
        """Native conversations that were started elsewhere and are not imported yet."""
        ...

    # ways in

    async def create(
        self, spec: AgentSpec, *, setup: Setup | None = None, environment: Mapping[str, str] | None = None
    ) -> Agent:
        """Create an agent and keep its handle. Cancelled: given up, nothing is left. Raises as `Agents.create`."""
        ...

    async def open(
        self, agent_id: str, options: AgentOptions | None = None, *, purpose: Purpose = "interactive"
    ) -> Agent:
        """The live agent, or the stored one resumed; concurrent calls share one resume. Raises as `Agents.resume`.

        Raises:
            AgentArchived: `purpose` is interactive and the agent is archived.
        """
        ...

    async def import_native(self, provider: str | None, native_id: str, *, cwd: Path | None = None) -> Agent:
        """Take over a native conversation as an agent with its history, in its folder unless `cwd` names another one.

        `provider` None: whichever has it. Cancelled: given up, nothing is left.

        Raises:
            AgentExists: it is an agent already, or just becoming one; names the agent.
            ProviderError: there is no such conversation, or it cannot be read; nothing was created.
        """
        ...

    # ways out

    async def close(self, agent_id: str) -> None:
        """End the live agent; its record, session and pending input stay. Concurrent calls share one run."""
        ...

    async def archive(self, agent_id: str) -> Cascade:
        """Mark the agent and its descendants as archived and close them; a failed one does not stop the others."""
        ...

    async def unarchive(self, agent_id: str) -> AgentSnapshot:
        """Restore the native conversation, then the record; it stays archived if the first fails."""
        ...

    async def detach(self, agent_id: str) -> AgentSnapshot:
        """Remove the label of its parent, so that the parent's cascade no longer finds it."""
        ...

    async def delete(self, agent_id: str) -> Cascade:
        """Close the agent and its descendants and remove their records and sessions, children first."""
        ...

    # changing

    async def reload(self, agent_id: str, *, rehydrate: bool = False) -> Agent:
        """Close its provider session and open it again; timeline and epoch stay unless `rehydrate`.

        Raises:
            CancelRefused: a turn runs and could not be ended; it goes on.
        """
        ...

    async def rewind(self, agent_id: str, message_id: str) -> None:
        """Cut the conversation in front of one of our messages, here and in the provider.

        Raises:
            AgentBusy: the agent is not at rest.
            AgentError: the message was never acknowledged, or the provider cannot go back.
        """
        ...

    async def update(
        self, agent_id: str, *, title: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> AgentSnapshot:
        """Set the title, merge labels (None removes one); live or stored, one write."""
        ...

    async def mark_read(self, agent_id: str) -> AgentSnapshot:
        """Somebody has looked; the state stays."""
        ...

    async def mark_unread(self, agent_id: str) -> AgentSnapshot:
        """Somebody has to look again."""
        ...

    async def respond(
        self, agent_id: str, request_id: str, response: PermissionResponse, *, by: AnsweredBy = "user"
    ) -> None:
        """Answer a question of a live agent; the same answer again is harmless.

        Raises:
            AgentError: no such question, another answer was given, or the answer does not fit the question.
        """
        ...


class RemoteHost(Protocol):
    """A connection to a host in another process, speaking the endpoint's protocol."""

    async def call(self, method: str, **params: object) -> JsonObject:
        """Ask once and wait for the answer. Cancelled: the answer is dropped.

        Raises:
            GreenroomError: what the other host refused, with its message and hint; or the connection broke.
        """
        ...

    def follow(self, method: str, **params: object) -> AbstractAsyncContextManager[AsyncIterator[JsonObject]]:
        """Subscribe; yields the messages in order until left. Raises as `call`, on entering and while reading."""
        ...


class HostClient(Protocol):
    """Finds and talks to the host that owns a session, in another process; `host.service(HostClient)`."""

    @property
    def endpoint(self) -> str | None:
        """Where other processes reach this host, for the rows of the sessions that it owns; None if they cannot."""
        ...

    def owner(self, session_id: str) -> AbstractAsyncContextManager[RemoteHost | None]:
        """Connect to the other process that owns the session; None when nobody else does."""
        ...

    def serving(self) -> AbstractAsyncContextManager[RemoteHost | None]:
        """Connect to the host that serves this data directory; None when there is none, or it is this one."""
        ...
