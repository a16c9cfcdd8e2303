"""A test that hangs fails with its name, and the others run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = """
import anyio
import pytest

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_shielded():
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()

def test_afterwards():
    pass
"""


def test_a_hung_test_is_named_whatever_it_waits_for_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-n", "1", "--timeout=1", "-p", "no:randomly"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 1
    for backend in ("asyncio", "trio"):
        assert f"crashed while running 'test_it.py::test_shielded[{backend}]'" in done.stdout
    assert "1 passed" in done.stdout
