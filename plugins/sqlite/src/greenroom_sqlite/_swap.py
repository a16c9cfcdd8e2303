"""A new file takes the place of a damaged one: in several steps, which whoever opens the store next ends after a kill.

The file and its log cannot go in one step, and a log must never meet a file that is not its own. So the new file
first gets a name that says that it is whole; from then on the swap has happened, only names are still to be changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock

_PATIENCE: Final = 5.0
"""Seconds that whoever opens the store waits for another process that changes a few names."""


def ready(path: Path) -> Path:
    """Where a whole new file waits for its place."""
    return path.with_name(f"{path.name}.repaired")


@contextmanager
def alone(path: Path, *, wait: float) -> Iterator[None]:
    """Be the only one who repairs the store. Raises filelock.Timeout, which is a TimeoutError."""
    folder = path.parent / "owners"
    folder.mkdir(mode=0o700, exist_ok=True)
    with FileLock(str(folder / f"{path.name}.repair"), timeout=wait, mode=0o600):
        yield


def swap(path: Path, fresh: Path) -> str:
    """Put the new file in the old one's place; the old one and its log stay beside it, under the name returned.

    Nothing may have the old one open, and the caller is `alone`. Raises OSError.
    """
    fresh.replace(ready(path))
    sync_folder(path.parent)
    return _rename(path)


def settle(path: Path) -> None:
    """End a swap that was begun, if there is one. Raises OSError."""
    if ready(path).exists():
        with alone(path, wait=_PATIENCE):
            if ready(path).exists():  # else another process was faster, and what has the name now is the new file
                _rename(path)


def _rename(path: Path) -> str:
    count = 1
    while path.exists() and path.with_name(f"{path.name}.damaged-{count}").exists():
        count += 1
    backup = f"{path}.damaged-{count}"
    for suffix in ("-wal", "-shm", ""):  # the file last: as long as it is there, its log belongs to it
        part = Path(f"{path}{suffix}")
        if part.exists():
            part.replace(f"{backup}{suffix}")
    ready(path).replace(path)
    sync_folder(path.parent)
    return backup


def sync_folder(folder: Path) -> None:
    """Make new names in the folder durable; where folders cannot be opened, the system does it by itself."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
