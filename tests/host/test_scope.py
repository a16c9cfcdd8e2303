"""A scope undoes everything that was added through it, in reverse, whatever happens on the way."""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from greenroom._context import INITIATOR
from greenroom._effect import EffectTree
from greenroom._lifecycle import SCOPE, Machine, ScopeMove, ScopeState
from greenroom._scope import Scope
from greenroom.errors import GreenroomError, IllegalMove, ScopeClosed

pytestmark = pytest.mark.anyio

GRACE = 0.05  # seconds; what waits for it never ends


@pytest.fixture
def anyio_backend(jumping_backend):
    return jumping_backend


class Ground:
    """The floor of a host: a task group, and what was reported."""

    def __init__(self, tasks):
        self.tasks = tasks
        self.reports = []
        self.left = {}

    def report(self, code, error, scope):
        self.reports.append((code, str(error), scope.label))

    def provide(self, scope, protocol, service):
        raise AssertionError("services are tested with the host")


@asynccontextmanager
async def floor():
    async with anyio.create_task_group() as tasks:
        yield Ground(tasks)
        tasks.cancel_scope.cancel()


def scope_on(ground, label="plugin a", **more):
    return Scope(label, ground, plugin="acme:a", generation=3, grace=GRACE, **more)


async def opened(ground, setup=None, label="plugin a", **more):
    scope = scope_on(ground, label, **more)
    await scope.open(setup)
    return scope


# --- the table ------------------------------------------------------------------------------

EXPECTED = {
    ("new", "run"): "open",
    ("new", "stop"): "stopping",
    ("open", "stop"): "stopping",
    ("stopping", "drained"): "gone",
}


@pytest.mark.parametrize("state", ScopeState)
@pytest.mark.parametrize("move", ScopeMove)
def test_every_pair_of_state_and_move_does_what_the_table_says(state, move):
    machine = Machine(SCOPE, state)
    expected = EXPECTED.get((state.value, move.value))
    if expected is None:
        with pytest.raises(IllegalMove):
            machine.fire(move)
        assert machine.state is state
    else:
        assert machine.fire(move) == expected


async def test_a_scope_walks_through_its_table():
    seen = []
    async with floor() as ground:
        scope = scope_on(ground)
        seen.append(scope.state)
        scope.undo(lambda: seen.append(scope.state))
        await scope.open()
        seen.append(scope.state)
        await scope.aclose()
        seen.append(scope.state)
    assert seen == ["new", "open", "stopping", "gone"]


# --- undoing --------------------------------------------------------------------------------


@pytest.mark.behaviour("D-172")
async def test_a_scope_can_be_added_to_before_it_has_a_task():
    log = []
    async with floor() as ground:
        scope = scope_on(ground)
        scope.undo(lambda: log.append("undone"), label="one")
        scope.spawn(task := Background())
        below = scope.child("agent 1")
        assert scope.effects() == EffectTree("plugin a", (EffectTree("one"), EffectTree("agent 1")))
        assert not task.began.is_set()
        await scope.open()
        await task.began.wait()
        await scope.aclose()
    assert log == ["undone"]
    assert below.state == "gone"


async def test_additions_are_undone_in_reverse_sync_and_async_alike():
    log = []

    async def later(name):
        await anyio.lowlevel.checkpoint()
        log.append(name)

    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(lambda: log.append("first"))
        scope.undo(lambda: later("second"))
        scope.undo(lambda: log.append("third"))
        await scope.aclose()
    assert log == ["third", "second", "first"]


async def test_an_effect_can_be_undone_early_and_is_undone_once():
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        early = scope.undo(lambda: log.append("early"), label="early")
        scope.undo(lambda: log.append("late"), label="late")
        await early.aclose()
        assert str(scope.effects()) == "plugin a\n  late"
        await early.aclose()
        await scope.aclose()
        await early.aclose()
    assert log == ["early", "late"]


