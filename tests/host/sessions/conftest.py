"""Sessions with a clock and ids that a test can foresee, and short ways to write events."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from greenroom.providers import ShellDetail
from greenroom.sessions import (
    Event,
    Header,
    MemoryStore,
    Ports,
    Session,
    SessionHooks,
    SessionRegistry,
    Vocabulary,
)
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    ContextMessage,
    Message,
    PluginSource,
    Reason,
    StepEnd,
    StepStart,
    Text,
    ToolCall,
    ToolRequest,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
)


class Script:
    """Writes the events of a plausible log into a session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @staticmethod
    def message(text: str = "hello", id: str = "u1", source=None) -> Message:
        return Message(id, (Text(text),), source or UserSource())

    def turn(self, trigger: str = "message") -> int:
        number = self.session.state.next_turn()
        self.session.append("turn/start", TurnStart(number, Trigger(trigger)))
        return number

    def step(self) -> int:
        state = self.session.state
        number = state.last_step + 1
        self.session.append("step/start", StepStart(state.open_turn, number))
        return number

    @property
    def _at(self) -> tuple[int, int]:
        return self.session.state.open_turn, self.session.state.open_step

    def user(self, text: str = "hello", id: str = "u1") -> Event:
        return self.session.append("user/message", UserMessage(self.message(text, id)), surface="append")

    def context(self, text: str = "note", id: str = "c1", **more) -> Event:
        more.setdefault("surface", "append")
        return self.session.append("context/message", ContextMessage(self.message(text, id, PluginSource("p"))), **more)

    def piece(self, text: str, id: str | None = "m1") -> Event:
        return self.session.append("assistant/message", AssistantMessage(*self._at, text, id))

    def say(self, text: str = "hi", id: str | None = "m1", requests: Sequence[ToolRequest] = (), **more) -> Event:
        more.setdefault("surface", "append")
        data = AssistantMessage(*self._at, text, id, final=True, requests=tuple(requests))
        return self.session.append("assistant/message", data, **more)

    def call(self, call_id: str = "t1") -> Event:
        data = ToolCall(*self._at, call_id, "Bash", {"command": "ls"}, ShellDetail("ls"))
        return self.session.append("tool/call", data)

    def result(self, call_id: str = "t1", output: str = "out", **more) -> Event:
        more.setdefault("surface", "append")
        data = ToolResult(*self._at, call_id, "completed", ShellDetail("ls"), output=output)
        return self.session.append("tool/result", data, **more)

    def end_step(self) -> Event:
        return self.session.append("step/end", StepEnd(*self._at))

    def end(self, kind: str = "completed", **fields) -> Event:
        return self.session.append("turn/end", TurnEnd(self.session.state.open_turn, Reason(kind, **fields)))

    def whole_turn(self, text: str = "hello") -> None:
        """A prompt, an answer with a tool call, and its end."""
        turn = self.turn()
        self.user(text, f"u{turn}")
        self.step()
        self.say("let me look", f"m{turn}", [ToolRequest(f"t{turn}", "Bash", {"command": "ls"})])
        self.call(f"t{turn}")
        self.result(f"t{turn}")
        self.end_step()
        self.end()


@pytest.fixture
def ports() -> Ports:
    ticks, ids = itertools.count(1000), itertools.count(1)
    return Ports(clock=lambda: next(ticks), new_id=lambda: f"id-{next(ids)}", report=lambda error, what: None)


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary()


@pytest.fixture
def header() -> Header:
    return Header(id="s1", epoch="e1", created_at=1000, cwd="/tmp", provider="fake")


@pytest.fixture
def session(header, vocabulary, ports) -> Session:
    return Session(header, vocabulary, ports=ports)


@pytest.fixture
def script(session) -> Script:
    return Script(session)


@pytest.fixture
def scripted() -> type[Script]:
    return Script


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def registry(store, vocabulary, ports) -> SessionRegistry:
    return SessionRegistry(store, vocabulary, ports=ports)


@pytest.fixture
def make_registry(store, vocabulary, ports) -> Callable[..., SessionRegistry]:
    def make(**more) -> SessionRegistry:
        hooks = SessionHooks(**{key: more.pop(key) for key in ("created", "disposed", "event") if key in more})
        return SessionRegistry(more.pop("store", store), vocabulary, hooks=hooks, ports=ports, **more)

    return make
