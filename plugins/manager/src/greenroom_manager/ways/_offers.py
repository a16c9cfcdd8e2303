"""Which provider starts an agent; a refusal lists what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from greenroom.agents import AgentError
from greenroom.providers import ProviderSpec


class Admission(Protocol):
    """What the ways ask of the catalogue of providers; see `greenroom.agents.ProviderCatalogue`."""

    @property
    def specs(self) -> Mapping[str, ProviderSpec]:
        """All of them by id, also disabled ones, since their agents can be continued."""
        ...

    async def admit(self, provider_id: str) -> ProviderSpec:
        """The provider for a new agent. Raises AgentError if it is unknown, disabled or cannot be used now."""
        ...


class Offers:
    """The catalogue, as the ways ask it."""

    def __init__(self, catalogue: Admission) -> None:
        self._catalogue: Final = catalogue

    def find(self, provider: str) -> ProviderSpec | None:
        """The spec of a provider, or None if no plugin brings it now."""
        return self._catalogue.specs.get(provider)

    def need(self, provider: str) -> ProviderSpec:
        """The spec of a provider, for an agent that there is already.

        Raises:
            AgentError: no plugin brings it now; lists what there is.
        """
        spec = self.find(provider)
        if spec is None:
            known = ", ".join(self._catalogue.specs) or "none"
            text = f"the provider {provider!r} is not available here; configured: {known}"
            raise AgentError(text, hint="install or enable the plugin that brings it")
        return spec

    async def admit(self, provider: str | None) -> ProviderSpec:
        """The provider of a new agent: the one that was asked for, else the only one.

        Raises:
            AgentError: there is none or several to choose from, or it is unknown, disabled, or cannot be used now.
        """
        if provider is None:
            known = list(self._catalogue.specs)
            if len(known) != 1:
                hint = f"configured: {', '.join(known) or 'none'}"
                raise AgentError("which provider is to run this agent?", hint=hint)
            provider = known[0]
        return await self._catalogue.admit(provider)
