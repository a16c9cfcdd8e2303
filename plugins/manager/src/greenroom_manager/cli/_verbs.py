"""What is done to one agent: by the host that owns it, or here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import click

from greenroom.agents import AgentDirectory, AgentSnapshot, Cascade
from greenroom.cli import CliState, emit_json, fail
from greenroom_manager._row import UnreadableRecord
from greenroom_manager.cli._place import Place, opened, place_of
from greenroom_manager.cli._show import shown

Leaving = Literal["archive", "delete"]
Changing = Literal["unarchive", "detach", "read", "unread"]

_LEAVING: Final[Mapping[Leaving, Callable[[AgentDirectory, str], Awaitable[Cascade]]]] = {
    "archive": lambda directory, agent_id: directory.archive(agent_id),
    "delete": lambda directory, agent_id: directory.delete(agent_id),
}
_CHANGING: Final[Mapping[Changing, Callable[[AgentDirectory, str], Awaitable[AgentSnapshot]]]] = {
    "unarchive": lambda directory, agent_id: directory.unarchive(agent_id),
    "detach": lambda directory, agent_id: directory.detach(agent_id),
    "read": lambda directory, agent_id: directory.mark_read(agent_id),
    "unread": lambda directory, agent_id: directory.mark_unread(agent_id),
}
_DONE: Final = {
    "archive": "archived",
    "delete": "deleted",
    "unarchive": "is back",
    "detach": "works for nobody now",
    "read": "is marked as read",
    "unread": "is marked as unread",
}
_RECORD_ONLY: Final = frozenset({"read", "unread"})
"""What changes only the record, so it needs no word with the owner."""


async def cascade(state: CliState, named: str, verb: Leaving, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Archive or delete an agent and its descendants; the exit status is 1 if one of them could not be."""
    try:
        results = await _leave(state, named, verb)
    except UnreadableRecord as unreadable:
        if verb != "delete" or unreadable.newer:
            raise
        async with opened(state) as (_host, directory):
            results = dict((await directory.delete(named)).results)
    if as_json:
        emit_json({"results": results})
    for agent_id, error in results.items():
        if error is not None:
            click.echo(f"agent {agent_id} could not be {_DONE[verb]}: {error}", err=True)
        elif not as_json:
            click.echo(f"agent {agent_id} {_DONE[verb]}")
    return 1 if any(error is not None for error in results.values()) else 0


async def _leave(state: CliState, named: str, verb: Leaving) -> dict[str, str | None]:
    async with place_of(state, named) as place:
        if place.remote is None:
            return dict((await _LEAVING[verb](place.directory, place.agent_id)).results)
        results = (await place.remote.call(f"agents.{verb}", agent=place.agent_id)).get("results")
        return {str(name): _error(error) for name, error in results.items()} if isinstance(results, dict) else {}


def _error(value: object) -> str | None:
    return None if value is None else str(value)


async def change(state: CliState, named: str, verb: Changing, as_json: bool) -> int:  # noqa: FBT001 - a flag
    """Change one agent."""
    async with place_of(state, named, write=verb not in _RECORD_ONLY) as place:
        if place.remote is not None:
            await place.remote.call(f"agents.{verb}", agent=place.agent_id)
        else:
            await _CHANGING[verb](place.directory, place.agent_id)
        await report(place, _DONE[verb], as_json=as_json)
    return 0


async def reload_agent(state: CliState, named: str, rehydrate: bool, as_json: bool) -> int:  # noqa: FBT001 - flags
    """Reload an agent; one that nobody drives only has a history to show anew."""
    async with place_of(state, named) as place:
        if place.remote is not None:
            await place.remote.call("agents.reload", agent=place.agent_id, rehydrate=rehydrate)
        elif not rehydrate:
            fail(
                f"agent {place.agent_id} runs nowhere, so there is nothing to reload",
                hint=f"greenroom run --session {place.agent_id}   starts it; --rehydrate shows its history anew",
            )
        else:
            await place.directory.open(place.agent_id)
            await place.directory.reload(place.agent_id, rehydrate=True)
        await report(place, "was reloaded", as_json=as_json)
    return 0


async def report(place: Place, done: str, *, as_json: bool) -> None:
    """Say what was done to the agent."""
    if as_json:
        emit_json(await shown(place.directory, place.agent_id))
    else:
        click.echo(f"agent {place.agent_id} {done}")
