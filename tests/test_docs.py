"""What the documents say is executed, or compared with the source."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from greenroom import Host, hookspecs, load_settings
from greenroom._settings.rules import HOST_KEYS, SECTION_KEYS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "*/README.md", "plugins/*/README.md")
    for page in ROOT.glob(pattern)
    if not page.parent.name.startswith(".")  # what tools keep here is not ours
)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(path: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text()) if kind == language]


def _label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _hooks() -> dict[str, list[str]]:
    """Every hook with its arguments, read from the functions themselves."""
    marked = {n: f for n, f in vars(hookspecs).items() if hasattr(f, hookspecs.SPEC_ATTRIBUTE)}
    return {name: list(inspect.signature(function).parameters) for name, function in marked.items()}


HOOKS = _hooks()


@pytest.mark.parametrize("path", PAGES, ids=_label)
def test_every_python_example_is_valid_python(path: Path) -> None:
    for example in _blocks(path, "python"):
        compile(example, path.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("path", PAGES, ids=_label)
def test_every_toml_example_is_valid_toml(path: Path) -> None:
    for example in _blocks(path, "toml"):
        tomllib.loads(example)


@pytest.mark.parametrize("path", PAGES, ids=_label)
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_generated_pages_are_fresh() -> None:
    script = ROOT / "scripts/generate_docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_hook_reference_lists_exactly_the_hooks_with_their_exact_arguments() -> None:
    headings = re.findall(r"^## `(\w+)\((.*)\)`$", (ROOT / "docs/hooks.md").read_text(), re.MULTILINE)
    assert {name: [a for a in arguments.split(", ") if a] for name, arguments in headings} == HOOKS


@functools.cache
def _test_names() -> set[str]:
    trees = [ast.parse(path.read_text()) for path in ROOT.glob("tests/**/test_*.py")]
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.name for node in nodes if isinstance(node, functions) and node.name.startswith("test_")}


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_has_a_test_that_bears_its_name(hook: str) -> None:
    pattern = re.compile(rf"(^|_){hook}(_|$)")
    assert any(pattern.search(name) for name in _test_names()), f"no test function has {hook!r} in its name"


def test_the_two_commands_of_the_readme_are_those_that_ci_runs() -> None:
    commands = [line for block in _blocks(ROOT / "README.md", "bash") for line in block.splitlines()]
    run, test = (line for line in commands if line.startswith("pip install uv && "))
    assert run.startswith("pip install uv && uv run greenroom ")
    assert test == "pip install uv && uv run pytest"
    script = (ROOT / ".ci/run").read_text()
    assert re.search(r"^pip install --quiet uv && uv run pytest\b", script, re.MULTILINE)


@pytest.fixture
def readme_project(tmp_path: Path) -> Path:
    """Write the plugin of the README and its settings into a folder."""
    (tmp_path / "greeter.py").write_text(_blocks(ROOT / "README.md", "python")[0])
    (tmp_path / "greenroom.toml").write_text(_blocks(ROOT / "README.md", "toml")[0])
    return tmp_path


def test_the_plugin_of_the_readme_has_twelve_lines(readme_project: Path) -> None:
    assert len([line for line in (readme_project / "greeter.py").read_text().splitlines() if line.strip()]) == 12


@pytest.mark.anyio
async def test_the_plugin_of_the_readme_greets_by_its_settings_and_says_goodbye(
    readme_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Host(load_settings(user_file=readme_project / "greenroom.toml")) as host:
        record = host.plugin("greeter")
        assert (record.id, record.state, record.error) == ("local:greeter", "active", None)
        assert capsys.readouterr().out == "hello, Ada\n"
    assert capsys.readouterr().out == "goodbye\n"


def test_the_commands_of_the_readme_work_one_after_the_other_in_the_project_it_shows(readme_project: Path) -> None:
    lines = [line for block in _blocks(ROOT / "README.md", "bash") for line in block.splitlines()]
    # What a script runs has a test beside that script.
    lines = [line for line in lines if "greenroom " in line and "scripts/" not in line]
    commands = [shlex.split(line.partition("greenroom ")[2]) for line in lines]
    assert ["plugins", "check", "greeter"] in commands
    executable = Path(sys.executable).with_name("greenroom")
    without_account = {**os.environ, "GREENROOM_NO_PLUGINS": "greenroom-claude,greenroom-codex"}
    # The page runs an agent before there is a project; here is one, so trust comes first.
    for arguments in sorted(commands, key=lambda words: words[0] != "trust"):
        confirmed = ["--yes"] if arguments[0] == "trust" else []  # there is no terminal to ask
        done = subprocess.run(
            [executable, *arguments, *confirmed],
            cwd=readme_project,
            env=without_account,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"greenroom {' '.join(arguments)}\n{done.stdout}{done.stderr}"


def test_the_settings_page_shows_every_key_of_the_host_and_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "greenroom.toml"
    file.write_text(_blocks(ROOT / "docs/settings.md", "toml")[0])
    settings = load_settings(user_file=file)
    shown = tomllib.loads(file.read_text())["plugins"]
    tables = [value for value in shown.values() if isinstance(value, dict)]
    assert set(shown) >= set(HOST_KEYS)
    assert {key for table in tables for key in table} >= set(SECTION_KEYS)
    assert settings.plugin("local:audit", "audit").values == {"folder": "logs"}


def test_the_settings_page_names_every_variable_that_is_read() -> None:
    named = set(re.findall(r"GREENROOM_[A-Z_]+[A-Z]", (ROOT / "docs/settings.md").read_text()))
    read = {
        name
        for path in ROOT.glob("host/src/greenroom/**/*.py")
        for name in re.findall(r"[\"'](GREENROOM_[A-Z_]+[A-Z])[\"']", path.read_text())
    }
    assert read - named == set()
