"""Which processes hold a file: asked only when something has waited too long for it."""

from __future__ import annotations

import os
from pathlib import Path

_WRITE_LOCK = "120"
"""The byte of the `-shm` file that a writer in WAL mode locks (sqlite.org/walformat.html, section 2.3.1)."""


def holders(path: Path) -> list[int]:
    """The pids that hold the store's write lock, else those that have the file open; never our own; [] if unknown.

    Linux tells it; elsewhere the answer is [].
    """
    found = _lock_holders(Path(f"{path}-shm")) or _openers(path)
    return sorted(found - {os.getpid(), 0})


def _lock_holders(shared: Path) -> set[int]:
    try:
        inode = str(shared.stat().st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return set()
    held = set()
    for line in lines:
        fields = [field for field in line.split()[1:] if field != "->"]
        if len(fields) >= 6 and fields[2] == "WRITE" and fields[4].endswith(f":{inode}") and fields[5] == _WRITE_LOCK:  # noqa: PLR2004 - kind, mode, access, pid, file, start
            held.add(int(fields[3]))
    return held


def _openers(path: Path) -> set[int]:
    try:
        wanted = path.stat()
    except OSError:
        return set()
    found = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            for link in folder.iterdir():
                status = link.stat()
                if (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino):
                    found.add(int(folder.parent.name))
        except OSError:  # the process is gone or another user's
            continue
    return found
