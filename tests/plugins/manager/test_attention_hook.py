"""What live agents make of it: the hook, the marks, the bell."""

from __future__ import annotations

import io

import anyio
import pytest

import greenroom_driver
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import PARENT_LABEL, AgentDirectory, AgentSpec, ClientReport, Presence
from greenroom.providers import PermissionAllow, PermissionRequest, PermissionRequested, TurnFailed
from greenroom_manager import ManagerPlugin
from greenroom_manager._attention_bell import BELL, ring
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept, answer

from .house import JUMPING

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=["asyncio", JUMPING], ids=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


class Listener:
    def __init__(self):
        self.heard = []
        self.notices = []

    @hookimpl
    def attention(self, agent, reason, notice):
        self.heard.append((agent.id, reason))
        self.notices.append(notice)


class Room:
    def __init__(self, host, provider, listener):
        self.host, self.provider, self.heard, self.notices = host, provider, listener.heard, listener.notices
        self.directory = host.service(AgentDirectory)
        self.presence = host.service(Presence)

    async def create(self, agent_id="a", **fields):
        return await self.directory.create(AgentSpec(id=agent_id, **fields))

    async def fail(self, agent):
        self.provider.starting = crash
        agent.followup("go")
        await agent.when_idle()
        self.provider.starting = answer

    async def ask(self, agent, *names):
        """Ask inside a running turn."""
        self.provider.starting = accept
        agent.followup("go")
        await agent.started()
        for name in names:
            request = PermissionRequest(id=name, name=name)
            self.provider.session.emit(PermissionRequested(request=request, turn_id=self.provider.session.turn))
        await self.until(lambda: list(agent.questions) == list(names))

    async def end(self, agent):
        self.provider.session.end()
        await agent.when_idle()

    async def until(self, condition):
        with anyio.fail_after(5):
            while True:
                if condition():
                    return
                await anyio.sleep(0.001)

    async def unread(self, agent_id="a"):
        mark = (await self.directory.find(agent_id)).record.unread
        return mark.reason if mark is not None else None

    def reasons(self):
        return [reason for _, reason in self.heard]


async def crash(session, _request):
    session.emit(TurnFailed(turn_id=session.turn, error="it broke"))


