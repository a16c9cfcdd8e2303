"""A wrong implementation is refused at load, with the plugin, its distribution, the line and what to do."""

from __future__ import annotations

import functools
import re
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest import mock

import pluggy
import pytest

from greenroom import hookspecs
from greenroom._hooks import Hooks, declared_specs, hookimpl, implements
from greenroom._scope import Scope
from greenroom._signatures import where
from greenroom._staging import Owner
from greenroom.errors import PluginError

OWNER = Owner("acme:audit", "audit", "acme-audit 1.2")


def refused(rig, plugin, match, hint=""):
    """Check a plugin, which must be refused by an error that names everything; returns its text."""
    with pytest.raises(PluginError, match=match) as caught:
        rig.hooks.check(plugin, OWNER)
    text = str(caught.value)
    assert caught.value.plugin == "acme:audit"
    assert text.startswith("acme:audit (acme-audit 1.2), ")
    assert re.search(r"test_hook_checks\.py:\d+: ", text), text
    assert hint in (caught.value.hint or "")
    return text


def plugin(*functions, **named):
    return SimpleNamespace(**{function.__name__: function for function in functions}, **named)


# --- names ----------------------------------------------------------------------------------


def test_an_unknown_hook_is_refused_with_the_nearest_name(rig):
    @hookimpl
    def activte(scope): ...

    refused(rig, plugin(activte), "there is no hook 'activte'", "did you mean 'activate'?")


def test_an_unknown_hook_that_is_like_no_other_shows_all(rig):
    @hookimpl
    def zzz(): ...

    refused(rig, plugin(zzz), "there is no hook 'zzz'", "the hooks are: activate, ")


def test_an_optional_hook_that_the_host_does_not_have_is_skipped(rig):
    @hookimpl(optional=True)
    def of_the_future(thing): ...

    @hookimpl
    def seen(thing): ...

    staged = rig.hooks.check(plugin(of_the_future, seen), OWNER)
    assert [impl.spec.name for impl in staged.impls] == ["seen"]


def test_a_function_may_have_another_name_than_its_hook(rig):
    @hookimpl(hook="seen")
    def write_it_down(thing): ...

    assert rig.hooks.check(plugin(write_it_down), OWNER).impl("seen") is not None


def test_a_plugin_without_any_hook_is_refused(rig):
    with pytest.raises(PluginError, match=r"acme:audit \(acme-audit 1.2\) implements no hook") as caught:
        rig.hooks.check(plugin(unmarked=lambda thing: None), OWNER)
    assert "@greenroom.hookimpl" in (caught.value.hint or "")


# --- arguments ------------------------------------------------------------------------------


def test_an_unknown_argument_is_refused_with_the_nearest_name(rig):
    @hookimpl
    def rewritten(thing, txt): ...

    refused(rig, plugin(rewritten), "no argument 'txt'", "did you mean 'text'? rewritten(thing, text)")


def test_an_argument_like_no_other_shows_the_hooks_arguments(rig):
    @hookimpl
    def seen(something_else): ...

    refused(rig, plugin(seen), "no argument 'something_else'", "the hook is seen(thing)")


def test_a_keyword_only_argument_is_refused(rig):
    @hookimpl
    def seen(*, thing): ...

    refused(rig, plugin(seen), "'thing' is keyword-only and would never be filled", "write it without *")


def test_an_argument_with_a_default_is_refused(rig):
    @hookimpl
    def seen(thing=None): ...

    refused(rig, plugin(seen), "'thing' has a default, which would never be used", "remove the default")


@pytest.mark.parametrize("variadic", [lambda *args: None, lambda **kwargs: None, lambda thing, *rest: None])
def test_variadic_arguments_are_refused(rig, variadic):
    refused(rig, plugin(seen=hookimpl(variadic)), r"it takes \*", "name the arguments it needs of seen(thing)")


def test_positional_only_arguments_are_fine(rig):
    @hookimpl
    def seen(thing, /): ...

    assert rig.hooks.check(plugin(seen), OWNER).impls


def test_a_callable_without_a_readable_signature_is_refused(rig):
    class Odd:
        __signature__ = "not a signature"

        def __call__(self, thing): ...

    refused(rig, plugin(seen=hookimpl(Odd())), "its signature cannot be read", "wrap it in a plain def")


# --- what is given as a plugin --------------------------------------------------------------


def test_a_class_where_an_instance_is_meant_is_refused(rig):
    class Audit:
        @hookimpl
        def seen(self, thing): ...

    refused(rig, Audit, "a class where an instance is meant", "use Audit()")
    assert rig.hooks.check(Audit(), OWNER).impls


