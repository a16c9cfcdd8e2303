"""The module as a plugin of a host."""

from __future__ import annotations

from typing import ClassVar

import pytest

import greenroom_normalize
from greenroom import Host
from greenroom.providers import ShellDetail
from greenroom_testing import PluginConformance


class TestConformance(PluginConformance):
    """It loads and unloads without a trace."""

    plugin: ClassVar[object] = greenroom_normalize


@pytest.mark.anyio
async def test_the_host_asks_it_what_a_call_is_about(host: Host) -> None:
    record = await host.load(greenroom_normalize, name="normalize")
    assert record.state == "active", record.error
    found = host.hooks.normalize_tool_call(provider="x", name="Bash", input={"command": "ls"}, output=None)
    assert found == ShellDetail("ls")
