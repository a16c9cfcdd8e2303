"""Each kind of hook is called as its rules say, on both event loops, by functions of either colour."""

from __future__ import annotations

import contextvars
import functools
import threading

import anyio
import anyio.lowlevel
import pytest

from greenroom._decision import Block, Verdict, allow, ask, block, deny
from greenroom._hooks import Hooks, hookimpl
from greenroom._kinds import KINDS, Colour, Kind
from greenroom.errors import HookError, PluginError
from greenroom.hookspecs import hookspec

pytestmark = pytest.mark.anyio

AT_ONCE = 0.05  # seconds; what waits for it never answers


@pytest.fixture
def anyio_backend(jumping_backend):
    return jumping_backend


def answering(name, value, log=None, *, colour="def", **options):
    """A marked implementation that notes its call and returns `value`, or raises it."""

    def act():
        if log is not None:
            log.append(value)
        if isinstance(value, BaseException):
            raise value
        return value

    if colour == "async":

        async def implementation(thing):
            await anyio.lowlevel.checkpoint()
            return act()

    else:

        def implementation(thing):
            return act()

    implementation.__name__ = name
    return hookimpl(**options)(implementation)


def hanging(name):
    async def hang(thing):
        await anyio.sleep_forever()

    hang.__name__ = name
    return hookimpl(timeout=AT_ONCE)(hang)


# A thread that works is no task: the jumping clock would not wait for it.
real_time = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
colours = pytest.mark.parametrize("colour", ["def", "async"])


# --- register and slot ----------------------------------------------------------------------


def test_a_register_hook_returns_what_its_one_plugin_brings(rig):
    @hookimpl
    def brings():
        return ["a provider"]

    staged = rig.stage("one", brings)
    assert rig.hooks.brings.of(staged.impl("brings")) == ["a provider"]


def test_a_register_hook_that_raises_fails_the_plugin_with_its_name(rig):
    @hookimpl
    def brings():
        raise ValueError("no key")

    with pytest.raises(HookError, match=r"hook brings failed in plugin acme:one .*ValueError: no key") as caught:
        rig.hooks.brings.of(rig.stage("one", brings).impl("brings"))
    assert (caught.value.plugin, caught.value.hook, caught.value.generation) == ("acme:one", "brings", 1)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_second_plugin_for_a_slot_is_refused_and_both_are_named(rig):
    @hookimpl
    def only_one():
        return 1

    rig.add("first", only_one)
    with pytest.raises(PluginError, match=r"acme:first and acme:second"):
        rig.add("second", only_one)
    assert [impl.short for impl in rig.hooks.only_one.impls] == ["first"]


def test_a_slot_can_change_hands_in_one_step(rig):
    @hookimpl
    def only_one():
        return 1

    old = rig.add("same", only_one)
    rig.hooks.publish(rig.stage("same", only_one, generation=2), replacing=old)
    assert [impl.generation for impl in rig.hooks.only_one.impls] == [2]


# --- setup and gate -------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["set_up", "may_go"])
async def test_a08_setup_and_gate_await_both_colours_in_order_and_return_owned_results(rig, hook):
    log = []
    rig.add("a", answering(hook, "first", log, colour="async"))
    rig.add("b", answering(hook, "second", log))
    rig.add("c", answering(hook, None, log, colour="async"))
    results = await rig.hooks.caller(hook)("x")
    assert [(owned.plugin, owned.generation, owned.value) for owned in results] == [
        ("acme:a", 1, "first"),
        ("acme:b", 1, "second"),
    ]
    assert log == ["first", "second", None]


@colours
@pytest.mark.parametrize("hook", ["set_up", "may_go"])
async def test_the_first_failure_of_a_setup_or_gate_ends_it(rig, hook, colour):
    log = []
    rig.add("a", answering(hook, ValueError("no"), log, colour=colour))
    rig.add("b", answering(hook, "never", log))
    with pytest.raises(HookError, match="acme:a"):
        await rig.hooks.caller(hook)("x")
    assert "never" not in log


@pytest.mark.parametrize("hook", ["set_up", "may_go"])
async def test_a_setup_or_gate_that_times_out_fails_the_operation(rig, hook):
    rig.add("a", hanging(hook))
    with pytest.raises(HookError, match=r"no answer within 0\.05 s") as caught:
        await rig.hooks.caller(hook)("x")
    assert isinstance(caught.value.__cause__, TimeoutError)


