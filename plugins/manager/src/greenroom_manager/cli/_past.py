"""`greenroom agents import` and `rewind`: conversations that began elsewhere, and what is taken back."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import click

from greenroom.agents import HostClient
from greenroom.cli import CliState, emit_json, table
from greenroom_manager._payload import iso
from greenroom_manager.cli._place import opened, place_of
from greenroom_manager.cli._show import shown
from greenroom_manager.cli._verbs import report


async def list_importable(
    state: CliState,
    provider: str | None,
    cwd: Path | None,
    query: str | None,
    limit: int,
    as_json: bool,  # noqa: FBT001 - a flag
) -> int:
    """Print the native conversations; the exit status is 1 if a provider could not be asked."""
    async with opened(state) as (_host, directory):
        found = await directory.importable(provider=provider, cwd=cwd, query=query, limit=limit)
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
    for name, error in found.errors.items():
        click.echo(f"provider {name} could not be asked: {error}", err=True)
    return 1 if found.errors else 0


async def import_one(state: CliState, provider: str, native_id: str, cwd: Path | None, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Import a conversation: in the host that serves this data directory, else here."""
    async with opened(state) as (host, directory), AsyncExitStack() as stack:
        client = host.service(HostClient)
        remote = await stack.enter_async_context(client.serving()) if client is not None else None
        if remote is not None:
            where = str(cwd) if cwd is not None else None
            await remote.call("agents.import", provider=provider, native_id=native_id, cwd=where)
            agent_id = (await directory.find(native_id)).record.id
        else:
            agent_id = (await directory.import_native(provider, native_id, cwd=cwd)).id
        if as_json:
            emit_json(await shown(directory, agent_id))
        else:
            click.echo(f"agent {agent_id} imported; go on with: greenroom run --session {agent_id}")
    return 0


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
