"""The processes of a session: when one started, and how those of a dead owner are ended.

A process id alone identifies nothing, since ids are used again; with the time at which it started it does. On Linux
all of it is read from `/proc`; elsewhere only the recorded process and its group are found, through `ps`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from greenroom.sessions import DeadOwner, ProcessNotEnded

TERM_WAIT: Final = 5.0
KILL_WAIT: Final = 5.0
"""Seconds after each signal (section 9 of the architecture)."""
POLL: Final = 0.02
"""Seconds between two looks at a process that was told to end; it is not our child, so nothing tells us."""

_PROC: Final = Path("/proc")
_MARKER: Final = b"GREENROOM_AGENT_ID="


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    started: float
    zombie: bool


def process_started(pid: int) -> float | None:
    """When a process started, in the system's own unit (Linux: clock ticks since boot); None if it has ended."""
    if _PROC.is_dir():
        found = _read(pid)
        return found.started if found is not None and not found.zombie else None
    return _started_by_ps(pid)


async def end_processes(dead: DeadOwner) -> None:
    """End what a dead owner has left behind and wait until nothing of it is left.

    TERM, 5 s, KILL, 5 s, to the recorded process, its group and descendants, and to everything that carries the
    owner's marker in its environment. A zombie counts as ended.

    Raises:
        ProcessNotEnded: something of it still runs; names the pids.
    """
    for number, seconds in ((signal.SIGTERM, TERM_WAIT), (signal.SIGKILL, KILL_WAIT)):
        if await anyio.to_thread.run_sync(_signal, dead, number):
            with anyio.move_on_after(seconds):
                await _wait(dead)
    left = await anyio.to_thread.run_sync(_left_behind, dead)
    if left:
        raise ProcessNotEnded(
            f"the provider of session {dead.session_id} still runs: pid {', '.join(map(str, sorted(left)))}",
            session_id=dead.session_id,
            hint="end it by hand",
        )


async def _wait(dead: DeadOwner) -> None:
    """Wait until nothing is left; it is not our child, so there is no event to wait for."""
    while True:
        if not await anyio.to_thread.run_sync(_left_behind, dead):
            return
        await anyio.sleep(POLL)


def _signal(dead: DeadOwner, number: signal.Signals) -> bool:
    """Send a signal to everything that is left; whether there was anything."""
    left = _left_behind(dead)
    for pid in left:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # it has ended meanwhile, or the id belongs to somebody else by now
    return bool(left)


def _left_behind(dead: DeadOwner) -> set[int]:
    if not _PROC.is_dir():
        known = dead.process
        return {known.pid} if known is not None and process_started(known.pid) == known.start_time else set()
    table = {process.pid: process for process in _processes() if not process.zombie}
    roots = {pid for pid in table if _marked(pid, dead.marker.encode())}
    known = dead.process
    if known is not None:
        leader = table.get(known.pid)
        if leader is not None and leader.started == known.start_time:
            roots.add(known.pid)
        if known.group is not None and (leader is None or leader.started == known.start_time):
            # A group outlives its leader, and its id is not used again while a member lives; but if the leader's id
            # belongs to another process by now, so may the group's.
            members = (p.pid for p in table.values() if known.group in (p.group, p.session))
            roots.update(pid for pid in members if table[pid].started >= known.start_time)
    return _with_descendants(roots, table) - {os.getpid()}


def _with_descendants(roots: set[int], table: Mapping[int, _Process]) -> set[int]:
    found = set(roots)
    while True:
        more = {process.pid for process in table.values() if process.parent in found} - found
        if not more:
            return found
        found |= more


def _processes() -> Iterator[_Process]:
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            process = _read(int(entry.name))
            if process is not None:
                yield process


def _read(pid: int) -> _Process | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    state, parent, group, session = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
    return _Process(pid, parent, group, session, float(fields[19]), state in "ZX")


def _marked(pid: int, marker: bytes) -> bool:
    try:
        return _MARKER + marker in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it has ended, or is another user's and so not ours


def _started_by_ps(pid: int) -> float | None:
    environment = {**os.environ, "LC_ALL": "C"}
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    text = done.stdout.strip()
    return time.mktime(time.strptime(text, "%a %b %d %H:%M:%S %Y")) if text else None
