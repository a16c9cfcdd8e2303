"""What installed distributions say about themselves, read without importing any of them.

Discovery reads the metadata folders itself: for 1,000 distributions that takes a third of the
time of `importlib.metadata` with its import, and it never answers from a cache. It sees what is
unpacked in folders of the import path, as every installer leaves it. Questions about a single
distribution go to `importlib_metadata`, which is slow to import.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from importlib_metadata import Distribution

GROUP: Final = "greenroom"
_SUFFIXES: Final = (".dist-info", ".egg-info")


def normalize(name: str) -> str:
    """Return a name in the form in which names are compared; an id keeps its colon.

    The rule of the packaging specification for names of distributions. Written out, because
    importing `packaging.utils` takes as long as looking at 500 distributions.
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


@dataclass(frozen=True, slots=True)
class Installed:
    """The metadata folder of one installed distribution.

    Attributes:
        key: the normalised name, as the folder says.
        folder: where the distribution lies.
        info: the metadata folder.
    """

    key: str
    folder: str
    info: str

    def read(self, file: str) -> bytes:
        """Return a file of the metadata; empty if it is not there."""
        try:
            with open(f"{self.info}/{file}", "rb") as content:  # noqa: PTH123 - pathlib doubles the time of the scan
                return content.read()
        except OSError:
            return b""

    def name_and_version(self) -> tuple[str, str]:
        """Return both as the distribution writes them.

        Raises:
            ValueError: the metadata does not say, or is no text.
        """
        text = (self.read("METADATA") or self.read("PKG-INFO")).decode()
        head = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", text.partition("\n\n")[0], re.MULTILINE))
        if len(head) != 2:  # noqa: PLR2004 - the two
            raise ValueError("METADATA with a name and a version is missing")
        return head["Name"], head["Version"]

    def entry_points(self) -> list[tuple[str, str]]:
        """Return group `greenroom`: names and targets, without extras.

        Raises:
            ValueError: the file is no text, or a line of it says nothing.
        """
        found, inside = [], False
        for line in map(str.strip, self.read("entry_points.txt").decode().splitlines()):
            if line.startswith("[") and line.endswith("]"):
                inside = line[1:-1].strip() == GROUP
            elif inside and line and not line.startswith(("#", ";")):
                name, equals, target = line.partition("=")
                if not equals:
                    raise ValueError(f"entry_points.txt: {line!r} has no target")
                found.append((name.strip(), target.partition("[")[0].replace(" ", "")))
        return found

    def editable_root(self) -> Path | None:
        """Return the project folder of an editable install, else None (PEP 610, `direct_url.json`)."""
        text = self.read("direct_url.json")
        if not text:
            return None
        import json  # few distributions have the file
        from urllib.parse import unquote, urlsplit

        try:
            origin = json.loads(text)
            if not origin["dir_info"]["editable"]:
                return None
            path = unquote(urlsplit(origin["url"]).path)
        except (ValueError, KeyError, TypeError):
            return None  # not editable, or written by a tool that does not follow the PEP
        return Path(path.lstrip("/") if os.name == "nt" else path)


def installed(path: Iterable[str] | None = None) -> list[Installed]:
    """List the distributions in the folders of `path` (default `sys.path`), in the order in which imports find them.

    Of two with one name in one folder the one that was written last comes first: the files are its.
    """
    found = []
    for folder in dict.fromkeys(sys.path if path is None else path):
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_SUFFIXES))  # noqa: PTH208 - see `read`
        except OSError:
            continue
        here: dict[str, list[Installed]] = {}
        for name in names:
            key = normalize(name.rpartition(".")[0].partition("-")[0])
            here.setdefault(key, []).append(Installed(key, folder, f"{folder}/{name}"))
        for same in here.values():
            found += same if len(same) == 1 else sorted(same, key=lambda d: -os.stat(d.info).st_mtime)  # noqa: PTH116 - see `read`
    return found


def distributions(name: str) -> Iterator[Distribution]:
    """Yield the distributions of a name, the one that imports find first."""
    import importlib_metadata  # see the top of this file

    yield from importlib_metadata.distributions(name=name)  # type: ignore[misc]  # a protocol that differs in `locate_file` only


def declared_entry_points(project: Path) -> dict[str, str] | None:
    """Return group `greenroom` as the `pyproject.toml` of a project folder states it now.

    None when that cannot be told: no such file, a broken one, or entry points that the
    build backend computes.
    """
    import tomllib  # only editable installs are asked

    try:
        with (project / "pyproject.toml").open("rb") as file:
            table = tomllib.load(file)["project"]
        if "entry-points" in table.get("dynamic", ()):
            return None
        group = table.get("entry-points", {}).get(GROUP, {})
        return {str(name): str(target) for name, target in group.items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


def missing_requirements(dist: Distribution) -> list[str]:
    """Return the requirements without an extra that no installed distribution has the name of."""
    from packaging.requirements import InvalidRequirement, Requirement  # only a failed import asks

    missing = []
    for text in dist.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if next(distributions(name=requirement.name), None) is None:
            missing.append(requirement.name)
    return missing


def refresh_metadata() -> None:
    """Make distributions that were installed, changed or removed since the last look visible.

    Folder listings are cached by the folder's mtime, so a change within one tick of the clock
    stays unseen. Before Python 3.11.9 and 3.12.3 `importlib.invalidate_caches()` does not reach
    the cache of `importlib.metadata`; it does reach that of `importlib_metadata`, which replaces
    the standard finder of distributions for the whole process as soon as it is imported. New
    `.pth` files are read here, because the site module reads them only at the start.
    """
    importlib.invalidate_caches()
    for folder in _editable_paths():
        if folder not in sys.path:
            sys.path.append(folder)


def _editable_paths() -> Iterable[str]:
    """Yield the folders that `.pth` files in site-packages name.

    Only their plain lines: an `import` line runs code, and was meant for the start of a process.
    """
    for site in [entry for entry in sys.path if Path(entry).name in {"site-packages", "dist-packages"}]:
        for pth in sorted(Path(site).glob("*.pth")):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                for line in pth.read_text(encoding="utf-8-sig").splitlines():
                    text = line.strip()
                    if not text or text.startswith(("#", "import ", "import\t")):
                        continue
                    folder = os.path.join(site, text)  # noqa: PTH118 - joined as the site module does, so that the strings compare
                    if Path(folder).is_dir():
                        yield folder
