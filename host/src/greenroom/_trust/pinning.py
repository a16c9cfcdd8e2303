"""The hashes of files and folder trees, so that a later change of any of them shows."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from greenroom.errors import TrustError

MAX_FILES = 5_000  # in all; a folder with more was not meant, and hashing it would slow every start
MAX_BYTES = 64 * 1024 * 1024
MISSING = "missing"
# Compiled code is made anew from the pinned source by the loader; `.git` changes all the time and holds no modules.
SKIPPED = frozenset({"__pycache__", ".git"})


def pin(base: Path, paths: Iterable[Path]) -> dict[str, str]:
    """The hash of every file behind `paths` by its name relative to `base`.

    A folder stands for its whole tree. A path that does not exist is pinned as missing, so that
    its appearance is a change. A folder and a file in its place, a name, a mode of link: all show.

    Raises:
        TrustError: a link leads out of a tree, something is no regular file, unreadable, or it is too much.
    """
    found: dict[str, str] = {}
    left = MAX_BYTES
    for path in paths:
        for file in _files(path):
            name = Path(os.path.relpath(file, base)).as_posix()
            found[name], size = _hash(file, left, followed=file == path)
            left -= size
            if len(found) > MAX_FILES:
                raise TrustError(
                    f"{path}: more than {MAX_FILES:,} files to trust", hint="list a smaller folder or single files"
                )
    return found


def _files(path: Path) -> Iterator[Path]:
    """The path itself if it is no folder, else the files, links and empty folders of its tree, sorted."""
    if not path.is_dir():
        yield path
        return
    root = path.resolve()
    try:
        for folder, folders, files in os.walk(path, onerror=_raise):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            here = Path(folder)
            for name in sorted([*files, *(name for name in folders if (here / name).is_symlink())]):
                item = here / name
                if item.is_symlink() and not item.resolve().is_relative_to(root):
                    raise TrustError(f"{item}: a link that leads out of {path}", hint="put the file itself there")
                yield item
            if not files and not folders:
                yield here
    except OSError as error:
        raise TrustError(f"{path}: cannot be read: {error.strerror or error}", hint="make it readable") from error


def _hash(file: Path, left: int, *, followed: bool) -> tuple[str, int]:
    """The hash of one file and its size in bytes; a link inside a tree is its text, since its target is in the tree."""
    try:
        status = file.stat() if followed else file.lstat()
        if stat.S_ISLNK(status.st_mode):
            return f"link:{file.readlink()}", 0
        if stat.S_ISDIR(status.st_mode):
            return "empty folder", 0
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device could wait for ever
            raise TrustError(f"{file}: no regular file", hint="list files and folders only")
        if status.st_size > left:
            raise TrustError(f"{file}: more than {MAX_BYTES >> 20} MiB to trust", hint="list a smaller folder")
        with file.open("rb") as content:
            return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}", status.st_size
    except FileNotFoundError:
        return MISSING, 0
    except OSError as error:
        raise TrustError(f"{file}: cannot be read: {error.strerror or error}", hint="make it readable") from error


def _raise(error: OSError) -> None:
    raise error
