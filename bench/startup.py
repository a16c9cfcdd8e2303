"""What a command costs before it does anything: whole processes, against `pytest --version`.

uv run python bench/startup.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from _bench import Bench, human, seconds_per_process

DISTRIBUTIONS = 1_000
PLUGIN_EVERY = 50
"""Of the made-up distributions every fiftieth brings a plugin and a command."""


def fake_distributions(folder: Path) -> None:
    """Write the metadata of installed distributions; importing one of their plugins ends the process."""
    for number in range(DISTRIBUTIONS):
        info = folder / f"fake_{number:04}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-{number:04}\nVersion: 1.0\n")
        (info / "RECORD").write_text("")
        groups = f"[console_scripts]\nfake-{number:04} = fake_plugin:main\n"
        if number % PLUGIN_EVERY == 0:
            groups += f"\n[greenroom]\nfake-{number:04} = fake_plugin\n"
            groups += f"\n[greenroom.commands]\nfake-{number:04} = fake_plugin:main\n"
        (info / "entry_points.txt").write_text(groups)
    (folder / "fake_plugin.py").write_text('import os\nos.write(2, b"a plugin was imported\\n")\nos._exit(70)\n')


def main() -> None:
    """Measure and print."""
    scripts = Path(sys.executable).parent
    bench = Bench()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crowd = folder / "crowd"
        crowd.mkdir()
        fake_distributions(crowd)
        env = {k: v for k, v in os.environ.items() if not k.startswith("GREENROOM_")}
        env |= {"GREENROOM_HOME": str(folder / "data"), "GREENROOM_CONFIG_DIR": str(folder / "config")}
        commands: dict[str, list[str | Path]] = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "pytest --version": [scripts / "pytest", "--version"],
            "greenroom --version": [scripts / "greenroom", "--version"],
            "greenroom --help": [scripts / "greenroom", "--help"],
            "greenroom plugins list": [scripts / "greenroom", "plugins", "list"],
        }
        alone = seconds_per_process(commands, env=env, cwd=folder)
        crowded = seconds_per_process(
            {name: commands[name] for name in ("greenroom --version", "greenroom --help", "greenroom plugins list")},
            env=env | {"PYTHONPATH": str(crowd)},
            cwd=folder,
        )
    reference = 0.9 * alone["pytest --version"]
    goals = {"greenroom --version": reference, "greenroom --help": reference}
    for name, seconds in alone.items():
        text = "0.9 x pytest --version" if name in goals else None
        bench.add(name, seconds, goal=goals.get(name), goal_text=text)
    limit = reference + 0.060
    for name, seconds in crowded.items():
        goal = limit if name.endswith("list") else None
        text = None if goal is None else f"{human(reference)} + 60 ms"
        bench.add(f"{name}, {DISTRIBUTIONS:,} distributions", seconds, goal=goal, goal_text=text)
    bench.report()


if __name__ == "__main__":
    main()