@pytest.fixture
async def room(anyio_backend):
    provider, listener = ScriptedProvider(), Listener()
    plugins = {
        "driver": greenroom_driver,
        "scripted": ScriptedPlugin(provider),
        "manager": ManagerPlugin(),
        "listener": listener,
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        assert [record.error for record in host.plugins()] == [None] * 4
        yield Room(host, provider, listener)


async def test_attention_is_told_with_words_when_an_agent_comes_to_rest(room):
    room.provider.reply = "All **done**."
    agent = await room.create(title="Fix it")
    await agent.run("go")
    await agent.when_idle()
    [notice] = room.notices
    assert (notice.reason, notice.title, notice.body) == ("finished", "Fix it finished", "All done.")
    assert (notice.client, notice.push) == (None, True)
    assert await room.unread() == "finished"


@pytest.mark.behaviour("P-199")
async def test_one_that_is_unread_is_not_told_again_and_a_new_run_begins_anew(room):
    agent = await room.create()
    await agent.run("one")
    await agent.when_idle()
    await agent.run("two")  # the new run takes the mark away, its end sets it again
    await agent.when_idle()
    assert room.reasons() == ["finished", "finished"]
    await room.directory.mark_read("a")
    await room.directory.mark_unread("a")
    await agent.run("three")
    await agent.when_idle()
    assert room.reasons() == ["finished", "finished"]
    assert await room.unread() == "marked"


@pytest.mark.behaviour("P-172")
async def test_the_first_question_is_told_once_and_marks_nothing(room):
    agent = await room.create()
    await room.ask(agent, "q1")
    assert room.reasons() == ["permission"]
    assert await room.unread() is None


@pytest.mark.behaviour("P-173")
async def test_a_second_question_while_the_first_is_open_is_not_told(room):
    agent = await room.create()
    await room.ask(agent, "q1", "q2")
    assert room.reasons() == ["permission"]
    await agent.respond("q1", PermissionAllow())
    assert room.reasons() == ["permission"]
    await agent.respond("q2", PermissionAllow())
    third = PermissionRequest(id="q3", name="q3")
    room.provider.session.emit(PermissionRequested(request=third, turn_id=room.provider.session.turn))
    await room.until(lambda: "q3" in agent.questions)
    assert room.reasons() == ["permission", "permission"]


@pytest.mark.behaviour("P-197")
async def test_what_was_read_stays_read_although_the_agent_is_in_error(room):
    agent = await room.create()
    await room.fail(agent)
    assert await room.unread() == "error"
    shown = await room.directory.mark_read("a")
    assert shown.record.unread is None
    assert shown.record.state == "error"
    await agent.refresh()
    await room.directory.update("a", title="other")
    assert await room.unread() is None
    await room.fail(agent)
    assert await room.unread() == "error"


@pytest.mark.behaviour("P-198")
async def test_each_new_failure_is_told_once_more(room):
    agent = await room.create()
    for _ in range(3):
        await room.fail(agent)
    assert room.reasons() == ["error"] * 3
    assert room.notices[0].body == "it broke"
    assert not any(notice.push for notice in room.notices)


@pytest.mark.behaviour("P-196")
async def test_of_internal_agents_nobody_is_told(room):
    agent = await room.create(internal=True)
    await agent.run("go")
    await agent.when_idle()
    await room.fail(agent)
    await room.ask(agent, "q")
    assert room.heard == []
    assert await room.unread() is None


@pytest.mark.behaviour("P-200")
async def test_of_one_that_works_for_another_nobody_is_told(room):
    await room.create("parent")
    child = await room.create("child", labels={PARENT_LABEL: "parent"})
    await child.run("go")
    await child.when_idle()
    await room.ask(child, "q")
    assert room.heard == []
    assert await room.unread("child") is None


@pytest.mark.behaviour("P-201")
async def test_a_mark_reaches_every_subscriber(room):
    await room.create()
    async with room.directory.subscribe() as first, room.directory.subscribe("a") as second:
        for changes in (first, second):
            assert (await anext(changes)).snapshot.record.unread is None
        await room.directory.mark_unread("a")
        for changes in (first, second):
            with anyio.fail_after(5):
                while (await anext(changes)).snapshot.record.unread is None:
                    pass


async def test_the_client_that_was_active_last_is_named_and_one_that_looks_at_it_keeps_it_quiet(room):
    agent = await room.create()
    now = int(room.host.sessions.ports.clock())
    for name in ("page", "desktop"):
        room.presence.enter(name)
    room.presence.heartbeat("desktop", ClientReport(kind="desktop", active_at=now))
    await agent.run("one")
    await agent.when_idle()
    assert (room.notices[-1].client, room.notices[-1].push) == ("desktop", False)
    room.presence.heartbeat("page", ClientReport(kind="web", active_at=now, focus="a"))
    await agent.run("two")
    await agent.when_idle()
    assert len(room.notices) == 1
    room.presence.leave("page")
    await agent.run("three")
    await agent.when_idle()
    assert len(room.notices) == 2


async def test_an_agent_that_is_closed_at_work_is_no_news(room):
    agent = await room.create()
    room.provider.starting = accept
    agent.followup("go")
    await agent.started()
    await room.directory.close("a")
    assert room.heard == []
    assert await room.unread() is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestBell:
    async def test_it_rings_on_a_terminal_for_the_reasons_of_the_settings(self):
        out = Terminal()
        assert ring("error", ("error",), out)
        assert not ring("finished", ("error",), out)
        assert out.getvalue() == BELL

    async def test_it_is_silent_where_the_output_is_no_terminal(self):
        out = io.StringIO()
        assert not ring("error", ("error",), out)
        assert out.getvalue() == ""

    async def test_the_plugin_rings_it(self, room, monkeypatch):
        out = Terminal()
        monkeypatch.setattr("sys.stdout", out)
        agent = await room.create()
        await agent.run("go")
        await agent.when_idle()
        assert out.getvalue() == BELL