async def test_an_effect_of_two_scopes_is_undone_with_the_first_that_ends():
    log = []
    async with floor() as ground:
        one, two = await opened(ground), await opened(ground, label="agent 1")
        one.undo(lambda: log.append("undone")).also(two)
        assert (one.effects().count(), two.effects().count()) == (1, 1)
        await two.aclose()
        assert (one.effects().count(), log) == (0, ["undone"])
        await one.aclose()
    assert log == ["undone"]


async def test_a_scope_is_not_gone_before_an_undo_that_another_began_has_ended():
    began, go_on = anyio.Event(), anyio.Event()

    async def slow():
        began.set()
        await go_on.wait()

    async with floor() as ground:
        one, two = await opened(ground), await opened(ground, label="agent 1")
        one.undo(slow, grace=100).also(two)
        ground.tasks.start_soon(one.aclose)
        await began.wait()
        ground.tasks.start_soon(two.aclose)
        await anyio.wait_all_tasks_blocked()
        assert two.state == "stopping"
        go_on.set()
        await two.aclose()
        await one.aclose()
    assert ground.reports == []


async def test_the_second_who_undoes_an_effect_waits_for_the_first():
    began, go_on, log = anyio.Event(), anyio.Event(), []

    async def slow():
        began.set()
        await go_on.wait()
        log.append("undone")

    async def second(effect):
        await effect.aclose()
        log.append("second")

    async with floor() as ground:
        scope = await opened(ground)
        effect = scope.undo(slow)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(effect.aclose)
            await began.wait()
            tasks.start_soon(second, effect)
            await anyio.wait_all_tasks_blocked()
            assert log == []
            go_on.set()
        await scope.aclose()
    assert log == ["undone", "second"]


async def test_the_error_of_an_early_undo_is_its_callers():
    def broken():
        raise ValueError("no")

    async with floor() as ground:
        scope = await opened(ground)
        with pytest.raises(ValueError, match="no"):
            await scope.undo(broken).aclose()
        await scope.aclose()
        assert scope.errors == []


# --- undos that misbehave -------------------------------------------------------------------


def raising(error):
    def undo():
        raise error

    return undo


async def hanging():
    await anyio.sleep_forever()


async def hanging_in_a_task():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(failing_late)
        await anyio.sleep_forever()


async def failing_late():
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("late")


@pytest.mark.parametrize(
    ("undo", "said"),
    [
        (raising(ValueError("no")), "no"),
        (raising(SystemExit("bye")), "bye"),
        (hanging, "clean-up 'bad' of plugin a did not end within 0.05 s and was abandoned"),
        (hanging_in_a_task, "late"),
    ],
)
async def test_an_undo_that_fails_hangs_or_exits_is_named_and_the_others_run(undo, said):
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(lambda: log.append("below"))
        scope.undo(undo, label="bad")
        scope.undo(lambda: log.append("above"))
        await scope.aclose()
        assert scope.state == "gone"
    assert log == ["above", "below"]
    assert scope.errors
    assert all(code == "cleanup_failed" and label == "plugin a" for code, _, label in ground.reports)
    assert any(
        said in text or "late" in repr(error) for (_, text, _), error in zip(ground.reports, scope.errors, strict=True)
    )


