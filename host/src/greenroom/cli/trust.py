"""`greenroom trust`: which projects may load code, and whose provider settings may load."""

from __future__ import annotations

import time
from pathlib import Path

import click

from greenroom._trust import Trust, Trusted, compare, pin_project, printable, quoted
from greenroom.cli._output import confirm, emit_json, fail, interactive, table
from greenroom.cli._state import CliState
from greenroom.errors import GreenroomError, TrustError


@click.group(epilog="Example: greenroom trust add .")
def trust() -> None:
    """Say which projects may load code.

    A project's greenroom.toml is used only while it and everything its `load` names are what you
    trusted; any change revokes. A trusted folder also means that its provider settings may load.
    """


@trust.command(epilog="Example: greenroom trust add ~/work/project")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def add(state: CliState, path: Path, *, yes: bool) -> None:
    """Trust a folder, or only its greenroom.toml, with the content it has now."""
    store = _store(state)
    items = store.prepare(path)
    if not yes and not interactive():
        hint = f"read what it would load, then: greenroom trust add --yes {quoted(path)}"
        raise TrustError(f"trusting {printable(path)} has to be confirmed, and there is no terminal", hint=hint)
    for item in items:
        _describe(item)
    if not yes and not confirm("Trust this?", instead=f"greenroom trust add --yes {quoted(path)}"):
        fail("nothing was changed")
    store.add(items)
    click.echo(f"trusted: {', '.join(printable(item.path) for item in items)}")


@trust.command(name="list", epilog="Example: greenroom trust list --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def list_(state: CliState, *, as_json: bool) -> None:
    """List what is trusted, and whether it changed since."""
    rows = [(item, _changes(item)) for item in _store(state).items()]
    if as_json:
        emit_json(
            [
                {
                    "path": item.path,
                    "kind": "folder" if item.content is None else "settings",
                    "time": item.time,
                    "files": sorted(item.content or ()),
                    "changes": changes,
                }
                for item, changes in rows
            ]
        )
    elif not rows:
        click.echo("nothing is trusted")
    else:
        table(
            ("path", "since", "what", "state"),
            [(item.path, item.time, _what(item), "; ".join(changes) or "trusted") for item, changes in rows],
        )


@trust.command(epilog="Example: greenroom trust remove ~/work/project")
@click.argument("path", type=click.Path(path_type=Path))
@click.pass_obj
def remove(state: CliState, path: Path) -> None:
    """Trust a folder or a greenroom.toml no longer; it need not exist any more."""
    if not _store(state).remove(path):
        fail(f"{printable(path)} is not trusted", hint="greenroom trust list shows what is")
    click.echo(f"no longer trusted: {printable(path)}")


def _store(state: CliState) -> Trust:
    return Trust(state.data_directory, clock=time.time)


def _describe(item: Trusted) -> None:
    if item.content is None:
        click.echo(f"{printable(item.path)}: the settings that providers find in this folder and below may load")
        return
    click.echo(f"{printable(item.path)}: these files may be used and run, as they are now:")
    for name in sorted(item.content):
        click.echo(f"  {printable(name)}{'' if item.content[name] != 'missing' else ' (does not exist)'}")


def _what(item: Trusted) -> str:
    return "provider settings" if item.content is None else f"{len(item.content)} files"


def _changes(item: Trusted) -> list[str]:
    if item.content is None:
        return [] if item.path.is_dir() else ["gone"]
    if not item.path.exists():
        return ["gone"]
    try:
        return compare(item.content, pin_project(item.path))
    except GreenroomError as error:
        return [str(error.args[0])]
