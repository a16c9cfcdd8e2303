"""The script that records scenarios again and says what changed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "record_claude.py"


@pytest.fixture
def script(monkeypatch):
    found = importlib.util.spec_from_file_location("record_claude", SCRIPT)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "record_claude", module)  # a dataclass looks up its own module
    found.loader.exec_module(module)
    return module


def test_new_and_lost_kinds_and_fields_are_named(script) -> None:
    def said(**frame):
        return {"dir": "out", "msg": frame}

    old = script.shapes([said(type="result", subtype="success", usage={"a": 1}), said(type="gone")])
    new = script.shapes([said(type="result", subtype="success", usage={"b": 1}), said(type="system", subtype="x")])
    told = script.differences(old, new)
    assert told == ["+ system/x", "- gone", "  result/success: +usage.b -usage.a"]


@pytest.mark.asyncio
@pytest.mark.timeout(60)
async def test_a_scenario_recorded_again_has_the_shapes_of_the_stored_one(script, tmp_path: Path, capsys) -> None:
    await script.main(tmp_path / "out", ["permission_allow"], script.real_binary())
    assert "as before" in capsys.readouterr().out
    assert str(tmp_path) not in (tmp_path / "out" / "permission_allow.jsonl").read_text()