async def test_the_error_of_an_undo_says_where_it_stood():
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(raising(ValueError("no")), label="the socket")
        await scope.aclose()
    assert scope.errors[0].__notes__ == ["while undoing 'the socket' of plugin a"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_undo_that_raises_a_stray_cancellation_does_not_stop_the_others(anyio_backend):
    import asyncio

    log = []
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(lambda: log.append("below"))
        scope.undo(raising(asyncio.CancelledError()))
        await scope.aclose()
    assert log == ["below"]
    assert [code for code, _, _ in ground.reports] == ["cleanup_failed"]


async def test_an_undo_that_closes_its_own_scope_is_abandoned_and_named():
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(scope.aclose, label="closes itself")
        await scope.aclose()
        assert scope.state == "gone"
    assert "'closes itself'" in ground.reports[0][1]


async def test_an_undo_may_take_the_time_that_it_asked_for():
    log = []

    async def slow():
        await anyio.sleep(4 * GRACE)
        log.append("done")

    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(slow, grace=100)
        await scope.aclose()
    assert log == ["done"]


async def test_clean_up_is_shielded_from_a_host_that_is_cancelled():
    log = []

    async def slow():
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        log.append("undone")

    with anyio.CancelScope() as host:
        async with floor() as ground:
            scope = await opened(ground)
            scope.undo(slow)
            host.cancel()
            with anyio.CancelScope(shield=True):
                assert scope.state == "open"  # the host closes its scopes itself, in order
                await scope.aclose()
    assert log == ["undone"]


# --- entering -------------------------------------------------------------------------------


@asynccontextmanager
async def resource(log, *, hang=False):
    log.append("entering")
    if hang:
        await anyio.sleep_forever()
    try:
        yield "the resource"
    finally:
        log.append("left")


async def test_an_entered_manager_is_left_when_the_scope_ends():
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        assert await scope.enter(resource(log), label="socket") == "the resource"
        assert str(scope.effects()) == "plugin a\n  socket"
        assert log == ["entering"]
        await scope.aclose()
    assert log == ["entering", "left"]


async def test_a_manager_that_was_entered_too_late_is_left_at_once():
    log = []

    @asynccontextmanager
    async def closing():
        closer.start_soon(scope.aclose)
        while not scope.stopping:
            await anyio.lowlevel.checkpoint()
        async with resource(log) as value:
            yield value

    async with floor() as ground, anyio.create_task_group() as closer:
        scope = await opened(ground)
        with pytest.raises(ScopeClosed):
            await scope.enter(closing())
    assert log == ["entering", "left"]


async def test_a_stopped_scope_enters_nothing():
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        await scope.aclose()
        with pytest.raises(ScopeClosed):
            await scope.enter(resource(log))
    assert log == []


async def test_a_manager_whose_entering_was_cancelled_was_not_entered():
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        with anyio.move_on_after(GRACE):
            await scope.enter(resource(log, hang=True))
        assert scope.effects().count() == 0
        await scope.aclose()
    assert log == ["entering"]


# --- background tasks -----------------------------------------------------------------------


class Background:
    """A task that runs until it is cancelled."""

    def __init__(self, log=None, error=None):
        self.began = anyio.Event()
        self.ended = anyio.Event()
        self.log = log if log is not None else []
        self.error = error

    async def __call__(self):
        self.began.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.log.append("cancelled")
            self.ended.set()
            if self.error is not None:
                raise self.error


async def test_tasks_are_cancelled_before_anything_is_undone():
    log = []
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(lambda: log.append("undone"))
        scope.spawn(task := Background(log))
        await task.began.wait()
        await scope.aclose()
    assert log == ["cancelled", "undone"]
    assert (scope.crash, ground.reports) == (None, [])


@pytest.mark.parametrize(
    "error", [ValueError("no disk"), SystemExit(3), ExceptionGroup("tasks", [ValueError("no disk")])]
)
async def test_one_crash_drains_the_scope_and_leaves_the_reason(error):
    log, gone = [], anyio.Event()

    async def crash():
        raise error

    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(gone.set)
        scope.undo(lambda: log.append("undone"))
        scope.spawn(other := Background(log))
        await other.began.wait()
        scope.spawn(crash, name="sync")
        await gone.wait()
        await scope.aclose()
    assert log == ["cancelled", "undone"]
    assert scope.state == "gone"
    if isinstance(error, SystemExit):
        assert str(scope.crash) == "background task 'sync' called sys.exit"
    else:
        assert str(scope.crash) == "no disk"
    assert "in background task 'sync' of plugin a" in scope.crash.__notes__
    assert [code for code, _, _ in ground.reports] == ["task_crashed"]


async def test_a_crash_tells_its_reason_before_anything_is_undone():
    log = []

    async def crash():
        raise ValueError("no disk")

    async with floor() as ground:
        scope = scope_on(ground)
        scope.undo(lambda: log.append("undone"))
        scope.spawn(crash)
        ran = anyio.Event()

        async def live():
            await scope.run(stopping=lambda cause: log.append(str(cause)))
            ran.set()

        ground.tasks.start_soon(live)
        await ran.wait()
    assert log == ["no disk", "undone"]


async def test_the_first_of_two_crashes_is_the_reason_and_the_other_is_kept():
    async with floor() as ground:
        scope = await opened(ground)
        second = Background(error=ValueError("second"))

        async def first():
            raise ValueError("first")

        scope.spawn(second)
        await second.began.wait()
        scope.spawn(first)
        await scope._gone.wait()
    assert str(scope.crash) == "first"
    assert [str(error) for error in scope.errors] == ["second"]
    assert [code for code, _, _ in ground.reports] == ["task_crashed", "cleanup_failed"]


async def test_an_error_of_a_task_that_was_cancelled_is_a_failed_clean_up_and_no_crash():
    causes = []
    async with floor() as ground:
        scope = scope_on(ground)
        scope.spawn(task := Background(error=ValueError("late")))

        async def live(*, task_status):
            await scope.run(stopping=causes.append, task_status=task_status)

        await ground.tasks.start(live)
        await task.began.wait()
        await scope.aclose()
    assert (scope.crash, causes) == (None, [None])
    assert [str(error) for error in scope.errors] == ["late"]
    assert ground.reports == [("cleanup_failed", "late", "plugin a")]


async def test_an_error_beside_the_cancellation_of_a_task_group_is_a_failed_clean_up_too():
    async with floor() as ground:
        scope = await opened(ground)
        scope.spawn(hanging_in_a_task)
        await anyio.wait_all_tasks_blocked()
        await scope.aclose()
        assert scope.state == "gone"
    assert scope.crash is None
    assert [code for code, _, _ in ground.reports] == ["cleanup_failed"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_dies_of_a_stray_cancellation_is_a_crash(anyio_backend):
    import asyncio

    async def stray():
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with floor() as ground:
        scope = await opened(ground)
        scope.spawn(stray)
        await scope._gone.wait()
    assert isinstance(scope.crash.__cause__, asyncio.CancelledError)


async def stubborn(began, over):
    with anyio.CancelScope(shield=True):
        began.set()
        await over.wait()


async def test_a_task_that_ignores_its_cancellation_is_named_and_the_scope_ends_without_it():
    log, began, over = [], anyio.Event(), anyio.Event()
    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(lambda: log.append("undone"))
        scope.spawn(Background(log))
        scope.spawn(stubborn, began, over, name="indexer")
        await began.wait()
        await scope.aclose()
        assert (scope.state, log) == ("gone", ["cancelled", "undone"])
        said = "background task 'indexer' of plugin a ignores its cancellation for 0.15 s, and goes on"
        assert ground.reports == [("cleanup_failed", said, "plugin a")]
        assert [str(error) for error in scope.errors] == [said]
        assert scope.left_behind == ("indexer",)
        over.set()
        await anyio.wait_all_tasks_blocked()
        assert scope.left_behind == ()


async def test_what_a_task_raises_that_was_left_behind_is_reported():
    began, over = anyio.Event(), anyio.Event()

    async def late():
        await stubborn(began, over)
        raise ValueError("late")

    async with floor() as ground:
        scope = await opened(ground)
        scope.spawn(late)
        await began.wait()
        await scope.aclose()
        over.set()
        await anyio.wait_all_tasks_blocked()
        assert ground.reports[1:] == [("cleanup_failed", "late", "plugin a")]


async def test_a_task_that_was_to_begin_with_a_scope_that_never_did_is_not_waited_for():
    async with floor() as ground:
        scope = scope_on(ground)
        scope.spawn(Background())
        await scope.aclose()
        assert (scope.state, ground.reports) == ("gone", [])


async def test_a_task_that_ends_by_itself_ends_nothing_else():
    done = anyio.Event()

    async def work(value):
        assert value == "argument"
        done.set()

    async with floor() as ground:
        scope = await opened(ground)
        scope.spawn(work, "argument")
        await done.wait()
        assert scope.state == "open"
        await scope.aclose()


VARIABLE = ContextVar("VARIABLE", default=None)


async def test_spawned_tasks_undos_and_set_up_run_without_an_initiator():
    seen, done = [], anyio.Event()

    async def work():
        seen.append((INITIATOR.get(), VARIABLE.get()))
        done.set()

    async def setup(scope):
        seen.append((INITIATOR.get(), VARIABLE.get()))

    async with floor() as ground:
        INITIATOR.set("agent 1")
        VARIABLE.set("of the caller")
        scope = await opened(ground, setup)
        scope.spawn(work)
        await done.wait()
        scope.undo(lambda: seen.append((INITIATOR.get(), VARIABLE.get())))
        await scope.aclose()
        assert INITIATOR.get() == "agent 1"
    assert seen == [(None, "of the caller")] * 3


# --- refusals -------------------------------------------------------------------------------


async def test_nothing_can_be_added_from_the_moment_a_scope_is_closed():
    refused = []

    def try_all():
        for add in (
            lambda: scope.undo(lambda: None),
            lambda: scope.spawn(hanging),
            lambda: scope.child("agent"),
            lambda: other.undo(lambda: None).also(scope),
        ):
            with pytest.raises(ScopeClosed, match=r"plugin a is (stopping|gone)") as caught:
                add()
            refused.append(caught.value.plugin)

    async def background():
        try:
            await anyio.sleep_forever()
        finally:
            try_all()  # while the tasks end

    async with floor() as ground:
        other = await opened(ground, label="agent 1")
        scope = await opened(ground)
        scope.spawn(background)
        await anyio.wait_all_tasks_blocked()
        scope.undo(try_all)  # while it is undone
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scope.aclose)
            while not scope.stopping:
                await anyio.lowlevel.checkpoint()
            try_all()  # at once
        try_all()  # afterwards
        with pytest.raises(ScopeClosed):
            await scope.open()
        await other.aclose()
    assert refused == ["acme:a"] * 16
    assert ground.reports == []


async def test_a_scope_that_was_closed_before_it_had_a_task_gets_none():
    log = []
    async with floor() as ground:
        scope = scope_on(ground)
        scope.undo(lambda: log.append("undone"))
        scope.spawn(Background(log))
        await scope.aclose()
        with pytest.raises(ScopeClosed, match="plugin a is gone"):
            await scope.open()
    assert log == ["undone"]


# --- closing --------------------------------------------------------------------------------


@pytest.mark.behaviour("D-173")
@pytest.mark.parametrize("has_task", [False, True])
async def test_any_number_of_closers_share_one_run_and_return_when_it_is_over(has_task):
    log = []

    async def slow():
        log.append("begins")
        await anyio.sleep(GRACE / 2)
        log.append("ends")

    async def close(scope):
        await scope.aclose()
        log.append(scope.state)

    async with floor() as ground:
        scope = scope_on(ground)
        if has_task:
            await scope.open()
        scope.undo(slow)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(close, scope)
        await scope.aclose()
    assert log == ["begins", "ends", *["gone"] * 5]


@pytest.mark.behaviour("D-173")
async def test_the_undo_of_one_addition_can_be_awaited_for_an_ordered_teardown():
    """The effect is what a caller holds who must have one thing gone before the next is undone."""
    log = []

    async def slow():
        await anyio.lowlevel.checkpoint()
        log.append("the socket")

    async with floor() as ground:
        scope = await opened(ground)
        effect = scope.undo(slow)
        scope.undo(lambda: log.append("the last one added"))
        await effect.aclose()
        log.append("then")
        await scope.aclose()
    assert log == ["the socket", "then", "the last one added"]


async def test_a_closer_that_is_cancelled_stops_waiting_and_the_clean_up_goes_on():
    began, go_on, log = anyio.Event(), anyio.Event(), []

    async def slow():
        began.set()
        await go_on.wait()
        log.append("undone")

    async with floor() as ground:
        scope = await opened(ground)
        scope.undo(slow, grace=100)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scope.aclose)
            await began.wait()
            tasks.cancel_scope.cancel()
        assert (log, scope.state) == ([], "stopping")
        go_on.set()
        await scope.aclose()
    assert log == ["undone"]


