"""A provider that does what a test tells it: answers, stays silent, hangs, dies, talks by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Literal

import anyio
import msgspec

from greenroom import hookimpl
from greenroom.providers import (
    Availability,
    BackgroundWork,
    Capability,
    Catalogue,
    Handle,
    Interrupted,
    Mode,
    Model,
    OpenRequest,
    OutOfBand,
    PermissionResponse,
    Provider,
    ProviderEvent,
    ProviderLink,
    ProviderSession,
    ProviderSpec,
    RuntimeInfo,
    SessionStarted,
    Steered,
    TextDelta,
    TurnCanceled,
    TurnCompleted,
    TurnRequest,
    UserEcho,
)
from greenroom.sessions import Message

EVERYTHING: Final = frozenset(Capability)
"""All capabilities; a test takes away what it wants to see missing."""

Starting = Callable[["ScriptedSession", TurnRequest], Awaitable[str]]


class ScriptedSession(ProviderSession):
    """One conversation of a `ScriptedProvider`.

    Attributes:
        link: what the driver gave it.
        requests: the turns it was asked for; `turns`: the ids it gave them.
        steered, responses, interrupts: what it was told.
        closed: `aclose` has ended.
    """

    def __init__(self, provider: ScriptedProvider, request: OpenRequest, link: ProviderLink) -> None:
        self.provider: Final = provider
        self.request: Final = request
        self.link: Final = link
        self.requests: list[TurnRequest] = []
        self.turns: list[str] = []
        self.steered: list[Message] = []
        self.responses: list[tuple[str, PermissionResponse]] = []
        self.config: list[tuple[str, object]] = []
        self.reverted: list[str] = []
        self.interrupts = 0
        self.closed = False
        self._native = request.handle.native_id if request.handle is not None else None

    @property
    def handle(self) -> Handle | None:
        """See `ProviderSession.handle`."""
        return Handle(native_id=self._native) if self._native is not None else None

    def emit(self, *events: ProviderEvent) -> None:
        """Say something, whatever anybody expects."""
        for event in events:
            self.link.emit(event)

    def reveal(self, native_id: str = "native-1") -> None:
        """Reveal the native id, as a provider does when its conversation begins."""
        self._native = native_id
        self.emit(SessionStarted(native_id=native_id))

    def say(self, text: str, *, turn: str | None = None, message_id: str | None = "m") -> None:
        """Stream a piece of text; into the latest turn unless another one is named."""
        self.emit(TextDelta(text=text, message_id=message_id, turn_id=turn or self.turn))

    def end(self, *, turn: str | None = None) -> None:
        """Complete a turn; the latest one unless another one is named."""
        self.emit(TurnCompleted(turn_id=turn or self.turn))

    @property
    def turn(self) -> str | None:
        """The id of the latest turn it was asked for."""
        return self.turns[-1] if self.turns else None

    async def start_turn(self, request: TurnRequest) -> str:
        """See `ProviderSession.start_turn`; what happens is the provider's `starting`."""
        self.requests.append(request)
        if self._native is None and self.provider.reveals:
            self.reveal()
        self.turns.append(f"turn-{len(self.provider.all_requests) + 1}")
        self.provider.all_requests.append(request)
        mine = self.turns[-1]
        given = await self.provider.starting(self, request)
        return given or mine

    async def interrupt(self) -> Interrupted:
        """See `ProviderSession.interrupt`; what happens is the provider's `interrupting`."""
        self.interrupts += 1
        return await self.provider.interrupting(self)

    async def respond(self, request_id: str, response: PermissionResponse) -> str | None:
        """See `ProviderSession.respond`; what happens is the provider's `responding`."""
        self.responses.append((request_id, response))
        return await self.provider.responding(self, request_id, response)

    async def steer(self, message: Message) -> Steered:
        """See `ProviderSession.steer`; what happens is the provider's `steering`."""
        self.steered.append(message)
        return await self.provider.steering(self, message)

    async def set_mode(self, mode: str) -> str | None:
        """See `ProviderSession.set_mode`."""
        self.config.append(("mode", mode))
        return None

    async def set_model(self, model: str | None) -> None:
        """See `ProviderSession.set_model`."""
        self.config.append(("model", model))

    async def set_thinking(self, level: str | None) -> None:
        """See `ProviderSession.set_thinking`."""
        self.config.append(("thinking", level))

    async def set_feature(self, feature: str, value: str | bool | None) -> None:  # noqa: FBT001 - a value, no flag
        """See `ProviderSession.set_feature`."""
        self.config.append((feature, value))

    async def runtime_info(self) -> RuntimeInfo:
        """See `ProviderSession.runtime_info`; the provider's `info`."""
        return self.provider.info

    async def modes(self) -> Sequence[Mode]:
        """See `ProviderSession.modes`."""
        return self.provider.offered_modes

    async def history(self) -> AsyncIterator[ProviderEvent]:
        """See `ProviderSession.history`; the provider's `past`."""
        for event in self.provider.past:
            yield msgspec.structs.replace(event, from_history=True)

    async def revert(self, provider_message_id: str) -> None:
        """See `ProviderSession.revert`."""
        self.reverted.append(provider_message_id)

    def out_of_band(self, message: Message) -> OutOfBand | None:
        """See `ProviderSession.out_of_band`; the provider's `commands` by their first word."""
        text = message.content[0].text if message.content and hasattr(message.content[0], "text") else ""
        run = self.provider.commands.get(str(text).partition(" ")[0])
        return OutOfBand(run=lambda: run(self)) if run is not None else None

    def background(self) -> Sequence[BackgroundWork]:
        """See `ProviderSession.background`; the provider's `works`."""
        return self.provider.works

    async def aclose(self) -> None:
        """See `ProviderSession.aclose`; what happens is the provider's `closing`."""
        if not self.closed:
            await self.provider.closing(self)
            self.closed = True


