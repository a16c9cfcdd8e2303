"""Every outcome stands in a bounded trace that hurts nobody and holds nothing of a plugin."""

from __future__ import annotations

import gc
import weakref

import anyio
import anyio.lowlevel
import msgspec
import pytest

from greenroom._feed import FEED_LENGTH
from greenroom._foreign import TEXT_LENGTH, safe_repr, safe_text
from greenroom._hooks import hookimpl
from greenroom._staging import Owner
from greenroom._trace import TRACE_LENGTH

pytestmark = pytest.mark.anyio

AT_ONCE = 0.05  # seconds; what waits for it never answers


@pytest.fixture
def anyio_backend(jumping_backend):
    return jumping_backend


class Value:
    """A value of a plugin's own class."""


class Failure(Exception):
    """An error of a plugin's own class; those of Python cannot be watched."""


class Unprintable:
    def __repr__(self):
        raise SystemExit("a repr is code too")


# --- outcomes -------------------------------------------------------------------------------


async def test_every_outcome_is_recorded_with_hook_plugin_generation_and_duration(rig):
    @hookimpl(hook="parts")
    async def fine(thing):
        await anyio.lowlevel.checkpoint()
        return ["part"]

    @hookimpl(hook="parts")
    def broken(thing):
        raise ValueError("no")

    @hookimpl(hook="parts", timeout=AT_ONCE)
    async def slow(thing):
        await anyio.sleep_forever()

    rig.add("a", fine, generation=7)
    rig.add("b", broken)
    rig.add("c", slow)
    rig.add("d", hookimpl(hook="parts")(lambda thing: None))
    await rig.hooks.parts("x")
    outcomes = list(rig.hooks.engine.trace)
    assert [(o.hook, o.plugin, o.generation, o.value, o.error) for o in outcomes] == [
        ("parts", "acme:a", 7, "['part']", None),
        ("parts", "acme:b", 1, None, "ValueError: no"),
        ("parts", "acme:c", 1, None, "TimeoutError: no answer within 0.05 s"),
        ("parts", "acme:d", 1, None, None),
    ]
    assert all(0 <= o.duration < 20 for o in outcomes)


@pytest.mark.parametrize("hook", ["seen", "parts", "born"])
async def test_an_error_says_whose_it_is_in_a_note(rig, hook):
    @hookimpl(hook=hook)
    def broken(thing):
        raise ValueError("no")

    rig.add("a", broken, generation=3)
    try:
        result = rig.hooks.caller(hook)("x")
        if hook == "parts":
            await result
    except ExceptionGroup:
        assert hook == "born"
    [(_, error)] = rig.reports
    [note] = error.__notes__
    assert note.startswith(f"in hook {hook} of plugin acme:a (generation 3, ")
    assert "test_hook_trace.py:" in note


def test_one_error_object_that_is_raised_again_and_again_does_not_grow(rig):
    error = ValueError("always the same")

    @hookimpl
    def seen(thing):
        raise error

    rig.add("a", seen)
    for _ in range(10):
        rig.hooks.seen("x")
    assert len(error.__notes__) == 1


def test_an_error_that_takes_no_note_is_reported_all_the_same(rig):
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

        def add_note(self, note):
            raise TypeError("frozen")

    @hookimpl
    def seen(thing):
        raise Frozen

    rig.add("a", seen)
    rig.hooks.seen("x")
    assert [type(error) for _, error in rig.reports] == [Frozen]


# --- bounds ---------------------------------------------------------------------------------


def test_the_trace_keeps_the_newest_outcomes(rig):
    rig.add("a", hookimpl(hook="answer_now")(lambda thing: thing))
    for number in range(TRACE_LENGTH + 5):
        rig.hooks.answer_now(number)
    values = [outcome.value for outcome in rig.hooks.engine.trace]
    assert len(rig.hooks.engine.trace) == TRACE_LENGTH
    assert (values[0], values[-1]) == ("5", str(TRACE_LENGTH + 4))


