"""Where endpoints lie: sockets in a folder of the data directory that only its owner may enter."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from greenroom.errors import GreenroomError

LIMIT: Final = 103
"""Bytes that the path of a Unix socket may have: 108 on Linux, 104 on macOS, with a zero byte at the end."""
SERVING: Final = "serve.sock"
LOCK: Final = "serve.lock"
OLD: Final = 60.0
"""Seconds after which a socket that never got its name belongs to a host that died in between."""


class Address:
    """The place of one endpoint.

    A socket gets its name only when somebody listens at it, so one that refuses a connection is dead.

    Attributes:
        path: what other processes are told. If it is too long for a socket, it is a link to one in a short folder.
    """

    def __init__(self, data_directory: Path, name: str) -> None:
        self.path: Final = endpoints(data_directory) / name
        self._folder: Final = self.path.parent
        digest = hashlib.sha256(os.fsencode(self._folder)).hexdigest()[:12]
        fits = len(os.fsencode(self.path)) + len(".new-12345678") <= LIMIT
        self._place: Final = self._folder if fits else short_folder() / digest
        self._socket: Final = self._place / name
        self.unnamed: Final = self._place / f".new-{secrets.token_hex(4)}"

    def prepare(self) -> None:
        """Make the folders, for their owner only. Raises GreenroomError if they are somebody else's."""
        for folder in dict.fromkeys((self._folder, self._place.parent, self._place)):
            if folder != self._folder.parent:
                _own(folder)
        sweep(self._folder)
        if self._place != self._folder:
            sweep(self._place)

    def publish(self) -> None:
        """Give the socket that listens at `unnamed` its name."""
        self.unnamed.chmod(0o600)
        self.unnamed.replace(self._socket)
        if self._socket != self.path:
            link = self.path.with_name(f".new-{secrets.token_hex(4)}")
            link.symlink_to(self._socket)
            link.replace(self.path)

    def remove(self) -> None:
        """Take the name away."""
        for path in (self.path, self._socket, self.unnamed):
            path.unlink(missing_ok=True)


def endpoints(data_directory: Path) -> Path:
    """The folder of the endpoints."""
    return data_directory / "endpoints"


def serving_path(data_directory: Path) -> Path:
    """Where the host that serves the data directory is reached."""
    return endpoints(data_directory) / SERVING


def lock_path(data_directory: Path) -> Path:
    """What the host that serves the data directory holds."""
    return endpoints(data_directory) / LOCK


def private_name() -> str:
    """The name of an endpoint that only stands in the rows of sessions."""
    return f"{secrets.token_hex(4)}.sock"


def reachable(path: Path) -> str:
    """The path for a connection: of the socket itself, which is short."""
    with suppress(OSError):
        return str(path.readlink())
    return str(path)


def short_folder() -> Path:
    """A folder with a short path, for sockets of data directories with long ones."""
    name = f"greenroom-{os.getuid()}"
    best = Path(tempfile.gettempdir()) / name
    return best if len(os.fsencode(best)) <= LIMIT // 2 else Path("/tmp") / name  # noqa: S108 - owner and mode are checked


def sweep(folder: Path) -> None:
    """Remove the sockets of hosts that died."""
    for path in list(folder.iterdir()):
        with suppress(OSError):
            if _dead(path):
                path.unlink()


def _dead(path: Path) -> bool:
    if path.suffix == ".sock":
        return not alive(path)
    return path.name.startswith(".new-") and time.time() - path.lstat().st_mtime > OLD


def alive(path: Path) -> bool:
    """Whether somebody listens there; one that has no time to answer does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(0)
        try:
            client.connect(reachable(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


def _own(folder: Path) -> None:
    """A folder of ours that nobody else may enter. Raises GreenroomError."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or folder.is_symlink():
            raise PermissionError(f"{folder} belongs to somebody else")
        if found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise GreenroomError(f"the endpoint cannot be made: {error}", hint="check the owner of that folder") from error