def test_a_method_without_self_is_refused_with_what_it_may_be(rig):
    class Audit:
        @hookimpl
        def seen(this, extra): ...  # noqa: N805

    refused(rig, Audit(), "no argument 'extra'", "a method needs self and an instance")


def test_pluggys_own_marker_is_refused(rig):
    @pluggy.HookimplMarker("greenroom")
    def seen(thing): ...

    refused(rig, plugin(seen), "marked with pluggy's own marker", "use @greenroom.hookimpl")


def test_properties_are_not_run_and_mocks_are_not_believed(rig):
    class Audit:
        anything = mock.MagicMock()
        call = mock.call

        @property
        def broken(self):
            raise RuntimeError("a check must not run this")

        @hookimpl
        def seen(self, thing): ...

    staged = rig.hooks.check(Audit(), OWNER)
    rig.hooks.publish(staged)
    assert [impl.spec.name for impl in staged.impls] == ["seen"]


# --- colours --------------------------------------------------------------------------------


def test_a08_a_coroutine_function_on_a_def_only_hook_is_refused(rig):
    @hookimpl
    async def born(thing): ...

    refused(rig, plugin(born), "'born' is def only, this is async def", "make it def")


def test_a08_a_def_on_an_async_only_hook_is_refused(rig):
    @hookimpl
    def around(thing, call_next): ...

    refused(rig, plugin(around), "'around' is async def only, this is def", "make it async def")


def test_generator_functions_of_both_colours_are_refused(rig):
    @hookimpl
    def seen(thing):
        yield

    @hookimpl
    async def parts(thing):
        yield

    @hookimpl(hook="parts")
    @asynccontextmanager
    async def managed(thing):
        yield

    for wrong in (seen, parts, managed):
        refused(rig, plugin(wrong), "a generator function cannot implement a hook", "to wrap, implement a hook of kind")


class Recorder:
    """A callable object; `colour` decides which."""

    def __init__(self, heard):
        self.heard = heard


class PlainRecorder(Recorder):
    def __call__(self, thing):
        self.heard.append(thing)


class AsyncRecorder(Recorder):
    async def __call__(self, thing):
        self.heard.append(thing)


def decorated(function):
    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


async def async_seen(thing): ...


class WithMethods:
    @hookimpl
    async def seen(self, thing): ...

    @hookimpl
    @staticmethod
    def parts(thing): ...

    @hookimpl
    @classmethod
    def answer(cls, thing): ...


@pytest.mark.parametrize(
    ("function", "coroutine"),
    [
        (PlainRecorder([]), False),
        (AsyncRecorder([]), True),
        (decorated(async_seen), True),
        (decorated(lambda thing: None), False),
        (functools.partial(async_seen), True),
        (functools.partial(decorated(async_seen)), True),
        (functools.partial(functools.partial(lambda level, thing: None, 1)), False),
    ],
)
def test_the_colour_is_seen_through_partials_decorators_and_callable_objects(rig, function, coroutine):
    [impl] = rig.hooks.check(plugin(seen=hookimpl(function)), OWNER).impls
    assert impl.is_async is coroutine
    assert (impl.feed is not None) is coroutine
    assert re.search(r"test_hook_checks\.py:\d+$", impl.where)


def test_bound_static_and_class_methods_are_implementations(rig):
    impls = rig.hooks.check(WithMethods(), OWNER).impls
    assert {(impl.spec.name, impl.is_async) for impl in impls} == {("seen", True), ("parts", False), ("answer", False)}


def test_a_callable_object_is_called(rig):
    heard = []
    rig.hooks.publish(rig.hooks.check(plugin(seen=hookimpl(PlainRecorder(heard))), OWNER))
    rig.hooks.seen("x")
    assert heard == ["x"]


def test_what_a_partial_filled_by_name_is_no_argument_any_more(rig):
    heard = []

    def record(thing, level):
        heard.append((thing, level))

    rig.hooks.publish(rig.hooks.check(plugin(seen=hookimpl(functools.partial(record, level=3))), OWNER))
    rig.hooks.seen("x")
    assert heard == [("x", 3)]


def test_the_place_of_something_without_source_is_its_name():
    assert where(len) == "len"


# --- options --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "instead"),
    [
        ("tryfirst", 'before=("other-plugin",)'),
        ("trylast", 'after=("other-plugin",)'),
        ("wrapper", "kind wrap"),
        ("hookwrapper", "kind wrap"),
        ("optionalhook", "optional=True"),
        ("specname", 'hook="name"'),
    ],
)
def test_a_word_of_pluggy_is_refused_and_its_replacement_named(rig, word, instead):
    refused(rig, plugin(seen=hookimpl(**{word: True})(lambda thing: None)), f"does not take '{word}'", instead)


