"""`greenroom settings`: the values that count, where they come from, and what they may be."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from greenroom._diagnostics import HIDDEN, SECRET_NAME
from greenroom._settings.rules import HOST_KEYS, INVARIANT_KEYS, SECTION_KEYS
from greenroom.cli._effective import effective
from greenroom.cli._output import emit_json, table, warn
from greenroom.cli._state import CliState
from greenroom.errors import PluginError

if TYPE_CHECKING:
    from greenroom._finding.discovery import Candidate
    from greenroom._settings.settings import Settings

_SCHEMAS: dict[str, dict[str, object]] = {
    "strings": {"type": "array", "items": {"type": "string", "minLength": 1}},
    "flag": {"type": "boolean"},
    "seconds": {"type": "number", "exclusiveMinimum": 0},
}


@click.group(epilog="Example: greenroom settings show --json")
def settings() -> None:
    """Show the settings that count and what they may hold.

    Layers, the strongest last: defaults, the user's greenroom.toml, the project's greenroom.toml,
    GREENROOM_* variables, the command line.
    """


@settings.command(epilog="Example: greenroom --set plugins.audit.limit=3 settings show")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def show(state: CliState, *, as_json: bool) -> None:
    """Show every value with the file and line, variable or option it comes from."""
    found = state.settings()
    rows = [(_dotted(row.key), _shown(row.key, row.value), row.origin) for row in effective(found)]
    if found.hook_order:
        from greenroom.cli._survey import order_warnings

        warn(order_warnings(found))
    if as_json:
        emit_json([{"key": key, "value": value, "origin": origin} for key, value, origin in rows])
    else:
        table(("key", "value", "from"), [(key, _text(value), origin) for key, value, origin in rows])


@settings.command(epilog="Example: greenroom settings schema audit")
@click.argument("plugin", required=False)
@click.pass_obj
def schema(state: CliState, plugin: str | None) -> None:
    """Print the JSON schema of a plugin's table, or without PLUGIN that of greenroom's own keys.

    PLUGIN is an id or a short name. The plugin is imported, but neither activated nor given its settings,
    so this works while they are wrong.
    """
    emit_json(_own_schema() if plugin is None else _plugin_schema(state, plugin))


def _plugin_schema(state: CliState, name: str) -> dict[str, object]:
    import anyio

    from greenroom._finding.importing import import_with_timeout
    from greenroom._hooks import Hooks
    from greenroom._staging import Owner

    found = state.settings()
    candidate = _candidate(state, found, name)
    imported = anyio.run(import_with_timeout, candidate, found.plugins.import_timeout)
    hooks = Hooks()
    section = found.plugin(candidate.id, candidate.name)
    staged = hooks.check(imported.object, Owner(candidate.id, candidate.name, candidate.where, 1, section.timeout_cap))
    impl = staged.impl("plugin_settings")
    model = hooks.plugin_settings.of(impl) if impl is not None else None
    own: dict[str, object] = {"type": "object", "properties": {}}
    result: dict[str, object] = model.model_json_schema() if model is not None else own
    properties = result.setdefault("properties", {})
    if isinstance(properties, dict):
        properties.update({key: _SCHEMAS[kind] for key, (kind, *_) in SECTION_KEYS.items()})
    return result


def _candidate(state: CliState, found: Settings, name: str) -> Candidate:
    from greenroom._finding.selection import choose
    from greenroom._trust import check_project
    from greenroom.cli._survey import candidates, the_one

    check_project(found, state.data_directory, time.time)
    there = candidates(found)
    candidate = the_one(there, name)
    for blocked, reason in choose(there, found.plugins).blocked:
        if blocked.id == candidate.id:
            raise PluginError(f"{candidate.id} may not be imported: {reason}", plugin=candidate.id)
    return candidate


def _own_schema() -> dict[str, object]:
    section = {"type": "object", "properties": {key: _SCHEMAS[kind] for key, (kind, *_) in SECTION_KEYS.items()}}
    order = {"type": "object", "additionalProperties": _SCHEMAS["strings"]}
    plugins = {
        "type": "object",
        "properties": {key: _SCHEMAS[kind] for key, (kind, *_) in HOST_KEYS.items()},
        "additionalProperties": section,
    }
    hooks = {"type": "object", "properties": {"order": order}, "additionalProperties": False}
    checks = {key: _SCHEMAS[kind] for key, (kind, *_) in INVARIANT_KEYS.items()}
    invariants = {"type": "object", "properties": checks, "additionalProperties": False}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "greenroom.toml",
        "type": "object",
        "properties": {"plugins": plugins, "hooks": hooks, "invariants": invariants},
        "additionalProperties": False,
    }


def _dotted(key: tuple[str, ...]) -> str:
    return ".".join(part if part.replace("-", "_").isidentifier() else json.dumps(part) for part in key)


def _shown(key: tuple[str, ...], value: object) -> object:
    return HIDDEN if isinstance(value, str) and SECRET_NAME.search(key[-1]) else value


def _text(value: object) -> object:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
