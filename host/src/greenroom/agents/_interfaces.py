"""What an agent is made of: its options, its driver, and who makes drivers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeVar, get_args

import anyio

from greenroom.providers import Mode, PermissionRequest, PermissionResponse
from greenroom.sessions import Event, Message
from greenroom.sessions.vocabulary import Target

if TYPE_CHECKING:
    from greenroom.agents._agent import AgentScope
    from greenroom.agents._imports import Hydrated
    from greenroom.agents._states import AgentState
    from greenroom.sessions import Session

T = TypeVar("T")

CauseKind = Literal["user", "parent", "hook", "replaced", "provider", "disposed"]
InjectPolicy = Literal["park", "own_turn"]
Otherwise = Literal["queue", "replace"]
AnsweredBy = Literal["user", "policy"]
"""Who answers a question: a person, or what stands in for one where nobody can be asked."""

MAX_SAFE: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a turn is cancelled; the first cause of a cancel wins.

    Raises:
        ValueError: the kind is none of the known ones.
    """

    kind: CauseKind
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(CauseKind):
            raise ValueError(f"{self.kind!r} is no cause of a cancel: {', '.join(get_args(CauseKind))}")


class Canceled(StrEnum):
    """What a cancel achieved."""

    NOT_RUNNING = "not_running"
    SETTLED = "settled"
    REFUSED = "refused"
    """The provider did not acknowledge and the turn goes on; nothing was made up."""


class Pending(Generic[T]):
    """The outcome of something that has been accepted already: may be awaited, any number of times, or ignored.

    Cancelling a waiter only ends its waiting.
    """

    __slots__ = ("_done", "_error", "_value")

    def __init__(self) -> None:
        self._done = anyio.Event()
        self._value: T
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._done.is_set()

    def resolve(self, value: T) -> None:
        """Set the outcome; only the first one counts."""
        if not self.done:
            self._value = value
            self._done.set()

    def fail(self, error: BaseException) -> None:
        """Set an error as the outcome; only the first one counts."""
        if not self.done:
            self._error = error
            self._done.set()

    async def wait(self) -> T:
        """Return the outcome, or raise it."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def __await__(self) -> Generator[Any, Any, T]:
        return self.wait().__await__()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How an agent runs; may be chosen anew at each resume.

    Attributes:
        provider: id of a provider, None = the session's, else the only one.
        model, mode, thinking: None = as last time, else the provider's default.
        features: values by feature id.
        max_output_tokens: upper bound of one answer.
        inject: what `inject` does while nothing runs, unless a call says otherwise.
        environment: variables to add to those of every process that the provider starts for the agent; not logged.

    Raises:
        ValueError: `max_output_tokens` is no positive integer that JSON keeps.
    """

    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    thinking: str | None = None
    features: Mapping[str, str | bool | None] = field(default_factory=dict)
    max_output_tokens: int | None = None
    inject: InjectPolicy = "park"
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        limit: object = self.max_output_tokens
        if limit is not None and not (type(limit) is int and 0 < limit <= MAX_SAFE):
            raise ValueError(f"max_output_tokens is a positive integer, not {limit!r}")
        if self.inject not in get_args(InjectPolicy):
            raise ValueError(f"inject is one of {', '.join(get_args(InjectPolicy))}, not {self.inject!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """A session to be created and the agent that drives it.

    Attributes:
        id: None = a random one.
        cwd: absolute; None = the session has none, and the provider runs in the host's.
        options: see `AgentOptions`.
        title, labels: logged as configuration.
        internal: hidden from lists and host-wide feeds.
        parent_session, origin, delegation_depth: lineage, written to the header.
        seed, seed_length: events to begin with, and how many of them were inherited.
        blobs: the long texts that the seed refers to.
        source: why it starts, for `agent_session_start`.
    """

    id: str | None = None
    cwd: Path | None = None
    options: AgentOptions = field(default_factory=AgentOptions)
    title: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    internal: bool = False
    parent_session: str | None = None
    origin: Literal["subagent", "import", "fork"] | None = None
    delegation_depth: int | None = None
    seed: Sequence[Event] | None = None
    seed_length: int | None = None
    blobs: Sequence[bytes] = ()
    source: Literal["startup", "import"] = "startup"


class Driver(Protocol):
    """What makes an agent go. All methods but the awaitable ones take effect before they return."""

    @property
    def status(self) -> Literal["idle", "running"]: ...

    @property
    def busy(self) -> bool:
        """Whether a turn is open; between two turns it may be running and not busy."""

    @property
    def state(self) -> AgentState:
        """What clients are shown."""

    @property
    def modes(self) -> Sequence[Mode]: ...

    @property
    def questions(self) -> Mapping[str, PermissionRequest]:
        """The open questions by id."""

    async def open(self) -> None:
        """Bring up what the agent runs on; the last step before it is published. Raises: the creation fails."""

    def start(self) -> None:
        """The agent is published: begin to take what the provider says. What waits in the inbox waits for a wake."""

    def send(self, message: Message, target: Target, *, wake: bool) -> None: ...
    def wake(self) -> None: ...
    def steer(self, message: Message, *, otherwise: Otherwise) -> Pending[str]: ...
    def inject(self, message: Message, policy: InjectPolicy | None) -> None: ...
    def replace(self, message: Message) -> Pending[None]: ...
    def cancel(self, cause: Cause, *, keep_inbox: bool) -> Pending[Canceled]: ...
    async def when_idle(self) -> None: ...
    async def run_maintenance(self, task: Callable[[], Awaitable[T]]) -> T: ...
    async def initialized(self) -> None: ...
    async def started(self, timeout: float | None) -> None: ...
    async def respond(self, request_id: str, response: PermissionResponse, by: AnsweredBy) -> None: ...
    async def configure(self, what: Literal["mode", "model", "thinking"], value: str | None) -> str | None: ...
    async def set_feature(self, feature: str, value: str | bool | None) -> None: ...  # noqa: FBT001 - a value, no flag
    async def refresh(self) -> None: ...
    async def reopen(self, *, rehydrate: bool) -> None: ...
    async def revert(self, message_id: str) -> None: ...
    async def hydrate(self) -> Hydrated: ...
    async def flush(self) -> None: ...

    async def aclose(self) -> None:
        """Close the provider session by its stop ladder, take what it still said, and close what is open in the log.

        Raises:
            GreenroomError: a process could not be ended.
        """


class AgentFactory(Protocol):
    """Makes the drivers of a host's agents; offered through the slot `agent_factory`."""

    async def prepare(self, session: Session, scope: AgentScope, options: AgentOptions) -> Driver:
        """Make the driver of an agent that is being created or resumed; starts nothing.

        The agent is `scope.agent`.

        Raises:
            GreenroomError: the options cannot be met, for instance an unknown provider; the creation fails.
        """