class ScriptedProvider(Provider):
    """A provider whose every move is an attribute that a test may replace.

    By default a turn is accepted at once, repeats the prompt, says `reply` and completes; interrupts end the turn;
    steering is accepted; questions take any answer.

    Attributes:
        starting, interrupting, steering, responding, opening, closing: async functions, the session first.
        sessions: all that were opened, `session` the last one.
        archiving, restoring: async functions, the native id first; what they were asked for: `archived`, `restored`.
        reply: what a turn says.
        session_type: what `open` makes.
        reveals: whether a session tells its native id when its first turn begins.
        info, offered_modes, past, commands, works: what the session reports.
    """

    def __init__(
        self,
        name: str = "scripted",
        *,
        steps: Literal["host", "provider"] = "provider",
        capabilities: frozenset[Capability] = EVERYTHING,
        reply: str = "ok",
    ) -> None:
        self.name: Final = name
        self.steps: Final = steps
        self.capabilities = capabilities
        self.reply = reply
        self.reveals = True
        self.session_type: type[ScriptedSession] = ScriptedSession
        self.sessions: list[ScriptedSession] = []
        self.opened: list[OpenRequest] = []
        self.all_requests: list[TurnRequest] = []
        self.info = RuntimeInfo(model="scripted-1", mode="default")
        self.offered_modes: Sequence[Mode] = (Mode(id="default", label="Default"),)
        self.past: Sequence[ProviderEvent] = ()
        self.works: Sequence[BackgroundWork] = ()
        self.commands: dict[str, Callable[[ScriptedSession], Awaitable[None]]] = {}
        self.starting: Callable[[ScriptedSession, TurnRequest], Awaitable[str | None]] = answer
        self.interrupting: Callable[[ScriptedSession], Awaitable[Interrupted]] = stop
        self.steering: Callable[[ScriptedSession, Message], Awaitable[Steered]] = _accept
        self.responding: Callable[[ScriptedSession, str, PermissionResponse], Awaitable[str | None]] = _take
        self.opening: Callable[[ScriptedSession], Awaitable[None]] = _nothing
        self.closing: Callable[[ScriptedSession], Awaitable[None]] = _nothing
        self.archiving: Callable[[str], Awaitable[None]] = _agree
        self.restoring: Callable[[str], Awaitable[None]] = _agree
        self.archived: list[str] = []
        self.restored: list[str] = []

    @property
    def session(self) -> ScriptedSession:
        """The session that was opened last."""
        return self.sessions[-1]

    @property
    def spec(self) -> ProviderSpec:
        """What the hook `providers` brings."""
        return ProviderSpec(
            id=self.name,
            label=self.name.title(),
            steps=self.steps,
            load=lambda: self,
            capabilities=self.capabilities,
        )

    async def availability(self) -> Availability:
        """See `Provider.availability`."""
        return Availability(ok=True, version="1")

    async def catalogue(self, *, cwd: object, fresh: bool = False) -> Catalogue:
        """See `Provider.catalogue`."""
        del cwd, fresh
        return Catalogue(models=(Model(id="scripted-1", label="Scripted", default=True),))

    async def open(self, request: OpenRequest, link: ProviderLink) -> ProviderSession:
        """See `Provider.open`; what happens is `opening`."""
        self.opened.append(request)
        session = self.session_type(self, request, link)
        await self.opening(session)
        self.sessions.append(session)
        return session

    async def archive_native(self, handle: Handle) -> None:
        """See `Provider.archive_native`; what happens is `archiving`."""
        self.archived.append(handle.native_id)
        await self.archiving(handle.native_id)

    async def unarchive_native(self, handle: Handle) -> None:
        """See `Provider.unarchive_native`; what happens is `restoring`."""
        self.restored.append(handle.native_id)
        await self.restoring(handle.native_id)


