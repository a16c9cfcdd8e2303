"""What clients can do through the endpoint, and what becomes of it when they vanish."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

import greenroom.timeline._model as wire_model
from greenroom.agents import AgentBusy, AgentNotFound, HostGone
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequest, PermissionRequested
from greenroom.sessions import SessionNotFound
from greenroom_control import Remote
from greenroom_control._errors import CLASSES, Refused, raised, refusal

from .rig import until, wire

pytestmark = pytest.mark.anyio


@pytest.fixture
async def kept(anyio_backend, place):
    """A host that serves, with a keeper of agents."""
    async with place.host(manager=True) as live:
        await live.control.serve()
        yield live


@pytest.fixture
async def remote(host):
    async with Remote(host.control.desk.host.data_directory / "endpoints/serve.sock") as connected:
        yield connected


@pytest.fixture
async def kept_remote(kept):
    async with Remote(kept.data_directory / "endpoints/serve.sock") as connected:
        yield connected


async def _accepted(session, _request):
    return session.turn


async def test_a_prompt_is_queued_and_its_id_is_told(host, remote, place) -> None:
    handle = await place.agent(host)
    answer = await remote.call("send", agent="a", text="hello")
    await handle.agent.when_idle()
    said = [event.data.message for event in handle.agent.session.tail if event.type == "user/message"]
    assert [message.id for message in said] == [answer["message"]]


async def test_send_can_wait_for_the_turn_that_takes_the_prompt(host, remote, place) -> None:
    handle = await place.agent(host)
    answer = await remote.call("send", agent="a", text="hello", wait=True)
    assert (answer["turn"], answer["reason"]) == (1, {"kind": "completed"})
    assert answer["seq"] == len(handle.agent.session) - 1


async def test_send_without_a_prompt_begins_with_what_waits(host, remote, place) -> None:
    handle = await place.agent(host)
    assert await remote.call("send", agent="a", wait=True) == {"message": None}
    waiting = handle.agent.send("later", "next-turn", wake=False)
    answer = await remote.call("send", agent="a", wait=True)
    assert (answer["message"], answer["turn"]) == (waiting.id, 1)


async def test_what_one_client_sends_in_a_row_arrives_in_a_row(host, client, place) -> None:
    handle = await place.agent(host)
    for number in range(20):
        await client.say(id=number, method="send", params={"agent": "a", "text": str(number), "wake": False})
    for _ in range(20):
        assert "result" in await client.hear()
    texts = [message.content[0].text for message in handle.agent.inbox.next_turn]
    assert texts == [str(number) for number in range(20)]


async def test_a_long_call_says_that_it_is_under_way_and_which_turn_it_is(host, client, place, monkeypatch) -> None:
    monkeypatch.setattr("greenroom_control._connection.WORKING", 0.02)
    host.provider.starting = _accepted
    await place.agent(host)
    await client.say(id=1, method="send", params={"agent": "a", "text": "x", "wait": True})
    kinds = set()
    while kinds != {"turn", "working"}:
        kinds.add((await client.hear())["progress"]["kind"])
    host.provider.session.end()
    while "progress" in (last := await client.hear()):
        pass
    assert last["result"]["reason"] == {"kind": "completed"}


async def test_a_prompt_is_steered_into_the_running_turn_and_the_turn_canceled(host, remote, place) -> None:
    host.provider.starting = _accepted
    await place.agent(host)
    await remote.call("send", agent="a", text="begin")
    await until(lambda: host.provider.sessions and host.provider.session.turns)
    assert (await remote.call("steer", agent="a", text="and this"))["outcome"] == "accepted"
    assert (await remote.call("cancel", agent="a"))["outcome"] == "settled"


async def test_a_cancel_at_rest_does_nothing(host, remote, place) -> None:
    handle = await place.agent(host)
    assert (await remote.call("cancel", agent="a"))["outcome"] == "not_running"
    await handle.dispose()
    assert (await remote.call("cancel", agent="a"))["outcome"] == "not_running"


async def test_a_stored_agent_is_opened_for_a_prompt(host, remote, place) -> None:
    handle = await place.agent(host)
    await handle.dispose()
    assert host.agents.get("a") is None
    assert (await remote.call("send", agent="last", text="again", wait=True))["reason"] == {"kind": "completed"}
    assert host.agents.get("a") is not None


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("send", {"agent": "nobody", "text": "x"}),
        ("fetch", {"agent": "nobody"}),
        ("subscribe", {"agent": "nobody"}),
        ("events", {"agent": "nobody"}),
    ],
)
async def test_an_unknown_session_is_the_same_error_as_at_home(remote, method, params) -> None:
    with pytest.raises(SessionNotFound, match="nobody"):
        if method in {"subscribe", "events"}:
            async with remote.follow(method, **params):
                pass
        else:
            await remote.call(method, **params)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("send", {"text": "x", "message": {"id": "m", "content": [], "source": {"kind": "user"}}}),
        ("steer", {}),
        ("send", {"text": "x", "target": "nowhere"}),
        ("fetch", {"limit": "many"}),
        ("fetch", {"cursor": {"epoch": "e"}}),
        ("fetch", {"direction": "sideways"}),
        ("events", {"seq": "first"}),
    ],
)
async def test_values_that_are_none_are_refused(host, client, place, method, params) -> None:
    await place.agent(host)
    assert (await client.ask(method, agent="a", **params))["error"]["code"] == "invalid_params"


@pytest.mark.parametrize("limit", [0, -1, 10**9, 0.5])
async def test_a_page_over_the_endpoint_is_bounded(host, remote, place, limit) -> None:
    handle = await place.agent(host)
    for _ in range(1_010):
        handle.agent.session.append("notice", {"message": "n", "level": "info"})
    page = (await remote.call("fetch", agent="a", limit=limit))["page"]
    assert (len(page["rows"]), page["has_older"]) == (1_000, True)


async def test_a_row_is_encoded_once_for_all_clients(host, place, monkeypatch) -> None:
    handle = await place.agent(host)
    made = []
    encode = wire_model._encode
    monkeypatch.setattr(wire_model, "_encode", lambda update: made.append(update) or encode(update))
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(wire(host.control.endpoint)) for _ in range(5)]
        for client in clients:
            await client.ask("subscribe", agent="a")
            assert (await client.hear())["update"]["kind"] == "snapshot"
        made.clear()
        handle.agent.session.append("notice", {"message": "n", "level": "info"})
        heard = [await client.hear() for client in clients]
    assert len({str(update) for update in heard}) == 1
    assert [type(update).__name__ for update in made] == ["RowAdded"]


async def test_a_client_that_vanishes_while_it_waits_takes_nothing_with_it(host, place) -> None:
    host.provider.starting = _accepted
    handle = await place.agent(host)
    async with wire(host.control.endpoint) as client:
        await client.say(id=1, method="send", params={"agent": "a", "text": "x", "wait": True})
        await client.say(id=2, method="subscribe", params={"agent": "a"})
        await until(lambda: host.provider.sessions and host.provider.session.turns)
    await until(lambda: not host.control.connections)
    assert handle.agent.status == "running"
    host.provider.session.end()
    await handle.agent.when_idle()
    assert handle.agent.session.tail[-1].type in {"turn/end", "agent/config"}


async def test_a_hundred_clients_that_come_and_go_leave_nothing(host, client, place) -> None:
    await place.agent(host)

    async def visit(number):
        async with wire(host.control.endpoint) as visitor:
            await visitor.say(id=1, method="subscribe", params={"agent": "a"})
            if number % 2:
                await visitor.hear()

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(visit, number)
    await until(lambda: len(host.control.connections) == 1)
    assert "result" in await client.ask("list")


async def test_when_the_host_leaves_those_who_follow_are_told(place) -> None:
    async with place.host() as host:
        await host.control.serve()
        await place.agent(host)
        remote = await Remote(place.folder / "endpoints/serve.sock").__aenter__()
        following = remote.follow("subscribe", agent="a")
        updates = await following.__aenter__()
        await anext(updates)
    with pytest.raises((HostGone, StopAsyncIteration)):
        while True:
            await anext(updates)
    await following.__aexit__(None, None, None)
    with pytest.raises(HostGone):
        await remote.call("list")
    await remote.__aexit__()


async def test_events_of_the_log_are_followed_until_the_agent_leaves(host, remote, place) -> None:
    handle = await place.agent(host)
    seen = []
    async with remote.follow("events", agent="a", seq=0) as events:
        await handle.agent.run("hello")
        await handle.dispose()
        seen.extend([(event["seq"], event["type"]) async for event in events])
    stored = await host.sessions.store.read_from("a", 0, limit=None)
    assert seen == [(event.seq, event.type) for event in stored]


async def test_what_needs_a_plugin_names_it(remote) -> None:
    with pytest.raises(GreenroomError) as refused:
        await remote.call("agents.archive", agent="x")
    assert refused.value.hint == "pip install greenroom-manager, and start the host again"


async def test_without_a_keeper_agents_are_created_shown_and_closed_all_the_same(host, remote, place) -> None:
    made = await remote.call("agents.create", provider="scripted", cwd=str(place.folder), title="T")
    agent_id = made["agent"]["record"]["id"]
    shown = await remote.call("agents.show", agent=agent_id)
    assert (shown["agent"]["record"]["title"], shown["agent"]["live"]) == ("T", True)
    assert shown["agent"]["state"]["name"] in {"initializing", "idle"}
    await remote.call("agents.close", agent=agent_id)
    assert host.agents.get(agent_id) is None


async def test_a_relative_directory_is_refused(remote) -> None:
    with pytest.raises(GreenroomError, match="no absolute path"):
        await remote.call("agents.create", provider="scripted", cwd="here")


async def test_the_life_of_an_agent_with_a_keeper(kept, kept_remote, place) -> None:
    call = kept_remote.call
    made = await call("agents.create", provider="scripted", cwd=str(place.folder), environment={"TOKEN": "secret"})
    agent_id = made["agent"]["record"]["id"]
    assert "environment" not in made["agent"]["record"]
    assert (await call("send", agent=agent_id, text="x", wait=True))["reason"] == {"kind": "completed"}
    assert [one["record"]["id"] for one in (await call("list"))["agents"]] == [agent_id]
    assert (await call("agents.update", agent=agent_id, title="new"))["agent"]["record"]["title"] == "new"
    assert "unread" in (await call("agents.unread", agent=agent_id))["agent"]["record"]
    assert "unread" not in (await call("agents.read", agent=agent_id))["agent"]["record"]
    assert (await call("agents.reload", agent=agent_id))["agent"]["live"]
    assert (await call("agents.archive", agent=agent_id))["results"] == {agent_id: None}
    assert (await call("list"))["agents"] == []
    assert "archived_at" not in (await call("agents.unarchive", agent=agent_id))["agent"]["record"]
    assert (await call("agents.delete", agent=agent_id))["results"] == {agent_id: None}
    with pytest.raises(AgentNotFound):
        await call("agents.show", agent=agent_id)


async def test_states_come_first_as_they_are_then_as_they_change_and_internal_ones_only_by_id(
    kept, kept_remote, place
) -> None:
    await kept_remote.call("agents.create", id="hidden", provider="scripted", cwd=str(place.folder), internal=True)
    await kept_remote.call("agents.create", id="a", provider="scripted", cwd=str(place.folder))
    async with kept_remote.follow("state.subscribe") as changes:
        assert (await anext(changes))["agent"] == "a"
        await kept_remote.call("send", agent="hidden", text="x", wait=True)
        await kept_remote.call("agents.update", agent="a", title="seen")
        while (change := await anext(changes))["snapshot"]["record"].get("title") != "seen":
            assert change["agent"] == "a"
    async with kept_remote.follow("state.subscribe", agent="hidden") as changes:
        assert (await anext(changes))["agent"] == "hidden"


async def test_a_question_is_listed_and_answered_once(kept, kept_remote, place) -> None:
    kept.provider.starting = _accepted
    await kept_remote.call("agents.create", id="a", provider="scripted", cwd=str(place.folder))
    await kept_remote.call("send", agent="a", text="x")
    await until(lambda: kept.provider.sessions and kept.provider.session.turns)
    session = kept.provider.session
    request = PermissionRequest(id="q", name="Edit", input={"path": "f"})
    session.emit(PermissionRequested(request=request, turn_id=session.turn))
    await until(lambda: kept.agents.get("a").questions)
    listed = (await kept_remote.call("permissions.list"))["questions"]
    assert listed == [{"agent": "a", "request": {"id": "q", "name": "Edit", "input": {"path": "f"}}}]
    await kept_remote.call("permissions.deny", agent="a", request="q", message="no")
    assert [(name, answer.message) for name, answer in session.responses] == [("q", "no")]
    with pytest.raises(GreenroomError):
        await kept_remote.call("permissions.allow", agent="a", request="q")
    with pytest.raises(GreenroomError):
        await kept_remote.call("permissions.allow", agent="a", request="unheard-of")
    session.end()


@pytest.mark.parametrize("code", CLASSES)
def test_an_error_is_the_same_class_on_the_other_side(code) -> None:
    there = raised(refusal(CLASSES[code]("what", hint="do")))
    assert (type(there), there.args[0], there.hint) == (CLASSES[code], "what", "do")


def test_a_subclass_travels_as_the_nearest_class_that_has_a_code() -> None:
    class Special(AgentBusy):
        pass

    assert refusal(Special("x")).code == "agent_busy"
    assert refusal(Refused("not_served", "x")).code == "not_served"
    assert refusal(RuntimeError("x")).code == "internal"
