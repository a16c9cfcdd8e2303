"""Ties agents to a host: who drives them, the providers of plugins, the diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from greenroom._loading import Registrar
from greenroom.agents import AgentFactory, Agents, FactorySlot, ProviderCatalogue, end_processes
from greenroom.errors import NameTaken
from greenroom.providers import ProviderSpec

if TYPE_CHECKING:
    from greenroom._host import Host
    from greenroom._scope import Scope


class AgentWiring:
    """What a host keeps for its agents while plugins come and go."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._slot = FactorySlot()
        self._providers: dict[str, tuple[ProviderSpec, Scope]] = {}
        self.registrars: Final = {
            "agent_factory": Registrar(self._take_factory, lambda _settings: (host,)),
            "providers": Registrar(self._add_providers, lambda settings: (host, settings)),
        }

    @property
    def providers(self) -> Mapping[str, ProviderSpec]:
        """The kinds of providers by id, as a catalogue has them, or else as they were brought."""
        catalogue = self._host.service(ProviderCatalogue)
        return catalogue.specs if catalogue is not None else self.brought

    @property
    def brought(self) -> Mapping[str, ProviderSpec]:
        """The kinds of providers by id, in the order in which their plugins were loaded."""
        return MappingProxyType({name: spec for name, (spec, _scope) in self._providers.items()})

    def agents(self) -> Agents:
        """Return the agents of the host, once its sessions are there."""
        host = self._host
        return Agents(
            sessions=host.sessions,
            hooks=host.hooks,
            tasks=host.scope.ground.tasks,
            slot=self._slot,
            report=self._report,
            end_process=end_processes,
        )

    def _take_factory(self, scope: Scope, factory: AgentFactory) -> None:
        self._slot.fill(scope, factory)

    def _add_providers(self, scope: Scope, specs: Iterable[ProviderSpec]) -> None:
        for spec in specs:
            known = self._providers.get(spec.id)
            if known is not None:
                raise NameTaken(
                    f"the provider {spec.id} is brought by {known[1].label} and by {scope.label}",
                    hint='deny one of the two plugins: [plugins] deny = ["..."]',
                    plugin=scope.plugin,
                )
            self._providers[spec.id] = (spec, scope)
            scope.undo(partial(self._providers.pop, spec.id, None), label=f"provider {spec.id}")

    def _report(self, code: str, error: BaseException, session: str | None) -> None:
        self._host.diagnostics.record(code, f"{type(error).__name__}: {error}", session=session)
