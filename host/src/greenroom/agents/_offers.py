"""What the keeper of agents offers beside the agents: providers, who can be told, who answers in place of a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from greenroom.agents._directory import AttentionReason
from greenroom.providers import (
    Availability,
    Catalogue,
    Model,
    PermissionRequest,
    PermissionResponse,
    ProviderSpec,
)

ProviderStatus = Literal["loading", "ready", "unavailable", "error", "disabled"]
"""What is known of a provider: nothing yet; it can be used; it cannot; asking it failed; the settings rule it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEntry:
    """What is known of one provider.

    Attributes:
        availability: the last probe, None before the first one.
        catalogue: what it offers, with the models of the settings; None unless `ready`.
        problem, hint: why it cannot be used, and what to do.
        fetched_at: when this was found out, in ms since the epoch.
    """

    id: str
    label: str
    status: ProviderStatus
    availability: Availability | None = None
    catalogue: Catalogue | None = None
    problem: str | None = None
    hint: str | None = None
    fetched_at: int | None = None


class ProviderCatalogue(Protocol):
    """The providers of a host as the settings have them; `host.service(ProviderCatalogue)`.

    What was found out is kept for each working directory and counts as stale after a while. Cancelled: only the
    waiting ends.
    """

    @property
    def specs(self) -> Mapping[str, ProviderSpec]:
        """All of them by id, started as the settings say; also disabled ones, since their agents can be continued."""
        ...

    @property
    def disabled(self) -> Collection[str]:
        """The ids of those that no new agent may use."""
        ...

    def entries(self, *, cwd: Path | None = None) -> Sequence[ProviderEntry]:
        """What is known now. What is not known, or stale, is being found out when this returns."""
        ...

    async def refresh(self, provider_id: str | None = None, *, cwd: Path | None = None) -> Sequence[ProviderEntry]:
        """Ask one provider or all that are enabled, whatever is known; never raises for what a provider does.

        Raises:
            AgentError: there is no such provider; the hint lists those that there are.
        """
        ...

    def subscribe(self, *, cwd: Path | None = None) -> AbstractAsyncContextManager[AsyncIterator[ProviderEntry]]:
        """Follow what is known: all entries first, then each that changes; of one that changes often, the latest."""
        ...

    async def availability(self, provider_id: str) -> Availability:
        """Whether the provider can be used now; an answer that was good counts for a while. Raises as `refresh`."""
        ...

    async def admit(self, provider_id: str) -> ProviderSpec:
        """The provider for a new agent.

        Raises:
            AgentError: it is unknown, disabled, or cannot be used now; the hint lists those that can be.
        """
        ...

    async def default_model(self, provider_id: str, *, cwd: Path | None = None) -> Model | None:
        """The model that an agent gets which names none; None where the provider names none, or cannot be asked."""
        ...

    async def draft(self, provider_id: str, *, model: str | None = None, cwd: Path | None = None) -> Catalogue:
        """Modes, features and commands for a prompt that is being written, before there is an agent.

        Without a model only what is known, nobody is asked; with one, the provider is asked if nothing is known.
        """
        ...

    async def configure(self, providers: Mapping[str, object]) -> None:
        """Replace the settings of all providers, as the table of the settings has them.

        Live agents of a provider that is gone, or is started differently now, are closed; they are continued on the
        new one.

        Raises:
            SettingsError: the table is wrong; nothing changed.
        """
        ...


class HeadlessPolicy(Protocol):
    """Answers where nobody can be asked; `host.service(HeadlessPolicy)`."""

    def answer(self, request: PermissionRequest) -> PermissionResponse:
        """The answer to a question, at once. It is given with `by="policy"`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What a client says of the person in front of it, with each heartbeat. Times are ms since the epoch.

    Attributes:
        kind: where it runs.
        active_at: when the person did something last.
        visible: the page or window can be seen.
        focus: the agent that it shows, or None.
    """

    kind: Literal["terminal", "web", "desktop", "mobile"]
    active_at: int
    visible: bool = True
    focus: str | None = None


class Presence(Protocol):
    """Who is there to be told; `host.service(Presence)`. A client is known from its connection to its `leave`."""

    def enter(self, client_id: str) -> None:
        """A client has connected; it is present once it has sent a heartbeat."""
        ...

    def heartbeat(self, client_id: str, report: ClientReport) -> None:
        """A client says how things are with it."""
        ...

    def leave(self, client_id: str) -> None:
        """A client has gone; one that is not known is no error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What to tell of an agent that wants attention, and whom.

    Attributes:
        title, body: plain text for a person.
        client: the client that is to show it, None = none of them.
        push: nobody is there: it may be sent to where the person is.
    """

    reason: AttentionReason
    title: str
    body: str
    client: str | None = None
    push: bool = False
