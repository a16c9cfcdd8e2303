"""The seam between the host and what runs a model: `Provider`, `ProviderSession`, `ProviderLink`, `ProviderSpec`.

A provider plugin implements the first two and publishes a `ProviderSpec` through the hook `providers()`. The driver
implements `ProviderLink`. Everything optional is a `Capability`: what a spec does not name is never called, and the
conformance class skips it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from greenroom.errors import GreenroomError

from ._details import JsonObject, Mode, PermissionResponse
from ._events import ProviderEvent
from ._shapes import (
    Availability,
    BackgroundWork,
    Capability,
    Catalogue,
    Handle,
    Interrupted,
    Launch,
    NativeSession,
    OpenRequest,
    OwnedProcess,
    RuntimeInfo,
    Steered,
    ToolEndpoint,
)

if TYPE_CHECKING:  # sessions are built upon the details in this package; at run time that is the only direction
    from greenroom.sessions import Message


LISTED: Final = 200
"""How many native conversations are looked at when one of them is looked for, or a page of them is shown."""


class ProviderError(GreenroomError):
    """Raised when a provider cannot do what it was asked; nothing was started."""


class StaleSession(ProviderError):
    """Raised by `start_turn` and `open` when the native conversation is gone; the driver reopens it once."""


class Unsupported(ProviderError):
    """Raised when an operation is called whose `Capability` the provider does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """What `start_turn` hands over: one turn's input, in order.

    Attributes:
        turn: our number of the turn.
        messages: context that was parked or injected since the last turn first, the prompt last. The last one's `id`
            is the client's id of the prompt.
    """

    turn: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfBand:
    """A prompt that is a command, not a turn: `run()` does it and emits its output."""

    run: Callable[[], Awaitable[None]]


class Translator(Protocol):
    """Raw messages of a provider in, provider events out. Does no I/O and keeps only what translation needs."""

    def sent(self, message: JsonObject) -> Sequence[ProviderEvent]:
        """Take note of a message that was written to the provider."""

    def received(self, message: JsonObject) -> Sequence[ProviderEvent]:
        """Translate a message that was read from the provider; one that is unknown becomes `raw`."""


class ProviderLink(Protocol):
    """What a provider session gets from the driver. Valid from `open` until `aclose` has returned.

    Attributes:
        prompt: the rendered system prompt, or None when the agent has no sections.
        tools: where the agent's tools are served, or None.
        env: variables to add to the environment of every process of this session (they mark it as ours).
    """

    @property
    def prompt(self) -> str | None: ...

    @property
    def tools(self) -> ToolEndpoint | None: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    def emit(self, event: ProviderEvent) -> None:
        """Hand over an event. Never blocks, never drops, never raises while the session is open."""

    async def room(self) -> None:
        """Wait while too much is pending (10,000 events or 16 MiB); to be awaited between two reads.

        Answers to control requests are resolved before it, or an answer could wait behind itself.
        """

    def spawn(self, task: Callable[[], Awaitable[None]], *, name: str) -> None:
        """Run `task` in the agent's scope. It is cancelled after `aclose`; if it raises, the session counts as lost."""

    def lost(self, message: str, *, code: str = "provider_exited", diagnostic: str | None = None) -> None:
        """Say that this session has ended by itself: the process exited, the connection broke.

        Stands behind everything emitted before it. It ends an open turn with an error; the next turn reopens the
        native conversation. Saying it twice, or after `aclose`, does nothing.
        """

    async def owns(self, process: OwnedProcess) -> None:
        """Write a process that was just started to the session's row, so that a later owner can end it.

        On return the row is durable. Cancelled: it may have been written.
        """

    async def next_step(self) -> Sequence[Message] | None:
        """End the open step, claim what waits, ask `pre_step`, and start the next step. Host-stepped providers only.

        Returns the messages that enter, or None if the turn is to end here (blocked, or cancelled).
        """

    async def stopping(self) -> bool:
        """Ask whether the turn may close. False: something was steered in meanwhile, call `next_step`."""


