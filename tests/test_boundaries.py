"""The rules of CONTRIBUTING.md that a machine can check, one test for each.

They read the source as text and syntax trees and import nothing.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

VENDORS = (
    "anthropic",
    "chatgpt",
    "claude",
    "codex",
    "copilot",
    "deepseek",
    "gemini",
    "mistral",
    "ollama",
    "openai",
    "opencode",
)
IO_MODULES = frozenset(
    """
    aiohttp anyio asyncio concurrent fcntl fileinput glob http httpx importlib io logging mmap multiprocessing
    os pathlib pty select selectors shutil signal socket socketserver sqlite3 ssl subprocess tempfile threading
    trio urllib
    """.split(),  # noqa: SIM905 - a list of words, one a line would fill the screen
)
TRANSLATORS = ("_translate.py", "_wire.py")

# The kernel is what loads plugins and lets them hook in; whatever stands directly in `greenroom/` belongs to it
# unless it is named below. Its parts are spelled out so that a report says which of them grew.
KERNEL = {
    "hooks": """
        _async_callers _callers _engine _feed _foreign _hooks _impl _kinds _order _signatures _staging
    """.split(),  # noqa: SIM905 - a list of words, one a line would fill the screen
    "scopes": ["_effect", "_layers", "_scope", "_services", "_tasks"],
    "plugins": ["_host", "_lifecycle", "_loading", "_records"],
    "settings": ["_settings"],
}
NOT_KERNEL = {
    "__init__": "the list of public names",
    "_version": "two constants",
    "errors": "the errors of all distributions",
    "hookspecs": "the contract, which grows with every hook: what plugins implement",
    "_context": "the contract: what implementations are told",
    "_decision": "the contract: what policies answer",
    "_paths": "where files lie and how they are written, for everyone",
    "_settings/layers": "reads files, variables and options, and where each value stands; the kernel gets values",
    "_trace": "watches the kernel: the outcomes of hooks, for people",
    "_threads": "where blocking hooks run, and who holds the threads; of a plugin it knows the name",
    "_watchdog": "watches the kernel: who blocks the loop, for people",
    "_diagnostics": "the record of what went wrong; it knows no plugin",
    "_finding": "what is installed, what of it may load, and importing it",
    "_trust": "whose files may run code",
    "_wiring": "ties the packages of the domain to a host",
    "agents": "the domain",
    "providers": "the domain",
    "sessions": "the domain",
    "timeline": "the domain",
    "cli": "the command line",
    "templates": "data that `plugins new` copies",
}
# Why these numbers: docs/decisions.md.
KERNEL_LINES = 2_500
HOST_LINES = 12_000
FILE_LINES = 400
FILES_OF_ANY_LENGTH = {"hookspecs.py": "one page of contract, mostly docstrings; a reader wants all hooks in one place"}
FUNCTION_LINES = 60


@dataclass(frozen=True)
class Distribution:
    """A member of the workspace."""

    folder: Path
    name: str
    packages: frozenset[str]


@dataclass(frozen=True)
class Import:
    """One imported module, or a name from it, with its place."""

    module: str
    line: int
    name: str | None = None

    def __str__(self) -> str:
        return f"line {self.line}: {self.module}" + (f" import {self.name}" if self.name else "")


def _members() -> list[Distribution]:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]["members"]
    found = []
    for pyproject in sorted(path for pattern in patterns for path in ROOT.glob(f"{pattern}/pyproject.toml")):
        packages = {p.parent.name for p in pyproject.parent.glob("src/*/__init__.py")}
        name = tomllib.loads(pyproject.read_text())["project"]["name"]
        found.append(Distribution(pyproject.parent, name, frozenset(packages)))
    return found


def _sources(folder: Path) -> list[Path]:
    """Every module under `src`; the templates that `plugins new` copies are data."""
    return [p for p in sorted((folder / "src").rglob("*.py")) if "templates" not in p.parts]


LOCK = "uv" + ".lock"  # in pieces, as this file must not name it either
MEMBERS = _members()
HOST = next(member for member in MEMBERS if member.name == "greenroom")
OTHERS = [member for member in MEMBERS if member is not HOST]
SOURCES = [path for member in MEMBERS for path in _sources(member.folder)]


@cache
def _all_files() -> list[Path]:
    """The files of the repository: what git knows, or without git whatever is not generated."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, text=True)
        return [p for name in listed.stdout.split("\0") if name and (p := ROOT / name).is_file()]
    generated = {"__pycache__", "dist", "build", "junit.xml", LOCK}
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
        and not generated.intersection(parts := path.relative_to(ROOT).parts)
        and (not parts[0].startswith(".") or parts[0] == ".ci")
    ]


def _label(item: Path | Distribution) -> str:
    return item.name if isinstance(item, Distribution) else str(item.relative_to(ROOT))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def _module_name(path: Path) -> str:
    parts = path.parts[len(path.parts) - path.parts[::-1].index("src") :]
    return ".".join(parts).removesuffix(".py").removesuffix(".__init__")


