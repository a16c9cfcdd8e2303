"""`greenroom agents`: on what is stored, and on a host in another process."""

from __future__ import annotations

import json
import sqlite3
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

import greenroom_driver
import greenroom_sqlite
from greenroom import Host, load_settings
from greenroom.agents import PARENT_LABEL, AgentDirectory, AgentSpec
from greenroom.cli import run
from greenroom.providers import PermissionRequest, PermissionRequested
from greenroom_control import ControlPlugin
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider


@pytest.fixture(autouse=True)
def without_the_programs_of_vendors(monkeypatch):
    monkeypatch.setenv("GREENROOM_PLUGINS__DENY", '["greenroom-claude:claude"]')


@asynccontextmanager
async def host_on(folder, provider, **more):
    plugins = {
        "driver": greenroom_driver,
        "sqlite": greenroom_sqlite,
        "scripted": ScriptedPlugin(provider),
        "manager": ManagerPlugin(),
        **more,
    }
    async with Host(load_settings(), data_directory=folder, discovery=False, plugins=plugins) as host:
        assert [record.error for record in host.plugins() if record.state != "active"] == []
        yield host


def fill(folder: Path, *names: str, parent: str | None = None, work: bool = True) -> None:
    """Make agents that are stored and closed, each with a turn."""

    async def main():
        async with host_on(folder, ScriptedProvider()) as host:
            directory = host.service(AgentDirectory)
            labels = {PARENT_LABEL: parent} if parent is not None else {}
            for name in names:
                agent = await directory.create(AgentSpec(id=name, title=f"title of {name}", labels=labels))
                if work:
                    await agent.run("work")
                await directory.close(name)

    anyio.run(main)


@pytest.fixture
def folder(user_folders):
    return user_folders / "data"


def answer(capsys, *arguments, status=0):
    assert run(["agents", *arguments]) == status
    return capsys.readouterr().out


def refusal(capsys, *arguments):
    assert run(["agents", *arguments]) == 1
    return capsys.readouterr().err


def answer_json(capsys, *arguments, status=0):
    return json.loads(answer(capsys, *arguments, "--json", status=status))


def listed(capsys, *options):
    return [item["id"] for item in answer_json(capsys, "list", *options)]


def test_what_is_stored_is_listed_with_the_latest_first(folder, capsys):
    fill(folder, "first-agent", "second-agent")
    items = answer_json(capsys, "list")
    assert [(item["id"], item["short_id"], item["state"], item["title"]) for item in items] == [
        ("second-agent", "second-", "closed", "title of second-agent"),
        ("first-agent", "first-a", "closed", "title of first-agent"),
    ]
    assert [item["available"] for item in items] == [False, False]
    text = answer(capsys, "list")
    assert text.index("second-") < text.index("first-a")
    assert "scripted (not installed)" in text


def test_an_empty_store_has_an_empty_list(folder, capsys):
    assert answer_json(capsys, "list") == []
    assert answer(capsys, "list") == ""


def test_one_agent_is_shown_by_its_id_the_beginning_of_one_and_last(folder, capsys):
    fill(folder, "first-agent", "second-agent")
    for named in ("first-agent", "firs"):
        assert answer_json(capsys, "show", named)["id"] == "first-agent"
    assert answer_json(capsys, "show", "last")["id"] == "second-agent"
    assert answer_json(capsys, "show", "native-1")["native"] == {"native_id": "native-1"}
    assert "title of first-agent" in answer(capsys, "show", "first-agent")


def test_an_agent_that_is_not_there_is_refused_with_those_that_are_close(folder, capsys):
    fill(folder, "first-agent", work=False)
    said = refusal(capsys, "show", "first-agend")
    assert "there is no agent 'first-agend'" in said
    assert "hint: close: first-agent" in said


def test_a_beginning_that_several_ids_have_is_refused_with_their_names(folder, capsys):
    fill(folder, "twin-a", "twin-b", work=False)
    said = refusal(capsys, "archive", "twin")
    assert "2 agents have ids that begin with 'twin'" in said
    assert "twin-a" in said
    assert set(listed(capsys)) == {"twin-a", "twin-b"}


def test_a_family_is_archived_and_an_agent_brought_back(folder, capsys):
    fill(folder, "parent", work=False)
    fill(folder, "child", parent="parent", work=False)
    assert answer_json(capsys, "archive", "parent") == {"results": {"parent": None, "child": None}}
    assert listed(capsys) == []
    assert set(listed(capsys, "--all")) == {"parent", "child"}
    assert answer_json(capsys, "unarchive", "child")["archived"] is False
    assert listed(capsys) == ["child"]


def test_a_detached_agent_stays_when_its_parent_goes(folder, capsys):
    fill(folder, "parent", work=False)
    fill(folder, "child", parent="parent", work=False)
    assert "works for nobody" in answer(capsys, "detach", "child")
    assert "agent parent archived" in answer(capsys, "archive", "parent")
    assert listed(capsys) == ["child"]


