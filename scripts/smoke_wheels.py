"""Install the built wheels into a fresh environment and use them there.

    uv build --all-packages --wheel --out-dir WHEELS
    python scripts/smoke_wheels.py WHEELS [--constraints FILE]

Everything runs in a temporary folder outside the checkout, so that no `src` folder can
stand in for a file that a wheel forgot. Extras are left out on purpose: the command line
has to work with the required dependencies alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def packages_of(wheel: Path) -> list[str]:
    """The packages at the top of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted({n.split("/")[0] for n in archive.namelist() if n.count("/") == 1 and n.endswith("/__init__.py")})


def plugins_of(wheel: Path) -> list[str]:
    """The short names of the plugins that a wheel registers, from its entry points."""
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(n).decode() for n in archive.namelist() if n.endswith(".dist-info/entry_points.txt")]
    names, group = [], ""
    for line in "\n".join(texts).splitlines():
        if line.startswith("["):
            group = line.strip("[] ")
        elif group == "greenroom" and "=" in line:
            names.append(line.split("=")[0].strip())
    return names


def run(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]) -> str:
    """Run a command to its end and return what it printed; exit with its output if it fails."""
    print("+", *(Path(part).name if isinstance(part, Path) else part for part in command), flush=True)
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_import(python: Path, package: str, *, cwd: Path, env: Mapping[str, str]) -> None:
    """Import a package in the environment and see that it came from there and is typed."""
    code = f"import {package} as p; print(p.__file__)"
    file = Path(run([python, "-I", "-c", code], cwd=cwd, env=env).strip())
    if cwd not in file.parents:
        sys.exit(f"{package} was imported from {file}, not from the fresh environment")
    if not (file.parent / "py.typed").is_file():
        sys.exit(f"the wheel of {package} has no py.typed")


def check_listing(listing: str, expected: Sequence[str]) -> None:
    """See that `plugins list --json` printed JSON that names every installed plugin."""
    text = json.dumps(json.loads(listing))
    if missing := [name for name in expected if f'"{name}"' not in text]:
        sys.exit(f"`plugins list` does not show {', '.join(missing)}:\n{listing}")


def check_demo(wheels: Path, *, folder: Path, constraints: Sequence[str | Path], env: Mapping[str, str]) -> None:
    """Install `greenroom[standard]` alone, its plugins only from the wheels, and run the demo without an account."""
    scripts = folder / "standard" / ("Scripts" if os.name == "nt" else "bin")
    install = ["uv", "pip", "install", "--python", scripts / "python", "--find-links", wheels, *constraints]
    run(["uv", "venv", "--no-project", "--python", sys.executable, folder / "standard"], cwd=folder, env=env)
    run([*install, "greenroom[standard]"], cwd=folder, env=env)
    said = run([scripts / "greenroom", "run", "show me"], cwd=folder, env=env)
    log = run([scripts / "greenroom", "log", "last"], cwd=folder, env=env)
    more = run([scripts / "greenroom", "run", "--session", "last", "and then?"], cwd=folder, env=env)
    for text, output in (("words.py", said), ("> show me", log), ("report.py", more)):
        if text not in output:
            sys.exit(f"the demo does not show {text!r}:\n{output}")


def main() -> None:
    """Run every check; the first that fails ends the script with its reason."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path, help="the folder that holds the wheels")
    parser.add_argument("--constraints", type=Path, help="versions of the dependencies, as `uv export` writes them")
    args = parser.parse_args()
    wheels = sorted(args.wheels.resolve().glob("*.whl"))
    if not wheels:
        sys.exit(f"no wheel in {args.wheels}")
    with tempfile.TemporaryDirectory(prefix="greenroom-smoke-") as name:
        folder = Path(name).resolve()
        scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = scripts / "python"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GREENROOM_", "PYTHON", "VIRTUAL_ENV"))}
        env |= {"GREENROOM_HOME": str(folder / "data"), "GREENROOM_CONFIG_DIR": str(folder / "config")}
        constraints = ["--constraint", args.constraints.resolve()] if args.constraints else []
        run(["uv", "venv", "--no-project", "--python", sys.executable, folder / "venv"], cwd=folder, env=env)
        run(["uv", "pip", "install", "--python", python, *constraints, *wheels], cwd=folder, env=env)
        run([scripts / "greenroom", "--version"], cwd=folder, env=env)
        run([scripts / "greenroom", "--help"], cwd=folder, env=env)
        listing = run([scripts / "greenroom", "plugins", "list", "--json"], cwd=folder, env=env)
        check_listing(listing, [plugin for wheel in wheels for plugin in plugins_of(wheel)])
        for package in (package for wheel in wheels for package in packages_of(wheel)):
            check_import(python, package, cwd=folder, env=env)
        check_demo(args.wheels.resolve(), folder=folder, constraints=constraints, env=env)
    print(f"{len(wheels)} wheels work on their own")


if __name__ == "__main__":
    main()
