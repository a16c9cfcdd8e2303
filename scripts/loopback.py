"""Run a command in front of a scripted model on this machine: the real Claude Code, no account and no network.

    uv run python scripts/loopback.py greenroom run --provider claude "What is in this folder?"

The model always looks into the folder first and then says what it is. Nothing of the user's configuration is read or
written: home, sessions and settings are in a folder that is deleted at the end, unless GREENROOM_LOOPBACK names one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/providers/claude"))

from stub_anthropic import Stub, text, tool_use, turn  # noqa: E402 - the tests own the scripted model

LOOK = turn(
    text("I will look into the folder first."), tool_use("Bash", {"command": "ls", "description": "List the folder"})
)
ANSWER = turn(text("These are its files. I am a script on loopback, so that is all I can say about them."))
DUMMY_KEY = "sk-ant-loopback"


def environment(stub: Stub, folder: Path) -> dict[str, str]:
    """What points the agent at the scripted model, and greenroom at a folder of its own."""
    return {
        **os.environ,
        "ANTHROPIC_BASE_URL": stub.url,
        "ANTHROPIC_API_KEY": DUMMY_KEY,
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "TMPDIR": str(folder),
        "GREENROOM_HOME": str(folder / "greenroom"),
        "GREENROOM_CONFIG_DIR": str(folder / "settings"),
    }


def main() -> int:
    """Run the command; return its exit status."""
    if len(sys.argv) == 1:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="loopback-") as temporary, Stub([LOOK, ANSWER]) as stub:
        folder = Path(os.environ.get("GREENROOM_LOOPBACK") or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        return subprocess.run(sys.argv[1:], env=environment(stub, folder), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