def test_deleting_asks_and_without_a_terminal_says_how_not_to(folder, capsys):
    fill(folder, "first-agent")
    assert "greenroom agents delete first-agent -y" in refusal(capsys, "delete", "first-agent")
    assert listed(capsys) == ["first-agent"]
    assert answer_json(capsys, "delete", "first-agent", "--yes") == {"results": {"first-agent": None}}
    assert listed(capsys, "--all", "--internal") == []


def test_an_agent_is_marked_as_unread_and_as_read(folder, capsys):
    fill(folder, "first-agent", work=False)
    assert answer_json(capsys, "unread", "last")["attention"] == "marked"
    assert answer_json(capsys, "read", "last")["attention"] is None


def test_an_agent_that_runs_nowhere_is_not_reloaded_and_the_way_to_start_it_is_named(folder, capsys):
    fill(folder, "first-agent", work=False)
    said = refusal(capsys, "reload", "last")
    assert "runs nowhere" in said
    assert "greenroom run --session first-agent" in said


def test_rewinding_an_agent_whose_provider_is_not_installed_is_one_error_with_its_name(folder, capsys):
    fill(folder, "first-agent")
    assert "scripted" in refusal(capsys, "rewind", "last", "some-message")


@pytest.mark.parametrize(
    "verb", ["list", "show", "archive", "unarchive", "detach", "delete", "import", "reload", "rewind", "read", "unread"]
)
def test_every_command_has_a_help_text_with_an_example(verb, capsys):
    text = answer(capsys, verb, "--help")
    assert f"Example: greenroom agents {verb}" in text
    assert "--json" in text


@pytest.mark.parametrize("where", ["value", "crc"])
def test_a_damaged_record_harms_no_other_and_can_be_deleted(folder, capsys, where):
    fill(folder, "broken", "whole", work=False)
    connection = sqlite3.connect(folder / "sessions.db")
    connection.execute(f"UPDATE records SET {where} = 5 WHERE key = 'broken' AND namespace = 'agents'")
    connection.commit()
    connection.close()
    assert listed(capsys, "--all") == ["whole"]
    said = refusal(capsys, "show", "broken")
    assert "the record of agent broken cannot be read" in said
    assert "greenroom agents delete broken" in said
    assert answer_json(capsys, "delete", "broken", "--yes") == {"results": {"broken": None}}
    assert listed(capsys, "--all") == ["whole"]
    assert "there is no agent 'broken'" in refusal(capsys, "show", "broken")


# a host in another process: here, in another thread, with an endpoint of its own


@contextmanager
def other_host(folder: Path, provider: ScriptedProvider, **more):
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(host_on(folder, provider, **more)) as host,
    ):
        yield host, host.service(AgentDirectory), portal


def test_what_another_host_drives_is_shown_as_it_says_itself(folder, capsys):
    provider = ScriptedProvider()
    with other_host(folder, provider, control=ControlPlugin()) as (_host, directory, portal):

        async def ask():
            agent = await directory.create(AgentSpec(id="theirs"))
            provider.session.emit(PermissionRequested(request=PermissionRequest(id="q", name="Bash")))
            await agent.flush()

        portal.call(ask)
        shown = answer_json(capsys, "show", "theirs")
        assert (shown["state"], shown["live"], [one["id"] for one in shown["questions"]]) == ("idle", True, ["q"])
        assert [item["state"] for item in answer_json(capsys, "list")] == ["idle"]


def test_what_another_host_drives_is_archived_there(folder, capsys):
    with other_host(folder, ScriptedProvider(), control=ControlPlugin()) as (host, directory, portal):
        portal.call(directory.create, AgentSpec(id="theirs"))
        assert answer_json(capsys, "archive", "theirs") == {"results": {"theirs": None}}
        assert host.agents.get("theirs") is None
        assert portal.call(directory.find, "theirs").record.archived_at is not None
        assert answer_json(capsys, "unarchive", "theirs")["archived"] is False


def test_what_another_host_drives_is_reloaded_there(folder, capsys):
    provider = ScriptedProvider()
    with other_host(folder, provider, control=ControlPlugin()) as (_host, directory, portal):
        portal.call(directory.create, AgentSpec(id="theirs"))
        first = provider.session
        assert "was reloaded" in answer(capsys, "reload", "theirs")
        assert first.closed
        assert not provider.session.closed


def test_what_another_host_drives_that_cannot_be_asked_is_refused_with_whose_it_is(folder, capsys):
    with other_host(folder, ScriptedProvider()) as (_host, directory, portal):
        portal.call(directory.create, AgentSpec(id="theirs"))
        for command in (["archive", "theirs"], ["delete", "theirs", "--yes"], ["reload", "theirs"]):
            said = refusal(capsys, *command)
            assert "agent theirs is driven by greenroom" in said
            assert "hint:" in said
        assert portal.call(directory.find, "theirs").live
        assert answer_json(capsys, "unread", "theirs")["attention"] == "marked"