# --- announce -------------------------------------------------------------------------------


def test_announce_calls_all_and_then_raises_the_vetoes_of_all(rig):
    log = []
    rig.add("a", answering("born", ValueError("no"), log))
    rig.add("b", answering("born", "fine", log))
    rig.add("c", answering("born", KeyError("neither"), log))
    with pytest.raises(ExceptionGroup) as caught:
        rig.hooks.born("x")
    assert [error.plugin for error in caught.value.exceptions] == ["acme:a", "acme:c"]
    assert len(log) == 3


# --- collect --------------------------------------------------------------------------------


async def test_a08_collect_takes_parts_of_both_colours_and_misses_those_that_fail(rig):
    rig.add("a", answering("parts", "from a"))
    rig.add("b", answering("parts", ValueError("broken"), colour="async"))
    rig.add("c", answering("parts", "from c", colour="async"))
    rig.add("d", hanging("parts"))
    rig.add("e", answering("parts", None))
    assert [(part.plugin, part.value) for part in await rig.hooks.parts("x")] == [
        ("acme:a", "from a"),
        ("acme:c", "from c"),
    ]
    assert [short for short, _ in rig.reports] == ["b", "d"]


# --- observe --------------------------------------------------------------------------------


async def test_a08_observe_tells_both_colours_and_nothing_comes_back(rig):
    log = []
    plugins = [
        rig.add("a", answering("seen", ValueError("broken"), log)),
        rig.add("b", answering("seen", "b", log, colour="async")),
        rig.add("c", answering("seen", SystemExit(3), log)),
        rig.add("d", answering("seen", "d", log)),
    ]
    async with rig.feeding(*plugins):
        assert rig.hooks.seen("x") is None
        assert log[-1] == "d"  # the `def` ones have run, the other one waits
        await anyio.wait_all_tasks_blocked()
    assert log[-1] == "b"
    assert [short for short, _ in rig.reports] == ["a", "c"]


@real_time
async def test_a_blocking_observer_in_a_thread_does_not_run_on_the_loop(rig):
    threads = []
    done = anyio.Event()

    @hookimpl(thread=True)
    def seen(thing):
        threads.append(threading.current_thread())
        anyio.from_thread.run_sync(done.set)

    staged = rig.add("a", seen)
    async with rig.feeding(staged):
        rig.hooks.seen("x")
        assert threads == []
        await done.wait()
    assert threads != [threading.current_thread()]


async def test_an_observer_that_times_out_is_recorded_and_hears_the_next_call(rig):
    heard = []

    @hookimpl(timeout=AT_ONCE)
    async def seen(thing):
        heard.append(thing)
        if thing == "first":
            await anyio.sleep_forever()
        second.set()

    second = anyio.Event()
    async with rig.feeding(rig.add("a", seen)):
        rig.hooks.seen("first")
        rig.hooks.seen("second")
        await second.wait()
    assert heard == ["first", "second"]
    assert [str(error) for _, error in rig.reports] == ["no answer within 0.05 s"]


def test_a_hook_that_nobody_implements_is_not_wanted(rig):
    assert not rig.hooks.seen.wanted
    staged = rig.add("a", answering("seen", None))
    assert rig.hooks.seen.wanted
    rig.hooks.withdraw(staged)
    assert not rig.hooks.seen.wanted


def test_a_def_that_returns_a_coroutine_to_a_synchronous_caller_is_an_error_of_its_plugin(rig):
    async def work():
        raise AssertionError("nobody awaits it")

    @hookimpl
    def seen(thing):
        return work()

    @hookimpl
    def born(thing):
        return work()

    rig.add("a", seen, born)
    rig.hooks.seen("x")
    with pytest.raises(ExceptionGroup):
        rig.hooks.born("x")
    assert [type(error) for _, error in rig.reports] == [TypeError, TypeError]
    assert [error is not None for _, _, _, error in rig.trace()] == [True, True]


# --- first ----------------------------------------------------------------------------------


