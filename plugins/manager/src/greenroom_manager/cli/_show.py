"""`greenroom agents list` and `show`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from greenroom.agents import AgentDirectory, AgentSnapshot
from greenroom.cli import CliState, emit_json, table
from greenroom_manager._payload import from_wire, list_item, payload
from greenroom_manager.cli._place import opened, place_of

if TYPE_CHECKING:
    from greenroom import Host
    from greenroom.sessions.vocabulary import JsonObject


async def list_agents(state: CliState, archived: bool, internal: bool, as_json: bool) -> int:  # noqa: FBT001 - flags
    """Print the agents."""
    async with opened(state) as (host, directory):
        snapshots = await directory.list(archived=archived, internal=internal)
    if as_json:
        emit_json([list_item(snapshot) for snapshot in snapshots])
    elif not snapshots:
        click.echo("there is no agent yet" if archived else "there is no agent; archived ones: --all", err=True)
    else:
        table(("agent", "title", "state", "provider", "model", "changed", "look"), [_row(one) for one in snapshots])
    for warning in host.warnings:
        click.secho(warning, fg="yellow", err=True)
    return 0


def _row(snapshot: AgentSnapshot) -> tuple[object, ...]:
    item = list_item(snapshot)
    state = "archived" if item["archived"] else item["state"]
    provider = item["provider"] or None
    if not snapshot.available:
        provider = f"{provider or '?'} (not installed)"
    return (
        item["short_id"],
        _cut(snapshot.record.title),
        state,
        provider,
        item["model"],
        _when(snapshot),
        item["attention"],
    )


async def show_agent(state: CliState, named: str, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Print one agent, as the host shows it that drives it."""
    async with place_of(state, named, write=False) as place:
        snapshot = place.snapshot
        if place.remote is not None:
            answer = await place.remote.call("agents.show", agent=place.agent_id)
            view = answer.get("agent")
            snapshot = from_wire(view if isinstance(view, dict) else {})
        print_agent(place.host, snapshot, as_json=as_json)
    return 0


def print_agent(host: Host, snapshot: AgentSnapshot, *, as_json: bool) -> None:
    """Print everything that is known of an agent."""
    spec = host.providers.get(snapshot.record.provider)
    shown = payload(snapshot, capabilities=[c.value for c in spec.capabilities] if spec is not None else ())
    if as_json:
        emit_json(shown)
        return
    del shown["short_id"]
    table(
        ("agent", shown.pop("id")),
        [(name, _text(value)) for name, value in shown.items() if value not in (None, [], {})],
    )


async def shown(directory: AgentDirectory, agent_id: str) -> JsonObject:
    """An agent as JSON, after something was done to it."""
    return list_item(await directory.find(agent_id))


def _when(snapshot: AgentSnapshot) -> str:
    return datetime.fromtimestamp(snapshot.record.updated_at / 1000).astimezone().strftime("%Y-%m-%d %H:%M")


def _cut(title: str | None, width: int = 40) -> str | None:
    return title if title is None or len(title) <= width else f"{title[: width - 1]}…"


def _text(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(_text(item)) for item in value)
    return value
