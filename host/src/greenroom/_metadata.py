"""What installed distributions say about themselves, read without importing any of them."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import importlib_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from importlib_metadata import Distribution

GROUP: Final = "greenroom"


def distributions(path: list[str] | None = None, name: str | None = None) -> Iterator[Distribution]:
    """Yield the distributions on `path` (default `sys.path`), in the order in which imports find them."""
    context: dict[str, object] = {} if path is None else {"path": path}
    if name is not None:
        context["name"] = name
    yield from importlib_metadata.distributions(**context)  # type: ignore[misc]  # a protocol that differs in `locate_file` only


def folder_of(dist: Distribution) -> str:
    """Return the folder that holds the distribution, or '' for one that is not made of files."""
    with contextlib.suppress(NotImplementedError):
        return str(dist.locate_file(""))
    return ""


def editable_root(dist: Distribution) -> Path | None:
    """Return the project folder of an editable install, else None (PEP 610, `direct_url.json`)."""
    try:
        text = dist.read_text("direct_url.json")
        if not text:
            return None
        origin = json.loads(text)
        if not origin["dir_info"]["editable"]:
            return None
        path = unquote(urlsplit(origin["url"]).path)
        return Path(path.lstrip("/") if os.name == "nt" else path)
    except (ValueError, KeyError, TypeError):
        return None  # not editable, or written by a tool that does not follow the PEP


def declared_entry_points(project: Path) -> dict[str, str] | None:
    """Return group `greenroom` as the `pyproject.toml` of a project folder states it now.

    None when that cannot be told: no such file, a broken one, or entry points that the
    build backend computes.
    """
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
