"""A hook about an agent is heard by the host, by that agent and by its ancestors; never by others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from unittest import mock

import anyio
import pytest

from greenroom._context import CallContext
from greenroom._decision import Verdict, deny
from greenroom._hooks import hookimpl
from greenroom._scope import Scope
from greenroom._staging import Owner
from greenroom.errors import HookError

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Agent:
    scope: Scope


@pytest.fixture
def agents():
    """Give a root, a child and a grandchild, and a stranger beside the child."""
    host = Scope("host", mock.Mock())
    root = host.child("root")
    child = root.child("child")
    return {
        "root": Agent(root),
        "child": Agent(child),
        "grandchild": Agent(child.child("grandchild")),
        "stranger": Agent(root.child("stranger")),
    }


def listen(rig, name, scope=None):
    heard = []

    def listener(agent, thing):
        heard.append(thing)

    rig.add(name, hookimpl(hook="seen_by")(listener), scope=scope)
    return heard


@pytest.mark.behaviour("D-174", "D-179")
def test_a_listener_of_an_agent_hears_it_and_its_descendants_and_the_hosts_hear_all(rig, agents):
    heard = {name: listen(rig, name, agent.scope) for name, agent in agents.items()}
    heard["host"] = listen(rig, "host")
    for name, agent in agents.items():
        rig.hooks.seen_by(agent, name)
    assert heard == {
        "host": ["root", "child", "grandchild", "stranger"],
        "root": ["root", "child", "grandchild", "stranger"],
        "child": ["child", "grandchild"],
        "grandchild": ["grandchild"],
        "stranger": ["stranger"],
    }


@pytest.mark.behaviour("D-174")
def test_a_hook_without_a_subject_is_heard_by_all(rig):
    heard = []

    def listener(thing):
        heard.append(thing)

    rig.add("a", hookimpl(hook="seen")(listener))
    rig.hooks.seen("x")
    assert heard == ["x"]


@pytest.mark.behaviour("D-171")
async def test_a_context_carries_its_scope_and_the_nearest_one_decides_for_a_derived_context(rig, agents):
    def refuse(name):
        return hookimpl(hook="allowed_by")(lambda ctx: deny(name))

    rig.add("child", refuse("of the child"), scope=agents["child"].scope)
    outer = CallContext(agents["root"].scope, agent="root", turn=3)
    assert await rig.hooks.allowed_by(outer, "x") is None
    derived = replace(outer, scope=agents["grandchild"].scope)
    assert derived.turn == 3
    decision = await rig.hooks.allowed_by(derived, "x")
    assert (decision.verdict, decision.by) == (Verdict.DENY, "acme:child")
    assert await rig.hooks.allowed_by(outer, "x") is None  # what it was derived from keeps its own


@pytest.mark.behaviour("D-171")
def test_a_scope_below_another_carries_its_own_tag_and_finds_the_others_on_its_chain(agents):
    leaf = agents["grandchild"].scope
    assert [scope.label for scope in leaf.chain()] == ["grandchild", "child", "root", "host"]


@pytest.mark.behaviour("D-186")
@pytest.mark.parametrize("listening", [None, "root"])
def test_a_hook_about_an_agent_refuses_a_subject_without_a_scope(rig, agents, listening):
    heard = listen(rig, "a", agents["root"].scope if listening else None)
    for subject in (object(), Agent(None), None):
        with pytest.raises(HookError, match="seen_by was called with a 'agent' that carries no scope") as caught:
            rig.hooks.seen_by(subject, "x")
        assert caught.value.hook == "seen_by"
    assert heard == []
    rig.add("b", hookimpl(hook="seen")(lambda thing: heard.append(thing)))  # noqa: PLW0108  # marked
    rig.hooks.seen(object())  # a hook that is about no agent asks for none
    assert len(heard) == 1


def test_what_an_agent_added_is_withdrawn_with_it_and_nobody_elses(rig, agents):
    heard = []

    def stage(agent):
        return rig.stage(
            "a",
            hookimpl(hook="seen_by")(lambda agent, thing: heard.append(thing)),
            scope=agents[agent].scope,
        )

    staged = {name: stage(name) for name in ("child", "stranger")}  # one plugin, two agents
    for one in staged.values():
        rig.hooks.publish(one)
    rig.hooks.seen_by(agents["child"], "child")
    rig.hooks.withdraw(staged["child"])
    rig.hooks.seen_by(agents["child"], "nobody is left")
    rig.hooks.seen_by(agents["stranger"], "stranger")
    assert heard == ["child", "stranger"]
    rig.hooks.withdraw(staged["stranger"])
    assert not rig.hooks.seen_by.wanted


@pytest.mark.behaviour("D-174")
async def test_an_async_listener_of_an_agent_is_routed_like_a_plain_one(rig, agents):
    heard = []

    async def listener(agent, thing):
        heard.append(thing)

    staged = rig.add("a", hookimpl(hook="seen_by")(listener), scope=agents["child"].scope)
    async with rig.feeding(staged):
        for name, agent in agents.items():
            rig.hooks.seen_by(agent, name)
        await anyio.wait_all_tasks_blocked()
    assert heard == ["child", "grandchild"]


def test_a_method_keeps_the_object_it_belongs_to_however_it_is_routed(rig, agents):
    class Listener:
        def __init__(self):
            self.heard = []

        @hookimpl
        def seen_by(self, agent, thing):
            self.heard.append(thing)

    one, two = Listener(), Listener()
    for number, (listener, agent) in enumerate([(one, "child"), (two, "stranger")]):
        owner = Owner(f"acme:{number}", str(number), "acme 1")
        rig.hooks.publish(rig.hooks.check(listener, owner, scope=agents[agent].scope))
    rig.hooks.seen_by(agents["child"], "x")
    assert (one.heard, two.heard) == (["x"], [])
