"""Where greenroom keeps its things, and how it writes them.

Nothing here reads the process environment by itself: the caller hands it in, so that
tests and embedding programs choose their own places.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS_NAME = "greenroom.toml"
OWNER_ONLY_DIRECTORY = 0o700
OWNER_ONLY_FILE = 0o600


def data_directory(environ: Mapping[str, str]) -> Path:
    """The folder of store, locks, `plugins.json` and diagnostics; absolute, not created here.

    `GREENROOM_HOME` if it is set and not empty, else the platform's user state directory.
    """
    if chosen := environ.get("GREENROOM_HOME"):
        return _absolute(chosen)
    import platformdirs  # here, because it costs a fifth of the start-up and --version needs none

    return Path(platformdirs.user_state_dir("greenroom", appauthor=False))


def make_data_directory(directory: Path) -> Path:
    """Create the data directory for its owner only; one that exists keeps its mode.

    Raises:
        OSError: it cannot be created.
    """
    directory.mkdir(mode=OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
    return directory


def user_settings_file(environ: Mapping[str, str]) -> Path:
    """The user's `greenroom.toml`, which need not exist.

    In `GREENROOM_CONFIG_DIR` if it is set and not empty, else in the platform's user config directory.
    """
    if chosen := environ.get("GREENROOM_CONFIG_DIR"):
        return _absolute(chosen) / SETTINGS_NAME
    import platformdirs  # see data_directory

    return Path(platformdirs.user_config_dir("greenroom", appauthor=False)) / SETTINGS_NAME


def project_settings_file(cwd: Path, *, home: Path | None = None) -> Path | None:
    """The nearest `greenroom.toml` in `cwd` or above, or None.

    The search ends behind the first folder that holds `.git` (a folder, or the file of a worktree),
    the home directory, or the root. A folder that cannot be read counts as one without the file.
    """
    start = Path(os.path.abspath(cwd))
    last = home if home is not None else _home()
    for folder in (start, *start.parents):
        candidate = folder / SETTINGS_NAME
        if _exists(candidate):
            return candidate
        if folder == last or _exists(folder / ".git"):
            return None
    return None


def write_atomically(path: Path, content: bytes, *, mode: int = OWNER_ONLY_FILE) -> None:
    """Replace a file as a whole: a reader sees the old bytes or the new ones, after a crash as well.

    A symbolic link stays and its target is replaced. An existing file keeps its mode, a new one gets `mode`.

    Raises:
        OSError: nothing was changed.
    """
    target = path.resolve()
    keep = target.stat().st_mode & 0o777 if target.exists() else mode
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(keep)
        Path(name).replace(target)
    except BaseException:  # the temporary file must not stay, whatever ended the write; re-raised
        Path(name).unlink(missing_ok=True)
        raise


def _absolute(text: str) -> Path:
    return Path(os.path.abspath(Path(text).expanduser()))


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no home directory can be determined (a bare container user)
        return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a parent without search permission
        return False
