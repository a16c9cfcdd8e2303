"""A model of everything that can happen to a session, run against the real ones.

Two stores on one medium are two hosts. The model knows what was committed and what was
made durable; after each rule the log must be dense, fold like a log from scratch, and
hold everything that a flush has acknowledged.
"""

from __future__ import annotations

import itertools

import anyio
import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from greenroom.providers import ShellDetail
from greenroom.sessions import (
    Entered,
    Event,
    EventRefused,
    ForkRefused,
    HistoryNotLoaded,
    Invariants,
    Medium,
    MemoryStore,
    Message,
    Ports,
    Replace,
    Session,
    SessionFenced,
    SessionNotLive,
    SessionOwned,
    SessionRegistry,
    Vocabulary,
    closers,
    derive_messages,
    fold_surface,
)
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    ContextMessage,
    InboxSpliced,
    Notice,
    PluginSource,
    Reason,
    StepEnd,
    StepStart,
    Text,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
)
from greenroom_session_invariants import session_log

LS = ShellDetail("ls")
HOSTS = st.sampled_from([0, 1])
PICK = st.integers(0, 50)


class Sessions(RuleBasedStateMachine):
    """Two hosts, one medium, a handful of sessions."""

    @initialize()
    def start(self) -> None:
        self.ids = itertools.count(1)
        self.medium = Medium()
        self.hosts: list[SessionRegistry] = [self.host(), self.host()]
        self.live: dict[tuple[int, str], Entered] = {}
        self.known: list[str] = []
        self.durable: dict[str, list[Event]] = {}

    def host(self) -> SessionRegistry:
        invariants, ticks = Invariants(), itertools.count(1000)
        invariants.register("session-invariants", [session_log()])
        ports = Ports(clock=lambda: next(ticks), new_id=lambda: f"id-{next(self.ids)}")
        return SessionRegistry(MemoryStore(self.medium), Vocabulary(), invariants=invariants, ports=ports)

    def name(self) -> str:
        return f"n{next(self.ids)}"

    def pick(self, number: int) -> tuple[tuple[int, str], Entered]:
        keys = sorted(self.live)
        key = keys[number % len(keys)]
        return key, self.live[key]

    def message(self, source=None) -> Message:
        name = self.name()
        return Message(name, (Text(name),), source or UserSource())

    def add(self, number: int, *args, **more) -> Event | None:
        """Append, knowing that a fenced host's log goes on in vain until it flushes."""
        return self.pick(number)[1].session.append(*args, **more)

    # life

    @precondition(lambda self: len(self.live) < 2)
    @rule(host=HOSTS)
    def create(self, host: int) -> None:
        name = self.name()
        registry = self.hosts[host]
        self.live[host, name] = anyio.run(registry.create, registry.new_header(name))
        self.known.append(name)
        self.durable[name] = []

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def flush(self, number: int) -> None:
        (host, name), entered = self.pick(number)
        try:
            anyio.run(entered.session.flush)
        except SessionFenced:
            entered.detach()
            del self.live[host, name]
            return
        self.durable[name] = list(anyio.run(entered.session.events))

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def detach(self, number: int) -> None:
        (host, name), entered = self.pick(number)
        del self.live[host, name]
        session, length = entered.session, len(entered.session)
        try:
            anyio.run(entered.close)
        except SessionFenced:
            entered.detach()
            return
        if length:
            self.durable[name] = list(anyio.run(self.hosts[host].store.read_from, name))
            assert len(self.durable[name]) == length
        with pytest.raises(SessionNotLive):
            session.append("notice", Notice("info", "too late"))

    @rule(host=HOSTS)
    def crash(self, host: int) -> None:
        self.hosts[host].store.kill()
        for key in [key for key in self.live if key[0] == host]:
            del self.live[key]
        self.hosts[host] = self.host()

    @precondition(lambda self: self.known)
    @rule(host=HOSTS, number=PICK)
    def recover(self, host: int, number: int) -> None:
        """Resume a stored session: refused while the other host has it, otherwise whole, closed and durable."""
        name = self.known[number % len(self.known)]
        if not self.durable[name] or (host, name) in self.live:
            return
        registry = self.hosts[host]
        if (1 - host, name) in self.live:
            with pytest.raises(SessionOwned):
                anyio.run(registry.prepare_resume, name)
            return
        stored = list(self.medium.sessions[name].events)
        crashed = self.medium.sessions[name].held
        before = Session(self.medium.sessions[name].header, Vocabulary())
        for event in stored:
            before.state.apply(event, event.data)
        prepared = anyio.run(registry.prepare_resume, name)
        session = prepared.session
        events = list(anyio.run(session.events))
        assert events[: len(stored)] == stored
        added = [event.type for event in events[len(stored) :]]
        unfinished = stored[before.state.turn_start :] if before.state.open_turn else []
        expected = [closer.type for closer in closers(unfinished, before.state)]
        assert added == (["session/recast"] if crashed else []) + expected
        assert session.state.open_turn is None
        assert session.validators[0].judge(events) == []
        session.validators[0].replay(events)
        assert (session.epoch == before.state.epoch) is not crashed
        entered = registry.enter(prepared)
        entered.announce()
        self.live[host, name] = entered
        self.durable[name] = events

    @precondition(lambda self: self.known)
    @rule(host=HOSTS, number=PICK)
    def steal(self, host: int, number: int) -> None:
        """`repair --force`: the owner is fenced, and hears of it when it flushes."""
        name = self.known[number % len(self.known)]
        if (1 - host, name) not in self.live or (host, name) in self.live or not self.durable[name]:
            return
        lease = anyio.run(self.take, self.hosts[host].store, name)
        loser = self.live.pop((1 - host, name))
        loser.session.append("notice", Notice("info", "in vain"))
        with pytest.raises(SessionFenced):
            anyio.run(loser.session.flush)
        loser.detach()
        anyio.run(lease.release)
        assert self.medium.sessions[name].events == self.durable[name]

    @staticmethod
    async def take(store: MemoryStore, name: str):
        return await store.acquire(name, force=True)

    @precondition(lambda self: self.live and len(self.live) < 4)
    @rule(number=PICK, boundary=st.none() | st.integers(0, 200))
    def fork(self, number: int, boundary: int | None) -> None:
        (host, name), entered = self.pick(number)
        parent, registry = entered.session, self.hosts[host]
        if self.medium.sessions[name].token != entered.lease.token or not len(parent):
            return
        events = list(anyio.run(parent.events))
        inside = events if boundary is None else events[: boundary + 1]
        turns = [event.type for event in inside if event.type in ("turn/start", "turn/end")]
        refused = (boundary is not None and boundary >= len(events)) or turns[-1:] == ["turn/start"]
        child = self.name()

        async def make():
            return await registry.fork(parent, boundary, child_id=child)

        if refused:
            with pytest.raises(ForkRefused):
                anyio.run(make)
            return
        made = registry.enter(anyio.run(make))
        made.announce()
        assert list(made.session.tail[: len(inside)]) == inside
        assert made.session.derive_messages() == derive_messages(inside)
        assert made.session.state.inbox.ids == frozenset()
        self.live[host, child] = made
        self.known.append(child)
        self.durable[child] = []

    @precondition(lambda self: self.live and len(self.live) < 4)
    @rule(host=HOSTS, number=PICK)
    def seed(self, host: int, number: int) -> None:
        """An import: the same events under another id."""
        _, entered = self.pick(number)
        events = list(anyio.run(entered.session.events))
        if entered.session.state.open_turn is not None:
            return
        registry, name = self.hosts[host], self.name()
        header = registry.new_header(name, origin="import", seed_length=len(events))

        async def make():
            return await registry.create(header, seed=events)

        made = anyio.run(make)
        assert made.session.derive_messages() == derive_messages(events)
        self.live[host, name] = made
        self.known.append(name)
        self.durable[name] = []

    # events

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def turn(self, number: int) -> None:
        session = self.pick(number)[1].session
        start = TurnStart(session.state.next_turn(), Trigger("message"))
        if session.state.open_turn is None:
            session.append("turn/start", start)
        else:
            with pytest.raises(EventRefused):
                session.append("turn/start", start)

    @precondition(lambda self: self.live)
    @rule(number=PICK, kind=st.sampled_from(["completed", "max_tokens"]))
    def close_turn(self, number: int, kind: str) -> None:
        self.end(number, kind)

    def end(self, number: int, kind: str) -> None:
        session = self.pick(number)[1].session
        state = session.state
        if state.open_turn is None:
            return
        if state.open_step is not None:
            session.append("step/end", StepEnd(state.open_turn, state.open_step))
        session.append("turn/end", TurnEnd(state.open_turn, Reason(kind)))

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def step(self, number: int) -> None:
        session = self.pick(number)[1].session
        state = session.state
        if state.open_turn is None or state.open_step is not None:
            return
        session.append("step/start", StepStart(state.open_turn, state.last_step + 1))

    @precondition(lambda self: self.live)
    @rule(number=PICK, final=st.booleans(), text=st.sampled_from(["", "a", "b"]))
    def say(self, number: int, final: bool, text: str) -> None:
        session = self.pick(number)[1].session
        state = session.state
        if state.open_step is None:
            with pytest.raises(EventRefused):
                session.append("assistant/message", AssistantMessage(1, 1, text, "m"))
            return
        piece = AssistantMessage(state.open_turn, state.open_step, text, "m", final=final)
        session.append("assistant/message", piece, surface="append" if final else None)

    @precondition(lambda self: self.live)
    @rule(number=PICK, answered=st.booleans())
    def tool(self, number: int, answered: bool) -> None:
        session = self.pick(number)[1].session
        at = (session.state.open_turn, session.state.open_step)
        if at[1] is None:
            return
        name = self.name()
        session.append("tool/call", ToolCall(*at, name, "Bash", {}, LS))
        if answered:
            session.append("tool/result", ToolResult(*at, name, "completed", LS, output=name), surface="append")

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def prompt(self, number: int) -> None:
        """Queue a message, claim it, and let it enter if a turn is open."""
        session = self.pick(number)[1].session
        pending = session.state.inbox.next_turn
        if session.state.open_turn is None or not pending:
            session.append("inbox/spliced", InboxSpliced("next-turn", len(pending), inserted=(self.message(),)))
            return
        session.append("inbox/spliced", InboxSpliced("next-turn", 0, removed=1))
        if next(self.ids) % 3:
            session.append("user/message", UserMessage(pending[0]), surface="append")

    @precondition(lambda self: self.live)
    @rule(number=PICK, first=PICK, last=PICK)
    def compact(self, number: int, first: int, last: int) -> None:
        session = self.pick(number)[1].session
        if session.state.open_turn is None:
            return
        session.append("user/message", UserMessage(self.message()), surface="append")
        low, high = sorted((first % len(session.surface), last % len(session.surface)))
        ends = Replace((session.surface[low], session.surface[high]))
        session.append("context/message", ContextMessage(self.message(PluginSource("c"))), surface=ends)

    @precondition(lambda self: self.live)
    @rule(number=PICK, where=PICK)
    def rewind(self, number: int, where: int) -> None:
        session = self.pick(number)[1].session
        self.end(number, "completed")
        session.recast("rewind", where % (len(session) + 1))
        anyio.run(session.load_history)

    @precondition(lambda self: self.live)
    @rule(number=PICK)
    def write_from_both_hosts(self, number: int) -> None:
        """The other host cannot have the session that this one has."""
        (host, name), entered = self.pick(number)
        if not self.durable[name] or self.medium.sessions[name].token != entered.lease.token:
            return
        with pytest.raises(SessionOwned):
            anyio.run(self.hosts[1 - host].prepare_resume, name)

    # what always holds

    @invariant()
    def logs_are_dense_and_fold_like_from_scratch(self) -> None:
        for entered in getattr(self, "live", {}).values():
            session = entered.session
            events = list(anyio.run(session.events))
            assert [event.seq for event in events] == list(range(len(session)))
            try:
                derived = session.derive_messages()
            except HistoryNotLoaded:
                anyio.run(session.load_history)
                derived = session.derive_messages()
            assert derived == derive_messages(events)
            assert list(session.surface) == list(fold_surface(events).nodes)

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        for name, events in getattr(self, "durable", {}).items():
            if events:
                assert self.medium.sessions[name].events[: len(events)] == events


@pytest.mark.timeout(1200)
def test_nothing_that_can_happen_to_sessions_breaks_their_promises(soak_count):
    run_state_machine_as_test(Sessions, settings=settings(max_examples=soak_count(2000), stateful_step_count=40))
