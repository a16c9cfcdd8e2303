"""The frame of the command line: what it imports, how it fails, and whose command is whose."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import click
import pytest

from greenroom.cli import _frame, run
from greenroom.cli._commands import parse_entry_points, plugin_commands
from greenroom.errors import GreenroomError, PluginError

PROGRAM = [sys.executable, "-c", "from greenroom.cli import main; main()"]
COMMAND = """
    import click

    @click.command()
    @click.pass_obj
    def command(state):
        click.echo(f"ran {state.no_plugins!r} {state.strict_plugins} {state.trace_hooks} {dict(state.overrides)}")
"""


def commands(**targets: str) -> str:
    return "[greenroom.commands]\n" + "".join(f"{name} = {target}\n" for name, target in targets.items())


def start(*args: str, site: Path | None = None, **options: object) -> subprocess.Popen[str]:
    environ = os.environ | ({"PYTHONPATH": str(site)} if site else {})
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([*PROGRAM, *args], text=True, env=environ, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def imported(site):
    """Distribution `dist-a` with the command `hello`."""
    site.dist("dist-a", entries=commands(hello="hello_mod:command"), modules={"hello_mod.py": COMMAND})
    return site


# Start-up


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy_and_no_plugin(site, argument: str) -> None:
    site.dist("dist-a", entries=commands(hello="hello_mod:command"), modules={"hello_mod.py": "raise SystemExit(9)"})
    heavy = {"pydantic", "anyio", "rich", "pluggy", "tomlkit", "filelock", "importlib.metadata", "importlib_metadata"}
    heavy |= {"platformdirs", "msgspec", "packaging", "asyncio", "hello_mod"}
    code = (
        "import sys; from greenroom.cli import run; "
        f"status = run([{argument!r}]); print('status', status, *({heavy!r} & sys.modules.keys()))"
    )
    environ = os.environ | {"PYTHONPATH": str(site.folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert done.stdout.splitlines()[-1] == "status 0"


def test_a06_help_names_the_commands_of_a_thousand_distributions_and_imports_none(site, capsys) -> None:
    for number in range(1_000):
        info = site.folder / f"other_{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: other-{number}\n")
    site.dist("dist-a", entries=commands(hello="gone_mod:command"))
    before = set(sys.modules)
    assert run(["--help"]) == 0
    assert re.search(r"^  hello +from dist-a$", capsys.readouterr().out, re.MULTILINE)
    assert "gone_mod" not in set(sys.modules) - before


def test_the_version_is_printed(capsys) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("greenroom 0")


@pytest.mark.parametrize("name", ["doctor", "settings", "trust"])
def test_every_built_in_command_exists_and_its_help_has_an_example(name: str) -> None:
    command = _frame._load(_frame.BUILT_IN[name][0], name)
    leaves = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for leaf in leaves:
        assert "Example" in f"{leaf.epilog} {leaf.help}", leaf.name


# Global options


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], "ran '' False False {}"),
        (["--strict-plugins", "--trace-hooks"], "ran '' True True {}"),
        (["--no-plugins=other"], "ran 'other' False False {}"),
        (["--set", "plugins.x.a=1", "--set", "plugins.x.b = p=q"], "{'plugins.x.a': '1', 'plugins.x.b': 'p=q'}"),
        (["--set=plugins.x.a=", "--no-plugins=b"], "ran 'b' False False {'plugins.x.a': ''}"),
    ],
)
def test_the_global_options_reach_the_command(imported, capsys, args: list[str], expected: str) -> None:
    assert run([*args, "hello"]) == 0
    assert expected in capsys.readouterr().out


def test_a_bare_no_plugins_does_not_swallow_the_command(imported, capsys) -> None:
    assert run(["--no-plugins", "trust", "list"]) == 0
    assert "nothing is trusted" in capsys.readouterr().out


def test_an_option_of_a_command_is_left_alone() -> None:
    assert list(_frame._with_values(["--set", "--no-plugins", "x", "--no-plugins"])) == [
        "--set",
        "--no-plugins",
        "x",
        "--no-plugins",
    ]


@pytest.mark.parametrize("text", ["x", "=1", " =1"])
def test_a_set_that_is_no_assignment_is_wrong_usage(capsys, text: str) -> None:
    assert run(["--set", text, "trust", "list"]) == 2
    assert "is not key=value" in capsys.readouterr().err


def test_an_override_of_the_command_line_reaches_the_settings(capsys) -> None:
    assert run(["--strict-plugins", "--no-plugins=a", "--set", "plugins.x.y=[1]", "settings", "show", "--json"]) == 0
    rows = {row["key"]: (row["value"], row["origin"]["where"]) for row in json.loads(capsys.readouterr().out)}
    assert rows["plugins.strict"] == (True, "--set plugins.strict")
    assert rows["plugins.deny"][0] == ["a"]
    assert rows["plugins.x.y"] == ([1], "--set plugins.x.y")


HOSTING = """
    import anyio, click, greenroom

    @greenroom.hookimpl
    def plugin_settings():
        return None

    @greenroom.hookimpl
    async def activate(scope):
        if FAILS:
            raise ValueError("no\x1b[2J")

    @click.command()
    @click.pass_obj
    def command(state):
        async def main():
            async with state.host() as host:
                click.echo([record.state for record in host.plugins() if record.name == "traced"])
        anyio.run(main)
