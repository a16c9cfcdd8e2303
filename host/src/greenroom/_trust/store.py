"""Which projects the user trusts: their files run code only while their content is what was trusted.

The store is `trust.json` in the data directory. Content is pinned by hash: the project's
`greenroom.toml` and every file and folder tree that its `load` names. In-process plugins are no
security boundary; this only makes sure that a cloned or changed project does not run by itself.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from greenroom._paths import SETTINGS_NAME, make_data_directory, write_atomically
from greenroom._settings.settings import LoadEntry, Settings, load_settings
from greenroom._trust.pinning import pin
from greenroom.errors import TrustError

STORE_NAME = "trust.json"
LOCK_TIMEOUT = 10.0  # seconds; a change takes milliseconds, so whoever holds the lock longer hangs
SHOWN = 5  # changed files that a message names


@dataclass(frozen=True, slots=True)
class Trusted:
    """Something that is trusted, or would be.

    Attributes:
        path: a folder, or the settings file of a project.
        content: for a settings file: name relative to its folder -> hash, of everything that is pinned.
        time: when it was trusted, ISO 8601; empty while it is not.
    """

    path: Path
    content: Mapping[str, str] | None = None
    time: str = ""


@dataclass(slots=True)
class _Store:
    folders: dict[str, str] = field(default_factory=dict)
    files: dict[str, Trusted] = field(default_factory=dict)


class Trust:
    """The trust store of a data directory; every question reads it anew, so a removal holds at once."""

    def __init__(self, directory: Path, *, clock: Callable[[], float]) -> None:
        self._path = directory / STORE_NAME
        self._clock = clock

    def check(self, project_file: Path, load_entries: Iterable[LoadEntry] = ()) -> None:
        """Return only if the content of a project is trusted as it is now.

        Args:
            project_file: the project's `greenroom.toml`.
            load_entries: what is about to be loaded; the file must still list what the project asked for.

        Raises:
            TrustError: it is not, or it changed since; names what changed and the command to trust it.
                Never asks, so it fails at once without a terminal as well.
            SettingsError: the file is broken.
        """
        path = _canonical(project_file)
        now = pin_project(path)
        known = self._read().files.get(str(path))
        command = f"greenroom trust add {quoted(path)}"
        if known is None or known.content is None:
            message = f"the settings of this project are not trusted: {printable(path)}"
            raise TrustError(message, hint=f"read them and what they load, then: {command}")
        changes = [*compare(known.content, now), *_unlisted(path, load_entries)]
        if changes:
            shown = ", ".join(printable(change) for change in changes[:SHOWN])
            more = f" and {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
            message = f"this project changed since you trusted it: {printable(path)}: {shown}{more}"
            raise TrustError(message, hint=f"look at the changes, then: {command}")

    def trusts_folder(self, path: Path | None) -> bool:
        """Whether a folder, or one that it lies in, is trusted: then its provider settings may load.

        A folder that is not known (None) is not trusted.

        Raises:
            TrustError: the store is damaged.
        """
        if path is None:
            return False
        folders = self._read().folders
        resolved = Path(path).resolve()
        return any(str(folder) in folders for folder in (resolved, *resolved.parents))

    def prepare(self, path: Path) -> tuple[Trusted, ...]:
        """What trusting `path` would mean, with the content as it is now; changes nothing.

        A folder stands for its provider settings and for its `greenroom.toml`, if it has one.

        Raises:
            TrustError: it is neither a folder nor a `greenroom.toml`, or its content cannot be pinned.
            SettingsError: the file is broken.
        """
        if path.is_dir():
            folder = path.resolve()
            file = folder / SETTINGS_NAME
            found = [Trusted(folder)]
            return tuple([*found, Trusted(file, pin_project(file))] if file.exists() else found)
        if path.name != SETTINGS_NAME or not path.is_file():
            raise TrustError(f"{printable(path)}: nothing to trust here", hint=f"name a folder or a {SETTINGS_NAME}")
        file = _canonical(path)
        return (Trusted(file, pin_project(file)),)

    def add(self, items: Iterable[Trusted]) -> None:
        """Trust what `prepare` returned, with the content as it was then.

        Raises:
            TrustError: the store is damaged, locked or cannot be written.
        """
        time = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

        def change(store: _Store) -> None:
            for item in items:
                if item.content is None:
                    store.folders[str(item.path)] = time
                else:
                    store.files[str(item.path)] = Trusted(item.path, item.content, time)

        self._change(change)

    def remove(self, path: Path) -> bool:
        """Forget a folder with its settings file, or a settings file; False if neither was trusted.

        The path need not exist any more.
        """
        names = {str(path.resolve()), str(_canonical(path)), str(path.resolve() / SETTINGS_NAME)}
        found = False

        def change(store: _Store) -> None:
            nonlocal found
            for table in (store.folders, store.files):
                for name in names & table.keys():
                    del table[name]
                    found = True

        self._change(change)
        return found

    def items(self) -> tuple[Trusted, ...]:
        """Everything that is trusted, by path; a folder before its file."""
        store = self._read()
        folders = [Trusted(Path(name), None, time) for name, time in store.folders.items()]
        return tuple(sorted([*folders, *store.files.values()], key=lambda item: str(item.path)))

    def _read(self) -> _Store:
        try:
            text = self._path.read_bytes()
            mode = self._path.stat().st_mode
        except FileNotFoundError:
            return _Store()
        except OSError as error:
            raise TrustError(
                f"{self._path}: cannot be read: {error.strerror or error}", hint="correct its mode"
            ) from error
        if os.name == "posix" and mode & 0o022:
            raise TrustError(f"{self._path}: others may write to it", hint=f"look at it, then: chmod 600 {self._path}")
        try:
            return _decode(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            hint = f"remove {self._path} and trust your projects again"
            raise TrustError(f"{self._path}: the store is damaged, nothing is trusted", hint=hint) from error

    def _change(self, change: Callable[[_Store], None]) -> None:
        from filelock import FileLock, Timeout  # slow to import; checks do not need it

        try:
            make_data_directory(self._path.parent)
            with FileLock(self._path.with_suffix(".lock"), timeout=LOCK_TIMEOUT, mode=0o600):
                store = self._read()
                change(store)
                write_atomically(self._path, json.dumps(_encode(store), indent=1, sort_keys=True).encode())
        except Timeout as error:
            hint = "end the other greenroom process that is changing it"
            raise TrustError(f"{self._path}: locked by another process", hint=hint) from error
        except OSError as error:
            hint = "make it writable, or set GREENROOM_HOME to a folder of your own"
            raise TrustError(f"{self._path}: cannot be written: {error.strerror or error}", hint=hint) from error


def check_project(settings: Settings, directory: Path | None, clock: Callable[[], float]) -> Path | None:
    """Refuse the files of a project whose content the user has not trusted; return the file that needed it.

    Args:
        directory: the data directory, which holds what is trusted.
        clock: seconds since 1970.

    Raises:
        TrustError: as `Trust.check`; or there is no data directory.
    """
    file = settings.project_file
    if file is None or not settings.project_needs_trust:
        return None
    if directory is None:
        raise TrustError(f"{file} may not be used by a host without a data directory, which holds what is trusted")
    Trust(directory, clock=clock).check(file, settings.plugins.load)
    return file


def pin_project(file: Path) -> dict[str, str]:
    """The hashes of a project's settings file and of all that its `load` names.

    Raises:
        TrustError: something of it cannot be pinned.
        SettingsError: the file is broken.
    """
    # Read alone: an entry that the user's own file names as well is still one of the project's.
    entries = load_settings(project_file=file).plugins.load
    return pin(file.parent, [file, *(path for entry in entries if (path := entry.path) is not None)])


def compare(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What differs, each as `name (changed | new | gone)`."""
    changes = {name: "new" if name not in then else "changed" for name in now if now[name] != then.get(name)}
    changes |= dict.fromkeys(then.keys() - now.keys(), "gone")
    return [f"{name} ({what})" for name, what in sorted(changes.items())]


