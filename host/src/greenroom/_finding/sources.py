"""Import files and folders that no distribution installed, under names of their own and from source.

Bytecode caches are neither read nor written: two edits of one size within one tick of the
clock leave a cache that looks valid, and code that was trusted by the hash of its source
must be that source.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final


class _FromSource(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class LocalFinder:
    """Finds the modules of the files and folders that were added; stands on `sys.meta_path` while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._roots: dict[str, Path] = {}

    def add(self, stem: str, path: Path) -> str:
        """Make a file or folder importable and return its module name, which no other one has."""
        base = "greenroom_local_" + "".join(c if c.isalnum() else "_" for c in stem)
        with self._lock:
            name, number = base, 1
            while name in self._roots or name in sys.modules:
                number += 1
                name = f"{base}_{number}"
            self._roots[name] = path
            if self not in sys.meta_path:
                sys.meta_path.append(self)
            return name

    def remove(self, name: str) -> None:
        """Take back an `add`; names that were not added are none of this finder's business."""
        with self._lock:
            self._roots.pop(name, None)
            if not self._roots and self in sys.meta_path:
                sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find the module of a file or folder, or one inside such a folder (the import system's protocol)."""
        root = self._roots.get(fullname)
        if root is not None:
            file = root / "__init__.py" if root.is_dir() else root
            inside = [str(root)] if root.is_dir() else None
            loader = _FromSource(fullname, str(file))
            return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=inside)
        if fullname.partition(".")[0] in self._roots:
            for folder in path or ():
                # A new finder each time: a cached listing would miss a file that was just written.
                finder = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, [".py"]))
                spec = finder.find_spec(fullname)
                if spec is not None:
                    return spec
        return None


LOCAL: Final = LocalFinder()
"""The finder of this process, as `sys.meta_path` is the process's."""
