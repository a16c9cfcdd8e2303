"""A `def` that blocks the loop is named while it blocks, with its stack; nobody else is."""

from __future__ import annotations

import queue
import threading

import pytest

from greenroom._hooks import Hooks, hookimpl
from greenroom._watchdog import Watchdog

QUICK = 0.04  # seconds; the product's second would make the tests slow


@pytest.fixture
def watched(rig):
    """Hooks with a quick watchdog; gives what it reports, as a queue."""
    reports = queue.Queue()
    dog = Watchdog(lambda impl, seconds, stack: reports.put((impl, seconds, stack)), after=QUICK)
    rig.hooks.engine.watchdog = dog
    dog.start()
    yield reports
    dog.stop()


def blocking_until_reported(reports, heard):
    def block(thing):
        heard.append(reports.get(timeout=20))

    return block


@pytest.mark.parametrize("hook", ["seen", "born", "answer_now"])
def test_a_def_that_blocks_is_named_with_hook_and_stack_while_it_blocks(rig, watched, hook):
    heard = []
    rig.add("a", hookimpl(hook=hook)(blocking_until_reported(watched, heard)))
    rig.hooks.caller(hook)("x")
    [(impl, seconds, stack)] = heard
    assert (impl.short, impl.spec.name) == ("a", hook)
    assert seconds >= QUICK
    assert "heard.append(reports.get(timeout=20))" in stack


@pytest.mark.anyio
@pytest.mark.parametrize("hook", ["parts", "allowed", "set_up", "answer"])
async def test_a_def_that_blocks_an_awaited_hook_is_named_too(rig, watched, hook):
    heard = []
    rig.add("a", hookimpl(hook=hook)(blocking_until_reported(watched, heard)))
    await rig.hooks.caller(hook)("x")
    assert [impl.short for impl, _, _ in heard] == ["a"]


def test_a_call_is_reported_once_however_long_it_blocks(rig, watched):
    def block(thing):
        watched.get(timeout=20)
        with pytest.raises(queue.Empty):
            watched.get(timeout=10 * QUICK)

    rig.add("a", hookimpl(hook="seen")(block))
    rig.hooks.seen("x")
    assert rig.reports == []


def test_a_hook_that_calls_hooks_is_watched_again_when_they_return(rig, watched):
    heard = []
    inner, outer = blocking_until_reported(watched, heard), blocking_until_reported(watched, heard)

    def calls_another(thing):
        rig.hooks.seen(thing)
        outer(thing)

    rig.add("inner", hookimpl(hook="seen")(inner))
    rig.add("outer", hookimpl(hook="born")(calls_another))
    rig.hooks.born("x")
    assert [impl.short for impl, _, _ in heard] == ["inner", "outer"]


@pytest.mark.parametrize("hook", ["seen", "born"])
def test_nobody_is_marked_after_a_call_however_it_ended(rig, hook):
    def interrupt(thing):
        raise KeyboardInterrupt

    rig.add("a", hookimpl(hook=hook)(interrupt))
    with pytest.raises(KeyboardInterrupt):
        rig.hooks.caller(hook)("x")
    assert rig.hooks.engine.watchdog.mark is None


def test_an_idle_loop_is_nobodys_fault(rig, watched):
    rig.add("a", hookimpl(hook="seen")(lambda thing: None))
    rig.hooks.seen("x")
    with pytest.raises(queue.Empty):
        watched.get(timeout=5 * QUICK)


def test_the_thread_ends_with_stop():
    hooks = Hooks()
    before = set(threading.enumerate())
    hooks.engine.watchdog.start()
    [thread] = set(threading.enumerate()) - before
    assert (thread.name, thread.daemon) == ("greenroom-watchdog", True)
    hooks.engine.watchdog.stop()
    hooks.engine.watchdog.stop()
    assert not thread.is_alive()
