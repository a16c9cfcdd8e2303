from typing import ClassVar

import pytest
from greenroom import Host
from greenroom_testing import PluginConformance

import {{package}}


class TestConformance(PluginConformance):
    """It loads, unloads without a trace, and survives a wrong setting."""

    plugin: ClassVar[object] = {{package}}


@pytest.mark.anyio
async def test_it_offers_a_greeter(host: Host) -> None:
    record = await host.load({{package}}, name="{{name}}")
    assert record.state == "active", record.error
    greeter = host.service({{package}}.Greeter)
    assert greeter is not None
    assert greeter.greet("Ada") == "hello, Ada"


@pytest.mark.anyio
async def test_the_greeter_leaves_with_the_plugin(host: Host) -> None:
    await host.load({{package}}, name="{{name}}")
    await host.unload("{{name}}")
    assert host.service({{package}}.Greeter) is None
