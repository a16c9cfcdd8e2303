"""What every plugin must do: load, leave nothing, and survive a settings error."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import anyio
import anyio.lowlevel
import pytest

from greenroom import EffectTree, Host, load_settings

WORKERS = ("AnyIO worker", "Trio thread", "asyncio_")
"""Names of pooled threads, which a loop keeps for the next call."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a plugin could leave behind; equal before it is loaded and after it is unloaded.

    Attributes:
        effects: everything that was added to the host.
        hooks: the number of implementations of each hook.
        tasks: names of the running tasks.
        threads: names of the threads that are no pooled workers.
        modules: names in `sys.modules` of the plugin's own package.
    """

    effects: EffectTree
    hooks: Mapping[str, int]
    tasks: tuple[str, ...]
    threads: tuple[str, ...]
    modules: frozenset[str]

    @classmethod
    def of(cls, host: Host, package: str = "") -> Self:
        """Take the footprint of a host now; `package` is the plugin's top-level package."""
        return cls(
            host.effects(),
            {caller.spec.name: len(caller.impls) for caller in host.hooks},
            tuple(sorted(task.name or "" for task in anyio.get_running_tasks())),
            tuple(sorted(t.name for t in threading.enumerate() if not t.name.startswith(WORKERS))),
            frozenset(name for name in sys.modules if package and name.partition(".")[0] == package),
        )


class PluginConformance:
    """Subclass it with `plugin = your_plugin`: green means that the plugin behaves in a host.

    Attributes:
        plugin: the plugin object (a module or an instance).
        settings: the plugin's table, where it needs one to load.
        beside: further plugins by short name that it needs.
    """

    plugin: ClassVar[object]
    settings: ClassVar[Mapping[str, Any]] = {}
    beside: ClassVar[Mapping[str, object]] = {}

    NAME: ClassVar[str] = "plugin-under-test"

    def _host(self, folder: Path, table: Mapping[str, Any]) -> Host:
        overrides = {f"plugins.{self.NAME}.{key}": value for key, value in table.items()}
        return Host(load_settings(overrides=overrides), data_directory=folder, discovery=False, plugins=self.beside)

    @pytest.mark.anyio
    async def test_it_loads_and_is_active(self, tmp_path: Path) -> None:
        """The plugin becomes active with its settings."""
        async with self._host(tmp_path, self.settings) as host:
            record = await host.load(self.plugin, name=self.NAME)
            assert record.state == "active", f"{record.phase}: {record.error}"

    @pytest.mark.anyio
    async def test_it_unloads_and_leaves_nothing(self, tmp_path: Path) -> None:
        """Effects, hooks, tasks, threads and modules are as before, also the second time."""
        async with self._host(tmp_path, self.settings) as host:
            before = Footprint.of(host)
            for _ in range(2):
                await host.load(self.plugin, name=self.NAME)
                record = await host.unload(self.NAME)
                assert record.state == "unloaded", record.error
                await anyio.lowlevel.checkpoint()
                assert Footprint.of(host) == before

    @pytest.mark.anyio
    async def test_it_survives_a_settings_error(self, tmp_path: Path) -> None:
        """A key that it does not know fails the plugin, names the key, and leaves nothing behind."""
        async with self._host(tmp_path, {**self.settings, "no_such_key": 1}) as host:
            before = Footprint.of(host)
            record = await host.load(self.plugin, name=self.NAME)
            assert record.state == "failed"
            assert "no_such_key" in (record.error or "")
            assert Footprint.of(host) == before
