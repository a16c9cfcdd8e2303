"""Fixtures: a host that discovers nothing, and plugins that live for one test."""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from greenroom import Host, PluginRecord, load_settings


@pytest.fixture
async def host(anyio_backend: object, tmp_path: Path) -> AsyncIterator[Host]:  # noqa: ARG001  # asks anyio to run this fixture
    """Give a live host with its own data directory; no installed plugin and no file of the user is read."""
    async with Host(load_settings(), data_directory=tmp_path / "greenroom-data", discovery=False) as live:
        yield live


class TmpPlugin:
    """Plugins written by a test, loaded into its host.

    Attributes:
        folder: where their files lie.
    """

    def __init__(self, host: Host, folder: Path) -> None:
        self._host = host
        self.folder = folder

    def write(self, name: str, source: str) -> Path:
        """Write the source of a plugin and return its file; it is not loaded."""
        path = self.folder / f"{name}.py"
        path.write_text(textwrap.dedent(source))
        return path

    async def load(self, name: str, source: str | None = None) -> PluginRecord:
        """Load a plugin, after writing it if `source` is given; a broken one has a failed record."""
        path = self.write(name, source) if source is not None else self.folder / f"{name}.py"
        return await self._host.load(path)

    async def edit(self, name: str, source: str) -> PluginRecord:
        """Replace the source: the old generation is unloaded, then the new one is loaded."""
        await self._host.unload(f"local:{name}")
        return await self.load(name, source)

    async def remove(self, name: str) -> PluginRecord:
        """Unload a plugin and delete its file."""
        record = await self._host.unload(f"local:{name}")
        (self.folder / f"{name}.py").unlink()
        return record


@pytest.fixture
def tmp_plugin(host: Host, tmp_path: Path) -> TmpPlugin:
    """Write, load, edit and remove plugins in this test's host."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    return TmpPlugin(host, folder)