def _imports(path: Path) -> Iterator[Import]:
    """Every import of a file, relative ones resolved, wherever in the file it stands."""
    package = _module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module, node.lineno, alias.name)


def _code_lines(path: Path) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type not in skip:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(_tree(path)):
        # A statement that is only a string documents: a docstring, or the text under a constant.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement behind the docstring to the end."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def _report(problems: list[str], rule: str) -> None:
    assert not problems, rule + ":\n  " + "\n  ".join(problems)


# --- who may import whom ------------------------------------------------------------------


@pytest.mark.parametrize("path", _sources(HOST.folder), ids=_label)
def test_the_host_imports_no_plugin(path: Path) -> None:
    foreign = {package for member in OTHERS for package in member.packages}
    wrong = [str(i) for i in _imports(path) if i.module.split(".")[0] in foreign or i.module.startswith("greenroom_")]
    _report(wrong, "what host and plugin share is a host protocol; the host imports no plugin")


@pytest.mark.parametrize("path", _sources(HOST.folder), ids=_label)
def test_the_host_names_no_vendor(path: Path) -> None:
    pattern = re.compile("|".join(VENDORS), re.IGNORECASE)
    wrong = [
        f"line {n}: {line.strip()}" for n, line in enumerate(path.read_text().splitlines(), 1) if pattern.search(line)
    ]
    _report(wrong, "vendor names belong to providers, also in comments and messages")


@pytest.mark.parametrize("member", OTHERS, ids=_label)
def test_a_plugin_imports_only_public_names_of_greenroom_and_no_other_plugin(member: Distribution) -> None:
    foreign = {package for other in OTHERS if other is not member for package in other.packages}
    wrong = []
    for path in _sources(member.folder):
        for imported in _imports(path):
            top, *rest = imported.module.split(".")
            names = [*rest, *([imported.name] if imported.name else [])]
            private = top == "greenroom" and any(n.startswith("_") and not n.startswith("__") for n in names)
            if private or top in foreign:
                wrong.append(f"{_label(path)} {imported}")
    _report(wrong, "a plugin uses names of greenroom without an underscore, and no other plugin")


@pytest.mark.parametrize("path", SOURCES, ids=_label)
def test_only_the_specs_and_the_dispatcher_import_pluggy(path: Path) -> None:
    if path.parent == HOST.folder / "src/greenroom" and path.name in {"hookspecs.py", "_hooks.py"}:
        return
    wrong = [str(i) for i in _imports(path) if i.module.split(".")[0] == "pluggy"]
    _report(wrong, "pluggy has one door: hookspecs.py and _hooks.py")


def _reach(start: Path) -> Iterator[tuple[Path, Import]]:
    """Every import of a file and of the files of the same distribution that it imports."""
    src = next(parent for parent in start.parents if parent.name == "src")
    todo, seen = [start], {start}
    while todo:
        path = todo.pop()
        for imported in _imports(path):
            yield path, imported
            # `from . import sibling` is an import of the sibling, not of what the package offers.
            for dotted in (f"{imported.module}.{imported.name}", imported.module):
                stem = src.joinpath(*dotted.split("."))
                files = [file for file in (stem.with_suffix(".py"), stem / "__init__.py") if file.is_file()]
                todo += [file for file in files if file not in seen]
                seen.update(files)
                if files:
                    break


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name in TRANSLATORS], ids=_label)
def test_a_translator_reaches_no_module_that_does_input_or_output(path: Path) -> None:
    wrong = [f"{_label(by)} {i}" for by, i in _reach(path) if i.module.split(".")[0] in IO_MODULES]
    _report(wrong, "translators take messages and give events; the shell moves the bytes")


# --- how state changes --------------------------------------------------------------------


def _assigned(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets):
            return [t for target in targets for t in ast.walk(target) if isinstance(t, ast.expr)]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
        case ast.Call(
            func=ast.Name(id="setattr") | ast.Attribute(attr="__setattr__"), args=[*_, ast.Constant("state"), _]
        ):
            return [ast.Attribute(node.func, "state", ast.Store())]
    return []


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name != "_lifecycle.py"], ids=_label)
def test_no_module_but_a_lifecycle_assigns_state(path: Path) -> None:
    wrong = [
        f"line {node.lineno}"
        for node in ast.walk(_tree(path))
        for target in _assigned(node)
        if isinstance(target, ast.Attribute) and target.attr == "state" and isinstance(target.ctx, ast.Store)
    ]
    _report(wrong, "states move by the table of a `_lifecycle.py`")


# --- how large things get -----------------------------------------------------------------


def _places() -> dict[str, int]:
    """What stands directly in `greenroom/`, modules and packages, with its lines of code.

    A module inside a package that is named in NOT_KERNEL is a place of its own.
    """
    root = HOST.folder / "src/greenroom"
    places: dict[str, int] = {}
    for path in _sources(HOST.folder):
        name = path.relative_to(root).as_posix().removesuffix(".py")
        if name not in NOT_KERNEL:
            name = name.partition("/")[0]
        places[name] = places.get(name, 0) + _code_lines(path)
    return places


