"""The plugin in a host: offered, found, gone."""

from __future__ import annotations

import pytest

import greenroom_timeline
from greenroom import Host
from greenroom.timeline import TimelineService

pytestmark = pytest.mark.anyio


async def create(host, session_id):
    return (await host.sessions.create(host.sessions.new_header(session_id))).session


async def test_the_service_is_there_while_the_plugin_is_and_follows_sessions_that_come_and_go(anyio_backend):
    plugin = greenroom_timeline.TimelinePlugin()
    async with Host(discovery=False, plugins={"timeline": plugin}) as host:
        session = await create(host, "s")
        timeline = host.service(TimelineService)
        session.append("notice", {"level": "info", "message": "one"})
        assert len((await timeline.fetch("s")).rows) == 1
        async with timeline.subscribe("s") as updates:
            await anext(updates)
            await host.unload("timeline")
            with pytest.raises(StopAsyncIteration):
                await anext(updates)
        assert host.service(TimelineService) is None
        session.append("notice", {"level": "info", "message": "nobody listens"})


async def test_loaded_later_it_shows_sessions_that_were_there_before(anyio_backend):
    async with Host(discovery=False) as host:
        session = await create(host, "s")
        session.append("notice", {"level": "info", "message": "one"})
        before = str(host.effects())
        await host.load(greenroom_timeline.TimelinePlugin(), name="timeline")
        timeline = host.service(TimelineService)
        assert len((await timeline.fetch("s")).rows) == 1
        assert [entry.seq for entry in timeline.project(await session.events(0))] == [0]
        await host.unload("timeline")
        assert str(host.effects()) == before


async def test_rows_of_plugins_types_come_and_go_with_their_plugin(anyio_backend):
    import msgspec

    from greenroom import hookimpl
    from greenroom.sessions import EventType

    class Mark(msgspec.Struct, frozen=True):
        text: str

    class Marks:
        @hookimpl
        def event_types(self):
            return [EventType("marks/mark", Mark, enclosure="free", timeline="row")]

    async with Host(discovery=False, plugins={"timeline": greenroom_timeline.TimelinePlugin()}) as host:
        await host.load(Marks(), name="marks")
        session = await create(host, "s")
        session.append("marks/mark", {"text": "here"})
        [row] = (await host.service(TimelineService).fetch("s")).rows
        assert (row.type, row.data) == ("marks/mark", {"text": "here"})


async def test_one_plugin_object_serves_two_hosts_without_mixing_their_sessions(anyio_backend):
    plugins = {"timeline": greenroom_timeline.TimelinePlugin()}
    async with Host(discovery=False, plugins=plugins) as one, Host(discovery=False, plugins=plugins) as two:
        for host, text in ((one, "first"), (two, "second")):
            (await create(host, "s")).append("notice", {"level": "info", "message": text})
        for host, text in ((one, "first"), (two, "second")):
            timeline = host.service(TimelineService)
            assert [row.data["message"] for row in (await timeline.fetch("s")).rows] == [text]
        entered = await two.sessions.prepare(two.sessions.new_header("t"))
        async with one.service(TimelineService).subscribe("s") as updates:
            await anext(updates)
            two.sessions.enter(entered)
            one.sessions.get("s").append("notice", {"level": "info", "message": "still followed"})
            assert (await anext(updates)).row.data["message"] == "still followed"
