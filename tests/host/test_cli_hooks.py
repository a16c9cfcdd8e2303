"""`greenroom hooks` says what the hooks are without a plugin, and who answers them, where and why."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from greenroom import hookspecs
from greenroom._hooks import declared_specs
from greenroom.cli import run

PLUGIN = "from greenroom import hookimpl\n\n@hookimpl{options}\n{colour}def activate(scope):\n    pass\n"


@pytest.fixture
def settings(tmp_path: Path, user_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user's settings file, and stand in a folder without a project."""
    monkeypatch.chdir(tmp_path)
    (user_folders / "config").mkdir()
    return user_folders / "config/greenroom.toml"


def load(settings: Path, folder: Path, order: str = "", **sources: str) -> None:
    """Write plugins as files, and settings that load them and nothing else."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    files = [str(folder / f"{name}.py") for name in sources]
    ids = [f"local:{name}" for name in sources]
    settings.write_text(f"[plugins]\nload = {json.dumps(files)}\nallow = {json.dumps(ids)}\n{order}")


def explained(capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    assert run(["hooks", "explain", name, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_every_hook_is_listed_with_its_exact_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hooks", "list", "--json"]) == 0
    listed = {h["name"]: h for h in json.loads(capsys.readouterr().out)["hooks"]}
    assert set(listed) == {spec.name for spec in declared_specs(hookspecs)}
    for name, hook in listed.items():
        assert hook["arguments"] == list(inspect.signature(getattr(hookspecs, name)).parameters)
        assert hook["summary"] == (getattr(hookspecs, name).__doc__ or "").splitlines()[0]
    assert listed["activate"]["kind"] == "setup"
    assert listed["activate"]["timeout"] == 30.0
    assert listed["activate"]["on_failure"] == "what is being set up fails"


def test_the_list_loads_no_plugin(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(settings, tmp_path, bomb="import os\nos._exit(9)\n")
    assert run(["hooks", "list"]) == 0
    assert "activate(scope)" in capsys.readouterr().out


def test_explain_shows_the_implementations_in_order_and_why(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(
        settings,
        tmp_path,
        order='[hooks.order]\nactivate = ["zoe"]\n',
        ada=PLUGIN.format(options="", colour="async "),
        bob=PLUGIN.format(options='(before="ada", timeout=3)', colour="async "),
        zoe=PLUGIN.format(options="(thread=True)", colour=""),
    )
    answer = explained(capsys, "activate")
    found = answer["implementations"]
    assert [(i["place"], i["plugin"]) for i in found] == [(1, "local:zoe"), (2, "local:bob"), (3, "local:ada")]
    assert [i["how"] for i in found] == ["def in a thread", "async def", "async def"]
    assert [i["timeout"] for i in found] == [30.0, 3.0, 30.0]
    assert found[0]["why"] == "settings place 1; id local:zoe"
    assert found[1]["why"] == "before ada; id local:bob"
    assert found[1]["where"] == f"{tmp_path / 'bob.py'}:3"
    assert run(["hooks", "explain", "activate"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("activate(scope): ")
    assert text.index("local:zoe") < text.index("local:bob") < text.index("local:ada")


def test_explain_names_the_plugins_that_are_not_active(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(settings, tmp_path, broken="raise ValueError('no')\n")
    answer = explained(capsys, "activate")
    assert answer["implementations"] == []
    assert "ValueError: no" in answer["not_active"]["local:broken"]
    assert run(["hooks", "explain", "activate"]) == 0
    assert "nobody implements it" in capsys.readouterr().out


def test_an_unknown_hook_is_an_error_with_the_nearest_name_and_loads_nothing(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load(settings, tmp_path, bomb="import os\nos._exit(9)\n")
    assert run(["hooks", "explain", "activat"]) == 1
    assert "activate" in capsys.readouterr().err
