"""`greenroom settings`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from greenroom._diagnostics import HIDDEN
from greenroom._settings.rules import TABLES
from greenroom.cli import run

PLUGIN = """
    from pydantic import BaseModel
    import greenroom

    class Model(BaseModel):
        limit: int = 3

    @greenroom.hookimpl
    def plugin_settings():
        return Model
"""


@pytest.fixture
def user_file(user_folders: Path) -> Path:
    (user_folders / "config").mkdir()
    return user_folders / "config" / "greenroom.toml"


def output(capsys, *args: str) -> object:
    assert run(args) == 0
    return json.loads(capsys.readouterr().out)


def test_show_names_the_line_of_every_value(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins]\nstrict = true\n[plugins.'d:x'.rules]\n'a b' = [1]\n")
    assert run(["settings", "show"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["plugins.strict", "true", f"{user_file}:2"] in lines
    assert ["plugins.import_timeout", "10.0", "default"] in lines
    assert [c for line in lines if "rules" in line[0] for c in line[:3]] == ['plugins."d:x".rules."a', 'b"', "[1]"]


def test_show_hides_secrets_in_every_form(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins.x]\napi_key = 'hunter2'\nmax_tokens = 7\n[plugins.x.auth]\npassword = 'hunter2'\n")
    assert run(["settings", "show"]) == 0
    assert "hunter2" not in capsys.readouterr().out
    rows = {row["key"]: row["value"] for row in output(capsys, "settings", "show", "--json")}  # type: ignore[attr-defined]
    assert rows["plugins.x.api_key"] == rows["plugins.x.auth.password"] == HIDDEN
    assert rows["plugins.x.max_tokens"] == 7


def test_a_broken_file_is_an_error_with_place_and_hint(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins\n")
    assert run(["settings", "show"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {user_file}:1:9: broken TOML")
    assert "hint: correct line 1" in error


def test_dates_and_infinities_can_be_shown(user_file: Path, capsys) -> None:
    user_file.write_text("[plugins.x]\nday = 2026-01-02\nat = 10:00:00\nmuch = inf\n")
    assert run(["settings", "show"]) == 0
    assert "2026-01-02" in capsys.readouterr().out
    rows = {row["key"]: row["value"] for row in output(capsys, "settings", "show", "--json")}  # type: ignore[attr-defined]
    assert (rows["plugins.x.day"], rows["plugins.x.at"], rows["plugins.x.much"]) == ("2026-01-02", "10:00:00", "inf")


def test_the_schema_without_a_plugin_is_that_of_the_file(capsys) -> None:
    schema = output(capsys, "settings", "schema")
    properties = schema["properties"]["plugins"]["properties"]  # type: ignore[index]
    assert set(properties) == {"load", "allow", "deny", "strict", "import_timeout"}
    section = schema["properties"]["plugins"]["additionalProperties"]["properties"]  # type: ignore[index]
    assert set(section) == {"guard", "required", "timeout_cap"}


def test_the_schema_knows_every_table_that_a_settings_file_may_have(capsys) -> None:
    schema = output(capsys, "settings", "schema")
    tables = schema["properties"]  # type: ignore[index]
    assert {name: set(table["properties"]) for name, table in tables.items()} == {n: set(k) for n, k in TABLES.items()}
    assert {name for name, table in tables.items() if table["additionalProperties"]} == {"plugins"}


@pytest.mark.parametrize("name", ["audit", "dist-a:audit", "dist-a"])
def test_the_schema_of_a_plugin_is_its_models_with_the_hosts_keys(site, capsys, name: str) -> None:
    site.dist("dist-a", entries={"audit": "audit_mod"}, modules={"audit_mod.py": PLUGIN})
    schema = output(capsys, "settings", "schema", name)
    assert set(schema["properties"]) == {"limit", "guard", "required", "timeout_cap"}  # type: ignore[index]


def test_the_schema_is_shown_while_the_settings_are_wrong(site, user_file: Path, capsys) -> None:
    user_file.write_text("[plugins.audit]\nlimit = 'many'\n")
    site.dist("dist-a", entries={"audit": "audit_mod"}, modules={"audit_mod.py": PLUGIN})
    assert "limit" in output(capsys, "settings", "schema", "audit")["properties"]  # type: ignore[index]


def test_a_plugin_without_a_model_takes_the_hosts_keys_only(site, capsys) -> None:
    module = "import greenroom\n@greenroom.hookimpl\ndef activate(scope):\n    raise AssertionError\n"
    site.dist("dist-a", entries={"audit": "audit_mod"}, modules={"audit_mod.py": module})
    assert set(output(capsys, "settings", "schema", "audit")["properties"]) == {"guard", "required", "timeout_cap"}  # type: ignore[index]


def test_a_plugin_that_cannot_be_imported_is_an_error_that_names_it(site, capsys) -> None:
    site.dist("dist-a", entries={"audit": "audit_mod"}, modules={"audit_mod.py": "raise SystemExit(3)"})
    assert run(["settings", "schema", "audit"]) == 1
    assert "dist-a:audit" in capsys.readouterr().err


def test_a_denied_plugin_is_not_imported_for_its_schema(site, capsys) -> None:
    site.dist("dist-a", entries={"audit": "audit_mod"}, modules={"audit_mod.py": "raise SystemExit(3)"})
    assert run(["--no-plugins=audit", "settings", "schema", "audit"]) == 1
    assert "may not be imported: denied" in capsys.readouterr().err
    assert "audit_mod" not in sys.modules


def test_a_project_that_is_not_trusted_is_not_imported_for_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    (tmp_path / "greenroom.toml").write_text("[plugins]\nload = ['./audit.py']\n")
    (tmp_path / "audit.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    assert run(["settings", "schema", "audit"]) == 1
    assert "greenroom trust add" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_an_unknown_plugin_is_an_error(capsys) -> None:
    assert run(["settings", "schema", "no-such-plugin"]) == 1
    assert "no-such-plugin" in capsys.readouterr().err