"""


@pytest.mark.parametrize("fails", [False, True])
def test_trace_hooks_prints_every_outcome_to_stderr(site, capsys, fails: bool) -> None:
    entries = "[greenroom]\ntraced = traced_mod\n" + commands(traced="traced_mod:command")
    site.dist("dist-a", entries=entries, modules={"traced_mod.py": f"FAILS = {fails}\n" + textwrap.dedent(HOSTING)})
    assert run(["--trace-hooks", "traced"]) == 0
    captured = capsys.readouterr()
    assert ("failed" if fails else "active") in captured.out
    lines = [
        line for line in captured.err.splitlines() if line.startswith("trace: activate dist-a:traced generation 1 ")
    ]
    assert len(lines) == 1
    assert lines[0].endswith("raised ValueError: no\\x1b[2J" if fails else "-> None")


STUBBORN = """
    import anyio, click, greenroom

    @greenroom.hookimpl
    async def activate(scope):
        began = anyio.Event()
        async def work():
            with anyio.CancelScope(shield=True):
                began.set()
                await anyio.sleep_forever()
        scope.spawn(work, name="indexer")
        scope._grace = 0.01
        await began.wait()

    @click.command()
    @click.pass_obj
    def command(state):
        async def main():
            async with state.host():
                click.echo("done")
        anyio.run(main)
