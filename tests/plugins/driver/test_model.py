"""Any order of anything: the log stays balanced, every waiter is answered, nothing is left."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import anyio
import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import greenroom_driver
import greenroom_session_invariants
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentClosed, AgentError, AgentSpec, Cause, Pending
from greenroom.errors import GreenroomError, IllegalMove, ScopeClosed
from greenroom.providers import (
    Idle,
    Interrupted,
    PermissionRequest,
    PermissionRequested,
    ProviderError,
    Steered,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from greenroom.sessions import Medium, MemoryStore
from greenroom_testing import ScriptedPlugin, ScriptedProvider, hang

from .jumping import JumpingLoop

INPUTS = ("followup", "steer", "steer or replace", "inject", "inject turn", "replace", "run", "maintenance")
CONTROL = ("cancel", "cancel and keep", "reopen", "flush")
SAYS = ("text", "call", "result", "end", "fail", "late end", "own start", "own end", "own text", "idle", "ask", "die")
MOVES = ("accept", "refuse", "hang at start", "acknowledge", "refuse to stop", "hang at stop", "stop")
TIME = ("wait", "let run")
ENDS = ("handle", "owner", "factory", "crash")

ACTIONS = st.lists(st.sampled_from((*INPUTS, *CONTROL, *SAYS, *MOVES, *TIME)), max_size=14)


class Store:
    def __init__(self, medium: Medium) -> None:
        self.store = MemoryStore(medium)

    @hookimpl
    def session_store(self, settings):
        return self.store


@dataclass
class World:
    host: Host
    provider: ScriptedProvider
    pending: list[Pending] = field(default_factory=list)
    tasks: list = field(default_factory=list)
    proofs: int = 0
    ended: set[str] = field(default_factory=set)
    names: itertools.count = field(default_factory=itertools.count)
    own: str | None = None

    def emit(self, *events) -> None:
        for event in events:
            if isinstance(event, (TurnCanceled, TurnCompleted, TurnFailed)):
                self.ended.add(event.turn_id)
        self.provider.session.emit(*events)

    def do(self, what: str, group) -> None:
        getattr(self, what.replace(" ", "_"))(group)

    # inputs

    def text_of(self) -> str:
        return f"message {next(self.names)}"

    def followup(self, group):
        self.agent.followup(self.text_of())

    def steer(self, group):
        self.pending.append(self.agent.steer(self.text_of()))

    def steer_or_replace(self, group):
        self.pending.append(self.agent.steer(self.text_of(), otherwise="replace"))

    def inject(self, group):
        self.agent.inject(self.text_of(), plugin="test")

    def inject_turn(self, group):
        self.agent.inject(self.text_of(), plugin="test", policy="own_turn")

    def replace(self, group):
        self.pending.append(self.agent.replace(self.text_of()))

    def run(self, group):
        self.spawn(group, self.agent.run(self.text_of()))

    def maintenance(self, group):
        self.spawn(group, self.agent.run_maintenance(lambda: anyio.sleep(0.005)))

    # control

    def cancel(self, group):
        self.pending.append(self.agent.cancel())

    def cancel_and_keep(self, group):
        self.pending.append(self.agent.cancel(Cause("parent"), keep_inbox=True))

    def reopen(self, group):
        self.spawn(group, self.agent.reopen())

    def flush(self, group):
        self.spawn(group, self.agent.flush())

    def spawn(self, group, awaitable) -> None:
        done = Pending()
        self.pending.append(done)

        async def contained():
            try:
                done.resolve(await awaitable)
            except GreenroomError as error:
                done.fail(error)
            finally:
                done.fail(AgentError("given up"))

        group.start_soon(contained)

    # what the provider says

    @property
    def turn(self) -> str | None:
        return self.provider.session.turn

    def text(self, group):
        self.emit(TextDelta(text="t", message_id="m", turn_id=self.turn))

    def call(self, group):
        self.emit(ToolStarted(call_id=f"c{next(self.names)}", name="sh", turn_id=self.turn))

    def result(self, group):
        self.emit(ToolFinished(call_id="c1", name="sh", turn_id=self.turn))

    def end(self, group):
        if self.turn is not None:
            self.emit(TurnCompleted(turn_id=self.turn))

    def fail(self, group):
        if self.turn is not None:
            self.emit(TurnFailed(turn_id=self.turn, error="failed"))

    def late_end(self, group):
        self.emit(TurnCompleted(turn_id="turn-1"), TurnCanceled(turn_id="turn-1", reason="late"))

    def own_start(self, group):
        self.own = f"own-{next(self.names)}"
        self.emit(TurnStarted(turn_id=self.own))

    def own_end(self, group):
        self.emit(TurnCompleted(turn_id=self.own))

    def own_text(self, group):
        self.emit(TextDelta(text="o", message_id="o", turn_id=self.own))

    def idle(self, group):
        self.emit(Idle())

    def ask(self, group):
        self.emit(PermissionRequested(request=PermissionRequest(id=f"q{next(self.names)}", name="sh")))

    def die(self, group):
        self.proofs += 1
        self.provider.session.link.lost("died")

    # how the provider moves

    def accept(self, group):
        async def starting(session, request):
            return None

        self.provider.starting = starting

    def refuse(self, group):
        async def starting(session, request):
            raise ProviderError("refused")

        self.provider.starting = starting

    def hang_at_start(self, group):
        self.provider.starting = hang

    def acknowledge(self, group):
        async def interrupting(session):
            self.proofs += 1
            return Interrupted()

        self.provider.interrupting = interrupting

    def refuse_to_stop(self, group):
        async def interrupting(session):
            raise ProviderError("refused")

        self.provider.interrupting = interrupting

    def hang_at_stop(self, group):
        self.provider.interrupting = hang

    def stop(self, group):
        async def interrupting(session):
            self.proofs += 1
            if session.turn is not None:
                self.emit(TurnCanceled(turn_id=session.turn, reason="stopped"))
            return Interrupted()

        self.provider.interrupting = interrupting


async def steering(session, message) -> Steered:
    return list(Steered)[len(session.steered) % 3]


async def play(actions: list[str], end: str, kinds: str) -> None:
    medium = Medium()
    provider = ScriptedProvider(steps=kinds)
    provider.steering = steering
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "invariants": greenroom_session_invariants.plugin,
        "store": Store(medium),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        before = host.effects()
        owner = host.scope.child("owner")
        await owner.open()
        world = World(host, provider)
        handle = await host.agents.create(AgentSpec(id="x"), owner=owner)
        world.agent = handle.agent
        world.accept(None)
        world.stop(None)
        async with anyio.create_task_group() as group:
            for action in actions:
                if action == "wait":
                    await anyio.sleep(0.003)
                elif action == "let run":
                    await anyio.lowlevel.checkpoint()
                else:
                    try:
                        world.do(action, group)
                    except (AgentError, ScopeClosed):
                        pass
                    except IllegalMove as illegal:
                        pytest.fail(f"{action}: {illegal}")
            await anyio.lowlevel.checkpoint()
            world.stop(None)
            with anyio.fail_after(60):
                await finish(world, handle, owner, end, plugins["store"].store)
        if end != "crash":
            check_log(world, world.agent.session.tail)
            check_left(host, before, end)
        for outcome in world.pending:
            assert outcome.done, "somebody waits for ever"
        codes = {item.code for item in host.diagnostics.recent}
        assert "event_refused" not in codes or end == "crash", list(host.diagnostics.recent)
    if end == "crash":
        await resumed(medium, world)
    else:
        assert "x" not in medium.sessions or medium.sessions["x"].held is False


async def finish(world: World, handle, owner, end: str, store: MemoryStore) -> None:
    if end == "handle":
        await handle.dispose()
    elif end == "owner":
        await owner.aclose()
    elif end == "factory":
        await world.host.unload("driver")
    else:
        store.kill()
        await handle.dispose()
    with pytest.raises(AgentClosed):
        world.agent.followup("too late")
    await owner.aclose()


def check_log(world: World, events) -> None:
    """One end for each turn, everything inside what its type says, and no end without a proof."""
    turn = step = None
    accepted = {}
    for event in events:
        kind, data = event.type, event.data
        if kind == "turn/start":
            assert turn is None, "two turns at once"
            turn = data.turn
        elif kind == "turn/accepted":
            accepted[data.turn] = data.provider_turn
        elif kind == "step/start":
            assert (turn, step) == (data.turn, None)
            step = data.step
        elif kind == "step/end":
            assert step == data.step
            step = None
        elif kind == "turn/end":
            assert (turn, step) == (data.turn, None), "an end without its turn"
            turn = None
            if data.reason.kind == "aborted" and data.turn in accepted and not world.proofs:
                assert accepted[data.turn] in world.ended or data.reason.cause == "disposed", "made up"
        elif kind.startswith(("user/message", "context/", "steering/")):
            assert turn is not None
        elif kind.startswith(("assistant/", "tool/")) and kind != "tool/settled":
            assert step is not None
    assert (turn, step) == (None, None), "a turn is open"
    assert all(two.seq == one.seq + 1 for one, two in itertools.pairwise(events))


def check_left(host: Host, before, end: str) -> None:
    assert host.agents.list() == []
    assert list(host.sessions.list()) == []
    assert host.agents._pipeline.lives == {}
    if end != "factory":
        assert host.effects() == before


async def resumed(medium: Medium, world: World) -> None:
    """After a crash the session goes on in another host, whatever was lost."""
    if "x" not in medium.sessions or not medium.sessions["x"].events:
        return
    provider = ScriptedProvider()
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "invariants": greenroom_session_invariants.plugin,
        "store": Store(medium),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        handle = await host.agents.resume("x", owner=host.scope)
        handle.agent.inbox.clear()
        assert (await handle.agent.run("go on")).reason.kind == "completed"
        await handle.agent.when_idle()
        world.agent, world.proofs = handle.agent, 1
        check_log(world, await handle.agent.session.events())


EXAMPLES = {"asyncio": 2_000, "trio": 500}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_whatever_happens_in_whatever_order(backend, soak_count):
    @settings(
        max_examples=soak_count(EXAMPLES[backend]),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(ACTIONS, st.sampled_from(ENDS), st.sampled_from(["provider", "host"]))
    @example(["reopen", "steer", "die", "cancel and keep", "steer", "replace", "die", "reopen"], "factory", "provider")
    @example(["cancel", "hang at stop", "result", "run"], "crash", "host")
    @example(["stop", "call", "own start", "acknowledge", "idle"], "crash", "host")
    @example(["hang at start", "steer", "late end", "own start", "reopen", "fail", "wait"], "handle", "host")
    def model(actions, end, kinds):
        if backend == "trio":
            clock = trio.testing.MockClock(autojump_threshold=0)
            anyio.run(play, actions, end, kinds, backend="trio", backend_options={"clock": clock})
        else:
            anyio.run(play, actions, end, kinds, backend="asyncio", backend_options={"loop_factory": JumpingLoop})

    model()
