"""The command line, and what commands of plugins may use of it.

A plugin's command is a click command named in the entry-point group `greenroom.commands`. It gets
the global options as `click.Context.obj`, a `CliState`, for instance with `@click.pass_obj`.
"""

from __future__ import annotations

from greenroom.cli._frame import main, run
from greenroom.cli._output import confirm, emit_json, fail, interactive, table
from greenroom.cli._state import CliState

__all__ = ["CliState", "confirm", "emit_json", "fail", "interactive", "main", "run", "table"]