class ProviderSession(ABC):
    """One live conversation.

    Events reach us through the link, also before a call has returned. Every call may be cancelled by its caller; what
    that means stands with each.
    """

    @property
    @abstractmethod
    def handle(self) -> Handle | None:
        """What finds the native conversation again, or None before it is known."""

    @abstractmethod
    async def start_turn(self, request: TurnRequest) -> str:
        """Begin a turn; return the provider's id of it, which its events carry.

        Returns at the first of: the provider's acknowledgement, a sign that this prompt has begun, any request that
        needs our answer. Cancelled: the prompt may have been delivered; the driver closes or interrupts then.

        Raises:
            StaleSession: the native conversation is gone; nothing was started.
            ProviderError: the turn was refused; nothing was started.
        """

    @abstractmethod
    async def interrupt(self) -> Interrupted:
        """Ask for the end of whatever runs and return the receipt. Idle: a harmless success.

        Raises:
            ProviderError: the provider did not acknowledge; nothing is known about the turn.
        """

    @abstractmethod
    async def respond(self, request_id: str, response: PermissionResponse) -> str | None:
        """Answer a question. Returns a prompt that is to follow as a turn of its own, or None.

        Raises:
            ProviderError: no such question is open.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the conversation's process by the stop ladder; the durable conversation stays. Idempotent.

        Returns only when no process of this session is left; runs to its end also when it is cancelled.

        Raises:
            ProviderError: a process could not be ended; the session keeps its lease.
        """

    async def steer(self, message: Message) -> Steered:
        """Put a message into the running turn (`Capability.STEER`).

        Cancelled: as `AMBIGUOUS`.
        """
        raise _unsupported(Capability.STEER, message)

    async def set_mode(self, mode: str) -> str | None:
        """Use another mode (`Capability.MODES`). Returns a line for the person, or None."""
        raise _unsupported(Capability.MODES, mode)

    async def set_model(self, model: str | None) -> None:
        """Use another model, None = the default (`Capability.MODELS`)."""
        raise _unsupported(Capability.MODELS, model)

    async def set_thinking(self, level: str | None) -> None:
        """Use another thinking level, None = the default (`Capability.THINKING`)."""
        raise _unsupported(Capability.THINKING, level)

    async def set_feature(self, feature: str, value: str | bool | None) -> None:  # noqa: FBT001 - the value of a switch, not a flag
        """Choose the value of a feature (`Capability.FEATURES`)."""
        raise _unsupported(Capability.FEATURES, feature, value)

    async def runtime_info(self) -> RuntimeInfo:
        """Say what is in use now. A failure is not fatal to the caller."""
        return RuntimeInfo()

    async def modes(self) -> Sequence[Mode]:
        """Say which modes the live session offers."""
        return ()

    def history(self) -> AsyncIterator[ProviderEvent]:
        """Replay the native conversation, in order, without side effects (`Capability.HISTORY`).

        Every event carries `from_history`. Leaving early is allowed (`aclose` of the iterator).
        """
        raise _unsupported(Capability.HISTORY)

    async def revert(self, provider_message_id: str) -> None:
        """Cut the native conversation in front of a user message (`Capability.REVERT`).

        If the message is not in it, for instance because it was cut off already, nothing is done: a cut that a provider
        keeps only with its next prompt is asked for again when the conversation is opened before that.
        """
        raise _unsupported(Capability.REVERT, provider_message_id)

    def out_of_band(self, message: Message) -> OutOfBand | None:
        """Whether this prompt is a command that starts no turn (`Capability.OUT_OF_BAND`)."""
        del message  # a provider without commands treats none of them as one
        return None

    def background(self) -> Sequence[BackgroundWork]:
        """What goes on although no turn runs; closing the process would end it."""
        return ()


class Provider(ABC):
    """One kind of provider. Stateless: everything that lives belongs to a `ProviderSession`."""

    @abstractmethod
    async def availability(self) -> Availability:
        """Probe cheaply whether a session can be opened. Never raises because something is missing."""

    @abstractmethod
    async def open(self, request: OpenRequest, link: ProviderLink) -> ProviderSession:
        """Open a conversation: a new one, or the one of `request.handle` (`Capability.RESUME`).

        Cancelled or raised: no process is left.

        Raises:
            StaleSession: the native conversation of the handle is gone.
            ProviderError: it could not be opened.
        """

    async def catalogue(self, *, cwd: Path, fresh: bool = False) -> Catalogue:
        """List models, modes, features and commands. May be slow; `fresh` bypasses what is cached.

        Raises:
            ProviderError: they cannot be found out, for example because the binary is missing.
        """
        del cwd, fresh
        return Catalogue()

    async def list_native(self, *, cwd: Path | None, limit: int) -> Sequence[NativeSession]:
        """Native conversations, the latest first, of one folder or of all (`Capability.LIST`)."""
        raise _unsupported(Capability.LIST, cwd, limit)

    async def native(self, handle: Handle) -> NativeSession | None:
        """One native conversation, None if there is none (`Capability.LIST`); by default looked for in the listing."""
        listed = await self.list_native(cwd=None, limit=LISTED)
        return next((session for session in listed if session.handle.native_id == handle.native_id), None)

    async def import_native(self, handle: Handle) -> Sequence[ProviderEvent]:
        """Read the history of a native conversation, as events with `from_history` (`Capability.LIST`)."""
        raise _unsupported(Capability.LIST, handle)

    async def archive_native(self, handle: Handle) -> None:
        """Mirror that we archived the session (`Capability.ARCHIVE`)."""
        raise _unsupported(Capability.ARCHIVE, handle)

    async def unarchive_native(self, handle: Handle) -> None:
        """Mirror that we restored the session (`Capability.ARCHIVE`)."""
        raise _unsupported(Capability.ARCHIVE, handle)

    async def delete_native(self, handle: Handle) -> None:
        """Delete the native conversation (`Capability.DELETE`)."""
        raise _unsupported(Capability.DELETE, handle)

    async def diagnose(self) -> str:
        """Text for a person that helps to see what is wrong; no secrets."""
        state = await self.availability()
        return state.problem or "no problem found"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """What the hook `providers()` returns, once for each kind of provider; imports nothing heavy.

    Attributes:
        id: unique over the host, for example `acme`; stands in settings and session headers.
        label: for a person.
        steps: who runs the loop of model requests and tool calls inside a turn.
        load: makes the provider; imports what it needs when it is called.
        translator: makes a fresh translator of this provider's raw messages, or None if there is none.
        capabilities: what it can do beyond the required.
        launched: makes the provider with another way to start its program, or None if it starts none.
    """

    id: str
    label: str
    steps: Literal["host", "provider"]
    load: Callable[[], Provider]
    translator: Callable[[], Translator] | None = None
    capabilities: frozenset[Capability] = frozenset()
    launched: Callable[[Launch], Provider] | None = None


def _unsupported(capability: Capability, *arguments: object) -> Unsupported:
    """The error of an operation that a provider does not have; its arguments are only mentioned."""
    told = ", ".join(map(repr, arguments))
    return Unsupported(f"this provider has no capability {capability.value!r} (called with {told or 'nothing'})")
