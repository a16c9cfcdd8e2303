"""`greenroom doctor`: is everything where it should be, and what went wrong."""

from __future__ import annotations

import os
import platform
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import click

from greenroom._diagnostics import Diagnostic, read_diagnostics
from greenroom._version import __version__
from greenroom.cli._commands import plugin_commands
from greenroom.cli._output import emit_json, table
from greenroom.cli._state import CliState
from greenroom.errors import GreenroomError, SettingsError

OLDEST_PYTHON = (3, 11)
Verdict = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of one check: `problem` makes the exit status 1, `note` does not."""

    check: str
    verdict: Verdict
    text: str
    hint: str | None = None


@click.command(epilog="Example: greenroom doctor --errors --json")
@click.option("--errors", is_flag=True, help="Show the recorded errors instead of checking.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="With --errors: the last N.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def doctor(state: CliState, *, errors: bool, limit: int, as_json: bool) -> None:
    """Check Python, folders, settings, trust and plugins; exit status 1 if there is a problem.

    Imports no plugin: what it says about plugins is the last outcome that a host wrote.
    """
    if errors:
        _show_errors(state, limit, as_json=as_json)
        return
    findings = [finding for check in CHECKS for finding in _answers(check, state)]
    if as_json:
        emit_json(findings)
    else:
        table(("check", "", "result"), [(f.check, f.verdict, f.text) for f in findings])
        for finding in findings:
            if finding.hint:
                click.echo(f"{finding.check}: {finding.hint}")
    if any(finding.verdict == "problem" for finding in findings):
        raise click.exceptions.Exit(1)


def _answers(check: Callable[[CliState], Iterator[Finding]], state: CliState) -> Iterator[Finding]:
    name = check.__name__.strip("_").replace("_", " ")
    try:
        yield from check(state)
    except SettingsError as error:
        if check is _settings:  # the others need the settings as well; one report is enough
            yield Finding(name, "problem", str(error.args[0]), error.hint)
    except GreenroomError as error:
        yield Finding(name, "problem", str(error.args[0]), error.hint)
    except OSError as error:
        yield Finding(name, "problem", str(error), "correct the permissions")


def _python(_state: CliState) -> Iterator[Finding]:
    text = f"{platform.python_implementation()} {platform.python_version()} in {sys.prefix}, greenroom {__version__}"
    if sys.version_info < OLDEST_PYTHON:
        yield Finding("python", "problem", text, "greenroom needs Python 3.11 or newer")
    else:
        yield Finding("python", "ok", text)


def _data_directory(state: CliState) -> Iterator[Finding]:
    directory = state.data_directory
    if not directory.exists():
        yield Finding("data directory", "ok", f"{directory} (is created when it is needed)")
        return
    with tempfile.TemporaryFile(dir=directory):  # an OSError says why it cannot be written
        pass
    if os.name == "posix" and directory.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        hint = f"it holds what you trust: chmod 700 {directory}"
        yield Finding("data directory", "problem", f"others may write to {directory}", hint)
    else:
        yield Finding("data directory", "ok", str(directory))


def _settings(state: CliState) -> Iterator[Finding]:
    from greenroom.cli._effective import effective

    settings = state.settings()
    for layer in settings.layers:
        if layer.file is not None:
            yield Finding("settings", "ok", f"{layer.file} ({layer.name})")
    if not any(layer.file for layer in settings.layers):
        yield Finding("settings", "ok", f"no file; yours would be {state.user_file}")
    effective(settings)  # checks the host's keys in the tables of plugins, too


def _trust(state: CliState) -> Iterator[Finding]:
    from greenroom._trust import check_project

    if (trusted := check_project(state.settings(), state.data_directory, time.time)) is not None:
        yield Finding("trust", "ok", str(trusted))


def _plugins(state: CliState) -> Iterator[Finding]:
    from greenroom._lifecycle import PluginState
    from greenroom.cli._survey import survey

    found = survey(state)
    bad = [row for row in found.rows if row.state in {PluginState.FAILED, PluginState.LEAKED}]
    for row in bad:
        when = f" ({row.time.isoformat(timespec='seconds')})" if row.time else ""
        text = f"{row.id} is {row.state}: {row.error}{when}"
        yield Finding("plugins", "problem", text, row.hint or f"greenroom plugins info {row.id}")
    for name in found.missing:
        hint = "install it again: greenroom plugins sync"
        yield Finding("plugins", "problem", f"{name} was installed and is gone", hint)
    for warning in found.warnings:
        yield Finding("plugins", "note", warning)
    if not bad and not found.missing:
        yield Finding("plugins", "ok", f"{len(found.rows)} found, none failed")


def _settings_of_plugins(state: CliState) -> Iterator[Finding]:
    from greenroom._finding.discovery import discover

    settings = state.settings()
    installed = [(c.id, c.name) for c in discover(settings.plugins.load)]
    for name, origin in settings.unclaimed(installed):
        hint = f"install the plugin, or correct the name ({origin})"
        yield Finding("settings of plugins", "note", f"[plugins.{name}] belongs to no installed plugin", hint)


def _commands(_state: CliState) -> Iterator[Finding]:
    from greenroom.cli._frame import BUILT_IN, PROGRAM

    for name, found in plugin_commands().items():
        owners = [c.distribution for c in found] + ([PROGRAM] if name in BUILT_IN else [])
        if len(owners) > 1:
            hint = "uninstall one of them, or ask its author for another name"
            yield Finding("commands", "problem", f"the command {name!r} comes from {' and '.join(owners)}", hint)


def _errors(state: CliState) -> Iterator[Finding]:
    count = sum(1 for _ in read_diagnostics(state.data_directory))
    if count:
        yield Finding("errors", "note", f"{count} recorded", "greenroom doctor --errors shows them")


CHECKS: tuple[Callable[[CliState], Iterator[Finding]], ...] = (
    _python,
    _data_directory,
    _settings,
    _trust,
    _plugins,
    _settings_of_plugins,
    _commands,
    _errors,
)


def _show_errors(state: CliState, limit: int, *, as_json: bool) -> None:
    found: list[Diagnostic] = list(read_diagnostics(state.data_directory))
    last = found[-limit:]
    if as_json:
        emit_json(last)
    elif not last:
        click.echo("no errors are recorded")
    else:
        table(("time", "code", "plugin", "text"), [(d.time, d.code, d.plugin, d.text.partition("\n")[0]) for d in last])
