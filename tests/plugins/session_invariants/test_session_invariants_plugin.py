"""The companion as a plugin of a host."""

from __future__ import annotations

from typing import ClassVar

import pytest

from greenroom import Host, load_settings
from greenroom.sessions import InvariantsViolated
from greenroom.sessions.vocabulary import Notice, StepStart, Trigger, TurnStart
from greenroom_session_invariants import SessionInvariants
from greenroom_testing import PluginConformance

NOTE = Notice("info", "x")


class TestConformance(PluginConformance):
    """It loads and unloads without a trace."""

    plugin: ClassVar[object] = SessionInvariants()
    settings: ClassVar[dict[str, str]] = {"enclosure": "strict"}


async def new_session(host):
    return (await host.sessions.create(host.sessions.new_header(cwd="/tmp", provider="none"))).session


@pytest.mark.anyio
@pytest.mark.behaviour("D-151", "D-163")
async def test_it_watches_every_session_also_those_that_were_live_before_it(host):
    earlier = await new_session(host)
    earlier.append("turn/start", TurnStart(1, Trigger("message")))
    await host.load(SessionInvariants(), name="session-invariants")
    later = await new_session(host)
    earlier.append("step/start", StepStart(1, 1))
    with pytest.raises(InvariantsViolated, match="outside a turn"):
        later.append("step/start", StepStart(1, 1))
    with pytest.raises(InvariantsViolated, match="turn 1 is still open"):
        earlier.append("turn/start", TurnStart(2, Trigger("message")))
    await host.unload("session-invariants")
    later.append("step/start", StepStart(1, 1))


@pytest.mark.anyio
@pytest.mark.parametrize("enclosure", ["declared", "strict"])
async def test_its_setting_decides_whether_free_events_need_a_turn(tmp_path, anyio_backend, enclosure):
    settings = load_settings(overrides={"plugins.session-invariants.enclosure": enclosure})
    async with Host(settings, data_directory=tmp_path, discovery=False) as host:
        record = await host.load(SessionInvariants(), name="session-invariants")
        assert record.state == "active", record.error
        session = await new_session(host)
        if enclosure == "declared":
            session.append("notice", NOTE)
        else:
            with pytest.raises(InvariantsViolated, match="strict") as caught:
                session.append("notice", NOTE)
            assert "session-invariants" in caught.value.exceptions[0].plugin
            event = await session.append_enclosed("notice", NOTE)
            assert (event.seq, len(session)) == (1, 3)
