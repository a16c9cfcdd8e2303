"""The order of implementations is a function of what is loaded and of the settings, never of history."""

from __future__ import annotations

import itertools
import random

import anyio
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from greenroom._hooks import hookimpl
from greenroom._order import in_order, reasons
from greenroom.errors import PluginError

NAMES = "abcde"


def impls(rig, constraints):
    """Stage one implementation per plugin: `{name: {"before": [...], ...}}`."""
    staged = [rig.stage(name, hookimpl(hook="seen", **options)(lambda thing: None)) for name, options in constraints]
    return [one.impls[0] for one in staged]


def shorts(ordered):
    return [impl.short for impl in ordered]


def model(constraints, configured):
    """The first of all permutations, by rank, that meets every constraint; None if none does.

    As slow and as plain as can be: what "first" means is the rank of the first place
    where two permutations differ, and the rank is the settings' order, then the id.
    """
    names = [name for name, _ in constraints]
    pairs = set()
    for name, options in constraints:
        pairs |= {(name, other) for other in options.get("before", ()) if other in names and other != name}
        for word in ("after", "requires"):
            pairs |= {(other, name) for other in options.get(word, ()) if other in names and other != name}

    def rank(name):
        place = configured.index(name) if name in configured else len(configured)
        return place, f"acme:{name}"

    for order in itertools.permutations(sorted(names, key=rank)):  # in lexicographic order of ranks
        if all(order.index(first) < order.index(second) for first, second in pairs):
            return list(order)
    return None


some_names = st.lists(st.sampled_from([*NAMES, "missing"]), max_size=2)
options = st.fixed_dictionaries({}, optional=dict.fromkeys(("before", "after", "requires"), some_names))
plugins = st.lists(st.tuples(st.sampled_from(NAMES), options), unique_by=lambda item: item[0])
settings = st.lists(st.sampled_from([*NAMES, "missing"]), unique=True)


@given(constraints=plugins, configured=settings, seed=st.randoms(use_true_random=False))
def test_a07_the_order_is_that_of_a_simple_model(make_rig, constraints, configured, seed):
    expected = model(constraints, configured)
    shuffled = list(constraints)
    seed.shuffle(shuffled)
    staged = impls(make_rig(), shuffled)
    if expected is None:
        with pytest.raises(PluginError, match="the order of its implementations is a cycle"):
            in_order(staged, configured)
    else:
        assert shorts(in_order(staged, configured)) == expected


@given(constraints=plugins, configured=settings, moves=st.lists(st.integers(0, 4), max_size=8))
def test_a07_unloading_and_loading_never_changes_the_order_of_the_rest(make_rig, constraints, configured, moves):
    expected = model(constraints, configured)
    if expected is None:
        return
    rig = make_rig()
    rig.hooks.configure({"seen": configured})
    published = {}
    for name, more in constraints:
        published[name] = rig.add(name, hookimpl(hook="seen", **more)(lambda thing: None))
    for move in moves:
        if not constraints:
            return
        name, _more = constraints[move % len(constraints)]
        rig.hooks.withdraw(published[name])
        without = [item for item in constraints if item[0] != name]
        assert shorts(rig.hooks.seen.impls) == model(without, configured)
        rig.hooks.publish(published[name])
        assert shorts(rig.hooks.seen.impls) == expected


def test_a07_a_cycle_names_the_plugins_and_changes_nothing(rig):
    rig.add("a", hookimpl(hook="seen", before=["b"])(lambda thing: None))
    rig.add("b", hookimpl(hook="seen", before=["acme:c"])(lambda thing: None))
    rig.add("outsider", hookimpl(hook="seen")(lambda thing: None))
    with pytest.raises(PluginError, match="is a cycle: ") as caught:
        rig.add("c", hookimpl(hook="seen", before=["a"])(lambda thing: None))
    text = str(caught.value)
    names = text.partition("is a cycle: ")[2].splitlines()[0].split(" before ")
    assert names[0] == names[-1]
    assert sorted(names[1:]) == ["acme:a", "acme:b", "acme:c"]
    assert all(
        (a, b) in {("acme:a", "acme:b"), ("acme:b", "acme:c"), ("acme:c", "acme:a")}
        for a, b in itertools.pairwise(names)
    )
    assert shorts(rig.hooks.seen.impls) == ["a", "b", "outsider"]


def test_what_the_plugins_declare_beats_the_settings_which_beat_the_id(rig):
    rig.hooks.configure({"seen": ["c", "acme:b"]})
    for name, more in [("a", {}), ("b", {}), ("c", {"after": ["d"]}), ("d", {})]:
        rig.add(name, hookimpl(hook="seen", **more)(lambda thing: None))
    assert shorts(rig.hooks.seen.impls) == ["b", "a", "d", "c"]


def test_the_settings_order_what_is_loaded_already(rig):
    for name in "ab":
        rig.add(name, hookimpl(hook="seen")(lambda thing: None))
    rig.hooks.configure({"seen": ["b"]})
    assert shorts(rig.hooks.seen.impls) == ["b", "a"]


def test_a_reload_keeps_the_place(rig):
    old = [rig.add(name, hookimpl(hook="seen")(lambda thing: None)) for name in "abc"][1]
    rig.hooks.publish(rig.stage("b", hookimpl(hook="seen")(lambda thing: None), generation=2), replacing=old)
    assert [(impl.short, impl.generation) for impl in rig.hooks.seen.impls] == [("a", 1), ("b", 2), ("c", 1)]


def test_why_an_implementation_stands_where_it_stands(rig):
    [one] = impls(rig, [("a", {"before": ["x", "y"], "requires": ["z"]})])
    assert reasons(one, ["other", "a"]) == ("before x, y", "requires z", "settings place 2", "id acme:a")


def test_the_callers_explain_their_order(rig):
    rig.hooks.configure({"seen": ["b"]})
    for name in "ab":
        rig.add(name, hookimpl(hook="seen")(lambda thing: None))
    assert [(impl.short, why) for impl, why in rig.hooks.seen.explain()] == [
        ("b", ("settings place 1", "id acme:b")),
        ("a", ("id acme:a",)),
    ]


def test_a10_two_rewriters_with_skewed_sleeps_give_the_same_result_a_hundred_times(make_rig):
    """On a clock that jumps: hours of waiting, no time."""

    async def once(delays):
        rig = make_rig()
        rig.hooks.configure({"rewritten": ["second", "first"]})

        def sleeper(suffix, delay):
            @hookimpl
            async def rewritten(text):
                await anyio.sleep(delay)
                return text + suffix

            return rewritten

        for name, delay in zip(["first", "second"], delays, strict=True):
            rig.add(name, sleeper(f" {name}", delay))
        return await rig.hooks.rewritten("x", "text")

    skew = random.Random(10)
    for _ in range(100):
        delays = [skew.uniform(0, 9), skew.uniform(0, 9)]
        assert trio.run(once, delays, clock=MockClock(autojump_threshold=0)) == "text second first"
