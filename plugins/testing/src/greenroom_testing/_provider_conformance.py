"""What every provider must do. Subclass `ProviderConformance` in the tests of a provider plugin."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from greenroom.agents import process_started
from greenroom.providers import (
    TERMINAL,
    Capability,
    Handle,
    OpenRequest,
    OwnedProcess,
    PermissionDeny,
    PermissionRequested,
    Provider,
    ProviderError,
    ProviderEvent,
    ProviderSession,
    ProviderSpec,
    Steered,
    TextDelta,
    ToolEndpoint,
    TurnRequest,
    Unsupported,
)
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Text, UserSource


class RecordingLink:
    """A link that keeps what a provider session says, for tests without a driver.

    Attributes:
        events: everything it emitted, in order.
        losses: what it said about its own end.
        processes: what it told that it owns.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._news = anyio.Event()
        self.events: list[ProviderEvent] = []
        self.losses: list[str] = []
        self.processes: list[OwnedProcess] = []
        self.prompt: str | None = None
        self.tools: ToolEndpoint | None = None
        self.env: Mapping[str, str] = {"GREENROOM_AGENT_ID": f"conformance:{uuid.uuid4()}"}

    def emit(self, event: ProviderEvent) -> None:
        """See `ProviderLink.emit`."""
        self.events.append(event)
        self._news.set()

    async def room(self) -> None:
        """See `ProviderLink.room`; there is always room."""
        await anyio.lowlevel.checkpoint()

    def spawn(self, task: Callable[[], Awaitable[None]], *, name: str) -> None:
        """See `ProviderLink.spawn`."""

        async def run() -> None:
            await task()

        self._tasks.start_soon(run, name=name)

    def lost(self, message: str, *, code: str = "provider_exited", diagnostic: str | None = None) -> None:
        """See `ProviderLink.lost`."""
        del code, diagnostic
        self.losses.append(message)
        self._news.set()

    async def owns(self, process: OwnedProcess) -> None:
        """See `ProviderLink.owns`."""
        self.processes.append(process)

    async def next_step(self) -> Sequence[Message] | None:
        """See `ProviderLink.next_step`; nothing waits."""
        await anyio.lowlevel.checkpoint()
        return None

    async def stopping(self) -> bool:
        """See `ProviderLink.stopping`; nobody minds."""
        await anyio.lowlevel.checkpoint()
        return True

    async def until(self, found: Callable[[ProviderEvent], bool], *, limit: float) -> ProviderEvent:
        """Wait for an event, said already or yet to come.

        Raises:
            TimeoutError: it did not come within `limit` seconds.
            AssertionError: the session ended by itself instead.
        """
        seen = 0
        with anyio.fail_after(limit):
            while True:
                for event in self.events[seen:]:
                    if found(event):
                        return event
                seen = len(self.events)
                assert not self.losses, self.losses
                self._news = anyio.Event()
                await self._news.wait()

    def terminals(self, turn: str) -> list[ProviderEvent]:
        """The terminals of a turn."""
        return [e for e in self.events if isinstance(e, TERMINAL) and e.turn_id == turn]


