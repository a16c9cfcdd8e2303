"""The run without an account, as README and docs print it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b\d+\.\d s\b|\d+ tokens in|\d+ out\b")


def blocks(page: str, kind: str) -> list[str]:
    return [text for found, text in BLOCK.findall((ROOT / page).read_text()) if found == kind]


def steady(text: str) -> str:
    """The output without what differs from run to run."""
    return CHANGING.sub("…", text).strip()


@pytest.mark.timeout(120)
def test_the_run_without_an_account_works_as_printed(tmp_path: Path) -> None:
    (command,) = [block for block in blocks("README.md", "bash") if "loopback.py" in block]
    assert command in blocks("docs/claude.md", "bash")
    env = {**os.environ, "UV_NO_SYNC": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["bash", "-euc", command], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (printed,) = blocks("docs/claude.md", "text")
    assert steady(done.stdout) == steady(printed)