def printable(text: object) -> str:
    """A path for a message: control characters and broken names are escaped, they may come from a stranger."""
    shown = str(text)
    return shown if shown.isprintable() else ascii(shown)


def quoted(path: Path) -> str:
    """A path for a command that is shown; one that could do harm to the terminal is escaped, not typeable."""
    return shlex.quote(printable(path))


def _unlisted(file: Path, entries: Iterable[LoadEntry]) -> list[str]:
    """Entries that were read from the project's file before it changed to what it is now."""
    listed = {entry.text for entry in load_settings(project_file=file).plugins.load}
    return [f"{entry.text} (not listed)" for entry in entries if entry.from_project and entry.text not in listed]


def _canonical(file: Path) -> Path:
    return file.parent.resolve() / file.name


def _encode(store: _Store) -> dict[str, object]:
    files = {name: {"time": item.time, "content": dict(item.content or {})} for name, item in store.files.items()}
    return {"version": 1, "folders": store.folders, "files": files}


def _decode(data: dict[str, object]) -> _Store:
    store = _Store()
    folders, files = data["folders"], data["files"]
    if data["version"] != 1 or not isinstance(folders, dict) or not isinstance(files, dict):
        raise ValueError("unknown version")
    store.folders = {str(name): str(time) for name, time in folders.items()}
    for name, item in files.items():
        content = {str(key): str(value) for key, value in item["content"].items()}
        store.files[str(name)] = Trusted(Path(name), content, str(item["time"]))
    return store
