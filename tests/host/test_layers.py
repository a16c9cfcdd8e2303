"""Registries in layers: the nearest of a name wins, and each entry leaves with the scope that added it."""

from __future__ import annotations

from unittest import mock

import pytest

from greenroom._layers import Layers
from greenroom._scope import Scope
from greenroom.errors import NameTaken, ScopeClosed

pytestmark = pytest.mark.anyio


@pytest.fixture
def scopes():
    """Give a host, two agents below it, and a plugin that adds to them."""
    host = Scope("host", mock.Mock())
    return {
        "host": host,
        "agent": host.child("agent 1"),
        "other": host.child("agent 2"),
        "plugin": Scope("plugin a", mock.Mock(), parent=host, plugin="acme:a"),
        "rival": Scope("plugin b", mock.Mock(), parent=host, plugin="acme:b"),
    }


def values(entries):
    return [entry.value for entry in entries]


# --- named entries --------------------------------------------------------------------------


@pytest.mark.behaviour("D-180")
def test_a_name_is_unique_in_its_layer_and_a_clash_names_both_owners(scopes):
    tools = Layers("tool")
    tools.add(scopes["agent"], 1, name="grep", by=scopes["plugin"])
    with pytest.raises(
        NameTaken, match="the tool 'grep' of plugin b is already added to agent 1 by plugin a"
    ) as caught:
        tools.add(scopes["agent"], 2, name="grep", by=scopes["rival"])
    assert caught.value.plugin == "acme:b"
    assert "[plugins] deny" in (caught.value.hint or "")
    assert values(tools.layer(scopes["agent"])) == [1]
    assert scopes["rival"].effects().count() == 0
    tools.add(scopes["other"], 3, name="grep", by=scopes["rival"])  # another layer has its own names


@pytest.mark.behaviour("D-180")
async def test_entries_are_in_the_order_of_addition_and_each_reading_shows_what_is_there_now(scopes):
    tools = Layers("tool")
    effects = [tools.add(scopes["agent"], name, name=name) for name in "cab"]
    reading = tools.layer(scopes["agent"])
    assert values(reading) == ["c", "a", "b"]
    await effects[1].aclose()
    tools.add(scopes["agent"], "d", name="d")
    assert values(tools.layer(scopes["agent"])) == ["c", "b", "d"]
    assert values(reading) == ["c", "a", "b"]  # one that is under way is not pulled from under its reader
    for entry in tools.layer(scopes["agent"]):  # nor broken by what its reader does
        tools.add(scopes["agent"], entry.value, name=f"again {entry.name}")
    assert len(tools.layer(scopes["agent"])) == 6


@pytest.mark.behaviour("D-180")
async def test_an_undo_removes_exactly_its_own_entry_and_a_name_is_free_again_afterwards(scopes):
    tools = Layers("tool")
    first = tools.add(scopes["agent"], "first", name="grep")
    await first.aclose()
    second = tools.add(scopes["agent"], "second", name="grep")
    await first.aclose()  # again: the new generation of the name is not its own
    assert values(tools.layer(scopes["agent"])) == ["second"]
    await second.aclose()
    assert tools.layer(scopes["agent"]) == ()


# --- anonymous entries ----------------------------------------------------------------------


@pytest.mark.behaviour("D-181")
async def test_equal_anonymous_values_are_independent_and_undone_once_each(scopes):
    sections = Layers("section")
    first = sections.add(scopes["agent"], "same", by=scopes["plugin"])
    second = sections.add(scopes["agent"], "same", by=scopes["rival"])
    assert [entry.scope.label for entry in sections.layer(scopes["agent"])] == ["plugin a", "plugin b"]
    await first.aclose()
    await first.aclose()
    assert [entry.scope.label for entry in sections.layer(scopes["agent"])] == ["plugin b"]
    await second.aclose()
    assert sections.layer(scopes["agent"]) == ()


# --- reading --------------------------------------------------------------------------------


@pytest.mark.behaviour("D-182")
def test_reading_makes_no_layer(scopes):
    tools = Layers("tool")
    assert tools.layer(scopes["agent"]) == ()
    assert tools.visible(scopes["agent"]) == ()
    assert tools.find(scopes["agent"], "grep") is None
    assert list(tools) == []


@pytest.mark.behaviour("D-182")
def test_a_nearer_name_shadows_a_farther_one_in_its_place(scopes):
    tools = Layers("tool")
    for name in ("a", "b", "c"):
        tools.add(scopes["host"], f"host's {name}", name=name)
    tools.add(scopes["agent"], "agent's d", name="d")
    tools.add(scopes["agent"], "agent's b", name="b")
    tools.add(scopes["agent"], "agent's own, without a name")
    assert values(tools.visible(scopes["agent"])) == [
        "host's a",
        "agent's b",
        "host's c",
        "agent's d",
        "agent's own, without a name",
    ]
    assert values(tools.visible(scopes["other"])) == ["host's a", "host's b", "host's c"]
    assert tools.find(scopes["agent"], "b").value == "agent's b"
    assert tools.find(scopes["other"], "b").value == "host's b"
    assert tools.find(scopes["host"], "d") is None