class ScriptedPlugin:
    """A plugin that brings scripted providers: `Host(plugins={"scripted": ScriptedPlugin(provider)})`."""

    def __init__(self, *brought: ScriptedProvider) -> None:
        self._brought = brought

    @hookimpl
    def providers(self) -> list[ProviderSpec]:
        """Bring them."""
        return [provider.spec for provider in self._brought]


async def answer(session: ScriptedSession, request: TurnRequest) -> str | None:
    """The default `starting`: accept, repeat the prompt, say the reply, complete. Host-stepped: also step on."""
    turn = session.turn
    if session.provider.steps == "host":
        session.link.spawn(lambda: _step_on(session, turn), name="scripted steps")
        return None
    prompt = request.messages[-1]
    session.emit(UserEcho(text="", provider_message_id=f"p-{prompt.id}", client_message_id=prompt.id, turn_id=turn))
    session.say(session.provider.reply, turn=turn)
    session.end(turn=turn)
    return None


async def accept(session: ScriptedSession, request: TurnRequest) -> str | None:
    """A `starting` that accepts and says nothing; the test goes on."""
    del session, request
    return None


async def hang(*_arguments: object) -> None:
    """Never return; for any of the moves."""
    await anyio.sleep_forever()


async def stop(session: ScriptedSession) -> Interrupted:
    """The default `interrupting`: acknowledge, and end the latest turn."""
    if session.turn is not None:
        session.emit(TurnCanceled(turn_id=session.turn, reason="interrupted"))
    return Interrupted()


async def acknowledge(session: ScriptedSession) -> Interrupted:
    """An `interrupting` that acknowledges and ends nothing."""
    del session
    return Interrupted()


async def _step_on(session: ScriptedSession, turn: str | None) -> None:
    """What a host-stepped provider does: answer, and go on while something waits."""
    while True:
        session.say(session.provider.reply, turn=turn, message_id=None)
        if await session.link.stopping():
            break
        if await session.link.next_step() is None:
            break
    session.end(turn=turn)


async def _accept(_session: ScriptedSession, _message: Message) -> Steered:
    return Steered.ACCEPTED


async def _take(_session: ScriptedSession, _request_id: str, _response: PermissionResponse) -> str | None:
    return None


async def _nothing(_session: ScriptedSession) -> None:
    """Open, or close, without any trouble."""


async def _agree(_native_id: str) -> None:
    """Archive, or restore, without any trouble."""
