"""A host whose agents are driven by the real driver or by a second, tiny factory."""

from __future__ import annotations

import pytest

import greenroom_driver
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentOptions, AgentSpec
from greenroom.sessions import MemoryStore
from greenroom_testing import ScriptedPlugin, ScriptedProvider

from .echo import EchoPlugin


class Stored:
    """Keeps sessions in a store that outlives its host."""

    def __init__(self, store) -> None:
        self.store = store

    @hookimpl
    def session_store(self, settings):
        return self.store


@pytest.fixture(params=["driver", "echo"])
def factory(request) -> object:
    return greenroom_driver if request.param == "driver" else EchoPlugin()


@pytest.fixture
def provider() -> ScriptedProvider:
    return ScriptedProvider()


@pytest.fixture
def plugins(factory, provider) -> dict[str, object]:
    return {"driver": factory, "scripted": ScriptedPlugin(provider)}


@pytest.fixture
async def host(anyio_backend, plugins):
    async with Host(load_settings(), discovery=False, plugins=plugins) as live:
        assert all(record.state == "active" for record in live.plugins()), live.plugins()
        yield live


def spec(**fields) -> AgentSpec:
    """A spec; `provider`, `model` and `max_output_tokens` go into its options."""
    names = {"provider", "model", "max_output_tokens", "inject"}
    options = {name: fields.pop(name) for name in list(fields) if name in names}
    return AgentSpec(options=AgentOptions(**options), **fields)


@pytest.fixture
def medium():
    from greenroom.sessions import Medium

    return Medium()


@pytest.fixture
def stored(medium):
    """A plugin whose store lies on `medium`, for a host that is started again."""
    return lambda: Stored(MemoryStore(medium))