# --- who owns -------------------------------------------------------------------------------


@pytest.mark.behaviour("D-183")
async def test_the_scope_that_is_given_decides_who_sees_an_entry_and_who_takes_it_away(scopes):
    tools = Layers("tool")
    tools.add(scopes["agent"], "grep", name="grep")
    assert values(tools.visible(scopes["agent"])) == ["grep"]
    assert tools.visible(scopes["host"]) == ()
    assert [effect.label for effect in scopes["agent"].effects().children] == ["tool grep"]
    await scopes["agent"].aclose()
    assert list(tools) == []


@pytest.mark.parametrize("leaving", ["plugin", "agent"])
async def test_what_a_plugin_adds_to_an_agent_leaves_with_whichever_goes_first(scopes, leaving):
    tools = Layers("tool")
    tools.add(scopes["agent"], "grep", name="grep", by=scopes["plugin"])
    staying = "agent" if leaving == "plugin" else "plugin"
    await scopes[leaving].aclose()
    assert tools.layer(scopes["agent"]) == ()
    assert scopes[staying].effects().count() == 0


@pytest.mark.behaviour("D-183")
async def test_only_an_empty_layer_is_reclaimed(scopes):
    tools = Layers("tool")
    first = tools.add(scopes["agent"], 1, name="a")
    second = tools.add(scopes["agent"], 2)
    await first.aclose()
    assert list(tools) == [scopes["agent"]]
    await second.aclose()
    assert list(tools) == []


@pytest.mark.parametrize("closed", ["agent", "plugin"])
async def test_nothing_is_added_to_or_by_a_scope_that_has_ended(scopes, closed):
    tools = Layers("tool")
    await scopes[closed].aclose()
    with pytest.raises(ScopeClosed):
        tools.add(scopes["agent"], 1, name="grep", by=scopes["plugin"])
    assert list(tools) == []
    assert scopes["plugin"].effects().count() == 0
    assert scopes["agent"].effects().count() == 0


# --- notifications --------------------------------------------------------------------------


@pytest.mark.behaviour("D-184")
async def test_action_notification_undo_and_its_notification_come_in_this_order(scopes):
    log = []

    def noting(word):
        return lambda entry: log.append((word, entry.name, values(tools.layer(scopes["agent"]))))

    tools = Layers("tool", added=noting("added"), removed=noting("removed"))
    effect = tools.add(scopes["agent"], 1, name="grep")
    log.append("returned")
    await effect.aclose()
    assert log == [("added", "grep", [1]), "returned", ("removed", "grep", [])]


@pytest.mark.behaviour("D-184")
async def test_what_add_returns_is_the_effect_of_the_scope_itself(scopes):
    tools = Layers("tool")
    effect = tools.add(scopes["agent"], 1, name="grep")
    assert list(scopes["agent"]._effects) == [effect]
    await scopes["agent"].aclose()
    assert tools.layer(scopes["agent"]) == ()
    await effect.aclose()  # it ran with the scope; this finds nothing to do


@pytest.mark.behaviour("D-185")
@pytest.mark.parametrize("owner", ["agent", "plugin"])
def test_an_addition_whose_notification_fails_is_taken_back_and_the_layer_stays(scopes, owner):
    removed = []

    def added(entry):
        if entry.value == "bad":
            raise ValueError("refused")

    tools = Layers("tool", added=added, removed=removed.append)
    with pytest.raises(ValueError, match="refused"):
        tools.add(scopes["agent"], "bad", name="grep", by=scopes[owner])
    assert list(tools) == []  # no layer is left where there was none
    tools.add(scopes["agent"], "good", name="find")
    with pytest.raises(ValueError, match="refused"):
        tools.add(scopes["agent"], "bad", name="grep", by=scopes[owner])
    assert values(tools.layer(scopes["agent"])) == ["good"]
    assert [effect.label for effect in scopes["agent"].effects().children] == ["tool find"]
    assert scopes["plugin"].effects().count() == 0
    assert removed == []  # what was never announced as added is not announced as removed
    tools.add(scopes["agent"], "good", name="grep", by=scopes[owner])


async def test_a_removal_whose_notification_fails_is_done_and_reported(scopes):
    def removed(entry):
        raise ValueError("no")

    tools = Layers("tool", removed=removed)
    tools.add(scopes["agent"], 1, name="grep")
    await scopes["agent"].aclose()
    assert list(tools) == []
    assert [str(error) for error in scopes["agent"].errors] == ["no"]
