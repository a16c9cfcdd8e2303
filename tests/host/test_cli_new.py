"""`greenroom plugins new` writes a plugin distribution that works, is tested, and has a name of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from greenroom._version import __version__
from greenroom.cli import run
from greenroom.cli._template import write_plugin
from greenroom.errors import GreenroomError


@pytest.mark.parametrize(
    ("text", "distribution", "package", "name"),
    [
        ("audit", "greenroom-audit", "greenroom_audit", "audit"),
        ("greenroom-audit", "greenroom-audit", "greenroom_audit", "audit"),
        ("acme-audit", "acme-audit", "acme_audit", "acme-audit"),
        ("Acme_Audit.Log", "acme-audit-log", "acme_audit_log", "acme-audit-log"),
    ],
)
def test_the_name_of_the_plugin_is_derived_from_the_distribution(
    tmp_path: Path, text: str, distribution: str, package: str, name: str
) -> None:
    project = write_plugin(text, tmp_path)
    assert project.folder == tmp_path / distribution
    assert (project.distribution, project.package, project.name) == (distribution, package, name)
    metadata = tomllib.loads((project.folder / "pyproject.toml").read_text())["project"]
    assert metadata["name"] == distribution
    assert metadata["entry-points"]["greenroom"] == {name: package}
    assert metadata["dependencies"] == [f"greenroom>={__version__}"]
    assert (project.folder / "src" / package / "__init__.py").is_file()


def test_every_file_is_filled_in(tmp_path: Path) -> None:
    folder = write_plugin("audit", tmp_path).folder
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {
        ".gitignore",
        "LICENSE",
        "README.md",
        "pyproject.toml",
        "src/greenroom_audit/__init__.py",
        "src/greenroom_audit/py.typed",
        "tests/conftest.py",
        "tests/test_plugin.py",
    }
    for file in files:
        text = (folder / file).read_text()
        assert "{{" not in text
        assert "PACKAGE" not in text


def test_a_folder_that_is_there_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "greenroom-audit").mkdir()
    (tmp_path / "greenroom-audit/mine.txt").write_text("mine")
    with pytest.raises(GreenroomError, match="is there already"):
        write_plugin("audit", tmp_path)
    assert [p.name for p in (tmp_path / "greenroom-audit").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("text", ["", "1st", "a b", "../up", "a/b", "ä", "-x", "x-", "load", "import-timeout"])
def test_a_name_that_cannot_be_used_writes_nothing(tmp_path: Path, text: str) -> None:
    if text == "import-timeout":
        text = "greenroom-import-timeout"
    with pytest.raises(GreenroomError) as caught:
        write_plugin(text, tmp_path)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GreenroomError, match="cannot be written"):
        write_plugin("audit", tmp_path / "missing")


def test_the_command_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "new", "audit", "--into", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "distribution greenroom-audit, plugin 'audit'" in said
    assert f"greenroom plugins install -e {tmp_path}/greenroom-audit" in said
    assert run(["plugins", "new", "audit", "--into", str(tmp_path)]) == 1


def own_tests(folder: Path, source: Path) -> str:
    """Run the tests of a written plugin as its author would, with `source` on the path."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("uv") is None, reason="building a wheel needs uv")
def test_the_plugin_is_built_installed_listed_active_and_its_own_tests_pass(tmp_path: Path) -> None:
    folder = write_plugin("acme-audit", tmp_path).folder
    subprocess.run(["uv", "build", "--quiet", "--wheel", "--out-dir", tmp_path, folder], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:  # what an installer does with a pure wheel
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())
        archive.extractall(installed)
    shutil.rmtree(folder / "src")
    code = "from greenroom.cli import main; main()"
    env = {**os.environ, "PYTHONPATH": str(installed)}
    for args in (["check", "acme-audit"], ["list"]):
        done = subprocess.run(
            [sys.executable, "-c", code, "plugins", *args, "--json"],
            capture_output=True,
            text=True,
            env=env,
            cwd=tmp_path,
            check=False,
        )
        rows = {r["id"]: r for r in json.loads(done.stdout)["plugins"]}
        assert rows["acme-audit:acme-audit"]["state"] == "active", done.stderr
    assert "5 passed" in own_tests(folder, installed)
