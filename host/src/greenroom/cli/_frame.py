"""The frame of the command line: global options, lazily imported commands, errors and exit statuses.

`--version` and `--help` import click and nothing else of weight; no plugin is imported before it is run.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

import click
from click.shell_completion import shell_complete

from greenroom._version import __version__
from greenroom.cli._commands import PluginCommand, plugin_commands
from greenroom.cli._output import show_error
from greenroom.cli._state import CliState
from greenroom.errors import GreenroomError, PluginError

PROGRAM = "greenroom"
COMPLETE_VARIABLE = "_GREENROOM_COMPLETE"
INTERRUPTED = 130  # 128 + SIGINT, as shells say it
BROKEN_PIPE = 141  # 128 + SIGPIPE
# name -> (where, what help says); a table, so that help imports no command
BUILT_IN: dict[str, tuple[str, str]] = {
    "doctor": ("greenroom.cli.doctor:doctor", "Check the installation and show what went wrong."),
    "hooks": ("greenroom.cli.hooks:hooks", "Show the hooks and who implements them."),
    "plugins": ("greenroom.cli.plugins:plugins", "List, install, switch, check and write plugins."),
    "settings": ("greenroom.cli.settings:settings", "Show the settings that count and what they may hold."),
    "trust": ("greenroom.cli.trust:trust", "Say which projects may load code."),
}


class Frame(click.Group):
    """The root group: built-in commands from the table, others from the metadata of distributions."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, list(_with_values(args)))
        ctx.obj = _state(ctx)
        return rest

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        return sorted({*BUILT_IN, *plugin_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if entry := BUILT_IN.get(cmd_name):
            _warn_of_clash(cmd_name)
            return _load(entry[0], cmd_name)
        found = plugin_commands().get(cmd_name)
        if not found:
            return None
        if ctx.resilient_parsing:  # completion of an argument; a broken plugin must not break the shell
            with suppress(GreenroomError):
                return _plugin_command(found, ctx.find_object(CliState))
            return None
        return _plugin_command(found, ctx.find_object(CliState))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing and not name.startswith("-"):
            close = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"did you mean {close[0]!r}?" if close else "more commands come with plugins: greenroom plugins list"
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return (name, command, args[1:]) if command is not None else super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in BUILT_IN.items()])
        rows = [
            (name, "from " + " and ".join(c.distribution for c in found) + ("" if len(found) == 1 else ": a clash"))
            for name, found in plugin_commands().items()
            if name not in BUILT_IN
        ]
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

    An error of greenroom is a message and a hint; `GREENROOM_DEBUG=1` shows its traceback instead.
    Any other error is a mistake of greenroom or of a plugin and keeps its traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # replaced by an embedding program
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a TextIOWrapper, or suppressed
    try:
        try:
            status = _invoke(list(args))
        except BaseExceptionGroup as group:  # task groups wrap what their tasks raise
            status = _group(group)
        sys.stdout.flush()
    except GreenroomError as error:
        if os.environ.get("GREENROOM_DEBUG") == "1":
            raise
        show_error(error)
        status = 1
    except BrokenPipeError:
        _silence()
        status = BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        status = INTERRUPTED
    return status


def _invoke(args: list[str]) -> int:
    if instruction := os.environ.get(COMPLETE_VARIABLE):
        return shell_complete(root, {}, PROGRAM, COMPLETE_VARIABLE, instruction)
    try:
        with root.make_context(PROGRAM, args) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


def _group(group: BaseExceptionGroup[BaseException]) -> int:
    """Answer a group as its members would be answered; one of another kind keeps the whole traceback."""
    if group.subgroup(KeyboardInterrupt) is not None:
        raise KeyboardInterrupt from group
    if group.subgroup(BrokenPipeError) is not None:
        raise BrokenPipeError from group
    known, rest = group.split(GreenroomError)
    if rest is not None or known is None or os.environ.get("GREENROOM_DEBUG") == "1":
        raise group
    for error in _leaves(known):
        show_error(error)
    return 1