async def test_a_task_of_a_scope_may_close_it():
    async with floor() as ground:
        scope = await opened(ground)
        scope.spawn(scope.aclose)
        await scope._gone.wait()
    assert (scope.crash, ground.reports) == (None, [])


# --- set-up ---------------------------------------------------------------------------------


async def test_what_set_up_raises_reaches_the_opener_after_its_additions_were_undone():
    log = []

    async def setup(scope):
        scope.undo(lambda: log.append("undone"))
        scope.spawn(Background(log))
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    async with floor() as ground:
        scope = scope_on(ground)
        with pytest.raises(ValueError, match="no"):
            await scope.open(setup)
        assert log[-1] == "undone"
        assert scope.state == "gone"
        assert ground.reports == []


async def test_a_scope_that_is_closed_during_set_up_ends_and_says_so():
    log, began = [], anyio.Event()

    async def setup(scope):
        scope.undo(lambda: log.append("undone"))
        began.set()
        await anyio.sleep_forever()

    async def open_it(scope):
        with pytest.raises(ScopeClosed, match="plugin a was closed while it was being set up"):
            await scope.open(setup)
        log.append("refused")

    async with floor() as ground:
        scope = scope_on(ground)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_it, scope)
            await began.wait()
            await scope.aclose()
    assert log == ["undone", "refused"]


