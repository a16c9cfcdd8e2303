"""Providers as the settings have them: what is launched how, and with which models."""

from __future__ import annotations

import importlib.metadata

import pytest

from greenroom.providers import Catalogue, Launch, Model
from greenroom_manager._catalogue_specs import apply, launch_of, with_models
from greenroom_manager._settings import ModelSettings, ProviderSettings
from greenroom_testing import ScriptedProvider


class Launched(ScriptedProvider):
    """A provider that can be started in another way, and says how."""

    def __init__(self, name="cli", launch=None):
        super().__init__(name)
        self.launch = launch

    @property
    def spec(self):
        from dataclasses import replace

        return replace(super().spec, launched=lambda launch: Launched(self.name, launch))


def settings(**fields) -> ProviderSettings:
    return ProviderSettings.model_validate(fields)


def brought(*providers):
    return {provider.name: provider.spec for provider in providers}


CLI = Launched()


class TestRegistry:
    @pytest.mark.behaviour("P-500")
    def test_without_settings_there_is_exactly_what_plugins_bring(self):
        specs = brought(CLI, ScriptedProvider("other"))
        assert apply(specs, {}).specs == specs

    @pytest.mark.behaviour("P-500")
    def test_the_scripted_provider_is_brought_by_no_installed_plugin(self):
        entries = importlib.metadata.entry_points(group="greenroom")
        assert entries
        assert not [entry for entry in entries if entry.value.startswith("greenroom_testing")]

    @pytest.mark.behaviour("P-502")
    def test_one_that_is_disabled_keeps_what_it_says_of_itself_and_can_still_be_made(self):
        found = apply(brought(CLI), {"cli": settings(enabled=False, label="The CLI")})
        assert found.offers["cli"].settings.enabled is False
        spec = found.specs["cli"]
        assert (spec.label, spec.capabilities) == ("The CLI", CLI.spec.capabilities)
        assert spec.load() is CLI

    def test_one_that_cannot_be_started_in_another_way_says_so(self):
        found = apply(brought(ScriptedProvider("fixed")), {"fixed": settings(env={"A": "1"})})
        assert "does not support" in found.offers["fixed"].problem

    @pytest.mark.parametrize(
        ("table", "why"),
        [({"x": {}}, "no plugin brings it"), ({"x": {"extends": "y"}}, "extends y, which no plugin brings")],
    )
    def test_what_the_settings_name_and_nobody_brings_is_told(self, table, why):
        found = apply(brought(CLI), {name: settings(**fields) for name, fields in table.items()})
        assert why in found.unmet["x"]
        assert list(found.offers) == ["cli"]


class TestLaunch:
    @pytest.mark.behaviour("P-505")
    def test_nothing_said_leaves_the_start_to_the_provider(self):
        found = apply(brought(CLI), {"cli": settings(label="x")})
        assert found.specs["cli"].load() is CLI

    @pytest.mark.behaviour("P-505")
    def test_command_arguments_and_variables_reach_the_provider(self):
        said = settings(command=["/opt/cli", "-x"], arguments=["--y"], env={"A": "1"})
        made = apply(brought(CLI), {"cli": said}).specs["cli"].load()
        assert made.launch == Launch(command=("/opt/cli", "-x"), arguments=("--y",), env={"A": "1"})

    @pytest.mark.behaviour("P-503", "P-505")
    def test_one_that_extends_another_merges_with_what_is_said_of_that(self):
        table = {
            "cli": settings(
                command=["base"], arguments=["-b"], env={"A": "base", "B": "base"}, disallowed_tools=["Bash", "Web"]
            ),
            "work": settings(extends="cli", arguments=["-w"], env={"B": "work"}, disallowed_tools=["Web", "Write"]),
        }
        found = apply(brought(CLI), table)
        assert found.specs["work"].id == "work"
        assert found.specs["work"].load().launch == Launch(
            command=("base",),
            arguments=("-b", "-w"),
            env={"A": "base", "B": "work"},
            disallowed_tools=("Bash", "Web", "Write"),
        )
        assert found.specs["cli"].load().launch.disallowed_tools == ("Bash", "Web")

    def test_variables_are_not_shown_where_a_launch_is(self):
        assert "secret" not in repr(launch_of(settings(env={"TOKEN": "secret"})))


class TestModels:
    FOUND = Catalogue(
        models=(Model(id="big", label="Big", default=True, context_window=100), Model(id="small", label="Small")),
    )

    def models(self, **said):
        return with_models(self.FOUND, settings(**said)).models

    @pytest.mark.behaviour("P-504")
    def test_models_of_the_settings_take_the_place_of_the_providers(self):
        assert self.models(models=[{"id": "mine", "label": "Mine"}, {"id": "bare"}]) == (
            Model(id="mine", label="Mine"),
            Model(id="bare", label="bare"),
        )
        assert self.models(models=[]) == ()

    @pytest.mark.behaviour("P-504")
    def test_an_additional_model_comes_behind_them(self):
        assert [model.id for model in self.models(additional_models=[{"id": "new"}])] == ["big", "small", "new"]

    @pytest.mark.behaviour("P-504")
    def test_one_of_a_known_id_changes_only_what_it_says(self):
        big = self.models(additional_models=[{"id": "big", "label": "Bigger", "thinking": ["high"]}])[0]
        assert big == Model(id="big", label="Bigger", default=True, context_window=100, thinking=("high",))

    @pytest.mark.behaviour("P-504")
    def test_the_default_of_an_additional_model_wins(self):
        models = self.models(additional_models=[{"id": "new", "default": True}])
        assert [model.id for model in models if model.default] == ["new"]
        profile = self.models(models=[{"id": "mine", "default": True}], additional_models=[{"id": "new", "default": 1}])
        assert [model.id for model in profile if model.default] == ["new"]

    def test_a_model_without_a_name_is_no_model(self):
        with pytest.raises(ValueError, match="id"):
            ModelSettings(id="")
