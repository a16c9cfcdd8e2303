"""Install greenroom with Claude Code from built wheels, run a prompt, take the provider away, and look again.

    uv build --all-packages --wheel --out-dir WHEELS
    python scripts/smoke_claude.py WHEELS [--constraints FILE]

The real binary comes from the wheel of `claude-agent-sdk`; the model is scripted, on loopback. Everything runs in a
temporary folder outside the checkout.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from loopback import ANSWER, LOOK, Stub, environment
from smoke_wheels import run

PROMPT = "What is in this folder?"


def main() -> None:
    """Run every check; the first that fails ends the script with its reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="the folder that holds the wheels")
    parser.add_argument("--constraints", type=Path, help="versions of the dependencies, as `uv export` writes them")
    args = parser.parse_args()
    constraints = ["--constraint", args.constraints.resolve()] if args.constraints else []
    with tempfile.TemporaryDirectory(prefix="greenroom-smoke-") as name, Stub([LOOK, ANSWER]) as stub:
        folder = Path(name).resolve()
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python, greenroom = scripts / "python", scripts / "greenroom"
        work = folder / "work"
        work.mkdir()
        (work / "hello.txt").touch()
        env = {k: v for k, v in environment(stub, folder).items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
        install = ["uv", "pip", "install", "--python", python, "--find-links", args.wheels.resolve(), *constraints]
        run(["uv", "venv", "--no-project", "--python", sys.executable, folder / "venv"], cwd=folder, env=env)
        run([*install, "greenroom[standard]", "greenroom-claude", "claude-agent-sdk"], cwd=folder, env=env)
        said = run([greenroom, "run", "--provider", "claude", PROMPT], cwd=work, env=env)
        expect("hello.txt", said)
        run(["uv", "pip", "uninstall", "--python", python, "greenroom-claude"], cwd=folder, env=env)
        session = said.split()[1]
        expect(session, run([greenroom, "sessions", "list", "--json"], cwd=work, env=env))
        expect(PROMPT, run([greenroom, "log", "last"], cwd=work, env=env))
        expect("greenroom-driver", run([greenroom, "plugins", "list", "--json"], cwd=work, env=env))
    print("Claude Code works from wheels, and its sessions stay without it")


def expect(text: str, output: str) -> None:
    """End the script if `text` is missing."""
    if text not in output:
        sys.exit(f"{text!r} is missing:\n{output}")


if __name__ == "__main__":
    main()