async def test_a_set_up_that_swallows_its_cancellation_is_not_ready_all_the_same():
    log, began = [], anyio.Event()

    async def setup():
        began.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            log.append("swallowed")

    async with floor() as ground:
        scope = scope_on(ground)

        async def live(*, task_status):
            with pytest.raises(ScopeClosed):
                await scope.run(lambda _scope: setup(), lambda: log.append("ready"), task_status=task_status)
            task_status.started()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ground.tasks.start, live)
            await began.wait()
            await scope.aclose()
    assert log == ["swallowed"]


async def test_a_crash_during_set_up_ends_it_with_the_reason():
    async def setup(scope):
        async def crash():
            raise ValueError("no disk")

        scope.spawn(crash)
        await anyio.sleep_forever()

    async with floor() as ground:
        scope = scope_on(ground)
        with pytest.raises(GreenroomError, match="a background task failed during set-up: no disk") as caught:
            await scope.open(setup)
        assert caught.value.__cause__ is scope.crash


async def test_an_opener_that_is_cancelled_leaves_nothing():
    log, began = [], anyio.Event()

    async def setup(scope):
        scope.undo(lambda: log.append("undone"))
        began.set()
        await anyio.sleep_forever()

    async with floor() as ground:
        scope = scope_on(ground)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(scope.open, setup)
            await began.wait()
            tasks.cancel_scope.cancel()
        assert log == ["undone"]
        assert scope.state == "gone"