async def test_a08_first_asks_both_colours_in_order_until_one_answers(rig):
    log = []
    rig.add("a", answering("answer", ValueError("broken"), log, colour="async"))
    rig.add("b", hanging("answer"))
    rig.add("c", answering("answer", None, log))
    rig.add("d", answering("answer", 0, log, colour="async"))  # falsy, and an answer
    rig.add("e", answering("answer", "never", log))
    assert await rig.hooks.answer("x") == 0
    assert "never" not in log
    assert [short for short, _ in rig.reports] == ["a", "b"]


def test_first_of_a_def_only_hook_is_answered_at_once(rig):
    assert rig.hooks.answer_now("x") is None
    rig.add("a", answering("answer_now", ValueError("broken")))
    rig.add("b", answering("answer_now", "yes"))
    assert rig.hooks.answer_now("x") == "yes"


# --- rewrite --------------------------------------------------------------------------------


def rewriter(suffix, colour="def", seen=None):
    def change(text):
        if seen is not None:
            seen.append(text)
        return text + suffix

    if colour == "async":

        @hookimpl
        async def rewritten(text):
            await anyio.lowlevel.checkpoint()
            return change(text)

    else:

        @hookimpl
        def rewritten(text):
            return change(text)

    return rewritten


async def test_a08_each_rewriter_sees_what_the_earlier_ones_made(rig):
    seen = []
    rig.add("a", rewriter("a", "async", seen))
    rig.add("b", answering("rewritten", None))
    rig.add("c", rewriter("c", "def", seen))
    assert await rig.hooks.rewritten("x", "_") == "_ac"
    assert seen == ["_", "_a"]


async def test_a_rewrite_hook_that_nobody_implements_returns_the_value(rig):
    assert await rig.hooks.rewritten("x", text="as it was") == "as it was"


async def test_a_block_ends_the_chain_with_the_plugins_name(rig):
    log = []
    rig.add("a", answering("rewritten", block("not here")))
    rig.add("b", answering("rewritten", "never", log))
    assert await rig.hooks.rewritten("x", "_") == Block("not here", by="acme:a")
    assert log == []


@pytest.mark.parametrize("failing", [answering("rewritten", ValueError("no")), hanging("rewritten")])
async def test_a_rewriter_that_fails_closes_the_call(rig, failing):
    log = []
    rig.add("a", rewritten=failing)
    rig.add("b", answering("rewritten", "never", log))
    with pytest.raises(HookError, match="acme:a"):
        await rig.hooks.rewritten("x", "_")
    assert log == []


# --- decide (the policy matrix stands in test_hook_decisions.py) ----------------------------


async def test_a08_the_strictest_opinion_wins_and_ties_go_by_order(rig):
    rig.add("a", answering("allowed", allow("fine"), colour="async"))
    rig.add("b", answering("allowed", ask("who knows")))
    rig.add("c", answering("allowed", ask("not me"), colour="async"))
    rig.add("d", answering("allowed", None))
    decision = await rig.hooks.allowed("x")
    assert (decision.verdict, decision.reason, decision.by) == (Verdict.ASK, "who knows", "acme:b")
    rig.add("e", answering("allowed", deny("no", answer=7), colour="async"))
    decision = await rig.hooks.allowed("x")
    assert (decision.verdict, decision.answer, decision.by) == (Verdict.DENY, 7, "acme:e")


async def test_deciders_run_concurrently(rig):
    here, there = anyio.Event(), anyio.Event()

    def waiting(mine, others):
        @hookimpl
        async def allowed(thing):
            mine.set()
            await others.wait()

        return allowed

    rig.add("a", waiting(here, there))
    rig.add("b", waiting(there, here))
    with anyio.fail_after(20):
        assert await rig.hooks.allowed("x") is None


# --- wrap -----------------------------------------------------------------------------------


def wrapper(name, log):
    @hookimpl
    async def around(thing, call_next):
        log.append(f"{name} in")
        result = await call_next()
        log.append(f"{name} out")
        return f"{name}({result})"

    return around


async def body():
    return "body"


async def test_wraps_nest_in_order_around_the_body(rig):
    log = []
    rig.add("a", wrapper("a", log))
    rig.add("b", wrapper("b", log))
    assert await rig.hooks.around("x", body) == "a(b(body))"
    assert log == ["a in", "b in", "b out", "a out"]


async def test_a_wrap_may_leave_out_the_body_or_run_it_again(rig):
    calls = []

    async def counted():
        calls.append(1)
        return len(calls)

    @hookimpl
    async def around(thing, call_next):
        return "cached" if thing == "known" else await call_next() + await call_next()

    rig.add("a", around)
    assert await rig.hooks.around("known", counted) == "cached"
    assert await rig.hooks.around("new", counted) == 3


