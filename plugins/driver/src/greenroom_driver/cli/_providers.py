"""Which provider can be used here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from greenroom import Host
from greenroom.agents import AgentError
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
    others = [spec for spec in host.providers.values() if spec.id != FALLBACK]
    if others:  # a probe starts programs; nobody should wonder what is going on
        click.secho(f"looking for an account: {', '.join(spec.label for spec in others)}", dim=True, err=True)
    answers = await _probe_all(others)
    for spec in others:
        if answers[spec.id].ok:
            return spec.id, None
    if FALLBACK not in host.providers:
        names = ", ".join(spec.id for spec in others) or "none"
        raise AgentError(f"no provider can be used here (installed: {names})", hint="greenroom providers check")
    why = "no other provider is installed"
    if others:
        why = "no other provider can be used here (greenroom providers check)"
    return FALLBACK, f"{why}: this replays a recorded session, no model is asked"


async def _probe_all(specs: Sequence[ProviderSpec]) -> dict[str, Availability]:
    answers: dict[str, Availability] = {}

    async def ask(spec: ProviderSpec) -> None:
        answers[spec.id] = await probe(spec)

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


async def check_providers(state: CliState, wanted: str | None) -> list[dict[str, object]]:
    """A row for each provider, or for one.

    Raises:
        GreenroomError: there is no such provider, or none at all.
    """
    async with state.host() as host:
        specs = [spec for spec in host.providers.values() if wanted in (None, spec.id)]
        if not specs:
            known = ", ".join(host.providers) or "none"
            raise GreenroomError(f"there is no provider {wanted or ''}".strip(), hint=f"installed: {known}")
        answers = await _probe_all(specs)
        return [await _row(spec, answers[spec.id]) for spec in specs]


async def _row(spec: ProviderSpec, found: Availability) -> dict[str, object]:
    models: str | None = None
    if found.ok:
        try:
            with anyio.fail_after(CHECK_LIMIT):
                catalogue = await spec.load().catalogue(cwd=Path.cwd())
            models = ", ".join(model.id for model in catalogue.models) or None
        except Exception as error:  # noqa: BLE001 - a plugin's code; the rest of the row is still worth showing
            models = f"unknown ({error})"
    return {
        "provider": spec.id,
        "usable": found.ok,
        "version": found.version,
        "binary": found.binary,
        "login": found.login,
        "models": models,
        "problem": found.problem,
        "hint": found.hint,
    }
