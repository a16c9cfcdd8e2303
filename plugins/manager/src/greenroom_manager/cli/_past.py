"""`greenroom agents import` and `rewind`: conversations that began elsewhere, and what is taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import click

from greenroom.agents import AgentDirectory, HostClient, Importable
from greenroom.cli import CliState, emit_json, table
from greenroom.errors import GreenroomError
from greenroom_manager._payload import iso
from greenroom_manager.cli._place import opened, place_of
from greenroom_manager.cli._show import shown
from greenroom_manager.cli._verbs import report

EVERYTHING: Final = 10_000
"""Conversations that are imported at once; more are taken by saying it again."""

Take: TypeAlias = Callable[[str | None, str, Path | None], Awaitable[str]]
"""Imports the conversation of a provider, to work in a folder; gives the agent's id."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be listed or imported."""

    provider: str | None = None
    cwd: Path | None = None
    query: str | None = None
    limit: int = 50


async def list_importable(state: CliState, wanted: Wanted, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Print the native conversations; the exit status is 1 if a provider could not be asked."""
    async with opened(state) as (_host, directory):
        found = await _importable(directory, wanted, wanted.limit)
    rows = [
        {
            "provider": name,
            "native_id": native.handle.native_id,
            "title": native.title or native.first_prompt,
            "cwd": str(native.cwd),
            "updated_at": iso(native.updated_at),
        }
        for name, native in found.sessions
    ]
    if as_json:
        emit_json({"sessions": rows, "errors": dict(found.errors)})
    elif rows:
        head = ("provider", "native_id", "title", "cwd", "updated_at")
        table(head, [tuple(row[name] for name in head) for row in rows])
    else:
        click.echo("there is nothing to import", err=True)
    return _complain(found)


async def import_one(state: CliState, wanted: Wanted, native_id: str, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Import a conversation: in the host that serves this data directory, else here."""
    async with _importing(state) as (directory, take):
        agent_id = await take(wanted.provider, native_id, wanted.cwd)
        if as_json:
            emit_json(await shown(directory, agent_id))
        else:
            click.echo(f"agent {agent_id} imported; go on with: greenroom run --session {agent_id}")
    return 0


async def import_all(state: CliState, wanted: Wanted, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Import everything that would be listed; one that fails stops no other, and the exit status is 1 then."""
    results: list[dict[str, str | None]] = []
    async with _importing(state) as (directory, take):
        found = await _importable(directory, wanted, EVERYTHING)
        for provider, native in found.sessions:
            row: dict[str, str | None] = {"provider": provider, "native_id": native.handle.native_id}
            try:
                row["agent"] = await take(provider, native.handle.native_id, None)
            except GreenroomError as error:
                row["error"] = str(error)
                click.echo(f"{provider} {native.handle.native_id} was not imported: {error}", err=True)
            else:
                if not as_json:
                    click.echo(
                        f"agent {row['agent']} imported: {native.title or native.first_prompt or ''}".rstrip(": ")
                    )
            results.append(row)
    if as_json:
        emit_json({"results": results, "errors": dict(found.errors)})
    elif not results:
        click.echo("there is nothing to import", err=True)
    return max(_complain(found), int(any("error" in row for row in results)))


async def _importable(directory: AgentDirectory, wanted: Wanted, limit: int) -> Importable:
    return await directory.importable(provider=wanted.provider, cwd=wanted.cwd, query=wanted.query, limit=limit)


def _complain(found: Importable) -> int:
    for name, error in found.errors.items():
        click.echo(f"provider {name} could not be asked: {error}", err=True)
    return 1 if found.errors else 0


@asynccontextmanager
async def _importing(state: CliState) -> AsyncIterator[tuple[AgentDirectory, Take]]:
    """What imports: the host that serves this data directory, so that the agent stays live there, else this one."""
    async with opened(state) as (host, directory), AsyncExitStack() as stack:
        client = host.service(HostClient)
        remote = await stack.enter_async_context(client.serving()) if client is not None else None

        async def take(provider: str | None, native_id: str, cwd: Path | None) -> str:
            if remote is None:
                agent = await directory.import_native(provider, native_id, cwd=cwd)
                await directory.close(agent.id)  # nobody here will use it, and all of them at once would be many
                return agent.id
            where = str(cwd) if cwd is not None else None
            await remote.call("agents.import", provider=provider, native_id=native_id, cwd=where)
            return (await directory.find(native_id)).record.id

        yield directory, take


async def rewind_agent(state: CliState, named: str, message_id: str, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Cut an agent's conversation in front of a message."""
    async with place_of(state, named) as place:
        if place.remote is not None:
            await place.remote.call("agents.rewind", agent=place.agent_id, message=message_id)
        else:
            await place.directory.open(place.agent_id)
            await place.directory.rewind(place.agent_id, message_id)
        await report(place, f"was cut in front of message {message_id}", as_json=as_json)
    return 0