async def test_the_bodys_error_passes_a_wrap_unchanged_and_is_not_the_plugins(rig):
    error = ValueError("the body's own")

    async def failing():
        raise error

    rig.add("a", wrapper("a", []))
    rig.add("b", wrapper("b", []))
    with pytest.raises(ValueError, match="own") as caught:
        await rig.hooks.around("x", failing)
    assert caught.value is error
    assert rig.reports == []


async def test_the_bodys_error_is_not_the_plugins_either_when_a_task_group_wrapped_it(rig):
    error = ValueError("the body's own")

    async def failing():
        raise error

    @hookimpl
    async def around(thing, call_next):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            return await call_next()

    rig.add("a", around)
    with pytest.raises(ValueError, match="own") as caught:
        await rig.hooks.around("x", failing)
    assert caught.value is error
    assert rig.reports == []


async def test_a_wrap_that_raises_is_named_once_however_many_are_around_it(rig):
    @hookimpl
    async def around(thing, call_next):
        await call_next()
        raise KeyError("mine")

    rig.add("a", wrapper("a", []))
    rig.add("b", around)
    with pytest.raises(HookError, match="acme:b") as caught:
        await rig.hooks.around("x", body)
    assert isinstance(caught.value.__cause__, KeyError)
    assert [short for short, _ in rig.reports] == ["b"]


async def test_a_wrap_has_no_time_out_unless_it_asks_for_one(rig):
    staged = rig.add("a", wrapper("a", []))
    assert staged.impl("around").timeout is None

    @hookimpl(timeout=AT_ONCE)
    async def around(thing, call_next):
        return await call_next()

    rig.add("b", around)
    with pytest.raises(HookError, match="acme:b"):
        await rig.hooks.around("x", anyio.sleep_forever)


# --- time-outs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "cap", "applies"),
    [(None, 120.0, 10.0), (3.0, 120.0, 3.0), (500.0, 120.0, 120.0), (60.0, 20.0, 20.0), (60.0, 1.0, 10.0)],
)
def test_a_time_out_is_the_hooks_or_what_was_asked_for_up_to_the_operators_cap(rig, asked, cap, applies):
    staged = rig.stage("a", answering("allowed", None, colour="async", timeout=asked), timeout_cap=cap)
    assert staged.impl("allowed").timeout == applies


def test_a_hook_that_asks_a_person_has_no_time_out(rig):
    staged = rig.stage("a", answering("allowed", None, colour="async", interactive=True, timeout=1.0))
    assert staged.impl("allowed").timeout is None


async def test_a_person_may_take_longer_than_every_other_member_of_a_decision(rig):
    @hookimpl(interactive=True)
    async def allowed(thing):
        await timed_out.wait()
        return allow("a person said so")

    timed_out = anyio.Event()
    rig.hooks.engine.report = lambda _impl, _error: timed_out.set()
    rig.add("person", allowed)
    rig.add("slow", hanging("allowed"))
    decision = await rig.hooks.allowed("x")
    assert (decision.verdict, decision.by) == (Verdict.DENY, "acme:slow")


async def test_a_late_answer_of_one_that_swallowed_its_time_out_is_not_used(rig):
    @hookimpl(timeout=AT_ONCE)
    async def allowed(thing):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return allow("too late")

    rig.add("a", allowed)
    decision = await rig.hooks.allowed("x")
    assert (decision.verdict, decision.by) == (Verdict.DENY, "acme:a")
    assert "no answer within" in decision.reason


async def test_the_late_error_of_one_that_timed_out_is_kept_as_the_cause(rig):
    @hookimpl(timeout=AT_ONCE)
    async def parts(thing):
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("late")

    rig.add("a", parts)
    assert await rig.hooks.parts("x") == []
    [(_, error)] = rig.reports
    assert isinstance(error, TimeoutError)
    assert str(error.__cause__) == "late"


async def test_an_error_beside_the_cancellation_of_a_time_out_does_not_get_out(rig):
    async def failing_clean_up():
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("late, in a task")

    @hookimpl(timeout=AT_ONCE)
    async def parts(thing):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(failing_clean_up)
            await anyio.sleep_forever()

    rig.add("a", parts)
    assert await rig.hooks.parts("x") == []
    assert isinstance(rig.reports[0][1], TimeoutError)