def test_the_kernel_stays_within_its_budget() -> None:
    kernel = {name: lines for name, lines in _places().items() if name not in NOT_KERNEL}
    parts = {part: sum(kernel.pop(name) for name in names) for part, names in KERNEL.items()}
    parts |= kernel  # what is new and has no part yet
    total = sum(parts.values())
    said = ", ".join(f"{part} {lines}" for part, lines in parts.items())
    assert total <= KERNEL_LINES, f"the kernel has {total} lines of code, {KERNEL_LINES} are allowed: {said}"


def test_everything_that_is_no_kernel_exists() -> None:
    there = {path.name for path in (HOST.folder / "src/greenroom").iterdir()}
    assert NOT_KERNEL.keys() - _places().keys() - there == set()


def test_the_host_stays_within_its_budget() -> None:
    total = sum(_code_lines(p) for p in _sources(HOST.folder))
    assert total <= HOST_LINES, f"the host has {total} lines of code, {HOST_LINES} are allowed"


@pytest.mark.parametrize("path", SOURCES, ids=_label)
def test_a_file_stays_within_its_budget(path: Path) -> None:
    lines = 0 if path.name in FILES_OF_ANY_LENGTH else len(path.read_text().splitlines())
    assert lines <= FILE_LINES, f"{lines} lines, {FILE_LINES} are allowed: split it where a noun of the domain hides"


@pytest.mark.parametrize("path", SOURCES, ids=_label)
def test_a_function_stays_within_its_budget(path: Path) -> None:
    long = [
        f"line {node.lineno}: {node.name} has {lines}"
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (lines := _body_lines(node)) > FUNCTION_LINES
    ]
    _report(long, f"a function has at most {FUNCTION_LINES} lines")


# --- exemptions have reasons --------------------------------------------------------------

IGNORE = re.compile(r"#\s*type:\s*ignore(?P<code>\[[\w, -]+\])?(?P<reason>\s+#\s*\w.*)?")
NOQA = re.compile(r"#\s*noqa(?P<code>:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*)?(?P<reason>\W+\w.*)?", re.IGNORECASE)


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("path", SOURCES, ids=_label)
def test_every_exemption_has_a_code_and_a_reason_on_its_line(path: Path) -> None:
    wrong = [
        f"line {line}: {comment}"
        for line, comment in _comments(path)
        for pattern in (IGNORE, NOQA)
        if (found := pattern.search(comment)) and not (found["code"] and found["reason"])
    ]
    _report(wrong, "write `# type: ignore[code]  # why` and `# noqa: CODE - why`")


def test_a_waived_behaviour_has_a_reason_and_no_test_that_claims_it() -> None:
    waivers = tomllib.loads((ROOT / "tests/waivers.toml").read_text())
    claimed = {
        argument.value
        for path in ROOT.glob("tests/**/test_*.py")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "behaviour"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }
    assert list(waivers) == sorted(waivers)
    assert [i for i, reason in waivers.items() if not (isinstance(reason, str) and len(reason.split()) > 2)] == []
    assert claimed.intersection(waivers) == set()


# --- what the repository does not know ----------------------------------------------------

# In pieces, so that this file does not break its own rule.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~-])/(?:" + "|".join(["wo" + "rk", "ro" + "ot"]) + r")/"),
    "a registry's host": re.compile(
        "|".join(["py" + r"pi\.org", "python" + "hosted", "npm" + r"js\.", "deb" + r"ian\.org"])
    ),
    "the lock file": re.compile("uv" + r"\.lock"),
}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""  # a recorded binary


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names_what_is_not_part_of_the_project(what: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in _all_files()
        if path.name not in {".gitignore", "gitignore"}  # the second is copied by `plugins new`
        for number, line in enumerate(_text(path).splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    _report(wrong, f"{what} does not belong in the repository")


@pytest.mark.parametrize("path", SOURCES, ids=_label)
def test_the_source_cites_only_documents_of_the_repository(path: Path) -> None:
    known = {file.name for file in _all_files() if file.suffix == ".md"} | {"CLAUDE.md"}  # which Claude Code reads
    cited = {name.rpartition("/")[2] for name in re.findall(r"[\w/.-]+\.md\b", path.read_text())}
    _report(sorted(cited - known), "a reader cannot look these up")


@pytest.mark.parametrize("member", MEMBERS, ids=_label)
def test_a_distribution_is_typed_documented_and_licensed(member: Distribution) -> None:
    project = tomllib.loads((member.folder / "pyproject.toml").read_text())["project"]
    needed = ["README.md", "CHANGELOG.md", *(f"src/{package}/py.typed" for package in member.packages)]
    missing = [name for name in needed if not (member.folder / name).is_file()]
    assert (missing, project["license"], project["requires-python"]) == ([], "MIT", ">=3.11")
    assert "## Unreleased" in (member.folder / "CHANGELOG.md").read_text()


def test_the_repository_keeps_no_lock_file() -> None:
    assert [p for p in _all_files() if p.name == LOCK] == []
