"""`greenroom doctor`: each thing that can be wrong is found, named, and makes the exit status 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from greenroom._diagnostics import Diagnostics
from greenroom.cli import run


def findings(capsys, status: int) -> dict[str, list[dict[str, str]]]:
    assert run(["doctor", "--json"]) == status
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(capsys.readouterr().out):
        found.setdefault(finding["check"], []).append(finding)
    return found


def problem(capsys, check: str) -> dict[str, str]:
    found = [finding for finding in findings(capsys, 1)[check] if finding["verdict"] == "problem"]
    assert len(found) == 1
    assert found[0]["hint"]
    return found[0]


@pytest.fixture
def data(user_folders: Path) -> Path:
    (user_folders / "data").mkdir(mode=0o700)
    return user_folders / "data"


@pytest.fixture
def user_file(user_folders: Path) -> Path:
    (user_folders / "config").mkdir()
    return user_folders / "config" / "greenroom.toml"


def test_a_fresh_installation_is_fine_and_nothing_is_created(user_folders: Path, capsys) -> None:
    found = findings(capsys, 0)
    assert {f["verdict"] for check in found.values() for f in check} <= {"ok", "note"}
    assert not (user_folders / "data").exists()
    assert run(["doctor"]) == 0
    assert "data directory" in capsys.readouterr().out


def test_a_data_directory_that_is_a_file_is_a_problem(user_folders: Path, capsys) -> None:
    (user_folders / "data").write_text("")
    problem(capsys, "data directory")


def test_a_data_directory_that_others_may_write_is_a_problem(data: Path, capsys) -> None:
    data.chmod(0o777)
    assert "chmod 700" in problem(capsys, "data directory")["hint"]


def test_broken_settings_are_one_problem(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins\n")
    found = findings(capsys, 1)
    problems = [f for check in found.values() for f in check if f["verdict"] == "problem"]
    assert [f["check"] for f in problems] == ["settings"]
    assert f"{user_file}:1:9" in problems[0]["text"]


def test_a_wrong_host_key_in_a_plugins_table_is_a_problem(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins.x]\nguard = 1\n")
    assert "guard: must be true or false" in problem(capsys, "settings")["text"]


def test_a_project_that_is_not_trusted_is_a_problem(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "greenroom.toml").write_text("[plugins]\nload = ['./audit.py']\n")
    (tmp_path / "audit.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    assert "greenroom trust add" in problem(capsys, "trust")["hint"]
    assert run(["trust", "add", "--yes", str(tmp_path)]) == 0
    capsys.readouterr()
    assert findings(capsys, 0)["trust"][0]["verdict"] == "ok"


def test_a_plugin_that_failed_the_last_time_is_a_problem(site, data: Path, capsys) -> None:
    site.dist("dist-a", entries={"audit": "audit_mod"})
    record = {
        "id": "dist-a:audit",
        "version": "1.0",
        "target": "audit_mod",
        "state": "failed",
        "error": "it broke",
        "hint": "mend it",
    }
    (data / "plugins.json").write_text(
        json.dumps({"format": 1, "time": "2026-01-02T03:04:05+00:00", "plugins": [record]})
    )
    found = problem(capsys, "plugins")
    assert found["text"] == "dist-a:audit is failed: it broke (2026-01-02T03:04:05+00:00)"
    assert found["hint"] == "mend it"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"plugins": 1}', "\x00"])
def test_a_torn_record_of_the_last_host_does_not_matter(data: Path, content: str, capsys) -> None:
    (data / "plugins.json").write_text(content)
    findings(capsys, 0)


def test_settings_of_a_plugin_that_is_not_installed_are_a_note(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins.typo]\nx = 1\n")
    found = findings(capsys, 0)["settings of plugins"][0]
    assert (found["verdict"], found["text"]) == ("note", "[plugins.typo] belongs to no installed plugin")
    assert f"{user_file}:1" in found["hint"]


def test_a_clash_of_commands_is_a_problem_that_names_both(site, capsys) -> None:
    site.dist("dist-a", entries="[greenroom.commands]\ntrust = m:c\n")
    assert problem(capsys, "commands")["text"] == "the command 'trust' comes from dist-a and greenroom"


def test_recorded_errors_are_a_note_and_can_be_shown(data: Path, capsys) -> None:
    diagnostics = Diagnostics(data, clock=lambda: 0.0)
    for number in range(3):
        diagnostics.record("hook_failed", f"boom {number}\ntraceback", plugin="d:x")
    assert findings(capsys, 0)["errors"][0]["text"] == "3 recorded"
    assert run(["doctor", "--errors"]) == 0
    assert "1970-01-01T00:00:00.000Z  hook_failed  d:x     boom 0\n" in capsys.readouterr().out
    assert run(["doctor", "--errors", "--json", "--limit", "2"]) == 0
    assert [e["text"] for e in json.loads(capsys.readouterr().out)] == ["boom 1\ntraceback", "boom 2\ntraceback"]


def test_no_recorded_errors_is_said(capsys) -> None:
    assert run(["doctor", "--errors"]) == 0
    assert "no errors are recorded" in capsys.readouterr().out


def test_doctor_imports_no_plugin(site, capsys) -> None:
    site.dist(
        "dist-a",
        entries="[greenroom]\nx = doctor_mod\n[greenroom.commands]\nx = doctor_mod:c\n",
        modules={"doctor_mod.py": "import os; os._exit(9)"},
    )
    assert run(["doctor"]) == 0
