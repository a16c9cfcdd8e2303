"""Fake installed distributions: dist-info folders and modules in a folder on the path."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest


class Site:
    """A folder that acts as a site-packages folder.

    Attributes:
        folder: where the distributions lie.
        path: the folder as `discover(path=...)` wants it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = [str(folder)]

    def dist(
        self,
        name: str,
        version: str = "1.0",
        *,
        entries: Mapping[str, str] | str | None = None,
        modules: Mapping[str, str] | None = None,
        editable: Path | None = None,
        metadata: Sequence[str] = (),
    ) -> Path:
        """Write a distribution; `entries` is group `greenroom` or the whole text of entry_points.txt."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *metadata]
        (info / "METADATA").write_text("\n".join(head) + "\n")
        if entries is not None:
            lines = entries if isinstance(entries, str) else "\n".join(f"{k} = {v}" for k, v in entries.items())
            (info / "entry_points.txt").write_text(lines if isinstance(entries, str) else f"[greenroom]\n{lines}\n")
        if editable is not None:
            origin = {"url": editable.as_uri(), "dir_info": {"editable": True}}
            (info / "direct_url.json").write_text(json.dumps(origin))
        for file, text in (modules or {}).items():
            self.write(file, text)
        return info

    def write(self, file: str, text: str) -> Path:
        """Write a module of a distribution and return its path."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Give an empty fake site-packages folder on `sys.path`; what is imported from it is forgotten again."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    yield Site(folder)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if str(tmp_path) in file:
            del sys.modules[name]
