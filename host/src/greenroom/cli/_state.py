"""What the global options and the environment say, as commands get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from greenroom._settings import Settings


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
        from greenroom._settings import NO_PLUGINS_OPTION, load_settings

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
