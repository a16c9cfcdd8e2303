"""Which provider can be used here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from greenroom import Host
from greenroom.agents import AgentError, ProviderCatalogue, ProviderEntry
from greenroom.cli import CliState
from greenroom.errors import GreenroomError
from greenroom.providers import Availability, ProviderSpec

CHECK_LIMIT: Final = 30.0
"""Seconds for one provider: a version and a login probe of 5 s each, a catalogue that may start a program."""

FALLBACK: Final = "replay"
"""The provider that needs no account; used when no other one can be."""


async def choose(host: Host, wanted: str | None) -> tuple[str, str | None]:
    """The provider for a new session, and a line for the person if it is not what one would expect.

    Raises:
        AgentError: there is none.
    """
    if wanted is not None:
        return wanted, None
    catalogue = host.service(ProviderCatalogue)
    disabled = catalogue.disabled if catalogue is not None else ()
    others = [spec for spec in host.providers.values() if spec.id != FALLBACK and spec.id not in disabled]
    if others:  # a probe starts programs; nobody should wonder what is going on
        click.secho(f"looking for an account: {', '.join(spec.label for spec in others)}", dim=True, err=True)
    answers = await _probe_all(others, catalogue)
    for spec in others:
        if answers[spec.id].ok:
            return spec.id, None
    if FALLBACK not in host.providers or FALLBACK in disabled:
        names = ", ".join(spec.id for spec in others) or "none"
        raise AgentError(f"no provider can be used here (installed: {names})", hint="greenroom providers check")
    why = "no other provider is installed"
    if others:
        why = "no other provider can be used here (greenroom providers check)"
    return FALLBACK, f"{why}: this replays a recorded session, no model is asked"


async def _probe_all(specs: Sequence[ProviderSpec], catalogue: ProviderCatalogue | None) -> dict[str, Availability]:
    answers: dict[str, Availability] = {}

    async def ask(spec: ProviderSpec) -> None:
        asked = probe(spec) if catalogue is None else catalogue.availability(spec.id)
        answers[spec.id] = await asked

    async with anyio.create_task_group() as tasks:
        for spec in specs:
            tasks.start_soon(ask, spec)
    return answers


async def probe(spec: ProviderSpec) -> Availability:
    """Ask a provider whether it can be used; never raises."""
    try:
        with anyio.fail_after(CHECK_LIMIT):
            return await spec.load().availability()
    except TimeoutError:
        return Availability(ok=False, problem=f"no answer within {CHECK_LIMIT:g} s")
    except Exception as error:  # noqa: BLE001 - a plugin's code; that it is broken is the answer
        return Availability(ok=False, problem=f"{type(error).__name__}: {error}")


async def list_providers(state: CliState) -> list[dict[str, object]]:
    """A row for each provider; none is asked anything."""
    async with state.host() as host:
        catalogue = host.service(ProviderCatalogue)
        disabled = catalogue.disabled if catalogue is not None else ()
        return [
            {
                "id": spec.id,
                "label": spec.label,
                "steps": spec.steps,
                "enabled": spec.id not in disabled,
                "capabilities": sorted(capability.value for capability in spec.capabilities),
            }
            for spec in host.providers.values()
        ]


async def check_providers(state: CliState, wanted: str | None) -> list[dict[str, object]]:
    """A row for each provider, or for one; `usable` is None of one that is disabled.

    Raises:
        GreenroomError: there is no such provider, or none at all.
    """
    async with state.host() as host:
        catalogue = host.service(ProviderCatalogue)
        if catalogue is not None:
            entries = await catalogue.refresh(wanted)
        else:
            specs = [spec for spec in host.providers.values() if wanted in (None, spec.id)]
            entries = [await _entry(spec) for spec in specs]
        if not entries:
            known = ", ".join(host.providers) or "none"
            raise GreenroomError(f"there is no provider {wanted or ''}".strip(), hint=f"installed: {known}")
        return [_row(entry) for entry in entries]


async def _entry(spec: ProviderSpec) -> ProviderEntry:
    """What a provider says of itself, where no plugin keeps a catalogue."""
    found = await probe(spec)
    if not found.ok:
        return ProviderEntry(id=spec.id, label=spec.label, status="unavailable", availability=found)
    try:
        with anyio.fail_after(CHECK_LIMIT):
            catalogue = await spec.load().catalogue(cwd=Path.cwd())
    except Exception as error:  # noqa: BLE001 - a plugin's code; the rest of the row is still worth showing
        return ProviderEntry(id=spec.id, label=spec.label, status="error", availability=found, problem=str(error))
    return ProviderEntry(id=spec.id, label=spec.label, status="ready", availability=found, catalogue=catalogue)


def _row(entry: ProviderEntry) -> dict[str, object]:
    found = entry.availability or Availability(ok=False)
    models: str | None = None
    if entry.catalogue is not None:
        models = ", ".join(model.id for model in entry.catalogue.models) or None
    elif found.ok:
        models = f"unknown ({entry.problem})"
    return {
        "provider": entry.id,
        "usable": None if entry.status == "disabled" else found.ok,
        "version": found.version,
        "binary": found.binary,
        "login": found.login,
        "models": models,
        "problem": "disabled" if entry.status == "disabled" else None if found.ok else entry.problem or found.problem,
        "hint": None if found.ok else entry.hint or found.hint,
    }
