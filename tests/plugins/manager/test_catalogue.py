"""The catalogue in a host: what it lets in, what changes, what it says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentDirectory, AgentError, AgentOptions, AgentSpec, ProviderCatalogue
from greenroom.errors import SettingsError
from greenroom.providers import Availability, Catalogue, Command, Feature, Model
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider

pytestmark = pytest.mark.anyio


class Cli(ScriptedProvider):
    """A provider that can be started in another way; all that are made this way are kept."""

    def __init__(self, name="cli", family=None, launch=None):
        super().__init__(name)
        self.launch = launch
        self.family = family if family is not None else []
        self.family.append(self)
        self.state = Availability(ok=True)
        self.asked = 0

    @property
    def spec(self):
        return replace(super().spec, launched=lambda launch: Cli(self.name, self.family, launch))

    async def availability(self):
        if isinstance(self.state, Exception):
            raise self.state
        return self.state

    async def catalogue(self, *, cwd, fresh=False):
        self.asked += 1
        return Catalogue(
            models=(Model(id="m1", label="M1"), Model(id="m2", label="M2", default=True)),
            features=(Feature(id="fast", label="Fast"),),
            commands=(Command(name="compact"),),
        )


class Desk:
    def __init__(self, host, cli, other):
        self.host, self.cli, self.other = host, cli, other
        self.catalogue = host.service(ProviderCatalogue)
        self.directory = host.service(AgentDirectory)

    async def create(self, provider, agent_id=None):
        return await self.directory.create(AgentSpec(id=agent_id, options=AgentOptions(provider=provider)))

    async def refused(self, provider):
        """What is said when an agent of this provider is created; nothing is left of it."""
        with pytest.raises(AgentError) as caught:
            await self.create(provider, "refused")
        assert await self.directory.list(internal=True, archived=True) == []
        assert await self.host.sessions.store.list() == []
        return str(caught.value)


@asynccontextmanager
async def opened(folder: Path, table: str = "", *providers: ScriptedProvider):
    cli, other = Cli(), Cli("other")
    file = folder / "greenroom.toml"
    file.write_text(table)
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(cli, other, *providers),
        "manager": ManagerPlugin(),
    }
    settings = load_settings(user_file=file)
    async with Host(settings, discovery=False, plugins=plugins) as host:
        assert [record.error for record in host.plugins()] == [None] * 3
        yield Desk(host, cli, other)


@pytest.fixture
async def desk(anyio_backend, tmp_path):
    async with opened(tmp_path) as live:
        yield live


DISABLED = "[plugins.manager.providers.cli]\nenabled = false\n"


class TestUpdate:
    @pytest.mark.behaviour("P-010")
    async def test_an_update_can_enable_a_provider_for_the_very_next_agent(self, tmp_path):
        async with opened(tmp_path, DISABLED) as desk:
            assert "disabled" in await desk.refused("cli")
            await desk.catalogue.configure({"cli": {"enabled": True}})
            assert (await desk.create("cli")).session.header.provider == "cli"

    @pytest.mark.behaviour("P-011")
    async def test_an_update_can_disable_one_for_the_very_next_agent(self, desk):
        await desk.catalogue.configure({"cli": {"enabled": False}})
        told = await desk.refused("cli")
        assert "'cli' is disabled" in told
        assert "enabled: other" in told

    @pytest.mark.behaviour("P-012")
    async def test_an_update_can_bring_one_that_was_unknown(self, desk):
        assert "no provider 'work'" in await desk.refused("work")
        await desk.catalogue.configure({"work": {"extends": "cli", "env": {"A": "1"}}})
        agent = await desk.create("work")
        assert agent.session.header.provider == "work"
        assert desk.cli.family[-1].session.request.session_id == agent.id
        assert desk.cli.family[-1].launch.env == {"A": "1"}

    @pytest.mark.behaviour("P-012")
    async def test_a_plugin_that_is_loaded_later_brings_its_provider(self, desk):
        await desk.host.load(ScriptedPlugin(ScriptedProvider("late")), name="late")
        assert (await desk.create("late")).session.header.provider == "late"

    @pytest.mark.behaviour("P-013")
    async def test_an_update_replaces_everything_that_was_said_before(self, desk):
        await desk.catalogue.configure({"work": {"extends": "cli"}, "cli": {"label": "Mine"}})
        assert {"work", "cli", "other"} == set(desk.host.providers)
        await desk.catalogue.configure({"play": {"extends": "cli"}})
        assert {"play", "cli", "other"} == set(desk.host.providers)
        assert desk.host.providers["cli"].label == "Cli"
        assert "no provider 'work'" in await desk.refused("work")

    async def test_a_wrong_update_changes_nothing_and_says_where_it_is_wrong(self, desk):
        await desk.catalogue.configure({"work": {"extends": "cli"}})
        with pytest.raises(SettingsError, match=r"cli\.enabled"):
            await desk.catalogue.configure({"cli": {"enabled": "perhaps"}})
        assert "work" in desk.host.providers

    @pytest.mark.behaviour("P-014")
    async def test_agents_of_a_provider_that_is_started_differently_are_closed_and_go_on_with_the_new_one(self, desk):
        agent = await desk.create("cli", "a")
        await agent.run("go")
        bystander = await desk.create("other", "b")
        old = desk.cli.session
        await desk.catalogue.configure({"cli": {"env": {"A": "new"}}})
        assert old.closed
        assert desk.host.agents.get("a") is None
        assert desk.host.agents.get("b") is bystander
        resumed = await desk.directory.open("a")
        new = desk.cli.family[-1]
        assert new.launch.env == {"A": "new"}
        assert new.session.request.handle.native_id == "native-1"
        assert (await resumed.run("on")).reason.kind == "completed"

    @pytest.mark.behaviour("P-014")
    async def test_agents_of_a_provider_that_is_retired_are_closed(self, desk):
        await desk.catalogue.configure({"work": {"extends": "cli"}})
        await desk.create("work", "a")
        await desk.catalogue.configure({})
        assert desk.host.agents.get("a") is None
        with pytest.raises(AgentError, match="work"):
            await desk.directory.open("a")
        await desk.catalogue.configure({"work": {"extends": "cli"}})
        assert (await desk.directory.open("a")).id == "a"

    async def test_an_agent_of_a_disabled_provider_goes_on(self, desk):
        await desk.create("cli", "a")
        await desk.catalogue.configure({"cli": {"enabled": False}})
        assert desk.host.agents.get("a") is not None
        await desk.directory.close("a")
        assert (await desk.directory.open("a")).id == "a"


class TestListing:
    @pytest.mark.behaviour("P-015")
    async def test_every_configured_provider_is_listed_and_one_that_raises_has_its_error_as_text(self, desk):
        desk.other.state = RuntimeError("boom")
        await desk.catalogue.configure({"work": {"extends": "cli", "label": "Work"}, "ghost": {}})
        found = {entry.id: entry for entry in await desk.catalogue.refresh()}
        assert {name: entry.status for name, entry in found.items()} == {
            "cli": "ready",
            "other": "error",
            "work": "ready",
            "ghost": "error",
        }
        assert found["work"].label == "Work"
        assert found["other"].problem == "RuntimeError: boom"
        assert "no plugin brings it" in found["ghost"].problem

    async def test_a_subscriber_sees_everything_first_and_then_what_changes(self, desk):
        async with desk.catalogue.subscribe() as entries:
            first = {(await anext(entries)).status for _ in range(2)}
            assert first == {"loading"}
            with anyio.fail_after(5):
                ready = {(entry := await anext(entries)).id: entry.status for _ in range(2)}
            assert ready == {"cli": "ready", "other": "ready"}
            await desk.catalogue.configure({"cli": {"enabled": False}})
            with anyio.fail_after(5):
                while (entry := await anext(entries)).status != "disabled":
                    pass
            assert entry.id == "cli"

    async def test_one_that_cannot_be_used_is_refused_with_those_that_can(self, desk):
        desk.cli.state = Availability(ok=False, problem="not logged in", hint="log in")
        told = await desk.refused("cli")
        assert "not logged in" in told
        assert "available: other" in told
        desk.cli.state = Availability(ok=True)
        await desk.create("cli")

    async def test_a_good_answer_counts_for_a_while_and_a_bad_one_only_once(self, desk):
        desk.cli.state = Availability(ok=False, problem="not logged in")
        assert not (await desk.catalogue.availability("cli")).ok
        desk.cli.state = Availability(ok=True, version="1")
        assert (await desk.catalogue.availability("cli")).version == "1"
        desk.cli.state = RuntimeError("asked again")
        assert (await desk.create("cli")).session.header.provider == "cli"
        await desk.catalogue.configure({"cli": {"label": "other"}})
        assert "asked again" in (await desk.catalogue.availability("cli")).problem

    async def test_one_that_is_unknown_is_refused_with_those_that_there_are(self, desk):
        assert "configured: cli, other" in await desk.refused("clu")

    async def test_the_default_model_is_the_one_of_the_settings_or_of_the_provider(self, desk):
        assert (await desk.catalogue.default_model("cli")).id == "m2"
        await desk.catalogue.configure({"cli": {"additional_models": [{"id": "m9", "default": True}]}})
        assert (await desk.catalogue.default_model("cli")).id == "m9"


class TestDrafts:
    @pytest.mark.behaviour("P-035")
    async def test_without_a_model_nobody_is_asked_and_the_answer_is_empty(self, desk):
        for model in (None, "", "default"):
            draft = await desk.catalogue.draft("cli", model=model)
            assert (draft.commands, draft.features) == ((), ())
        assert desk.cli.asked == 0
        assert desk.cli.sessions == []

    @pytest.mark.behaviour("P-035")
    async def test_with_a_model_the_provider_may_be_asked(self, desk):
        draft = await desk.catalogue.draft("cli", model="m1")
        assert [command.name for command in draft.commands] == ["compact"]
        assert desk.cli.asked == 1

    @pytest.mark.behaviour("P-035")
    async def test_what_the_provider_said_of_itself_is_used_without_a_session(self, desk):
        await desk.catalogue.refresh("cli")
        draft = await desk.catalogue.draft("cli")
        assert [feature.id for feature in draft.features] == ["fast"]
        assert (desk.cli.asked, desk.cli.sessions) == (1, [])
