"""A host that keeps its agents, with a scripted provider."""

from __future__ import annotations

import pytest

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentDirectory
from greenroom.providers import RuntimeInfo
from greenroom_manager import ManagerPlugin
from greenroom_testing import ScriptedPlugin, ScriptedProvider

from .house import house


@pytest.fixture
async def provider(anyio_backend):
    scripted = ScriptedProvider()
    scripted.info = RuntimeInfo(model="m-1")
    return scripted


@pytest.fixture
async def host(provider):
    plugins = {"driver": greenroom_driver, "scripted": ScriptedPlugin(provider), "manager": ManagerPlugin()}
    async with Host(load_settings(), discovery=False, plugins=plugins) as live:
        assert [record.error for record in live.plugins() if record.state != "active"] == []
        yield live


@pytest.fixture
async def directory(host):
    return host.service(AgentDirectory)


@pytest.fixture
async def home(anyio_backend):
    async with house() as made:
        yield made