"""


def test_a_command_ends_although_a_task_of_a_plugin_does_not(site) -> None:
    entries = "[greenroom]\nstubborn = stubborn_mod\n" + commands(stubborn="stubborn_mod:command")
    site.dist("dist-a", entries=entries, modules={"stubborn_mod.py": STUBBORN})
    with start("stubborn", site=site.folder) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, "done\n")
    assert "error: left behind: background task 'indexer' of plugin dist-a:stubborn does not end\n" in err


def test_without_the_option_no_trace_is_printed(site, capsys) -> None:
    entries = "[greenroom]\ntraced = traced_mod\n" + commands(traced="traced_mod:command")
    site.dist("dist-a", entries=entries, modules={"traced_mod.py": "FAILS = False\n" + textwrap.dedent(HOSTING)})
    assert run(["traced"]) == 0
    assert "trace:" not in capsys.readouterr().err


# Commands of plugins


def test_a_command_of_a_plugin_is_imported_when_it_runs(imported, capsys) -> None:
    assert run(["hello"]) == 0
    assert capsys.readouterr().out.startswith("ran")


def test_an_unknown_command_is_wrong_usage_with_a_guess(imported, capsys) -> None:
    assert run(["helo"]) == 2
    assert "no such command 'helo'; did you mean 'hello'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import does_not_exist_at_all", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("x = 1", "AttributeError"),
    ],
)
def test_a_command_that_cannot_be_imported_names_its_distribution(site, capsys, module: str, reason: str) -> None:
    site.dist("dist-a", entries=commands(hello="broken_mod:command"), modules={"broken_mod.py": module})
    assert run(["hello"]) == 1
    error = capsys.readouterr().err
    assert f"error: the command 'hello' of dist-a cannot be imported: {reason}" in error
    assert "uninstall dist-a" in error
    assert "Traceback" not in error


def test_a_target_that_is_no_command_names_its_distribution(site, capsys) -> None:
    site.dist("dist-a", entries=commands(hello="plain_mod:command"), modules={"plain_mod.py": "command = print"})
    assert run(["hello"]) == 1
    assert "the command 'hello' of dist-a is no command" in capsys.readouterr().err


def test_two_distributions_with_one_command_are_an_error_that_names_both(imported, capsys) -> None:
    imported.dist("dist-b", entries=commands(hello="hello_mod:command"))
    assert run(["hello"]) == 1
    assert "the command 'hello' comes from dist-a and dist-b" in capsys.readouterr().err
    assert run(["--help"]) == 0
    assert "from dist-a and dist-b: a clash" in capsys.readouterr().out


def test_a_built_in_command_goes_on_and_names_who_wanted_its_name(site, capsys) -> None:
    site.dist("dist-a", entries=commands(trust="evil_mod:command"), modules={"evil_mod.py": "raise SystemExit(9)"})
    assert run(["trust", "list"]) == 0
    captured = capsys.readouterr()
    assert "nothing is trusted" in captured.out
    assert "dist-a also declares the command 'trust'" in captured.err


@pytest.mark.parametrize(
    "args",
    [
        ["--no-plugins"],
        ["--no-plugins=dist-a"],
        ["--no-plugins=Dist_A"],
        ["--no-plugins=plug"],
        ["--no-plugins=dist-a:plug"],
    ],
)
def test_a_plugin_that_is_switched_off_gives_no_command(site, capsys, args: list[str]) -> None:
    site.dist(
        "dist-a",
        entries="[greenroom]\nplug = off_mod\n" + commands(hello="off_mod:command"),
        modules={"off_mod.py": "raise SystemExit(9)"},
    )
    assert run([*args, "hello"]) == 1
    assert "'hello' comes from dist-a, and" in capsys.readouterr().err
    assert "off_mod" not in sys.modules


def test_a_command_of_a_denied_plugin_is_not_imported(imported, user_folders, capsys) -> None:
    (user_folders / "config").mkdir()
    (user_folders / "config" / "greenroom.toml").write_text("[plugins]\nallow = ['other']\n")
    assert run(["hello"]) == 1
    assert "not on the allow list" in capsys.readouterr().err
    assert "hello_mod" not in sys.modules


def test_the_variable_switches_commands_off_too(imported, monkeypatch, capsys) -> None:
    monkeypatch.setenv("GREENROOM_NO_PLUGINS", "1")
    assert run(["hello"]) == 1
    assert "switched off" in capsys.readouterr().err


def test_a_distribution_whose_other_plugins_may_load_keeps_its_command(site, capsys) -> None:
    entries = "[greenroom]\na = m\nb = m\n" + commands(hello="hello_mod:command")
    site.dist("dist-a", entries=entries, modules={"hello_mod.py": COMMAND})
    assert run(["--no-plugins=a", "hello"]) == 0


def test_completion_is_not_stopped_by_a_broken_plugin(site, monkeypatch, capsys) -> None:
    site.dist("dist-a", entries=commands(hello="broken_mod:command"), modules={"broken_mod.py": "raise SystemExit(9)"})
    monkeypatch.setenv("_GREENROOM_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "greenroom he")
    monkeypatch.setenv("COMP_CWORD", "1")
    run([])
    monkeypatch.setenv("COMP_WORDS", "greenroom hello x")
    monkeypatch.setenv("COMP_CWORD", "2")
    run([])
    assert "Traceback" not in capsys.readouterr().err


# Reading metadata


def test_entry_points_are_read_as_the_standard_says() -> None:
    text = "# c\n[a]\nx = m:f [extra]\n\n[ b ]\n y=m.n : g \nbroken\n; c\n[c]\n"
    assert parse_entry_points(text) == {"a": {"x": "m:f"}, "b": {"y": "m.n : g"}, "c": {}}


def test_the_first_distribution_on_the_path_counts(site, tmp_path: Path) -> None:
    site.dist("dist-a", "2.0", entries=commands(new="m:c"))
    other = tmp_path / "other" / "Dist.A-1.0.dist-info"
    other.mkdir(parents=True)
    (other / "entry_points.txt").write_text(commands(old="m:c"))
    assert list(plugin_commands([str(site.folder), str(tmp_path / "other")])) == ["new"]


def test_odd_folders_and_files_on_the_path_do_not_matter(site, tmp_path: Path) -> None:
    (tmp_path / "file.zip").write_bytes(b"x")
    (site.folder / "x.dist-info").touch()
    bad = site.folder / "bad-1.dist-info"
    bad.mkdir()
    (bad / "entry_points.txt").write_bytes(b"[greenroom.commands]\n\xff = m:c\nok = m:c\n--x = m:c\n")
    assert list(plugin_commands([str(tmp_path / "gone"), str(tmp_path / "file.zip"), str(site.folder)])) == ["ok"]


# Errors


@pytest.fixture
def raising(site):
    """The command `fails` that raises what the test gives it."""
    site.dist("dist-a", entries=commands(fails="fails_mod:command"))
    site.write("fails_mod.py", "import click\nwhat = None\n@click.command()\ndef command():\n    raise what\n")
    sys.path_importer_cache.clear()
    import fails_mod

    return fails_mod


def test_an_error_is_a_message_and_a_hint_without_a_traceback(raising, capsys) -> None:
    raising.what = PluginError("it broke\x1b[2J", hint="mend it", plugin="p")
    assert run(["fails"]) == 1
    assert capsys.readouterr().err == "error: it broke\\x1b[2J\nhint: mend it\n"


def test_debug_shows_the_traceback(raising, monkeypatch) -> None:
    monkeypatch.setenv("GREENROOM_DEBUG", "1")
    raising.what = PluginError("it broke")
    with pytest.raises(PluginError):
        run(["fails"])


def test_a_group_of_errors_is_a_message_each(raising, capsys) -> None:
    raising.what = ExceptionGroup("g", [GreenroomError("one"), ExceptionGroup("h", [GreenroomError("two")])])
    assert run(["fails"]) == 1
    assert capsys.readouterr().err == "error: one\nerror: two\n"


def test_a_mistake_keeps_its_traceback(raising) -> None:
    raising.what = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError):
        run(["fails"])
    raising.what = ExceptionGroup("g", [GreenroomError("one"), ZeroDivisionError("bug")])
    with pytest.raises(ExceptionGroup):
        run(["fails"])


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_interrupt_is_130_without_a_traceback(raising, capsys, wrapped: bool) -> None:
    interrupt = KeyboardInterrupt()
    raising.what = BaseExceptionGroup("g", [interrupt]) if wrapped else interrupt
    assert run(["fails"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_real_interrupt_ends_the_process_with_130(site) -> None:
    code = "import click, sys\n@click.command()\ndef command():\n    print('up', flush=True)\n    sys.stdin.read()\n"
    site.dist("dist-a", entries=commands(waits="waits_mod:command"), modules={"waits_mod.py": code})
    with start("waits", site=site.folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, "interrupted\n")


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_goes_away_is_no_error(site, lines: int) -> None:
    code = "import click, sys\n@click.command()\ndef command():\n    sys.stdin.read()\n"
    code += f"    print('x\\n' * {lines}, end='')\n"
    site.dist("dist-a", entries=commands(prints="prints_mod:command"), modules={"prints_mod.py": code})
    with start("prints", site=site.folder) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, error = process.communicate("", timeout=30)
    assert (process.returncode, error) == (141, "")


def test_what_the_terminal_cannot_show_is_escaped() -> None:
    environ = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*PROGRAM, "--set", "\u2192=1", "settings", "show"], capture_output=True, env=environ, check=False
    )
    assert done.returncode == 1
    assert b"'\\u2192' is no key" in done.stderr


# No terminal


class _NoTerminal(io.StringIO):
    def read(self, *_: object) -> str:
        raise AssertionError("it waits for input")

    readline = read


PROMPTS = [["trust", "add", "."]]


@pytest.mark.parametrize("args", PROMPTS)
def test_a18_no_question_waits_without_a_terminal(args: list[str], monkeypatch, capsys, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", _NoTerminal())
    run(args)  # once before, so that imports are not measured
    capsys.readouterr()
    since = time.monotonic()
    assert run(args) == 1
    assert time.monotonic() - since < 1
    error = capsys.readouterr().err
    assert "no terminal" in error
    assert f"greenroom {' '.join(args[:2])} --yes" in error


@pytest.mark.parametrize("args", PROMPTS)
def test_a18_a_process_whose_input_stays_open_ends_by_itself(args: list[str], tmp_path: Path) -> None:
    with start(*args, cwd=tmp_path) as process:  # nobody writes to or closes its input
        assert process.wait(30) == 1


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_shows_what_and_asks(tmp_path: Path, user_folders: Path, answer: str, status: int) -> None:
    (tmp_path / "greenroom.toml").write_text("[plugins]\nload = ['./audit.py']\n")
    ours, theirs = pty.openpty()
    with start("trust", "add", str(tmp_path), stdin=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        output, _ = process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == status
    assert "audit.py (does not exist)" in output
    assert (user_folders / "data" / "trust.json").exists() is (status == 0)


def test_a_working_directory_that_is_gone_is_an_error_that_says_so(tmp_path, monkeypatch, capsys) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert run(["plugins", "list"]) == 1
    assert "the working directory is gone" in capsys.readouterr().err
