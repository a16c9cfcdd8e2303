"""Who is alive: an owner holds a lock on a file of its own, which the kernel frees when it ends, however it ends."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

if sys.platform != "win32":
    import fcntl


class Liveness:
    """The lock of this store object, and the test of any other's.

    `folder` holds the lock files; each bears a random name, so that a name says one thing for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: FileLock | None = None
        self._guard = threading.Lock()
        self.name = f"{uuid.uuid4()}.lock"

    def hold(self) -> None:
        """Take the lock, if it is not held yet. Raises OSError."""
        with self._guard:
            if self._lock is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = FileLock(str(self._folder / self.name), timeout=0, mode=0o600, thread_local=False)
                lock.acquire()
                self._lock = lock

    def let_go(self) -> None:
        """Free the lock and remove its file."""
        with self._guard:
            if self._lock is not None:
                self._lock.release()
                self._lock = None
                (self._folder / self.name).unlink(missing_ok=True)

    def alive(self, name: str) -> bool:
        """Whether the process that made this name holds it. A suspended one does, a zombie does not."""
        if name == self.name:
            return self._lock is not None
        path = self._folder / name
        return path.name == name and path.exists() and _is_held(path)

    def sweep(self, name: str) -> None:
        """Remove the file of a dead owner."""
        path = self._folder / name
        if path.name == name:
            path.unlink(missing_ok=True)


def _is_held(path: Path) -> bool:
    """Ask for a shared lock: that fails while the owner has its own, and two who ask do not hinder each other."""
    if sys.platform == "win32":
        return _is_held_exclusively(path)
    try:
        with _opened(path) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except (BlockingIOError, PermissionError):  # the latter: it is another user's; who cannot tell takes nothing over
        return True
    return False


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_held_exclusively(path: Path) -> bool:
    try:
        with FileLock(str(path), timeout=0, thread_local=False):
            return False
    except Timeout:
        return True
