"""A host with the driver and a scripted provider, and an agent in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import Initializing
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

from .rig import Rig


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def driver_plugin() -> object:
    return greenroom_driver


@pytest.fixture
async def host(anyio_backend, tmp_path: Path, provider, driver_plugin) -> AsyncIterator[Host]:
    plugins = {"driver": driver_plugin, "scripted": ScriptedPlugin(provider)}
    async with Host(load_settings(), discovery=False, plugins=plugins) as live:
        bad = [record for record in live.plugins() if record.state != "active"]
        assert not bad, bad
        yield live


@pytest.fixture
async def rig(host, provider) -> Rig:
    made = Rig(host, provider)
    await made.create()
    await made.until(lambda: not isinstance(made.agent.state, Initializing))
    return made


@pytest.fixture
async def turn(rig) -> str:
    """A turn that was accepted and says nothing by itself."""
    rig.provider.starting = accept
    rig.agent.followup("go")
    await rig.logged("turn/accepted")
    return rig.session.turn