async def test_an_awaitable_that_a_def_returns_is_awaited_within_the_time_out(rig):
    async def work():
        await anyio.sleep_forever()

    @hookimpl(timeout=AT_ONCE)
    def allowed(thing):
        return work()

    rig.add("a", allowed)
    assert (await rig.hooks.allowed("x")).verdict is Verdict.DENY


# --- cancellation ---------------------------------------------------------------------------

AWAITED = ["set_up", "may_go", "parts", "answer", "allowed", "rewritten", "around"]
ARGUMENTS = {"rewritten": ("x", "text"), "around": ("x", body)}


@pytest.mark.parametrize("places", [1, 2])
@pytest.mark.parametrize("hook", AWAITED)
async def test_a_cancelled_call_ends_cancelled_and_calls_nobody_else(rig, hook, places):
    waiting, log = anyio.Event(), []

    async def wait(thing):
        waiting.set()
        await anyio.sleep_forever()

    if places == 2 and hook != "around":
        rig.add("a", answering(hook, None, log))
    rig.add("b", hookimpl(hook=hook)(wait))
    if hook not in {"allowed", "around"}:  # deciders run together
        rig.add("c", answering(hook, "never", log))
    result = []

    async def call():
        result.append(await rig.hooks.caller(hook)(*ARGUMENTS.get(hook, ("x",))))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert result == []
    assert "never" not in log
    assert rig.reports == []


@pytest.mark.parametrize("hook", AWAITED)
async def test_an_implementation_that_swallows_the_cancellation_does_not_hide_it(rig, hook):
    waiting = anyio.Event()

    async def swallow(thing):
        try:
            waiting.set()
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return deny("swallowed")

    rig.add("a", hookimpl(hook=hook)(swallow))
    result = []

    async def call():
        result.append(await rig.hooks.caller(hook)(*ARGUMENTS.get(hook, ("x",))))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert result == []


async def test_a_wrap_that_swallows_the_cancellation_of_its_body_does_not_hide_it(rig):
    waiting = anyio.Event()

    async def hanging_body():
        waiting.set()
        await anyio.sleep_forever()

    @hookimpl
    async def around(thing, call_next):
        try:
            return await call_next()
        except BaseException:
            return "as if nothing had happened"

    rig.add("a", around)
    rig.add("b", wrapper("b", []))
    result = []

    async def call():
        result.append(await rig.hooks.around("x", hanging_body))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await waiting.wait()
        tasks.cancel_scope.cancel()
    assert result == []


