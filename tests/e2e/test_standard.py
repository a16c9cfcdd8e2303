"""What `pip install greenroom[standard]` brings."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = ("driver", "timeline", "manager", "control", "normalize", "session_invariants", "sqlite", "replay")


def test_the_extra_standard_lists_those_of_the_embedded_set_that_exist() -> None:
    project = tomllib.loads((ROOT / "host/pyproject.toml").read_text())["project"]
    files = (ROOT / "plugins" / name / "pyproject.toml" for name in EMBEDDED)
    existing = {tomllib.loads(file.read_text())["project"]["name"] for file in files if file.exists()}
    assert set(project["optional-dependencies"]["standard"]) == existing