async def test_an_opener_that_is_cancelled_while_it_becomes_ready_leaves_nothing():
    log = []

    async with floor() as ground:
        scope = scope_on(ground)
        scope.undo(lambda: log.append("undone"))

        async def live(opener, *, task_status):
            await scope.run(ready=opener.cancel, task_status=task_status)

        with anyio.fail_after(5), anyio.CancelScope() as opener:
            await ground.tasks.start(live, opener)
        assert opener.cancelled_caught
        assert log == ["undone"]
        assert scope.state == "gone"


async def test_what_ready_raises_fails_the_set_up():
    def ready():
        raise ValueError("a clash")

    async with floor() as ground:
        scope = scope_on(ground)

        async def live(*, task_status):
            await scope.run(ready=ready, task_status=task_status)

        with pytest.raises(ValueError, match="a clash"):
            await ground.tasks.start(live)
        assert scope.state == "gone"


# --- children -------------------------------------------------------------------------------


async def test_closing_a_parent_closes_its_children_first_and_the_last_first():
    log = []
    async with floor() as ground:
        parent = await opened(ground)
        parent.undo(lambda: log.append("below the children"))
        for name in "ab":
            child = parent.child(f"agent {name}")
            await child.open()
            child.undo(lambda name=name: log.append(name))
        parent.undo(lambda: log.append("above the children"))
        await parent.aclose()
    assert log == ["above the children", "b", "a", "below the children"]


