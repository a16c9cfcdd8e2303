"""What the global options and the environment say, as commands get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from greenroom.cli._output import escape

if TYPE_CHECKING:
    from greenroom._host import Host
    from greenroom._settings.settings import Settings


@dataclass(frozen=True, slots=True)
class CliState:
    """The state of one command, in `click.Context.obj`.

    Attributes:
        cwd: the working directory.
        environ: the environment.
        no_plugins: `--no-plugins`: `1` for all, or names with commas; empty when it was not given.
        strict_plugins: `--strict-plugins`.
        trace_hooks: `--trace-hooks`: print the trace of this command's hooks to stderr.
        overrides: `--set`, by key.
    """

    cwd: Path
    environ: Mapping[str, str]
    no_plugins: str = ""
    strict_plugins: bool = False
    trace_hooks: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def data_directory(self) -> Path:
        """The data directory; it need not exist."""
        from greenroom._paths import data_directory

        return data_directory(self.environ)

    @property
    def user_file(self) -> Path:
        """The user's settings file; it need not exist."""
        from greenroom._paths import user_settings_file

        return user_settings_file(self.environ)

    @property
    def project_file(self) -> Path | None:
        """The settings file of the project around the working directory."""
        from greenroom._paths import project_settings_file

        return project_settings_file(self.cwd)

    def settings(self) -> Settings:
        """Read the settings with all layers.

        Raises:
            SettingsError: a layer is broken.
        """
        from greenroom._settings.settings import NO_PLUGINS_OPTION, load_settings

        overrides: dict[str, object] = dict(self.overrides)
        if self.no_plugins:
            overrides[NO_PLUGINS_OPTION] = self.no_plugins
        if self.strict_plugins:
            overrides["plugins.strict"] = "true"
        return load_settings(
            user_file=self.user_file,
            project_file=self.project_file,
            environ=self.environ,
            overrides=overrides,
            cwd=self.cwd,
        )

    def host(self) -> Host:
        """Make a host with these settings and this data directory, for `async with`; call it once per command.

        With `--trace-hooks` the outcomes of its hooks go to stderr when the command ends, also when it failed.
        A plugin's task that ignores its cancellation ends the process, with its name, instead of keeping it.

        Raises:
            SettingsError: a layer is broken.
        """
        from greenroom._host import Host

        host = Host(self.settings(), data_directory=self.data_directory)
        host.stuck = _leave
        if self.trace_hooks and (context := click.get_current_context(silent=True)) is not None:
            context.find_root().call_on_close(lambda: _print_trace(host))
        return host


def _leave(stuck: Sequence[str]) -> NoReturn:
    """End the process: all is stored and closed, and only a task that cannot be ended would keep it."""
    for line in stuck:
        click.echo(f"error: left behind: background task {escape(line)}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _print_trace(host: Host) -> None:
    for outcome in host.hooks.engine.trace:
        answer = f"raised {outcome.error}" if outcome.error is not None else f"-> {outcome.value}"
        who = f"{outcome.plugin} generation {outcome.generation}"
        click.echo(f"trace: {outcome.hook} {who} {outcome.duration * 1e3:.3f} ms {escape(answer)}", err=True)
