"""The providers of a host as the settings have them; see `greenroom.agents.ProviderCatalogue`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from pydantic import TypeAdapter, ValidationError

from greenroom.agents import AgentDirectory, AgentError, ProviderEntry
from greenroom.errors import GreenroomError, SettingsError
from greenroom.providers import Availability, Catalogue, Model, ProviderSpec

from ._catalogue_cache import FRESH, Cache, probe
from ._catalogue_specs import Offer, Range, apply
from ._settings import ProviderSettings
from .ways import clean_model

if TYPE_CHECKING:
    from ._context import Context

_TABLE: Final = TypeAdapter(dict[str, ProviderSettings])


class _Reader:
    """A subscriber: the latest entry of each provider that it has not been given yet."""

    def __init__(self, cwd: Path) -> None:
        self.cwd: Final = cwd
        self.waiting: dict[str, ProviderEntry] = {}
        self.news = anyio.Event()

    def give(self, entry: ProviderEntry) -> None:
        self.waiting.pop(entry.id, None)
        self.waiting[entry.id] = entry
        self.news.set()

    def __aiter__(self) -> AsyncIterator[ProviderEntry]:
        return self

    async def __anext__(self) -> ProviderEntry:
        while not self.waiting:
            self.news = anyio.Event()
            await self.news.wait()
        return self.waiting.pop(next(iter(self.waiting)))


class Providers:
    """See `greenroom.agents.ProviderCatalogue`.

    Args:
        table: the settings of providers.
    """

    def __init__(self, context: Context, table: Mapping[str, ProviderSettings]) -> None:
        self._context: Final = context
        self._table: dict[str, ProviderSettings] = dict(table)
        self._readers: list[_Reader] = []
        self._made: tuple[dict[str, ProviderSpec], Range] = ({}, Range())
        self._probed: dict[str, tuple[Offer, int, Availability]] = {}
        self._cache: Final = Cache(context.clock, self._spawn, self._tell)

    # what there is

    @property
    def range(self) -> Range:
        """The providers, made anew when those of the plugins or the settings are others."""
        brought = dict(self._context.host.brought_providers)
        if brought != self._made[0] or not self._made[1].offers:
            self._made = (brought, apply(brought, self._table))
        return self._made[1]

    @property
    def specs(self) -> Mapping[str, ProviderSpec]:
        """See `ProviderCatalogue.specs`."""
        return self.range.specs

    @property
    def disabled(self) -> Collection[str]:
        """See `ProviderCatalogue.disabled`."""
        return frozenset(name for name, offer in self.range.offers.items() if not offer.settings.enabled)

    def entries(self, *, cwd: Path | None = None) -> Sequence[ProviderEntry]:
        """See `ProviderCatalogue.entries`."""
        return [*self._cache.entries(_folder(cwd), self.range.offers.values()), *self._unmet()]

    async def refresh(self, provider_id: str | None = None, *, cwd: Path | None = None) -> Sequence[ProviderEntry]:
        """See `ProviderCatalogue.refresh`."""
        if provider_id is not None and provider_id not in self.range.unmet:
            self._offer(provider_id)
        found = await self._cache.refresh(_folder(cwd), self.range.offers.values(), provider_id)
        return [*found, *(entry for entry in self._unmet() if provider_id in (None, entry.id))]

    @asynccontextmanager
    async def subscribe(self, *, cwd: Path | None = None) -> AsyncIterator[AsyncIterator[ProviderEntry]]:
        """See `ProviderCatalogue.subscribe`."""
        reader = _Reader(_folder(cwd))
        self._readers.append(reader)
        try:
            for entry in self.entries(cwd=cwd):
                reader.give(entry)
            yield reader
        finally:
            self._readers.remove(reader)

    # for a new agent

    async def availability(self, provider_id: str) -> Availability:
        """See `ProviderCatalogue.availability`."""
        return await self._availability(self._offer(provider_id))

    async def admit(self, provider_id: str) -> ProviderSpec:
        """See `ProviderCatalogue.admit`."""
        offer = self._offer(provider_id)
        if not offer.settings.enabled:
            enabled = ", ".join(name for name, other in self.range.offers.items() if other.settings.enabled) or "none"
            raise AgentError(
                f"the provider {provider_id!r} is disabled; enabled: {enabled}",
                hint=f"greenroom settings: plugins.manager.providers.{provider_id}.enabled = true",
            )
        state = await self._availability(offer)
        if not state.ok:
            others = [name for name, other in self.range.offers.items() if name != provider_id and other != offer]
            usable = ", ".join(await self._usable(others)) or "none"
            text = f"the provider {provider_id!r} is not available: {state.problem or 'it does not say why'}"
            raise AgentError(f"{text}; available: {usable}", hint=state.hint)
        return offer.spec

    async def default_model(self, provider_id: str, *, cwd: Path | None = None) -> Model | None:
        """See `ProviderCatalogue.default_model`."""
        entry = await self._known(provider_id, _folder(cwd))
        models = entry.catalogue.models if entry is not None and entry.catalogue is not None else ()
        return next((model for model in models if model.default), None)

    async def draft(self, provider_id: str, *, model: str | None = None, cwd: Path | None = None) -> Catalogue:
        """See `ProviderCatalogue.draft`."""
        offer, folder = self._offer(provider_id), _folder(cwd)
        wanted = clean_model(model) is not None
        entry = await self._known(provider_id, folder) if wanted else self._cache.get(folder, offer)
        return entry.catalogue if entry is not None and entry.catalogue is not None else Catalogue()

    # changing

    async def configure(self, providers: Mapping[str, object]) -> None:
        """See `ProviderCatalogue.configure`."""
        try:
            table = _TABLE.validate_python(dict(providers))
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_input=False)]
            raise SettingsError("\n".join(["the settings of providers are wrong:", *lines])) from error
        before = self.range.offers
        self._table = table
        self._made = ({}, Range())
        after = self.range.offers
        for reader in list(self._readers):
            for name in before.keys() - after.keys():
                reader.waiting.pop(name, None)
            for entry in self.entries(cwd=reader.cwd):
                reader.give(entry)
        retired = [name for name, offer in before.items() if _retired(offer, after.get(name))]
        await self._close_agents(retired)

    async def _close_agents(self, retired: Sequence[str]) -> None:
        """Close the live agents of providers that are gone or others now; one that cannot be closed is reported."""
        directory = self._context.host.service(AgentDirectory)

        async def close(agent_id: str) -> None:
            try:
                if directory is not None:
                    await directory.close(agent_id)
            except GreenroomError as error:
                self._context.report("agent_of_retired_provider", str(error), agent_id=agent_id)

        async with anyio.create_task_group() as tasks:
            for agent in self._context.host.agents.list():
                record = self._context.book.get(agent.id)
                if record is not None and record.provider in retired:
                    tasks.start_soon(close, agent.id)

    # inside

    def _offer(self, provider_id: str) -> Offer:
        found = self.range
        if provider_id in found.offers:
            return found.offers[provider_id]
        known = ", ".join(found.offers) or "none"
        why = found.unmet.get(provider_id, "there is none of that name")
        raise AgentError(f"there is no provider {provider_id!r}: {why}; configured: {known}")

    def _unmet(self) -> list[ProviderEntry]:
        found = self.range
        return [
            ProviderEntry(id=name, label=name, status="error", problem=why)
            for name, why in found.unmet.items()
            if name not in found.offers
        ]

    async def _availability(self, offer: Offer) -> Availability:
        """From what is known if that is good; what was bad may have been mended meanwhile."""
        if offer.problem is not None:
            return Availability(ok=False, problem=offer.problem)
        known = self._cache.get(Path.cwd(), offer)
        if known is not None and known.availability is not None and known.availability.ok:
            return known.availability
        now = self._context.clock()
        probed = self._probed.get(offer.spec.id)
        if probed is not None and probed[0] == offer and 0 <= now - probed[1] <= FRESH:
            return probed[2]
        state = await probe(offer)
        if state.ok:
            self._probed[offer.spec.id] = (offer, now, state)
        return state

    async def _usable(self, names: Sequence[str]) -> list[str]:
        answers: dict[str, bool] = {}

        async def ask(name: str) -> None:
            answers[name] = (await self._availability(self.range.offers[name])).ok

        async with anyio.create_task_group() as tasks:
            for name in names:
                if self.range.offers[name].settings.enabled:
                    tasks.start_soon(ask, name)
        return [name for name in names if answers.get(name)]

    async def _known(self, provider_id: str, cwd: Path) -> ProviderEntry | None:
        """What is known, after asking if nothing is; None of one that is disabled."""
        offer = self._offer(provider_id)
        known = self._cache.get(cwd, offer)
        if known is not None and known.catalogue is not None:
            return known
        if not offer.settings.enabled:
            return None
        return next(iter(await self._cache.refresh(cwd, self.range.offers.values(), provider_id)), None)

    def _spawn(self, task: Callable[[], Awaitable[None]], name: str) -> None:
        self._context.scope.spawn(task, name=name)

    def _tell(self, cwd: Path, entry: ProviderEntry) -> None:
        for reader in self._readers:
            if reader.cwd == cwd:
                reader.give(entry)


def _retired(before: Offer, after: Offer | None) -> bool:
    """Whether agents of a provider run on what is no longer there: it is gone, or started differently."""
    return after is None or after.launch != before.launch or after.settings.extends != before.settings.extends


def _folder(cwd: Path | None) -> Path:
    return cwd if cwd is not None else Path.cwd()
