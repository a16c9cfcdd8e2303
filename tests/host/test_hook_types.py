"""Type checkers refuse a wrong implementation and a wrong call, at its line, and accept the right ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WRONG = ROOT / "tests/data/typing/wrong.py"
RIGHT = sorted((ROOT / "tests/typing").glob("*.py"))

pytestmark = pytest.mark.timeout(300)  # a cold cache on a busy machine


def run(*command):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def mypy_lines(tmp_path_factory):
    """Give the lines with errors, by file; both files in one run, as most of it is the start."""
    done = run("mypy", "--cache-dir", tmp_path_factory.mktemp("mypy"), WRONG, *RIGHT)
    found: dict[str, set[int]] = {}
    for file, line in re.findall(r"^(\S+?):(\d+): error:", done.stdout, re.MULTILINE):
        found.setdefault(Path(file).name, set()).add(int(line))
    assert done.stderr == ""
    return found


@pytest.fixture(scope="module")
def pyright_lines():
    """Give the lines with errors, by file."""
    done = run("pyright", "--outputjson", WRONG, *RIGHT)
    found: dict[str, set[int]] = {}
    for problem in json.loads(done.stdout)["generalDiagnostics"]:
        if problem["severity"] == "error":
            found.setdefault(Path(problem["file"]).name, set()).add(problem["range"]["start"]["line"] + 1)
    return found


EXPECTED = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if "# wrong: " in line}


@pytest.mark.parametrize("checker", ["mypy_lines", "pyright_lines"])
def test_a09_type_checkers_refuse_exactly_the_wrong_lines(request, checker):
    assert len(EXPECTED) >= 10
    assert request.getfixturevalue(checker) == {"wrong.py": EXPECTED}
