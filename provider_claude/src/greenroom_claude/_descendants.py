"""Finding and ending what a process has started.

The agent puts its tools into process groups of their own, so they survive it: they are found by the chain of parents
while the agent lives, and by a marker in their environment afterwards. A process is identified by its id and the time
it was started; a zombie counts as ended.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping

import psutil

POLL = 0.01
"""Seconds between two looks; psutil's own wait would wait for a zombie that nobody reaps."""
_SIGNALS = ("terminate", "kill")


def descendants(pid: int, marker: Mapping[str, str]) -> list[psutil.Process]:
    """The processes below `pid`, and those that carry every variable of `marker`; `pid` and ourselves left out."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):  # then its children have other parents: the marker finds them
        found = {child.pid: child for child in psutil.Process(pid).children(recursive=True)}
    for process in psutil.process_iter() if marker else ():
        if process.pid not in found and _carries(process, marker):
            found[process.pid] = process
    return [process for number, process in found.items() if number not in {pid, psutil.Process().pid}]


def _carries(process: psutil.Process, marker: Mapping[str, str]) -> bool:
    try:
        env = process.environ()
    except (psutil.Error, OSError):  # gone, a zombie, or not ours to look into
        return False
    return all(env.get(name) == value for name, value in marker.items())


def end(processes: Iterable[psutil.Process], grace: float) -> list[psutil.Process]:
    """End `processes`: ask, wait `grace` seconds, force, wait once more. Returns those that are still there.

    Blocks for up to twice `grace`; psutil compares start times, so an id that was reused is never hit.
    """
    left = list(processes)
    for signal in _SIGNALS:
        for process in left:
            try:
                getattr(process, signal)()
            except psutil.Error:  # it has gone meanwhile, or is not ours; the wait below tells
                continue
        deadline = time.monotonic() + grace
        while (left := [process for process in left if _lives(process)]) and time.monotonic() < deadline:
            time.sleep(POLL)
    return left


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
