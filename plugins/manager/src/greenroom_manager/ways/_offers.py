"""Which provider starts an agent; a refusal lists what there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from greenroom.agents import AgentError
from greenroom.providers import Availability, ProviderSpec

if TYPE_CHECKING:
    from greenroom import Host


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
    """The catalogue, as the ways ask it.

    Args:
        catalogue: asked for each time.
    """

    def __init__(self, catalogue: Callable[[], Admission]) -> None:
        self._catalogue: Final = catalogue

    def find(self, provider: str) -> ProviderSpec | None:
        """The spec of a provider, or None if no plugin brings it now."""
        return self._catalogue().specs.get(provider)

    def need(self, provider: str) -> ProviderSpec:
        """The spec of a provider, for an agent that there is already.

        Raises:
            AgentError: no plugin brings it now; lists what there is.
        """
        spec = self.find(provider)
        if spec is None:
            known = ", ".join(self._catalogue().specs) or "none"
            text = f"the provider {provider!r} is not available here; configured: {known}"
            raise AgentError(text, hint="install or enable the plugin that brings it")
        return spec

    async def admit(self, provider: str | None) -> ProviderSpec:
        """The provider of a new agent: the one that was asked for, else the only one.

        Raises:
            AgentError: there is none or several to choose from, or it is unknown, disabled, or cannot be used now.
        """
        if provider is None:
            known = list(self._catalogue().specs)
            if len(known) != 1:
                hint = f"configured: {', '.join(known) or 'none'}"
                raise AgentError("which provider is to run this agent?", hint=hint)
            provider = known[0]
        return await self._catalogue().admit(provider)


class HostAdmission:
    """Whatever plugins brought, asked itself whether it can be used."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host

    @property
    def specs(self) -> Mapping[str, ProviderSpec]:
        """See `Admission`."""
        return self._host.providers

    async def admit(self, provider_id: str) -> ProviderSpec:
        """See `Admission`."""
        known = ", ".join(self.specs) or "none"
        if provider_id not in self.specs:
            raise AgentError(f"there is no provider {provider_id!r}", hint=f"configured: {known}")
        state = await self._ask(provider_id)
        if not state.ok:
            usable = [name for name in self.specs if name != provider_id and (await self._ask(name)).ok]
            text = f"the provider {provider_id!r} is not available: {state.problem}"
            raise AgentError(text, hint=state.hint or f"available: {', '.join(usable) or 'none'}")
        return self.specs[provider_id]

    async def _ask(self, provider_id: str) -> Availability:
        try:
            return await self.specs[provider_id].load().availability()
        except Exception as error:  # noqa: BLE001 - a plugin's code; it cannot be used, whatever it raised
            return Availability(ok=False, problem=f"{type(error).__name__}: {error}")
