"""The fixtures and the conformance class of greenroom-testing catch what they are there to catch."""

from __future__ import annotations

import sys
import threading

import anyio
import pytest
from pydantic import BaseModel

from greenroom import hookimpl
from greenroom_testing import Footprint, PluginConformance

SOURCE = """
from greenroom import hookimpl

@hookimpl
def activate(scope):
    scope.undo(lambda: None, label={label!r})
"""


class WithSettings:
    """A plugin that does some of everything."""

    class Settings(BaseModel):
        level: int

    @hookimpl
    def plugin_settings(self):
        return self.Settings

    @hookimpl
    async def activate(self, scope):
        scope.undo(lambda: None)
        scope.spawn(anyio.sleep_forever)


class TestAPluginThatBehaves(PluginConformance):
    plugin = WithSettings()
    settings = {"level": 3}


class TestAPluginWithoutSettings(PluginConformance):
    class _Plugin:
        @hookimpl
        def activate(self, scope): ...

    plugin = _Plugin()


async def unload_check(plugin, tmp_path):
    """Run the class's own check on a plugin that must not pass it."""

    class Check(PluginConformance):
        pass

    Check.plugin = plugin
    await Check().test_it_unloads_and_leaves_nothing(tmp_path)


@pytest.mark.anyio
async def test_a_thread_that_stays_fails_the_conformance(tmp_path):
    class Leaky:
        @hookimpl
        def activate(self, scope):
            threading.Thread(target=stop.wait, name="left-behind", daemon=True).start()

    stop = threading.Event()
    try:
        with pytest.raises(AssertionError, match="left-behind"):
            await unload_check(Leaky(), tmp_path)
    finally:
        stop.set()


@pytest.mark.anyio
async def test_a_failed_clean_up_fails_the_conformance(tmp_path):
    class Sticky:
        @hookimpl
        def activate(self, scope):
            scope.undo(lambda: 1 / 0)

    with pytest.raises(AssertionError, match="division by zero"):
        await unload_check(Sticky(), tmp_path)


@pytest.mark.anyio
async def test_tmp_plugin_writes_loads_edits_and_removes(host, tmp_plugin):
    before = Footprint.of(host)
    record = await tmp_plugin.load("audit", SOURCE.format(label="one"))
    assert (record.state, record.generation) == ("active", 1)
    assert "one" in str(host.effects())
    record = await tmp_plugin.edit("audit", SOURCE.format(label="two"))
    assert (record.state, record.generation) == ("active", 2)
    assert "two" in str(host.effects())
    assert "one" not in str(host.effects())
    await tmp_plugin.remove("audit")
    assert Footprint.of(host) == before
    assert not list(tmp_plugin.folder.iterdir())


@pytest.mark.anyio
async def test_two_edits_of_one_size_within_one_clock_tick_are_both_seen(host, tmp_plugin):
    await tmp_plugin.load("audit", SOURCE.format(label="aaa"))
    for label in ("bbb", "ccc", "ddd"):
        await tmp_plugin.edit("audit", SOURCE.format(label=label))
        assert label in str(host.effects())


@pytest.mark.anyio
async def test_loading_and_unloading_leaves_tasks_threads_modules_and_hooks_as_before(host, tmp_plugin):
    before = (Footprint.of(host), frozenset(sys.modules))
    for _ in range(20):
        await tmp_plugin.load("small", SOURCE.format(label="small"))
        await host.unload("small")
    assert (Footprint.of(host), frozenset(sys.modules)) == before


@pytest.mark.anyio
async def test_the_host_fixture_discovers_nothing(host):
    assert host.plugins() == []