def test_a_word_that_nobody_knows_is_an_error_where_it_is_written():
    with pytest.raises(TypeError, match="unexpected keyword argument 'befor'"):
        hookimpl(befor=["x"])


def test_one_name_needs_no_tuple(rig):
    [impl] = rig.hooks.check(plugin(seen=hookimpl(before="other")(lambda thing: None)), OWNER).impls
    assert impl.options.before == ("other",)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "5"])
def test_a_time_out_that_is_no_positive_number_is_refused(rig, seconds):
    refused(rig, plugin(parts=hookimpl(timeout=seconds)(lambda thing: None)), "not a positive number of seconds")


def test_a_thread_is_refused_for_async_def_and_for_synchronous_hooks(rig):
    @hookimpl(thread=True)
    async def parts(thing): ...

    @hookimpl(thread=True)
    def born(thing): ...

    refused(rig, plugin(parts), "thread=True is for a blocking def", "remove thread=True")
    refused(rig, plugin(born), "'born' is called synchronously", "scope.spawn")


# --- agents' scopes -------------------------------------------------------------------------


def test_what_is_added_to_one_agent_cannot_implement_a_hook_about_the_whole_host(rig):
    scope = Scope("agent a", mock.Mock())

    @hookimpl
    def allowed(thing): ...

    @hookimpl
    def seen_by(agent, thing): ...

    @hookimpl
    def activate(scope): ...

    with pytest.raises(PluginError, match="the hook is about the whole host, this is added to one agent"):
        rig.hooks.check(plugin(allowed), OWNER, scope=scope)
    assert len(rig.hooks.check(plugin(seen_by, activate), OWNER, scope=scope).impls) == 2


# --- publishing -----------------------------------------------------------------------------


def test_publishing_is_all_or_nothing(rig):
    @hookimpl
    def only_one(): ...

    @hookimpl
    def seen(thing): ...

    rig.add("first", only_one)
    with pytest.raises(PluginError, match="takes one plugin"):
        rig.add("second", seen, only_one)
    assert not rig.hooks.seen.wanted


def test_a_generation_is_published_once(rig):
    @hookimpl
    def seen(thing): ...

    rig.add("a", seen)
    with pytest.raises(PluginError, match="acme:a@1 is published already"):
        rig.add("a", seen)
    assert len(rig.hooks.seen.impls) == 1


def test_equal_plugin_objects_are_two_plugins(rig):
    class Equal:
        def __eq__(self, other):
            return True

        __hash__ = None

        @hookimpl
        def seen(self, thing): ...

    first, second = (rig.hooks.check(Equal(), Owner(f"acme:{n}", n, "acme 1")) for n in "ab")
    rig.hooks.publish(first)
    rig.hooks.publish(second)
    rig.hooks.withdraw(first)
    assert [impl.short for impl in rig.hooks.seen.impls] == ["b"]
    rig.hooks.withdraw(first)  # again: nothing of the other one goes
    assert [impl.short for impl in rig.hooks.seen.impls] == ["b"]


def test_one_object_may_be_two_plugins_and_come_back(rig):
    @hookimpl
    def seen(thing): ...

    module = plugin(seen)
    staged = [rig.hooks.check(module, Owner(f"acme:{n}", n, "acme 1")) for n in "ab"]
    for one in staged:
        rig.hooks.publish(one)
    rig.hooks.withdraw(staged[0])
    rig.hooks.publish(staged[0])
    assert [impl.short for impl in rig.hooks.seen.impls] == ["a", "b"]


def test_a_caller_is_found_by_name_or_refused_with_the_nearest(rig):
    assert rig.hooks.caller("seen") is rig.hooks.seen
    with pytest.raises(PluginError, match="there is no hook 'sen'") as caught:
        rig.hooks.caller("sen")
    assert "did you mean 'seen'?" in (caught.value.hint or "")


# --- the twin that type checkers understand -------------------------------------------------


def test_implements_marks_a_function_under_the_hook_it_is_given(rig):
    @implements(hookspecs.activate, before=["other"])
    def begin(scope): ...

    [impl] = rig.hooks.check(plugin(begin), OWNER).impls
    assert (impl.spec.name, impl.options.before) == ("activate", ("other",))


def test_every_specification_of_the_host_is_a_typed_attribute_of_the_hooks():
    assert {spec.name for spec in declared_specs(hookspecs)} <= set(Hooks.__annotations__)