@pytest.mark.anyio
class ProviderConformance:
    """One terminal for each turn, an interrupt that stops, an end that leaves nothing; the rest by capability.

    Override the fixture `spec`. `quick` is a prompt that is answered soon; `slow` one whose turn goes on until it is
    interrupted (None: those tests are skipped). `limit` is in seconds, for anything that is waited for.
    """

    quick: str = "hello"
    slow: str | None = None
    limit: float = 30.0

    @pytest.fixture
    def spec(self) -> ProviderSpec:
        """The provider that is tested; override it."""
        raise NotImplementedError("override the fixture `spec`")

    @pytest.fixture
    def provider(self, spec: ProviderSpec) -> Provider:
        """Give the provider."""
        return spec.load()

    def request(self, cwd: Path, handle: Handle | None = None) -> OpenRequest:
        """What sessions are opened with; override it to choose a model or a mode."""
        return OpenRequest(session_id=str(uuid.uuid4()), cwd=cwd, handle=handle)

    @asynccontextmanager
    async def opened(
        self, provider: Provider, cwd: Path, handle: Handle | None = None
    ) -> AsyncIterator[tuple[ProviderSession, RecordingLink]]:
        """Open a session, and close it at the end of the block."""
        try:
            async with anyio.create_task_group() as tasks:
                link = RecordingLink(tasks)
                session = await provider.open(self.request(cwd, handle), link)
                try:
                    yield session, link
                finally:
                    with anyio.CancelScope(shield=True):
                        await session.aclose()
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:  # the failure of the block itself, as the test has raised it
                raise group.exceptions[0] from None
            raise

    async def turn(self, session: ProviderSession, text: str) -> str:
        """Begin a turn; return its id."""
        message = Message(str(uuid.uuid4()), (Text(text),), UserSource())
        with anyio.fail_after(self.limit):
            return await session.start_turn(TurnRequest(turn=1, messages=(message,)))

    async def ended(self, link: RecordingLink, turn: str) -> ProviderEvent:
        """Wait for the terminal of a turn."""
        return await link.until(lambda e: isinstance(e, TERMINAL) and e.turn_id == turn, limit=self.limit)

    async def test_it_says_whether_it_can_be_used_and_never_raises(self, provider: Provider) -> None:
        """An answer with a reason where there is a problem."""
        found = await provider.availability()
        assert found.ok or found.problem

    async def test_a_turn_says_something_and_ends_with_one_terminal_that_names_it(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        """Also after the session was closed there is no second one."""
        async with self.opened(provider, tmp_path) as (session, link):
            turn = await self.turn(session, self.quick)
            await self.ended(link, turn)
        assert len(link.terminals(turn)) == 1
        assert any(isinstance(event, TextDelta) for event in link.events)
        assert not any(event.from_history for event in link.events)

    async def test_two_turns_have_two_names(self, provider: Provider, tmp_path: Path) -> None:
        """An id is never used again."""
        async with self.opened(provider, tmp_path) as (session, link):
            turns = []
            for _ in range(2):
                turns.append(await self.turn(session, self.quick))
                await self.ended(link, turns[-1])
        assert len(set(turns)) == 2  # noqa: PLR2004 - two turns
        assert [len(link.terminals(turn)) for turn in turns] == [1, 1]

    async def test_an_interrupt_at_rest_is_harmless(self, provider: Provider, tmp_path: Path) -> None:
        """The next turn runs as ever."""
        async with self.opened(provider, tmp_path) as (session, link):
            with anyio.fail_after(self.limit):
                await session.interrupt()
            turn = await self.turn(session, self.quick)
            await self.ended(link, turn)

    async def test_an_interrupt_really_stops(self, provider: Provider, tmp_path: Path) -> None:
        """One terminal, nothing after it, and the session can be used again."""
        slow = self._slow()
        async with self.opened(provider, tmp_path) as (session, link):
            turn = await self.turn(session, slow)
            with anyio.fail_after(self.limit):
                await session.interrupt()
            await self.ended(link, turn)
            place = next(i for i, e in enumerate(link.events) if isinstance(e, TERMINAL) and e.turn_id == turn)
            again = await self.turn(session, self.quick)
            await self.ended(link, again)
        assert len(link.terminals(turn)) == 1
        assert not [e for e in link.events[place + 1 :] if getattr(e, "turn_id", None) == turn]

    async def test_closing_twice_is_closing_once_and_no_process_is_left(
        self, provider: Provider, tmp_path: Path
    ) -> None:
        """Every process that it told it owns has ended."""
        async with self.opened(provider, tmp_path) as (session, link):
            await self.ended(link, await self.turn(session, self.quick))
            with anyio.fail_after(self.limit):
                await session.aclose()
                await session.aclose()
            assert [p.pid for p in link.processes if process_started(p.pid) is not None] == []

    async def test_closing_in_the_middle_of_a_turn_leaves_no_process(self, provider: Provider, tmp_path: Path) -> None:
        """The stop ladder ends what does not end by itself."""
        slow = self._slow()
        async with self.opened(provider, tmp_path) as (session, link):
            turn = await self.turn(session, slow)
            with anyio.fail_after(self.limit):
                await session.aclose()
            assert [p.pid for p in link.processes if process_started(p.pid) is not None] == []
        assert len(link.terminals(turn)) <= 1

    async def test_an_answer_to_no_question_is_an_error(self, provider: Provider, tmp_path: Path) -> None:
        """Nothing is answered by accident."""
        async with self.opened(provider, tmp_path) as (session, _link):
            with pytest.raises(ProviderError):
                await session.respond("no such question", PermissionDeny())

    async def test_a_conversation_is_found_again_and_goes_on(
        self, spec: ProviderSpec, provider: Provider, tmp_path: Path
    ) -> None:
        """By the handle alone."""
        self._need(spec, Capability.RESUME)
        async with self.opened(provider, tmp_path) as (session, link):
            await self.ended(link, await self.turn(session, self.quick))
            handle = session.handle
        assert handle is not None, "after a turn the native conversation must be known"
        async with self.opened(provider, tmp_path, handle) as (session, link):
            await self.ended(link, await self.turn(session, self.quick))
            assert session.handle is not None

    async def test_history_replays_silently(self, spec: ProviderSpec, provider: Provider, tmp_path: Path) -> None:
        """Every event says that it is history, and reading it emits nothing."""
        self._need(spec, Capability.HISTORY)
        async with self.opened(provider, tmp_path) as (session, link):
            await self.ended(link, await self.turn(session, self.quick))
            events = [event async for event in session.history()]
            assert not any(event.from_history for event in link.events)  # it may still say that it is at rest
        assert all(event.from_history for event in events)

    async def test_cutting_in_front_of_a_message_that_is_not_there_does_nothing(
        self, spec: ProviderSpec, provider: Provider, tmp_path: Path
    ) -> None:
        """A cut that the provider may have forgotten is asked for again; the conversation goes on."""
        self._need(spec, Capability.REVERT)
        async with self.opened(provider, tmp_path) as (session, link):
            await self.ended(link, await self.turn(session, self.quick))
            handle = session.handle
            with anyio.fail_after(self.limit):
                await session.revert("no such message")
            assert session.handle == handle
            await self.ended(link, await self.turn(session, self.quick))

    async def test_steering_has_one_of_three_outcomes(
        self, spec: ProviderSpec, provider: Provider, tmp_path: Path
    ) -> None:
        """And never raises because the turn cannot take it."""
        self._need(spec, Capability.STEER)
        slow = self._slow()
        async with self.opened(provider, tmp_path) as (session, _link):
            await self.turn(session, slow)
            message = Message(str(uuid.uuid4()), (Text("and another thing"),), UserSource())
            with anyio.fail_after(self.limit):
                assert await session.steer(message) in Steered

    async def test_what_it_does_not_name_it_does_not_do(
        self, spec: ProviderSpec, provider: Provider, tmp_path: Path
    ) -> None:
        """A capability that is not named raises Unsupported."""
        message = Message("m", (Text("x"),), UserSource())
        async with self.opened(provider, tmp_path) as (session, _link):
            calls: dict[Capability, Callable[[], Awaitable[object]]] = {
                Capability.STEER: lambda: session.steer(message),
                Capability.MODES: lambda: session.set_mode("x"),
                Capability.MODELS: lambda: session.set_model("x"),
                Capability.THINKING: lambda: session.set_thinking("x"),
                Capability.FEATURES: lambda: session.set_feature("x", value=None),
                Capability.REVERT: lambda: session.revert("x"),
            }
            for capability, call in calls.items():
                if capability not in spec.capabilities:
                    with pytest.raises(Unsupported):
                        await call()

    def test_unknown_messages_survive_translation(self, spec: ProviderSpec) -> None:
        """Whatever a newer version of the agent says, the translator does not fall over."""
        if spec.translator is None:
            pytest.skip("there is no translator")
        translator = spec.translator()
        for message in ({}, {"type": "surely-unknown"}, {"type": None}, {"method": 7, "params": []}, {"type": ["x"]}):
            assert not [e for e in translator.received(message) if isinstance(e, (*TERMINAL, PermissionRequested))]
            translator.sent(message)

    def _slow(self) -> str:
        if self.slow is None:
            pytest.skip("no prompt is given whose turn goes on")
        return self.slow

    def _need(self, spec: ProviderSpec, capability: Capability) -> None:
        if capability not in spec.capabilities:
            pytest.skip(f"it does not name {capability.value}")
