"""`greenroom trust`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from greenroom.cli import run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "greenroom.toml").write_text("[plugins]\nload = ['./audit.py']\n")
    (folder / "audit.py").write_text("")
    return folder


def listed(capsys) -> list[dict[str, object]]:
    capsys.readouterr()
    assert run(["trust", "list", "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_add_shows_what_it_trusts_and_list_shows_it_again(project: Path, capsys) -> None:
    assert run(["trust", "add", "--yes", str(project)]) == 0
    out = capsys.readouterr().out
    assert f"{project}: the settings that providers find in this folder" in out
    assert "  audit.py\n" in out
    assert [(row["path"], row["kind"], row["files"], row["changes"]) for row in listed(capsys)] == [
        (str(project), "folder", [], []),
        (str(project / "greenroom.toml"), "settings", ["audit.py", "greenroom.toml"], []),
    ]


def test_list_says_what_changed(project: Path, capsys) -> None:
    run(["trust", "add", "--yes", str(project / "greenroom.toml")])
    (project / "audit.py").write_text("x = 1")
    capsys.readouterr()
    assert run(["trust", "list"]) == 0
    assert "audit.py (changed)" in capsys.readouterr().out
    assert listed(capsys)[0]["changes"] == ["audit.py (changed)"]


def test_list_says_what_is_gone_or_broken(project: Path, capsys) -> None:
    run(["trust", "add", "--yes", str(project)])
    (project / "greenroom.toml").write_text("[plugins")
    assert "broken TOML" in str(listed(capsys)[1]["changes"])
    project.rename(project.parent / "moved")
    assert [row["changes"] for row in listed(capsys)] == [["gone"], ["gone"]]


def test_remove_takes_it_back(project: Path, capsys) -> None:
    run(["trust", "add", "--yes", str(project)])
    assert run(["trust", "remove", str(project)]) == 0
    assert listed(capsys) == []


def test_removing_what_is_not_trusted_is_an_error(project: Path, capsys) -> None:
    assert run(["trust", "remove", str(project)]) == 1
    assert "is not trusted" in capsys.readouterr().err


def test_adding_nothing_is_an_error(tmp_path: Path, capsys) -> None:
    assert run(["trust", "add", "--yes", str(tmp_path / "gone")]) == 1
    assert "nothing to trust here" in capsys.readouterr().err


def test_without_a_terminal_nothing_is_trusted(project: Path, capsys) -> None:
    assert run(["trust", "add", str(project)]) == 1
    assert f"greenroom trust add --yes {project}" in capsys.readouterr().err
    assert listed(capsys) == []


def test_a_damaged_store_is_an_error_that_says_what_to_do(user_folders: Path, capsys) -> None:
    (user_folders / "data").mkdir()
    (user_folders / "data" / "trust.json").write_text("{")
    assert run(["trust", "list"]) == 1
    assert "the store is damaged" in capsys.readouterr().err