def test_a_broken_repr_of_a_plugins_value_hurts_nobody(rig):
    rig.add("a", hookimpl(hook="answer_now")(lambda thing: Unprintable()))
    rig.hooks.answer_now("x")
    assert [outcome.value for outcome in rig.hooks.engine.trace] == ["<Unprintable, its repr raised SystemExit>"]


def test_texts_of_values_and_errors_are_bounded():
    nested = ["x" * 10_000]
    for _ in range(50):
        nested = [nested] * 6
    assert len(safe_repr(nested)) <= TEXT_LENGTH
    assert len(safe_text("x" * 10_000)) == TEXT_LENGTH


# --- what it holds --------------------------------------------------------------------------


def plugin_of(rig, references, *, generation=1, name="a"):
    """Publish a plugin whose object, value and error are watched through weak references."""

    class Plugin:
        @hookimpl
        def answer_now(self, thing):
            value = Value()
            references.append(weakref.ref(value))
            return value

        @hookimpl
        def seen(self, thing):
            error = Failure("no")
            references.append(weakref.ref(error))
            raise error

        @hookimpl
        async def seen_by(self, agent, thing): ...

    plugin = Plugin()
    references += [weakref.ref(plugin), weakref.ref(Plugin)]
    return rig.hooks.check(plugin, Owner(f"acme:{name}", name, "acme 1", generation))


def gone(references):
    gc.collect()
    return [reference() for reference in references] == [None] * len(references)


def test_the_trace_forgets_the_objects_of_a_plugin_that_left_and_keeps_what_they_said(rig):
    rig.hooks.engine.report = lambda _impl, _error: None
    references = []
    staged = plugin_of(rig, references)
    rig.hooks.publish(staged)
    rig.hooks.answer_now("x")
    rig.hooks.seen("x")
    rig.hooks.withdraw(staged)
    before = rig.trace()
    del staged
    assert len(references) == 4
    assert gone(references)
    assert rig.trace() == before
    assert "Value object" in before[0][2]


def test_a_reload_lets_go_of_the_old_generation(rig):
    rig.hooks.engine.report = lambda _impl, _error: None
    references = []
    old = plugin_of(rig, references)
    rig.hooks.publish(old)
    rig.hooks.answer_now("x")
    rig.hooks.seen("x")
    rig.hooks.publish(plugin_of(rig, [], generation=2), replacing=old)
    del old
    assert gone(references)


def test_a_call_that_ends_after_its_plugin_left_holds_nothing_but_its_value(rig):
    rig.hooks.engine.report = lambda _impl, _error: None
    references = []
    staged = plugin_of(rig, references)
    rig.hooks.publish(staged)
    leaving = [staged]
    del staged

    @hookimpl
    def seen(thing):
        rig.hooks.withdraw(leaving.pop())

    rig.add("0", seen)  # before acme:a, which is withdrawn while the call is on its way to it
    rig.hooks.seen("x")
    assert [plugin for _, plugin, _, _ in rig.trace()] == ["acme:0", "acme:a"]
    assert gone(references)


def test_the_trace_holds_no_value_of_a_plugin_that_is_live(rig):
    references = []
    rig.hooks.publish(plugin_of(rig, references))
    del references[:]
    for _ in range(3):
        rig.hooks.answer_now("x")
    assert len(references) == 3
    assert gone(references)


class Inner(msgspec.Struct):
    text: str


class Outer(msgspec.Struct):
    number: int
    inner: Inner
    more: list[int]


class Spelled(msgspec.Struct):
    secret: str

    def __repr__(self):
        return "Spelled(secret=...)"


def test_of_a_large_value_only_what_is_shown_becomes_a_text(rig):
    value = Outer(1, Inner("x" * 100_000), list(range(100_000)))
    rig.add("a", hookimpl(hook="answer_now")(lambda thing: thing))
    rig.hooks.answer_now(value)
    rig.hooks.answer_now(Spelled("hidden"))
    text, spelled = [outcome.value for outcome in rig.hooks.engine.trace]
    assert text.startswith("Outer(number=1, inner=Inner(text='xxx")
    assert text.endswith("more=[0, 1, 2, 3, 4, 5, ...])")
    assert len(text) < 250
    assert spelled == "Spelled(secret=...)"


