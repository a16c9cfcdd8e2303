"""`greenroom hooks`: what the hooks are, and who answers them in which order, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from greenroom.cli._output import emit_json, table
from greenroom.cli._state import CliState

if TYPE_CHECKING:
    from greenroom import Host
    from greenroom._kinds import Spec

_as_json = click.option("--json", "json_", is_flag=True, help="Print JSON.")


@click.group(epilog="Example: greenroom hooks list")
def hooks() -> None:
    """Show the hooks and who implements them."""


@hooks.command("list", epilog="Example: greenroom hooks list --json")
@_as_json
def list_(*, json_: bool) -> None:
    """Show every hook of this version; loads no plugin."""
    specs = _specs()
    if json_:
        emit_json({"hooks": [_described(spec) for spec in specs.values()]})
        return
    rows = [
        (_signature(spec), spec.kind, spec.colour, _seconds(spec.timeout), spec.on_failure) for spec in specs.values()
    ]
    table(("hook", "kind", "implemented by", "time-out", "a failure means"), rows)


@hooks.command(epilog="Example: greenroom hooks explain activate")
@click.argument("name")
@_as_json
@click.pass_obj
def explain(state: CliState, name: str, *, json_: bool) -> None:
    """Load the plugins and show who implements a hook, in which order, and why."""
    import anyio

    from greenroom._signatures import check_known
    from greenroom.errors import PluginError

    specs = _specs()
    # A slip of the pen must not cost the loading of everything.
    check_known(name, specs, lambda text, hint: PluginError(text, hint=hint))
    spec = specs[name]
    implementations, absent = anyio.run(_look, state, name)
    if json_:
        emit_json({**_described(spec), "implementations": implementations, "not_active": absent})
        return
    click.echo(f"{_signature(spec)}: {_summary(name)}")
    click.echo(f"kind: {spec.kind}; {_called(spec)}")
    click.echo(f"implemented by: {spec.colour}; time-out: {_seconds(spec.timeout)}; a failure means: {spec.on_failure}")
    rows = [(i["place"], i["plugin"], i["how"], _seconds(i["timeout"]), i["why"], i["where"]) for i in implementations]
    if rows:
        table(("", "plugin", "how", "time-out", "why here", "where"), rows)
    else:
        click.echo("nobody implements it")
    for plugin, why in absent.items():
        click.echo(f"not active, so not shown: {plugin} ({why})")


async def _look(state: CliState, name: str) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Load the plugins; return the implementations of a hook, and the plugins that are not active with their reason."""
    async with state.host() as host:
        found = _implementations(host, name)
        records = [record for record in host.plugins() if record.state != "active"]
        absent = {r.id: f"{r.state}: {r.error}" if r.error else str(r.state) for r in records}
    return found, absent


def _implementations(host: Host, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for place, (impl, why) in enumerate(host.hooks.caller(name).explain(), start=1):
        record = host.plugin(impl.plugin)
        how = "async def" if impl.is_async else "def in a thread" if impl.options.thread else "def"
        found.append(
            {
                "place": place,
                "plugin": impl.plugin,
                "distribution": record.distribution,
                "version": record.version,
                "generation": impl.generation,
                "how": how + (", asks a person" if impl.options.interactive else ""),
                "timeout": impl.timeout,
                "why": "; ".join(why),
                "where": impl.where,
            }
        )
    return found


def _specs() -> dict[str, Spec]:
    from greenroom import hookspecs
    from greenroom._hooks import declared_specs

    return {spec.name: spec for spec in declared_specs(hookspecs)}


def _described(spec: Spec) -> dict[str, object]:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "arguments": spec.arguments,
        "summary": _summary(spec.name),
        "called": _called(spec),
        "implemented_by": spec.colour,
        "timeout": spec.timeout,
        "on_failure": spec.on_failure,
        "guarded": spec.guarded,
    }


def _summary(name: str) -> str:
    from greenroom import hookspecs

    return (getattr(hookspecs, name).__doc__ or "").partition("\n")[0]


def _called(spec: Spec) -> str:
    from greenroom._kinds import KINDS

    return KINDS[spec.kind].called


def _signature(spec: Spec) -> str:
    return f"{spec.name}({', '.join(spec.arguments)})"


def _seconds(value: object) -> str | None:
    return None if value is None else f"{value:g} s"
