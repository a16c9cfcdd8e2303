"""Reloading an agent: what stays, what is never two, and what is left when it does not work."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import (
    AgentArchived,
    AgentOptions,
    AgentSpec,
    CancelRefused,
    Closed,
    DisposeFailed,
    Failed,
    Resting,
)
from greenroom.errors import GreenroomError
from greenroom.providers import (
    MessageDone,
    PermissionRequest,
    PermissionRequested,
    ProviderError,
    SubAgent,
    TurnCompleted,
    UserEcho,
)
from greenroom_testing import ScriptedProvider, accept, hang

from .house import JUMPING, Fails, Gate, house

pytestmark = pytest.mark.anyio


def heal(home) -> None:
    fresh = ScriptedProvider()
    home.provider.opening, home.provider.closing = fresh.opening, fresh.closing
    home.provider.starting, home.provider.interrupting = fresh.starting, fresh.interrupting


async def refuse(_session):
    raise ProviderError("not now")


@pytest.mark.behaviour("P-024")
async def test_the_processes_of_a_reloaded_agent_get_its_id_and_the_stored_variables(home) -> None:
    await home.directory.create(AgentSpec(id="a"), environment={"TOKEN": "t"})
    first = home.provider.session
    await home.directory.reload("a")
    assert home.provider.session is not first
    env = home.provider.session.link.env
    assert env["GREENROOM_AGENT_ID"].startswith("a:")
    assert env["TOKEN"] == "t"


@pytest.mark.behaviour("P-051")
async def test_a_mode_that_was_chosen_survives_a_reload(home) -> None:
    agent = await home.create("a", options=AgentOptions(mode="default"))
    await agent.set_mode("plan")
    home.provider.info = type(home.provider.info)(model="scripted-1", mode="plan")
    await home.directory.reload("a")
    assert home.provider.opened[-1].mode == "plan"
    record = await home.record("a")
    assert record.settings.mode == "plan"
    assert record.runtime.mode == "plan"


@pytest.mark.behaviour("P-052")
async def test_a_reload_keeps_epoch_and_timeline_and_replays_no_history(home) -> None:
    agent = await home.create("a")
    await agent.run("hello")
    home.provider.past = [
        UserEcho(text="hello", provider_message_id="p-1"),
        MessageDone(message_id="m", text="ok"),
        TurnCompleted(turn_id="turn-1"),
    ]
    shown = ("turn/", "step/", "user/message", "assistant/")
    epoch = agent.session.epoch
    before = [event for event in await agent.session.events(0) if event.type.startswith(shown)]
    assert await home.directory.reload("a") is agent
    assert [event for event in await agent.session.events(0) if event.type.startswith(shown)] == before
    assert agent.session.epoch == epoch
    await agent.hydrate()
    after = [event for event in await agent.session.events(0) if event.type.startswith(shown)]
    assert after == before


@pytest.mark.behaviour("P-053")
async def test_a_reload_keeps_a_title_that_was_given_later(home) -> None:
    await home.create("a")
    await home.directory.update("a", title="made of the first prompt")
    await home.directory.reload("a")
    assert (await home.record("a")).title == "made of the first prompt"


@pytest.mark.behaviour("P-054")
async def test_a_reload_in_the_middle_of_a_turn_ends_it_and_continues_the_conversation(home) -> None:
    home.provider.starting = accept
    agent = await home.create("a")
    agent.followup("go on")
    await home.until(lambda: home.provider.session.turn is not None)
    first = home.provider.session
    await home.directory.reload("a")
    ends = [event.data.reason.kind for event in await agent.session.events(0, types=["turn/end"])]
    assert ends == ["aborted"]
    assert first.closed
    assert home.provider.opened[-1].handle.native_id == "native-1"
    assert home.writers() == ["a"]


@pytest.mark.behaviour("P-056", "P-057")
@pytest.mark.parametrize("way", ["reload", "reload rehydrated", "close and open"])
async def test_nothing_is_opened_before_the_old_writer_is_gone(home, way) -> None:
    agent = await home.create("a")
    await agent.run("hello")
    home.provider.closing = gate = Gate()

    async def go() -> None:
        if way == "close and open":
            await home.directory.close("a")
            await home.directory.open("a")
        else:
            home.provider.past = [UserEcho(text="hello", provider_message_id="p-1"), TurnCompleted(turn_id="t")]
            await home.directory.reload("a", rehydrate=way != "reload")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        assert len(home.provider.opened) == 1
        home.provider.closing = ScriptedProvider().closing
        gate.go.set()
    assert len(home.provider.opened) == 2
    assert home.writers() == ["a"]


@pytest.mark.behaviour("P-056")
async def test_an_old_session_that_will_not_close_is_kept_and_works_on(home) -> None:
    agent = await home.create("a")
    await agent.run("hello")
    first = home.provider.session
    home.provider.closing = Fails(ProviderError("it would not die"))
    with pytest.raises(DisposeFailed, match="it would not die"):
        await home.directory.reload("a")
    assert len(home.provider.opened) == 1
    assert home.live("a") is agent
    assert isinstance(agent.state, Failed)
    snapshot = await home.directory.find("a")
    assert (snapshot.record.state, type(snapshot.state)) == ("error", Failed)
    assert (await agent.run("still there?")).text == "ok"
    assert home.provider.session is first
    heal(home)
    await home.directory.reload("a")
    assert isinstance(agent.state, Resting)
    assert (await home.record("a")).state == "idle"
    assert home.writers() == ["a"]


@pytest.mark.behaviour("P-058")
async def test_an_opening_waits_for_the_reload_that_goes_on(home) -> None:
    agent = await home.create("a")
    home.provider.closing = gate = Gate()
    found = []

    async def open_() -> None:
        found.append((await home.directory.open("a"), len(home.provider.opened)))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.reload, "a")
        await gate.reached.wait()
        tasks.start_soon(open_)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        gate.go.set()
    assert found == [(agent, 2)]


@pytest.mark.behaviour("P-059")
@pytest.mark.parametrize("moment", ["closing", "opening"])
async def test_a_close_while_an_agent_reloads_leaves_the_replacement_closed(home, moment) -> None:
    await home.create("a", title="A")
    gate = Gate()
    setattr(home.provider, moment, gate)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.reload, "a")
        await gate.reached.wait()
        tasks.start_soon(home.directory.close, "a")
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert home.live("a") is None
    assert home.writers() == []
    assert (await home.record("a")).state == "closed"
    assert home.ways.idle


@pytest.mark.parametrize("anyio_backend", [JUMPING], ids=["trio"])
@pytest.mark.behaviour("P-056", "P-060")
async def test_a_reload_that_is_tried_again_waits_for_the_close_that_hangs(home) -> None:
    agent = await home.create("a", title="A")
    home.provider.closing = gate = Gate()
    with pytest.raises(DisposeFailed, match="still being reloaded"):
        await home.directory.reload("a")
    assert isinstance(agent.state, Failed)
    assert isinstance((await home.directory.find("a")).state, Failed)
    assert len(home.provider.opened) == 1
    ended = []

    async def again() -> None:
        await home.directory.reload("a")
        ended.append(len(home.provider.opened))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(again)
        await anyio.sleep(30)
        assert ended == []
        gate.go.set()
    assert ended == [2]
    assert gate.calls == 1
    assert isinstance(agent.state, Resting)
    assert home.writers() == ["a"]
    assert home.ways.idle


@pytest.mark.parametrize("anyio_backend", [JUMPING], ids=["trio"])
async def test_a_close_of_an_agent_whose_old_session_hangs_ends_with_an_error_and_not_never(home) -> None:
    await home.create("a", title="A")
    home.provider.closing = hang
    with pytest.raises(DisposeFailed):
        await home.directory.reload("a")
    with anyio.fail_after(300), pytest.raises(DisposeFailed):
        await home.directory.close("a")
    assert (await home.record("a")).state == "closed"
    heal(home)
    await home.directory.close("a")
    assert home.writers() == []


@pytest.mark.behaviour("P-061")
async def test_a_reload_whose_new_session_does_not_open_leaves_a_closed_agent_that_can_be_opened(home) -> None:
    agent = await home.create("a", title="A title")
    await agent.run("hello")
    home.provider.opening = Fails(ProviderError("no program"))
    with pytest.raises(ProviderError, match="no program"):
        await home.directory.reload("a")
    snapshot = await home.directory.find("a")
    assert isinstance(snapshot.state, Closed)
    assert not snapshot.live
    assert (snapshot.record.title, snapshot.record.native.native_id) == ("A title", "native-1")
    assert "no program" in snapshot.record.last_error
    assert home.writers() == []
    assert home.ways.idle
    heal(home)
    await home.directory.open("a")
    assert home.provider.opened[-1].handle.native_id == "native-1"


@pytest.mark.behaviour("P-062")
async def test_a_reload_that_a_shutdown_meets_leaves_a_closed_agent_and_no_replacement(anyio_backend) -> None:
    provider, errors = ScriptedProvider(), []
    provider.closing = gate = Gate()

    async def reload(home) -> None:
        try:
            await home.directory.reload("a")
        except GreenroomError as error:
            errors.append(error)

    async def let_go() -> None:
        await anyio.wait_all_tasks_blocked()
        gate.go.set()

    async with anyio.create_task_group() as tasks, house(provider=provider) as home:
        await home.create("a", title="A")
        tasks.start_soon(reload, home)
        await gate.reached.wait()
        tasks.start_soon(let_go)
    assert len(errors) == 1
    assert len(provider.opened) == 1
    assert home.writers() == []
    async with house(home.medium) as again:
        assert (await again.record("a")).state == "closed"


@pytest.mark.behaviour("P-062")
async def test_nothing_is_opened_when_what_the_old_session_left_cannot_be_stored(home) -> None:
    agent = await home.create("a", title="A")

    async def no_room(*_given, **_named):
        raise OSError("no space left")

    flush, agent.session.flush = agent.session.flush, no_room
    with pytest.raises(OSError, match="no space"):
        await home.directory.reload("a")
    agent.session.flush = flush
    assert len(home.provider.opened) == 1
    assert home.live("a") is None
    assert home.writers() == []
    assert (await home.record("a")).state == "closed"


@pytest.mark.parametrize("anyio_backend", [JUMPING], ids=["trio"])
@pytest.mark.behaviour("P-064")
async def test_a_cancel_that_is_refused_ends_the_reload_and_the_turn_goes_on(home) -> None:
    home.provider.starting, home.provider.interrupting = accept, refuse
    agent = await home.create("a")
    agent.followup("go on")
    await home.until(lambda: home.provider.session.turn is not None)
    first = home.provider.session
    with pytest.raises(CancelRefused):
        await home.directory.reload("a")
    assert agent.status == "running"
    assert not first.closed
    assert len(home.provider.opened) == 1
    first.say("done")
    first.end()
    await agent.when_idle()
    ends = [event.data.reason.kind for event in await agent.session.events(0, types=["turn/end"])]
    assert ends == ["completed"]
    assert home.ways.idle


@pytest.mark.behaviour("P-065")
async def test_a_reload_cancels_the_children_of_the_provider_that_run_behind_those_that_ended(home) -> None:
    agent = await home.create("a")
    first = home.provider.session
    for child in ("done", "running"):
        first.emit(SubAgent(action="upsert", child_id=child, status="running"))

    async def closing(session) -> None:
        session.emit(SubAgent(action="upsert", child_id="done", status="completed"))

    home.provider.closing = closing
    await home.directory.reload("a")
    events = await agent.session.events(0, types=["subagent/upserted"])
    assert [(event.data.child_id, event.data.status) for event in events][2:] == [
        ("done", "completed"),
        ("running", "canceled"),
    ]


async def test_a_question_of_the_old_session_is_withdrawn(home) -> None:
    agent = await home.create("a")
    home.provider.session.emit(PermissionRequested(request=PermissionRequest(id="q", name="shell", kind="tool")))
    await home.until(lambda: agent.questions)
    await home.directory.reload("a")
    assert agent.questions == {}


async def test_an_archived_agent_is_not_reloaded_and_a_closed_one_is_opened(home) -> None:
    await home.create("a", title="A")
    await home.directory.close("a")
    agent = await home.directory.reload("a")
    assert home.live("a") is agent
    await home.directory.archive("a")
    with pytest.raises(AgentArchived):
        await home.directory.reload("a")


async def test_concurrent_reloads_share_one(home) -> None:
    await home.create("a")
    home.provider.closing = gate = Gate()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(home.directory.reload, "a")
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert len(home.provider.opened) == 2
