"""Providers as the settings have them, from those that plugins bring; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from greenroom.providers import Catalogue, Launch, Model, ProviderSpec

from ._settings import ModelSettings, ProviderSettings


@dataclass(frozen=True, slots=True)
class Offer:
    """One provider.

    Attributes:
        launch: how it is started; an empty one leaves that to the provider.
        problem: why the settings cannot be met, None if they can.
    """

    spec: ProviderSpec
    settings: ProviderSettings
    launch: Launch
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """All providers of a host.

    Attributes:
        offers: by id: those of plugins in their order, then those of the settings.
        unmet: ids that stand in the settings and cannot be had, and why.
    """

    offers: Mapping[str, Offer] = field(default_factory=dict)
    unmet: Mapping[str, str] = field(default_factory=dict)

    @property
    def specs(self) -> dict[str, ProviderSpec]:
        """The specs by id, disabled ones too."""
        return {name: offer.spec for name, offer in self.offers.items()}


NO_LAUNCH: Final = Launch()
PLAIN: Final = ProviderSettings()


def apply(brought: Mapping[str, ProviderSpec], table: Mapping[str, ProviderSettings]) -> Range:
    """The providers of plugins with the settings applied, and those that the settings add."""
    offers: dict[str, Offer] = {}
    unmet: dict[str, str] = {}
    for name, spec in brought.items():
        settings = table.get(name, PLAIN)
        if settings.extends is not None and settings.extends != name:
            unmet[name] = f"a plugin brings {name}, so it cannot extend {settings.extends}"
        offers[name] = _offer(spec, settings, launch_of(settings))
    for name, settings in table.items():
        if name in brought:
            continue
        base = settings.extends
        if base is None:
            unmet[name] = "no plugin brings it; install one, or let it extend another provider"
        elif base not in brought:
            unmet[name] = f"it extends {base}, which no plugin brings"
        else:
            merged = inherit(table.get(base, PLAIN), settings)
            offers[name] = _offer(replace(brought[base], id=name, label=name), merged, launch_of(merged))
    return Range(offers, unmet)


def inherit(base: ProviderSettings, own: ProviderSettings) -> ProviderSettings:
    """The settings of a provider that extends another one: what it says itself, over what is said of the other."""
    return own.model_copy(
        update={
            "command": own.command or base.command,
            "arguments": base.arguments + own.arguments,
            "env": {**base.env, **own.env},
            "disallowed_tools": tuple(dict.fromkeys(base.disallowed_tools + own.disallowed_tools)),
            "models": own.models if own.models is not None else base.models,
            "additional_models": base.additional_models + own.additional_models,
        }
    )


def launch_of(settings: ProviderSettings) -> Launch:
    """How the settings start it."""
    return Launch(
        command=settings.command,
        arguments=settings.arguments,
        env=dict(settings.env),
        disallowed_tools=settings.disallowed_tools,
    )


def _offer(spec: ProviderSpec, settings: ProviderSettings, launch: Launch) -> Offer:
    named = replace(spec, label=settings.label) if settings.label is not None else spec
    if launch == NO_LAUNCH:
        return Offer(named, settings, launch)
    if spec.launched is None:
        return Offer(named, settings, launch, "the settings start it in another way, which it does not support")
    return Offer(replace(named, load=partial(spec.launched, launch)), settings, launch)


def with_models(catalogue: Catalogue, settings: ProviderSettings) -> Catalogue:
    """What a provider offers, with the models of the settings.

    `models` take the place of its own. `additional_models` come behind them, or change those of the same id; if one of
    them is the default, no other one is.
    """
    found = catalogue.models if settings.models is None else tuple(_changed(None, said) for said in settings.models)
    models = {model.id: model for model in found}
    for said in settings.additional_models:
        models[said.id] = _changed(models.get(said.id), said)
    default = next((said.id for said in reversed(settings.additional_models) if said.default), None)
    if default is not None:
        models = {name: replace(model, default=name == default) for name, model in models.items()}
    return replace(catalogue, models=tuple(models.values()))


def _changed(known: Model | None, said: ModelSettings) -> Model:
    given = {name: value for name, value in said.model_dump(exclude={"id"}).items() if value is not None}
    if known is not None:
        return replace(known, **given)
    return Model(**{"id": said.id, "label": said.id, **given})
