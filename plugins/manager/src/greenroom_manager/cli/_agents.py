"""What is typed behind `greenroom agents`; the work is done in modules that are imported when a command runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from greenroom.cli import CliState, confirm
from greenroom_manager.cli import _frame


@click.group(epilog="Example: greenroom agents list")
def agents() -> None:
    """List agents, end them, bring them back, look into them.

    ID is an agent's id, the beginning of one, `last`, or the id of its provider's conversation. What another
    greenroom drives is done there; what nobody drives is done here, on what is stored.
    """


def _about_one(*, epilog: str) -> Callable[[Callable[..., None]], click.Command]:
    """A command about one agent that takes nothing else; the function's name is the command's."""

    def decorate(command: Callable[..., None]) -> click.Command:
        asked = _frame.agent(_frame.as_json(click.pass_obj(command)))
        return agents.command(epilog=epilog)(asked)

    return decorate


@agents.command("list", epilog="Example: greenroom agents list --all --json")
@click.option("--all", "-a", "archived", is_flag=True, help="Archived ones too.")
@click.option("--internal", is_flag=True, help="Those that agents and plugins made for themselves, too.")
@_frame.as_json
@click.pass_obj
def list_(state: CliState, *, archived: bool, internal: bool, as_json: bool) -> None:
    """List the agents, the latest changed first."""
    from ._show import list_agents

    _frame.run(list_agents, state, archived, internal, as_json)


@_about_one(epilog="Example: greenroom agents show last")
def show(state: CliState, *, agent: str, as_json: bool) -> None:
    """Show everything that is known of one agent."""
    from ._show import show_agent

    _frame.run(show_agent, state, agent, as_json)


@_about_one(epilog="Example: greenroom agents archive 4be1a9c")
def archive(state: CliState, *, agent: str, as_json: bool) -> None:
    """Put an agent and those that work for it away: they are ended and no longer listed; nothing is lost."""
    from ._verbs import cascade

    _frame.run(cascade, state, agent, "archive", as_json)


@_about_one(epilog="Example: greenroom agents unarchive 4be1a9c")
def unarchive(state: CliState, *, agent: str, as_json: bool) -> None:
    """Bring an archived agent back."""
    from ._verbs import change

    _frame.run(change, state, agent, "unarchive", as_json)


@_about_one(epilog="Example: greenroom agents detach 4be1a9c")
def detach(state: CliState, *, agent: str, as_json: bool) -> None:
    """Let an agent stay when the one it works for is archived or deleted."""
    from ._verbs import change

    _frame.run(change, state, agent, "detach", as_json)


@agents.command(epilog="Example: greenroom agents delete 4be1a9c --yes")
@_frame.agent
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@_frame.as_json
@click.pass_obj
def delete(state: CliState, *, agent: str, yes: bool, as_json: bool) -> None:
    """Remove an agent and those that work for it, with their sessions. This cannot be undone."""
    from ._verbs import cascade

    if not yes and not confirm(f"Delete agent {agent} and its session?", instead=f"greenroom agents delete {agent} -y"):
        sys.exit(1)
    _frame.run(cascade, state, agent, "delete", as_json)


@agents.command("import", epilog="Example: greenroom agents import 0b6c1d1e-…   or: greenroom agents import --all")
@click.argument("native_id", metavar="[NATIVE-ID]", required=False)
@click.option("--provider", "-p", metavar="ID", help="Only what this provider has.")
@click.option("--cwd", type=click.Path(file_okay=False, path_type=Path),
              help="List only those that worked there; with NATIVE-ID: where the agent is to work.")  # fmt: skip
@click.option("--query", "-q", metavar="TEXT", help="Only those whose title, first prompt or folder has these words.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="List at most so many.")
@click.option("--all", "-a", "every", is_flag=True, help="Import all that would be listed, without a limit.")
@_frame.as_json
@click.pass_obj
def import_(
    state: CliState,
    *,
    native_id: str | None,
    provider: str | None,
    cwd: Path | None,
    query: str | None,
    limit: int,
    every: bool,
    as_json: bool,
) -> None:
    """Take over a conversation that was started without greenroom, or list those that there are.

    Without NATIVE-ID they are listed. An imported agent has the conversation's history and goes on with it; the same
    conversation cannot be imported twice.
    """
    from ._past import Wanted, import_all, import_one, list_importable

    wanted = Wanted(provider, cwd.resolve() if cwd is not None else None, query, limit)
    if native_id is not None and every:
        raise click.UsageError("name a conversation, or say --all")
    if native_id is not None:
        _frame.run(import_one, state, wanted, native_id, as_json)
    else:
        _frame.run(import_all if every else list_importable, state, wanted, as_json)


@agents.command(epilog="Example: greenroom agents reload last --rehydrate")
@_frame.agent
@click.option("--rehydrate", is_flag=True, help="Show the provider's own history instead of what was logged.")
@_frame.as_json
@click.pass_obj
def reload(state: CliState, *, agent: str, rehydrate: bool, as_json: bool) -> None:
    """Close an agent's provider session and open it again on the same conversation."""
    from ._verbs import reload_agent

    _frame.run(reload_agent, state, agent, rehydrate, as_json)


@agents.command(epilog="Example: greenroom agents rewind last 9d4c…   (ids: greenroom log last --json)")
@_frame.agent
@click.argument("message_id", metavar="MESSAGE-ID")
@_frame.as_json
@click.pass_obj
def rewind(state: CliState, *, agent: str, message_id: str, as_json: bool) -> None:
    """Cut the conversation in front of one of your messages, here and in the provider."""
    from ._past import rewind_agent

    _frame.run(rewind_agent, state, agent, message_id, as_json)


@_about_one(epilog="Example: greenroom agents read last")
def read(state: CliState, *, agent: str, as_json: bool) -> None:
    """Say that you have seen what an agent did."""
    from ._verbs import change

    _frame.run(change, state, agent, "read", as_json)


@_about_one(epilog="Example: greenroom agents unread last")
def unread(state: CliState, *, agent: str, as_json: bool) -> None:
    """Mark an agent, so that somebody looks at it again."""
    from ._verbs import change

    _frame.run(change, state, agent, "unread", as_json)
