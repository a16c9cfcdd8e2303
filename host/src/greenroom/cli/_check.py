"""Load plugins in another process, which may die or hang without harm, and say how each of them went."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from greenroom._trust import STORE_NAME
from greenroom.cli._state import CliState
from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from greenroom import Host

Result = dict[str, object]

TAIL: Final = 20  # lines of a dead process's output; what it said last is what matters


@dataclass(frozen=True, slots=True)
class _Run:
    """How one process ended: with results, or with what can be said about its death."""

    results: list[Result] | None
    death: str = ""


def check_plugins(state: CliState, name: str | None, timeout: float) -> list[Result]:
    """Load all plugins that may load, in a process of their own, and return their records.

    If that process dies or hangs, each plugin is loaded in a process of its own, so that the
    one to blame is known.

    Args:
        state: of this command.
        name: report this plugin only (id, short name or distribution).
        timeout: in seconds, for each process.

    Raises:
        GreenroomError: there is no such plugin, or the settings are broken.
    """
    from greenroom._finding.selection import choose
    from greenroom.cli._survey import candidates, the_one

    settings = state.settings()
    found = candidates(settings)
    wanted = the_one(found, name).id if name is not None else None
    together = _run(state, timeout)
    if together.results is not None:
        return [r for r in together.results if wanted in (None, r["id"])]
    results: list[Result] = []
    selection = choose(found, settings.plugins)
    for blocked, why in selection.blocked:
        if wanted in (None, blocked.id):
            results.append({"id": blocked.id, "state": "blocked", "error": why})
    for candidate in (c for c in selection.chosen if wanted in (None, c.id)):
        alone = replace(state, overrides={**state.overrides, "plugins.allow": json.dumps([candidate.id])})
        run = _run(alone, timeout, keep=False)
        if run.results is None:
            hint = f"keep it out: greenroom plugins disable {candidate.id}"
            results.append({"id": candidate.id, "state": "failed", "error": run.death, "hint": hint})
        else:
            results += [r for r in run.results if r["id"] == candidate.id]
    return results


def _run(state: CliState, timeout: float, *, keep: bool = True) -> _Run:
    """Load in another process; with `keep` the outcome is what `plugins list` shows from now on."""
    with tempfile.TemporaryDirectory(prefix="greenroom-check-") as folder:
        output, answer = Path(folder) / "output", Path(folder) / "answer.json"
        data = state.data_directory
        if not keep:
            data = Path(folder) / "data"
            data.mkdir()
            if (state.data_directory / STORE_NAME).exists():
                shutil.copy(state.data_directory / STORE_NAME, data)  # what is trusted there is trusted here
        order = {
            "answer": str(answer),
            "data": str(data),
            "no_plugins": state.no_plugins,
            "overrides": dict(state.overrides),
        }
        command = [sys.executable, "-m", "greenroom.cli._check", json.dumps(order)]
        with output.open("wb") as sink:
            child = subprocess.Popen(
                command,
                cwd=state.cwd,
                env=dict(state.environ),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
            try:
                child.wait(timeout)
                death = f"the process ended with exit status {child.returncode} while plugins were loaded"
            except subprocess.TimeoutExpired:
                death = f"the process did not end within {timeout:g} s"
            finally:
                child.kill()
                child.wait()
        lines = output.read_text(errors="replace").splitlines()
        for line in lines[-TAIL:]:
            click.echo(line, err=True)
        if not answer.exists():
            return _Run(None, death)
        results = json.loads(answer.read_text())
        if isinstance(results, str):
            raise GreenroomError(f"the plugins cannot be checked: {results}", hint="the traceback stands above")
        return _Run(results)


def main(order: Mapping[str, object]) -> None:
    """Be the other process: load, write the records, leave without waiting for what plugins left behind."""
    import anyio

    overrides = order["overrides"]
    assert isinstance(overrides, dict)  # noqa: S101 - written by `_run`
    state = CliState(Path.cwd(), dict(os.environ), no_plugins=str(order["no_plugins"]), overrides=overrides)
    try:
        results: list[Result] | str = anyio.run(_load, state, Path(str(order["data"])))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no plugin's death, and must not be taken for one
        traceback.print_exc()
        results = f"{type(error).__name__}: {error}"
    answer = Path(str(order["answer"]))
    answer.with_suffix(".tmp").write_text(json.dumps(results))
    answer.with_suffix(".tmp").replace(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread that a plugin left would keep the process


async def _load(state: CliState, data: Path) -> list[Result]:
    from greenroom import Host

    host = Host(state.settings(), data_directory=data)
    try:
        async with host:
            loaded = _records(host)
    except GreenroomError as error:  # a required plugin is missing, or the project is not trusted
        refused: Result = {"state": "failed", "error": str(error.args[0]), "hint": error.hint}
        return [r if r["state"] == "failed" else {**r, **refused} for r in _records(host)] or [
            {"id": "host", **refused}
        ]
    after = {r["id"]: r for r in _records(host)}
    return [after[r["id"]] if after[r["id"]]["state"] == "failed" else r for r in loaded]


def _records(host: Host) -> list[Result]:
    return [record.to_json() for record in host.plugins()]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
