"""`greenroom plugins`: list, install, switch, check and write plugins; imports none of them."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from greenroom.cli._output import emit_json, fail, table, warn
from greenroom.cli._state import CliState

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

    from greenroom._finding.discovery import Candidate
    from greenroom.cli._installer import Request
    from greenroom.cli._survey import Row

_as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")
_dry_run = click.option("--dry-run", is_flag=True, help="Print the command and do nothing.")


@click.group(epilog="Example: greenroom plugins list")
def plugins() -> None:
    """List, install, switch, check and write plugins."""


@plugins.command("list", epilog="Example: greenroom plugins list --json")
@_as_json
@click.pass_obj
def list_(state: CliState, *, json_: bool) -> None:
    """Show every plugin and how it last went."""
    from greenroom.cli._survey import survey

    found = survey(state)
    if json_:
        rows = [_plain(row) for row in found.rows]
        time = found.last.time if found.last else None
        emit_json({"time": time, "plugins": rows, "warnings": found.warnings, "missing": found.missing})
        return
    if found.rows:
        table(("plugin", "version", "state", "why"), [(r.id, r.version, r.state, _why(r)) for r in found.rows])
    else:
        click.echo("no plugin is installed")
    if any(row.time for row in found.rows) and found.last:
        click.echo(f"states as of the last run, {found.last.time:%Y-%m-%d %H:%M:%S} UTC")
    warn(found.warnings)
    if found.missing:
        text = f"{len(found.missing)} installed earlier and missing now: {', '.join(found.missing)}"
        click.echo(f"warning: {text}; restore with: greenroom plugins sync", err=True)


@plugins.command(epilog="Example: greenroom plugins info sqlite")
@click.argument("name")
@_as_json
@click.pass_obj
def info(state: CliState, name: str, *, json_: bool) -> None:
    """Show everything known about one plugin (id, short name or distribution)."""
    from greenroom.cli._survey import candidates, survey, the_one

    wanted = the_one(candidates(state.settings()), name)
    row = next(r for r in survey(state).rows if r.id == wanted.id and r.state != "shadowed")
    if json_:
        emit_json(_plain(row))
        return
    shown = {**row.record, **_plain(row)}
    for key, value in shown.items():
        if key != "record" and value is not None:
            said = ("no", "yes")[value] if isinstance(value, bool) else value
            click.echo(f"{key + ':':<14}{said}")


@plugins.command(epilog="Example: greenroom plugins disable audit")
@click.argument("name")
@click.pass_obj
def disable(state: CliState, name: str) -> None:
    """Keep a plugin from loading (writes its id into [plugins] deny of your settings)."""
    _switch(state, name, on=False)


@plugins.command(epilog="Example: greenroom plugins enable audit")
@click.argument("name")
@click.pass_obj
def enable(state: CliState, name: str) -> None:
    """Let a plugin load again (the reverse of disable)."""
    _switch(state, name, on=True)


def _switch(state: CliState, name: str, *, on: bool) -> None:
    from greenroom._finding.selection import choose
    from greenroom.cli._settings_file import edit_user_settings
    from greenroom.cli._survey import candidates, the_one

    found = candidates(state.settings())
    wanted = the_one(found, name)
    edit_user_settings(state.user_file, lambda document: _edit(document, wanted, found, on=on))
    reason = {c.id: why for c, why in choose(found, state.settings().plugins).blocked}.get(wanted.id)
    if on and reason:
        fail(f"{wanted.id} is still blocked: {reason}", hint="greenroom settings show says where the list comes from")
    click.echo(f"{wanted.id} is {'enabled' if on else 'disabled'}")


def _edit(document: TOMLDocument, wanted: Candidate, found: list[Candidate], *, on: bool) -> None:
    """Change `deny` and `allow` so that exactly this plugin is switched."""
    import tomlkit

    from greenroom._finding.metadata import normalize
    from greenroom._finding.selection import matches

    section = document.setdefault("plugins", tomlkit.table())
    deny, allow = [str(n) for n in section.get("deny", [])], [str(n) for n in section.get("allow", [])]
    if not on:
        if normalize(wanted.id) not in map(normalize, deny):
            section["deny"] = [*deny, wanted.id]
        return
    kept: list[str] = []
    for name in deny:
        if not matches(wanted, name):
            kept.append(name)
        else:  # a short name or a distribution may have stood for others as well, which stay denied
            kept += [c.id for c in found if c.id != wanted.id and not c.shadowed and matches(c, name)]
    if kept != deny:
        section["deny"] = list(dict.fromkeys(kept))
    if "allow" in section and not any(matches(wanted, name) for name in allow):
        section["allow"] = [*allow, wanted.id]


@plugins.command(epilog="Example: greenroom plugins install greenroom-timeline")
@click.argument("requirements", nargs=-1)
@click.option("-e", "--editable", multiple=True, metavar="PATH", help="Install a project folder in editable mode.")
@_dry_run
@click.pass_obj
def install(state: CliState, requirements: tuple[str, ...], editable: tuple[str, ...], *, dry_run: bool) -> None:
    """Install plugins into the environment of this host: names, paths or URLs, as pip takes them."""
    from greenroom.cli._installer import Request

    requests = [Request.of(text) for text in requirements]
    requests += [Request.of(text, editable=True) for text in editable]
    if not requests:
        raise click.UsageError("name what to install")
    _install(state, requests, dry_run=dry_run)


@plugins.command(epilog="Example: greenroom plugins sync --dry-run")
@_dry_run
@click.pass_obj
def sync(state: CliState, *, dry_run: bool) -> None:
    """Install again what `plugins install` installed and an upgrade of the host has removed."""
    from greenroom.cli._installer import missing, read_requests

    gone = missing(read_requests(state.data_directory))
    if gone:
        _install(state, gone, dry_run=dry_run)
    else:
        click.echo("nothing is missing")


def _install(state: CliState, requests: list[Request], *, dry_run: bool) -> None:
    from greenroom.cli._installer import find_installer, named, remember, run
    from greenroom.cli._survey import candidates

    command = find_installer().install(requests)
    if dry_run:
        click.echo(shlex.join(command))
        return
    settings = state.settings()
    before = {c.id for c in candidates(settings)}
    run(command, lambda line: click.echo(line, err=True))
    done = named(requests)
    remember(state.data_directory, done)
    new = [c.id for c in candidates(settings) if c.id not in before]
    click.echo(f"installed: {', '.join(r.distribution or r.requirement for r in done)}")
    click.echo(f"new plugins: {', '.join(new) or 'none'}" + ("; try them: greenroom plugins check" if new else ""))


@plugins.command(epilog="Example: greenroom plugins uninstall audit --dry-run")
@click.argument("name")
@_dry_run
@click.pass_obj
def uninstall(state: CliState, name: str, *, dry_run: bool) -> None:
    """Uninstall the distribution of a plugin."""
    from greenroom._finding.selection import find
    from greenroom.cli._installer import find_installer, forget_request, run
    from greenroom.cli._survey import candidates, the_one

    found = candidates(state.settings())
    owners = {c.distribution for c in find(found, name)}
    distribution = owners.pop() if len(owners) == 1 else the_one(found, name).distribution
    if distribution is None:
        fail(f"{name} was not installed by a package", hint="take it out of [plugins] load of your settings")
    if distribution == "greenroom":
        fail("greenroom does not uninstall itself")
    command = find_installer().uninstall(distribution)
    if dry_run:
        click.echo(shlex.join(command))
        return
    run(command, lambda line: click.echo(line, err=True))
    forget_request(state.data_directory, distribution)
    others = [c.id for c in found if c.distribution == distribution]
    click.echo(f"uninstalled: {distribution} ({', '.join(others)})")


@plugins.command(epilog="Example: greenroom plugins new audit --into ~/src")
@click.argument("name")
@click.option("--into", type=click.Path(path_type=Path), default=Path(), help="Where to make the folder.")
def new(name: str, into: Path) -> None:
    """Write a plugin that works and is tested, as a project of its own.

    NAME is the name of the distribution; a single word gets greenroom- in front of it.
    """
    from greenroom.cli._template import write_plugin

    project = write_plugin(name, into)
    click.echo(f"wrote {project.folder}: distribution {project.distribution}, plugin {project.name!r}")
    click.echo(f"install it:  greenroom plugins install -e {shlex.quote(str(project.folder))}")
    click.echo(f"test it:     cd {shlex.quote(str(project.folder))} && uv run pytest")


@plugins.command(epilog="Example: greenroom plugins check audit")
@click.argument("name", required=False)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds for the whole check.",
)
@_as_json
@click.pass_obj
def check(state: CliState, name: str | None, timeout: float, *, json_: bool) -> None:
    """Load plugins in a process of their own and say how it went; the exit status is 1 if one failed."""
    from greenroom.cli._check import check_plugins
    from greenroom.cli._survey import order_warnings

    warn(order_warnings(state.settings()))
    results = check_plugins(state, name, timeout)
    if json_:
        emit_json({"plugins": results})
    else:
        table(("plugin", "state", "why"), [(r["id"], r["state"], _short(r["id"], r.get("error"))) for r in results])
        for result in results:
            if result.get("hint"):
                click.echo(f"{result['id']}: {result['hint']}")
    fine = {"active"} if name is not None else {"active", "blocked"}
    if any(result["state"] not in fine for result in results):
        raise click.exceptions.Exit(1)


def _why(row: Row) -> str | None:
    text = _short(row.id, row.error)
    return f"{row.phase}: {text}" if text and row.phase and row.state not in {"blocked", "shadowed"} else text


def _short(plugin: object, error: object) -> str | None:
    """Return the line of an error that says most, for a table that has the plugin in another column."""
    if error is None:
        return None
    first, _, rest = str(error).removeprefix(f"{plugin}: ").partition("\n")
    return f"{first} {rest.strip().partition(chr(10))[0]}" if first.endswith(":") else first


def _plain(row: Row) -> dict[str, object]:
    return asdict(row)