# --- the queue of an observer ---------------------------------------------------------------


class Log:
    """A source of calls: `(log, number)` from a list per log, in pages."""

    def __init__(self, page=7):
        self.logs = {}
        self.page = page
        self.on_read = lambda: None

    def append(self, name):
        calls = self.logs.setdefault(name, [])
        calls.append(((name, len(calls)),))
        return calls[-1]

    def place(self, call):
        return call[0]

    async def read(self, call, number):
        await anyio.lowlevel.checkpoint()
        self.on_read()
        return tuple(self.logs.get(call[0][0], ())[number : number + self.page])


@pytest.fixture
def slow(rig):
    """An observer that waits at the first call until it is released."""

    class Slow:
        def __init__(self):
            self.heard = []
            self.began = anyio.Event()
            self.released = anyio.Event()

        @hookimpl(timeout=100)
        async def seen(self, thing):
            self.heard.append(thing)
            self.began.set()
            await self.released.wait()

    return Slow()


def published(rig, plugin):
    staged = rig.hooks.check(plugin, Owner("acme:slow", "slow", "acme 1"))
    rig.hooks.publish(staged)
    return staged


async def test_a_queue_without_a_source_drops_and_says_how_many(rig, slow):
    staged = published(rig, slow)
    async with rig.feeding(staged):
        rig.hooks.seen(0)
        await slow.began.wait()
        for number in range(1, FEED_LENGTH + 11):
            rig.hooks.seen(number)
        slow.released.set()
        await anyio.wait_all_tasks_blocked()
        rig.hooks.seen("later")
        await anyio.wait_all_tasks_blocked()
    assert slow.heard == [*range(FEED_LENGTH + 1), "later"]
    assert [str(error) for _, error in rig.reports] == ["the observer lagged, 10 calls were dropped"]


async def test_a_lagged_observer_is_fed_again_in_order_and_hears_nothing_twice(rig, slow):
    """Calls go on arriving while it is fed: from one log that lags, and from one that does not."""
    log = rig.hooks.seen.source = Log()
    more = iter([("busy", 5)] * 9 + [("calm", 3)] * 9)

    def arrive():
        name, count = next(more, ("busy", 0))
        for _ in range(count):
            rig.hooks.seen(*log.append(name))

    log.on_read = arrive
    staged = published(rig, slow)
    async with rig.feeding(staged):
        rig.hooks.seen(*log.append("busy"))
        await slow.began.wait()
        for _ in range(FEED_LENGTH + 50):
            rig.hooks.seen(*log.append("busy"))
        rig.hooks.seen(*log.append("calm"))  # it finds the queue full too
        slow.released.set()
        await anyio.wait_all_tasks_blocked()
        rig.hooks.seen(*log.append("busy"))
        await anyio.wait_all_tasks_blocked()
    for name, calls in log.logs.items():
        assert [place for place in slow.heard if place[0] == name] == [call[0] for call in calls]
    assert rig.reports == []


async def test_what_a_log_that_is_gone_cannot_give_again_is_counted(rig, slow):
    log = rig.hooks.seen.source = Log()
    staged = published(rig, slow)
    async with rig.feeding(staged):
        rig.hooks.seen(*log.append("log"))
        await slow.began.wait()
        for _ in range(FEED_LENGTH + 4):
            rig.hooks.seen(*log.append("log"))
        log.logs.clear()
        slow.released.set()
        await anyio.wait_all_tasks_blocked()
        assert len(slow.heard) == FEED_LENGTH + 1
        rig.hooks.seen(("log", 0))
        await anyio.wait_all_tasks_blocked()
    assert len(slow.heard) == FEED_LENGTH + 2
    assert [str(error) for _, error in rig.reports] == ["the observer lagged, 4 calls were dropped"]
