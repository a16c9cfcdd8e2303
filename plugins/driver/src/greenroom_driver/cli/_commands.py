"""What is typed. The work is done in modules that are imported when a command runs: `--help` needs none of them."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import click

from greenroom.cli import CliState, emit_json, fail, table

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(epilog='Example: greenroom run "what is in this folder?"')
@click.argument("prompt", required=False)
@click.option("--provider", "-p", help="Id of the provider; by default the one that can be used here.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Directory to work in.")
@click.option("--model", "-m", help="Id of the model; by default the provider's.")
@click.option("--session", "-s", metavar="ID|last", help="Continue a session.")
@_json
@click.pass_obj
def run(
    state: CliState,
    *,
    prompt: str | None,
    provider: str | None,
    cwd: Path | None,
    model: str | None,
    session: str | None,
    as_json: bool,
) -> None:
    """Run an agent on a prompt and print what it does.

    Without PROMPT it is asked for, or read from a pipe; with --session, what waits there is continued.
    Ctrl-C cancels the turn; the session stays and can be continued. A second one leaves at once.
    The exit status is 0 only if the turn that took the prompt completed.
    """
    if session is not None and cwd is not None:
        raise click.UsageError("a session keeps its directory: give --session or --cwd")
    text = prompt if prompt is not None or session is not None else _ask_prompt()
    new = str(uuid.uuid4()) if session is None else None
    if new is not None and not as_json:
        click.secho(f"session {new}", dim=True)  # at once: the rest takes its time to import

    import anyio

    from greenroom_driver.cli._run import Order, run_prompt

    order = Order(text, provider, cwd, model, session, new, as_json)
    sys.exit(anyio.run(run_prompt, state, order))


@click.command(epilog="Example: greenroom log last --projected --limit 20")
@click.argument("session_id", metavar="ID|last")
@click.option("--follow", "-f", is_flag=True, help="Go on while the session is written; end with Ctrl-C.")
@click.option("--projected", is_flag=True, help="Fold messages and tool calls into one entry each.")
@click.option("--after", metavar="EPOCH:SEQ", help="With --projected: only what came after this cursor.")
@click.option("--limit", type=int, metavar="N", help="With --projected: only so many entries; 0 or less is all.")
@_json
@click.pass_obj
def log(
    state: CliState,
    *,
    session_id: str,
    follow: bool,
    projected: bool,
    after: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print what happened in a session.

    With --projected a last line names the cursor to go on from; with --json each line is a page of entries.
    """
    if follow and projected:
        raise click.UsageError("--follow prints events as they come: give it without --projected")
    if not projected and (after is not None or limit is not None):
        raise click.UsageError("--after and --limit count entries: give them with --projected")
    import anyio

    from greenroom_driver.cli._entries import cursor_of, print_entries
    from greenroom_driver.cli._log import print_log

    try:
        cursor = cursor_of(after) if after is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--after") from None
    try:
        if projected:
            anyio.run(print_entries, state, session_id, cursor, limit or 0, as_json)
        else:
            anyio.run(print_log, state, session_id, follow, as_json)
    except KeyboardInterrupt:
        sys.exit(130)


@click.command(epilog="Example: greenroom attach last")
@click.argument("session_id", metavar="ID|last")
@click.pass_obj
def attach(state: CliState, *, session_id: str) -> None:
    """Follow an agent, say something to it, answer its questions.

    It works through the process that has the session, and opens it here if there is none. A line goes into the
    running turn, or opens one; while a question is open it is the answer. Ctrl-C leaves; the agent goes on if
    another process has it.
    """
    import anyio

    from greenroom_driver.cli._attach import attach_to

    sys.exit(anyio.run(attach_to, state, session_id))


@click.group(epilog="Example: greenroom providers list")
def providers() -> None:
    """List and check what can run an agent."""


@providers.command("list", epilog="Example: greenroom providers list --json")
@_json
@click.pass_obj
def list_(state: CliState, *, as_json: bool) -> None:
    """List the kinds of providers and what they can do."""
    import anyio

    from greenroom_driver.cli._providers import list_providers

    rows = anyio.run(list_providers, state)
    if as_json:
        emit_json(rows)
    elif not rows:
        fail("no plugin brings a provider", hint="pip install greenroom-replay")
    else:
        head = ("id", "label", "steps", "enabled")
        table(("provider", *head[1:]), [tuple(row[name] for name in head) for row in rows])


@providers.command(epilog="Example: greenroom providers check")
@click.argument("provider_id", metavar="[ID]", required=False)
@_json
@click.pass_obj
def check(state: CliState, *, provider_id: str | None, as_json: bool) -> None:
    """Probe one provider or all: binary, version, login, models. The exit status is 1 if one cannot be used."""
    import anyio

    from greenroom_driver.cli._providers import check_providers

    rows = anyio.run(check_providers, state, provider_id)
    if as_json:
        emit_json(rows)
    else:
        head = ("provider", "usable", "version", "binary", "login", "models", "problem")
        table(head, [tuple(row[name] for name in head) for row in rows])
        for row in rows:
            if row["hint"]:
                click.echo(f"hint: {row['hint']}", err=True)
    sys.exit(0 if all(row["usable"] is not False for row in rows) else 1)


def _ask_prompt() -> str:
    text = click.prompt(">", prompt_suffix=" ", err=True) if sys.stdin.isatty() else sys.stdin.read()
    return text.strip() or fail("there is no prompt", hint='greenroom run "..."')