def _leaves(group: BaseExceptionGroup[GreenroomError]) -> Iterator[GreenroomError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _silence() -> None:
    """Send what is still buffered nowhere, or the interpreter complains at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _with_values(args: list[str]) -> Iterator[str]:
    """Give a bare `--no-plugins` its value, or it would take the command's name for it."""
    rest = iter(args)
    for arg in rest:
        if not arg.startswith("-") or arg == "--":
            yield arg
            break
        yield "--no-plugins=1" if arg == "--no-plugins" else arg
        if arg == "--set":
            yield from [value for value in [next(rest, None)] if value is not None]
    yield from rest


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise GreenroomError("the working directory is gone", hint="change to a folder that exists") from error


def _state(ctx: click.Context) -> CliState:
    return CliState(
        cwd=_cwd(),
        environ=dict(os.environ),
        no_plugins=ctx.params.get("no_plugins") or "",
        strict_plugins=bool(ctx.params.get("strict_plugins")),
        trace_hooks=bool(ctx.params.get("trace_hooks")),
        overrides=dict(_override(text) for text in ctx.params.get("overrides") or ()),
    )


def _override(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise click.BadParameter(f"{text!r} is not key=value", param_hint="--set")
    return key.strip(), value.strip()


def _plugin_command(found: list[PluginCommand], state: CliState | None) -> click.Command:
    """Import the command of a plugin, unless the settings or another plugin stand against it."""
    first = found[0]
    if len(found) > 1:
        names = " and ".join(command.distribution for command in found)
        hint = f"uninstall one of them: greenroom plugins uninstall {first.distribution}"
        raise PluginError(f"the command {first.name!r} comes from {names}", hint=hint)
    if state is not None and (reason := _denied(first, state)):
        raise PluginError(f"the command {first.name!r} comes from {first.distribution}, and {reason}")
    return _load(first.target, first.name, first.distribution)


def _denied(command: PluginCommand, state: CliState) -> str | None:
    """Why this command may not be imported; the same lists as for plugins, since importing runs code."""
    plugins = state.settings().plugins
    if plugins.disable_all:
        return "plugins are switched off (--no-plugins or GREENROOM_NO_PLUGINS)"
    whole = command.distribution
    mine = [{whole, _same(name), _same(f"{whole}:{name}")} for name in command.plugins] or [{whole}]
    deny = {_same(name) for name in plugins.deny}
    allow = None if plugins.allow is None else {_same(name) for name in plugins.allow}
    if all(names & deny for names in mine):
        return "its plugin is denied by the settings"
    if allow is not None and not any(names & allow for names in mine):
        return "its plugin is not on the allow list of the settings"
    return None


def _same(name: str) -> str:
    """A name in the form in which names are compared, as in `metadata.normalize`, whose import would be felt."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _load(target: str, name: str, distribution: str | None = None) -> click.Command:
    module, _, attribute = target.partition(":")
    try:
        command: object = importlib.import_module(module)
        for part in filter(None, attribute.split(".")):
            command = getattr(command, part)
    except (Exception, SystemExit) as error:  # foreign code may raise anything, and may try to end the process
        if distribution is None:
            raise
        message = f"the command {name!r} of {distribution} cannot be imported: {type(error).__name__}: {error}"
        hint = f"reinstall or uninstall {distribution}; GREENROOM_DEBUG=1 shows the traceback"
        raise PluginError(message, hint=hint, plugin=distribution) from error
    if not isinstance(command, click.Command):
        hint = f"its entry point must name a click command, and {target} is none"
        raise PluginError(f"the command {name!r} of {distribution or PROGRAM} is no command", hint=hint)
    return command


def _warn_of_clash(name: str) -> None:
    """Say that a plugin wanted a built-in name; the built-in one goes on, or nothing could uninstall the plugin."""
    for command in plugin_commands().get(name, ()):
        message = f"warning: {command.distribution} also declares the command {name!r}; greenroom's own is used"
        click.echo(message, err=True)


@click.group(cls=Frame, name=PROGRAM, epilog="Example: greenroom --no-plugins plugins list --json")
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.option("--no-plugins", metavar="[=NAME,…]", help="Load no plugin, or not these (ids, names or distributions).")
@click.option("--strict-plugins", is_flag=True, help="Fail when a plugin fails to load.")
@click.option("--trace-hooks", is_flag=True, help="Print the calls of hooks to stderr.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a setting: plugins.NAME.KEY=3.")
def root(**_options: object) -> None:
    """Run coding agents whose every part is a plugin."""