@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
async def test_siblings_may_leave_in_any_order(order):
    log = []
    async with floor() as ground:
        parent = await opened(ground)
        children = {}
        for name in "abc":
            children[name] = parent.child(name)
            await children[name].open()
            children[name].spawn(Background())
            children[name].undo(lambda name=name: log.append(name))
        for name in order:
            await children[name].aclose()
            assert children[name].label not in str(parent.effects()).splitlines()[1:]
        assert parent.effects() == EffectTree("plugin a")
        await parent.aclose()
    assert log == list(order)
    assert ground.reports == []


async def test_a_crash_of_a_child_leaves_its_parent_and_siblings_open():
    async def crash():
        raise ValueError("no")

    async with floor() as ground:
        parent = await opened(ground)
        one, two = parent.child("one"), parent.child("two")
        await one.open()
        await two.open()
        one.spawn(crash)
        await one._gone.wait()
        assert (parent.state, two.state) == ("open", "open")
        await parent.aclose()
        assert two.state == "gone"


async def test_a_child_belongs_to_the_plugin_and_generation_of_its_parent():
    async with floor() as ground:
        scope = scope_on(ground)
        child = scope.child("agent 1")
        assert (child.plugin, child.generation, child.parent, child.label) == ("acme:a", 3, scope, "agent 1")
        await scope.aclose()


@pytest.mark.behaviour("D-177")
async def test_the_chain_leads_from_a_scope_to_the_root_and_is_fixed_at_creation():
    async with floor() as ground:
        root = scope_on(ground, "host")
        middle = root.child("plugin")
        leaf = middle.child("agent")
        assert [scope.label for scope in leaf.chain()] == ["agent", "plugin", "host"]
        assert [scope.label for scope in root.chain()] == ["host"]
        with pytest.raises(AttributeError):
            root.parent = leaf  # the only way to close a ring
        assert root.parent is None
        await root.aclose()


# --- the tree -------------------------------------------------------------------------------


async def test_the_tree_of_effects_is_the_same_after_something_came_and_went():
    async with floor() as ground:
        root = await opened(ground, label="host")
        root.undo(lambda: None, label="the host's own")
        before = root.effects()
        plugin = Scope("plugin a", ground, parent=root, grace=GRACE)
        await plugin.open()
        plugin.undo(lambda: None, label="tool grep")
        agent = plugin.child("agent 1")
        agent.undo(lambda: None, label="listener")
        tree = root.effects()
        assert str(tree) == "host\n  the host's own\n  plugin a\n    tool grep\n    agent 1\n      listener"
        assert tree.count() == 5
        await plugin.aclose()
        assert root.effects() == before
        await root.aclose()


async def test_an_effect_without_a_label_has_the_name_of_its_callback():
    async with floor() as ground:
        scope = scope_on(ground)
        scope.undo(hanging)
        scope.undo(SimpleNamespace)
        assert [effect.label for effect in scope.effects().children] == ["hanging", "SimpleNamespace"]
        assert repr(scope) == "<Scope plugin a new>"