async def test_a_wrap_may_cancel_its_body_itself(rig):
    @hookimpl
    async def around(thing, call_next):
        with anyio.move_on_after(0.01):
            return await call_next()
        return "gave up"

    rig.add("a", around)
    assert await rig.hooks.around("x", anyio.sleep_forever) == "gave up"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_nobody_asked_for_is_an_error_of_the_plugin(rig, anyio_backend):
    import asyncio

    @hookimpl
    async def allowed(thing):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    @hookimpl
    def seen(thing):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        future.result()

    rig.add("a", allowed, seen)
    assert (await rig.hooks.allowed("x")).verdict is Verdict.DENY
    rig.hooks.seen("x")
    assert [isinstance(error.__cause__, asyncio.CancelledError) for _, error in rig.reports] == [True, True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_from_outside_anyio_passes_through(rig, anyio_backend):
    import asyncio

    waiting = anyio.Event()

    @hookimpl
    async def allowed(thing):
        waiting.set()
        await anyio.sleep_forever()

    rig.add("a", allowed)
    task = asyncio.create_task(rig.hooks.allowed("x"))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.reports == []


# --- snapshot -------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", [hook for hook in AWAITED if hook != "around"])
async def test_publishing_and_withdrawing_during_a_call_take_effect_with_the_next(rig, hook):
    log: list[object] = []
    late = answering(hook, None, log)
    gone = rig.add("z", answering(hook, None, log))

    @hookimpl(hook=hook)
    def change(thing):
        rig.hooks.publish(rig.stage("y", late))
        rig.hooks.withdraw(gone)

    mover = rig.add("a", change)
    arguments = ARGUMENTS.get(hook, ("x",))
    await rig.hooks.caller(hook)(*arguments)
    assert len(log) == 1  # z, which was there when the call began
    assert [impl.short for impl in rig.hooks.caller(hook).impls] == ["a", "y"]
    rig.hooks.withdraw(mover)
    await rig.hooks.caller(hook)(*arguments)
    assert len(log) == 2


@pytest.mark.parametrize("hook", ["born", "seen", "answer_now"])
def test_a_synchronous_call_works_on_a_snapshot_too(rig, hook):
    log = []
    gone = rig.add("z", answering(hook, None, log))

    @hookimpl(hook=hook)
    def change(thing):
        rig.hooks.publish(rig.stage("y", answering(hook, None, log)))
        rig.hooks.withdraw(gone)

    rig.add("a", change)
    rig.hooks.caller(hook)("x")
    assert len(log) == 1


async def test_an_observer_that_is_withdrawn_during_a_call_leaves_nothing_behind(rig):
    gone = rig.add("z", answering("seen", None, colour="async"))

    @hookimpl
    def seen(thing):
        rig.hooks.withdraw(gone)

    rig.add("a", seen)
    async with rig.feeding(gone):
        rig.hooks.seen("x")
        await anyio.wait_all_tasks_blocked()
    assert [impl.short for impl in rig.hooks.seen.impls] == ["a"]


# --- context --------------------------------------------------------------------------------

VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


@real_time
@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("others", [0, 1])
async def test_context_variables_of_the_caller_are_visible_in_hooks(rig, thread, others):
    @hookimpl(thread=thread)
    def allowed(thing):
        return ask(VARIABLE.get())

    rig.add("a", allowed)
    for number in range(others):
        rig.add(f"other{number}", answering("allowed", None))
    VARIABLE.set("the turn's")
    assert (await rig.hooks.allowed("x")).reason == "the turn's"


# --- arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), (("x", "y"), {}), (("x",), {"thing": "again"}), ((), {"think": "x"}), (("x",), {"more": 1})],
)
def test_a_wrong_call_is_the_callers_error_and_not_the_plugins(rig, args, kwargs):
    rig.add("a", answering("seen", None))
    with pytest.raises(TypeError, match=r"seen\(thing\) was called as"):
        rig.hooks.seen(*args, **kwargs)
    assert rig.reports == []


async def test_an_implementation_is_given_the_arguments_it_names_in_any_order(rig):
    got = []

    @hookimpl
    def rewritten(text, thing):
        got.append((text, thing))

    @hookimpl(hook="set_up")
    def none_of_them():
        got.append(())

    rig.add("a", rewritten, none_of_them)
    await rig.hooks.rewritten("the thing", "the text")
    await rig.hooks.rewritten(text="the text", thing="the thing")
    await rig.hooks.set_up("x")
    assert got == [("the text", "the thing"), ("the text", "the thing"), ()]


def test_a_callable_that_a_partial_completes_is_an_implementation(rig):
    def record(level, thing, sink):
        sink.append((level, thing))

    heard = []
    rig.add("a", seen=hookimpl(functools.partial(record, "info", sink=heard)))
    rig.hooks.seen("x")
    assert heard == [("info", "x")]


# --- the table ------------------------------------------------------------------------------


def test_every_kind_has_rules_and_a_caller(rig):
    assert set(KINDS) == set(Kind)
    assert {caller.spec.kind for caller in rig.hooks} == set(Kind)


def test_a_specification_takes_colour_and_time_out_of_its_kind_unless_it_says_otherwise(rig):
    assert rig.hooks.answer.spec.colour is Colour.EITHER
    assert rig.hooks.answer_now.spec.colour is Colour.DEF_ONLY
    assert rig.hooks.allowed.spec.timeout == 10.0


def test_a_specification_whose_subject_is_no_argument_is_refused():
    with pytest.raises(ValueError, match="no argument 'agent'"):

        @hookspec(Kind.OBSERVE, subject="agent")
        def wrong(session): ...


def test_a_rewrite_that_does_not_say_what_it_rewrites_is_refused():
    class Wrong:
        @staticmethod
        @hookspec(Kind.REWRITE)
        def wrong(text): ...

    with pytest.raises(ValueError, match="value="):
        Hooks(specs=[Wrong])
