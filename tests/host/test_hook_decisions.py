"""What each way to fail means, for a hook that is open (observe) and for one that is closed (decide)."""

from __future__ import annotations

import threading

import anyio
import pytest

from greenroom._context import CallContext
from greenroom._decision import Decision, Verdict, allow, ask, deny
from greenroom._hooks import hookimpl
from greenroom._threads import THREADS

pytestmark = pytest.mark.anyio

AT_ONCE = 0.05  # seconds; what waits for it never answers

# A thread that works is no task: the jumping clock would not wait for it.
real_time = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend(jumping_backend):
    return jumping_backend


@pytest.fixture
def blocker():
    """An event for a thread that hangs; set at the end, so that no thread outlives the test."""
    event = threading.Event()
    yield event
    event.set()


class Broken(Exception):
    def __str__(self):
        raise ValueError("not even its text works")


def implementation(kind, way, blocker, waiting):
    """One implementation that behaves in a given way; the value is an opinion or nothing, as the hook wants."""
    value = allow("fine") if kind == "closed" else None

    async def act(thing):
        if way == "raise":
            raise ValueError("no")
        if way == "raise without a text":
            raise Broken
        if way == "exit":
            raise SystemExit(3)
        if way in {"timeout", "cancel"}:
            waiting.set()
            await anyio.sleep_forever()
        return {"value": value, "none": None, "bad type": "yes!"}[way]

    def killed(thing):
        blocker.wait()
        return value

    name = {"closed": "allowed", "open": "seen"}[kind]
    if way == "killed":
        return hookimpl(hook=name, thread=True, timeout=AT_ONCE)(killed)
    return hookimpl(hook=name, timeout=AT_ONCE if way == "timeout" else None)(act)


WAYS = ["value", "none", "raise", "raise without a text", "exit", "timeout", "bad type", "killed"]

DENIED = {
    "raise": "acme:a failed to decide: ValueError: no",
    "raise without a text": "acme:a failed to decide: Broken: <Broken, its str raised ValueError>",
    "exit": "acme:a failed to decide: SystemExit: 3",
    "timeout": "acme:a failed to decide: TimeoutError: no answer within 0.05 s",
    "bad type": "acme:a answered str, not a Decision",
    "killed": "acme:a failed to decide: TimeoutError: no answer within 0.05 s",
}


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("way", WAYS)
async def test_a11_a_closed_hook_denies_whatever_is_no_opinion(rig, blocker, way, others):
    rig.add("a", implementation("closed", way, blocker, anyio.Event()))
    for _ in range(others):
        rig.add("b", hookimpl(hook="allowed")(lambda thing: allow("the other one")))
    decision = await rig.hooks.allowed("x")
    if way == "none":
        assert decision == (Decision(Verdict.ALLOW, "the other one", by="acme:b") if others else None)
    elif way == "value":
        assert decision == Decision(Verdict.ALLOW, "fine", by="acme:a")
    else:
        assert decision == Decision(Verdict.DENY, DENIED[way], by="acme:a")


@pytest.mark.parametrize("way", WAYS)
async def test_a11_an_open_hook_goes_on_whatever_an_observer_does(rig, blocker, way):
    heard = anyio.Event()

    @hookimpl
    async def seen(thing):
        heard.set()

    plugins = [rig.add("a", implementation("open", way, blocker, anyio.Event())), rig.add("b", seen)]
    async with rig.feeding(*plugins):
        rig.hooks.seen("x")
        await heard.wait()
        if way in {"timeout", "killed"}:
            await anyio.sleep(2 * AT_ONCE)
        else:
            await anyio.wait_all_tasks_blocked()
    failed = way not in {"value", "none", "bad type"}  # an observer's value means nothing
    assert [short for short, _ in rig.reports] == (["a"] if failed else [])
    assert {plugin for _, plugin, _, _ in rig.trace()} == {"acme:a", "acme:b"}


