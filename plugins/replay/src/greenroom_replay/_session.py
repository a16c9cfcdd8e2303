"""One conversation with a replay: each prompt plays the next turn, whatever it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import anyio
import msgspec

from greenroom.providers import (
    TERMINAL,
    Handle,
    Interrupted,
    Mode,
    Notice,
    PermissionDeny,
    PermissionRequested,
    PermissionResponse,
    ProviderError,
    ProviderEvent,
    ProviderLink,
    ProviderSession,
    RuntimeInfo,
    SessionStarted,
    TurnCanceled,
    TurnRequest,
    UserEcho,
)

from ._script import Answer, Script, Step, answer_of

Speed = float | Literal["full"]
"""A factor, 1 = as it was; or without any waiting."""


class _Question:
    """A question that was asked; `answer` is set when `given` is."""

    def __init__(self) -> None:
        self.given: Final = anyio.Event()
        self.answer: Answer = "deny"


class _Playing:
    """The turn that is played."""

    def __init__(self, turn_id: str) -> None:
        self.turn_id: Final = turn_id
        self.scope: Final = anyio.CancelScope()
        self.questions: dict[str, _Question] = {}


class ReplaySession(ProviderSession):
    """See `ProviderSession`. Where it stands is part of its native id (`<name>:<turns begun>`), so a resume goes on."""

    def __init__(self, script: Script, speed: Speed, link: ProviderLink, native_id: str, note: str | None) -> None:
        name, _, begun = native_id.rpartition(":")
        self._script = script
        self._speed = speed
        self._link = link
        self._name = name
        self._begun = int(begun)
        self._note = note
        self._playing: _Playing | None = None

    @property
    def handle(self) -> Handle | None:
        """See `ProviderSession.handle`."""
        return Handle(native_id=f"{self._name}:{self._begun}")

    async def start_turn(self, request: TurnRequest) -> str:
        """See `ProviderSession.start_turn`; what the prompt says changes nothing."""
        steps = self._script.turns[self._begun % len(self._script.turns)]
        self._begun += 1
        playing = self._playing = _Playing(f"{self._name}.{self._begun}")
        self._link.emit(SessionStarted(native_id=f"{self._name}:{self._begun}"))
        prompt = request.messages[-1].id
        self._link.emit(
            UserEcho(text="", provider_message_id=prompt, client_message_id=prompt, turn_id=playing.turn_id)
        )
        if self._note is not None:
            self._link.emit(Notice(message=self._note))
            self._note = None
        mark = f".{self._begun}"

        async def play() -> None:
            with playing.scope:
                await self._play(playing, steps, mark)

        self._link.spawn(play, name=f"replay of turn {self._begun}")
        return playing.turn_id

    async def interrupt(self) -> Interrupted:
        """See `ProviderSession.interrupt`; always acknowledged."""
        self._cancel("interrupted")
        return Interrupted()

    async def respond(self, request_id: str, response: PermissionResponse) -> str | None:
        """See `ProviderSession.respond`; the lines of that answer are played next."""
        playing = self._playing
        question = playing.questions.pop(request_id, None) if playing is not None else None
        if question is None:
            raise ProviderError(f"the replay has no open question {request_id!r}")
        question.answer = answer_of(response)
        question.given.set()
        if isinstance(response, PermissionDeny) and response.interrupt:
            self._cancel(response.message or "denied")
        return None

    async def runtime_info(self) -> RuntimeInfo:
        """See `ProviderSession.runtime_info`: the model that was heard."""
        return RuntimeInfo(model=self._script.model)

    async def modes(self) -> tuple[Mode, ...]:
        """See `ProviderSession.modes`: a replay has none."""
        return ()

    async def aclose(self) -> None:
        """See `ProviderSession.aclose`; there is no process."""
        if self._playing is not None:
            self._playing.scope.cancel()
            self._playing = None

    def _cancel(self, reason: str) -> None:
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.scope.cancel()
            self._link.emit(TurnCanceled(turn_id=playing.turn_id, reason=reason))

    async def _play(self, playing: _Playing, steps: tuple[Step, ...], mark: str) -> None:
        answer: Answer | None = None
        for step in steps:
            if step.when not in {None, answer}:
                continue
            await anyio.sleep(0 if self._speed == "full" else step.after / self._speed)
            await self._link.room()
            event = _marked(step.event, playing.turn_id, mark)
            if isinstance(event, TERMINAL):
                self._playing = None
                self._link.emit(event)
                return
            if isinstance(event, PermissionRequested) and step.waits:
                answer = await self._ask(playing, event, step.recorded)
            else:
                self._link.emit(event)

    async def _ask(self, playing: _Playing, event: PermissionRequested, recorded: Answer | None) -> Answer:
        question = playing.questions[event.request.id] = _Question()
        self._link.emit(event)
        await question.given.wait()
        if recorded is not None and question.answer != recorded:
            text = f"this is a recording: it goes on as it was answered then ({recorded})"
            self._link.emit(Notice(message=text, level="warning", code="recorded_answer"))
        return question.answer


_IDS: Final = ("message_id", "call_id", "child_id", "id", "request_id")


def _marked(event: ProviderEvent, turn_id: str, mark: str) -> ProviderEvent:
    """The event as one of this turn: a script that is played twice says nothing twice."""
    marked: ProviderEvent = msgspec.structs.replace(event, **_changes(event, turn_id, mark))
    return marked


def _changes(part: msgspec.Struct, turn_id: str, mark: str) -> Mapping[str, object]:
    fields = {name: getattr(part, name) for name in part.__struct_fields__}
    changed: dict[str, object] = {n: f"{fields[n]}{mark}" for n in _IDS if isinstance(fields.get(n), str)}
    if "turn_id" in fields:
        changed["turn_id"] = turn_id
    for name in ("request", "item"):
        if isinstance(inner := fields.get(name), msgspec.Struct):
            changed[name] = msgspec.structs.replace(inner, **_changes(inner, turn_id, mark))
    return changed