@pytest.mark.parametrize("others", [0, 1])
async def test_a11_a_cancelled_decision_is_no_decision(rig, blocker, others):
    waiting = anyio.Event()
    rig.add("a", implementation("closed", "cancel", blocker, waiting))
    for _ in range(others):
        rig.add("b", hookimpl(hook="allowed")(lambda thing: allow("too early")))
    decisions = []

    async def decide():
        decisions.append(await rig.hooks.allowed("x"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(decide)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert decisions == []


async def test_a11_an_observer_that_is_cancelled_never_ended_its_caller(rig, blocker):
    waiting = anyio.Event()
    plugin = rig.add("a", implementation("open", "cancel", blocker, waiting))
    async with rig.feeding(plugin):
        rig.hooks.seen("x")
        await waiting.wait()
    assert rig.reports == []


@real_time
async def test_a11_a_killed_thread_is_named_as_overdue_until_it_ends(rig, blocker):
    ended = threading.Event()

    @hookimpl(thread=True, timeout=AT_ONCE)
    def allowed(thing):
        blocker.wait()
        ended.set()

    rig.add("a", allowed)
    for count in (1, 2):
        assert (await rig.hooks.allowed("x")).verdict is Verdict.DENY
        assert rig.hooks.engine.overdue == {"acme:a: allowed": count}
    blocker.set()
    assert await anyio.to_thread.run_sync(ended.wait, 20)
    with anyio.fail_after(20):
        while rig.hooks.engine.overdue:
            await anyio.to_thread.run_sync(lambda: None)


@real_time
async def test_a11_threads_that_hang_leave_those_of_the_host_alone_and_are_named_when_none_is_left(rig, blocker):
    hanging = rig.add("a", hookimpl(hook="allowed", thread=True, timeout=2)(lambda thing: blocker.wait()))
    async with anyio.create_task_group() as tasks:
        for _ in range(THREADS):
            tasks.start_soon(rig.hooks.allowed, "x")
    assert rig.hooks.engine.overdue == {"acme:a: allowed": THREADS}
    assert await anyio.to_thread.run_sync(lambda: "the host's own") == "the host's own"
    rig.hooks.withdraw(hanging)
    rig.add("b", hookimpl(hook="allowed", thread=True)(lambda thing: allow()))
    decision = await rig.hooks.allowed("x")
    assert (decision.verdict, decision.by) == (Verdict.DENY, "acme:b")
    assert f"no thread is free: acme:a: allowed ({THREADS})" in decision.reason
    blocker.set()
    with anyio.fail_after(20):
        while rig.hooks.engine.overdue:
            await anyio.to_thread.run_sync(lambda: None)
    assert (await rig.hooks.allowed("x")).verdict is Verdict.ALLOW


@real_time
async def test_a11_who_waited_for_a_thread_in_vain_is_told_who_has_them(rig, blocker):
    begun = threading.Semaphore(0)

    @hookimpl(hook="parts", thread=True)
    def slow(thing):
        begun.release()
        blocker.wait()

    rig.add("a", slow)
    rig.add("b", hookimpl(hook="allowed", thread=True, timeout=AT_ONCE)(lambda thing: allow()))
    async with anyio.create_task_group() as tasks:
        for _ in range(THREADS):
            tasks.start_soon(rig.hooks.parts, "x")
        for _ in range(THREADS):
            await anyio.to_thread.run_sync(begun.acquire)
        decision = await rig.hooks.allowed("x")
        blocker.set()
    assert f"no thread was free for {AT_ONCE:g} s: acme:a: parts ({THREADS})" in decision.reason


@real_time
async def test_a11_a_call_that_answers_in_time_does_not_hide_another_that_is_overdue(rig, blocker):
    @hookimpl(thread=True)
    def allowed(thing):
        if thing == "hang":
            hanging.set()
            blocker.wait()
        return allow()

    hanging = threading.Event()
    rig.add("a", allowed)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.hooks.allowed, "hang")
        await anyio.to_thread.run_sync(hanging.wait)
        tasks.cancel_scope.cancel()
    assert (await rig.hooks.allowed("quick")).verdict is Verdict.ALLOW
    assert rig.hooks.engine.overdue == {"acme:a: allowed": 1}


async def test_a11_a_thread_that_was_cancelled_before_it_began_is_not_overdue(rig):
    calls = []
    rig.add("a", hookimpl(hook="allowed", thread=True)(lambda thing: calls.append(thing)))  # noqa: PLW0108  # marked
    with anyio.CancelScope() as scope:
        scope.cancel()
        await rig.hooks.allowed("x")
    assert rig.hooks.engine.overdue == {}
    assert calls == []


class Sub(Decision):
    def __init__(self, **wrong):
        raise AssertionError("the dispatcher builds its own")


async def test_the_one_who_decides_cannot_pretend_to_be_another(rig):
    forged = object.__new__(Sub)
    for name, value in {"verdict": Verdict.DENY, "reason": "mine", "answer": None, "by": "acme:other"}.items():
        object.__setattr__(forged, name, value)
    rig.add("a", hookimpl(hook="allowed")(lambda thing: forged))
    assert await rig.hooks.allowed("x") == Decision(Verdict.DENY, "mine", by="acme:a")


async def test_a_verdict_that_only_looks_like_one_is_a_deny(rig):
    rig.add("a", hookimpl(hook="allowed")(lambda thing: Decision(1)))  # type: ignore[arg-type]
    assert (await rig.hooks.allowed("x")).verdict is Verdict.DENY


@pytest.mark.parametrize("implemented", [False, True])
async def test_a_guarded_hook_denies_with_the_guards_name_while_one_is_absent(rig, implemented):
    asked = []
    if implemented:
        rig.add("a", hookimpl(hook="guarded")(lambda thing: asked.append(thing) or allow()))
    rig.hooks.engine.guards["acme:firewall"] = "it failed at import"
    decision = await rig.hooks.guarded("x")
    assert (decision.verdict, decision.by) == (Verdict.DENY, "acme:firewall")
    assert "it failed at import" in decision.reason
    assert asked == []
    assert (await rig.hooks.allowed("x")) is None  # a hook that is not guarded goes on
    del rig.hooks.engine.guards["acme:firewall"]
    assert (await rig.hooks.guarded("x")) == (Decision(Verdict.ALLOW, by="acme:a") if implemented else None)


def test_opinions_are_ordered_by_strictness():
    assert Verdict.ALLOW < Verdict.ASK < Verdict.DENY
    assert (allow("a", answer=1), ask("b"), deny("c", answer=2)) == (
        Decision(Verdict.ALLOW, "a", 1),
        Decision(Verdict.ASK, "b"),
        Decision(Verdict.DENY, "c", 2),
    )


async def test_each_implementation_gets_its_own_copy_of_the_call_context(rig):
    contexts = []

    class Holder:
        pass

    rig.add("a", hookimpl(hook="allowed_by")(lambda ctx: contexts.append(ctx)))  # noqa: PLW0108  # marked
    rig.add("b", hookimpl(hook="allowed_by")(lambda thing, ctx: contexts.append(ctx)), generation=4)
    context = CallContext(Holder(), agent="3f2a", turn=2, tool_call="t1")
    await rig.hooks.allowed_by(context, "x")
    assert [
        (c.plugin, c.generation, c.agent, c.turn, c.tool_call) for c in sorted(contexts, key=lambda c: c.plugin)
    ] == [
        ("acme:a", 1, "3f2a", 2, "t1"),
        ("acme:b", 4, "3f2a", 2, "t1"),
    ]
    assert context.plugin is None
