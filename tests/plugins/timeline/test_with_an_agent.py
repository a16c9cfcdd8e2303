"""The timeline of a session that a driver writes: what a provider says, as a client sees it."""

from __future__ import annotations

import anyio
import pytest

import greenroom_timeline
from greenroom import Host, hookimpl, load_settings
from greenroom.agents import AgentOptions, AgentSpec
from greenroom.providers import TextDelta, TurnCompleted, TurnStarted, UserEcho
from greenroom.sessions.vocabulary import Message, Text, UserSource
from greenroom.timeline import Patched, RowAdded, TimelineService
from greenroom_driver import DriverFactory
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

pytestmark = pytest.mark.anyio


class PlainDriver:
    """The driver without the leading edge, so that a reply that comes at once is one piece."""

    @hookimpl
    def agent_factory(self, host):
        return DriverFactory(host, leading=False)


@pytest.fixture
async def provider():
    return ScriptedProvider()


@pytest.fixture
async def host(anyio_backend, provider):
    plugins = {
        "driver": PlainDriver(),
        "scripted": ScriptedPlugin(provider),
        "timeline": greenroom_timeline.TimelinePlugin(),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins) as live:
        assert [record.error for record in live.plugins() if record.state != "active"] == []
        yield live


@pytest.fixture
async def agent(host):
    return (await host.agents.create(AgentSpec(options=AgentOptions()), owner=host.scope)).agent


async def take_until_quiet(host, agent, updates):
    """Every update up to where the page of now ends."""
    end = (await host.service(TimelineService).fetch(agent.id)).end
    found = []
    while updates.cursor != end:
        found.append(await anext(updates))
    return found


@pytest.mark.behaviour("P-207")
async def test_a_streamed_reply_becomes_one_row_and_one_update_of_the_epoch_that_fetch_reports(host, agent, provider):
    provider.starting = accept
    timeline = host.service(TimelineService)
    async with timeline.subscribe(agent.id) as updates:
        await anext(updates)
        accepted = anyio.Event()
        agent.session.observe(lambda event: accepted.set() if event.type == "turn/accepted" else None)
        agent.followup("go")
        await accepted.wait()
        for piece in ("a ", "streamed ", "reply"):
            provider.session.say(piece)
        provider.session.end()
        await agent.when_idle()
        replies = [
            update
            for update in await take_until_quiet(host, agent, updates)
            if isinstance(update, RowAdded) and update.row.type == "assistant/message" and update.row.data["text"]
        ]
        page = await timeline.fetch(agent.id)
        [row] = [row for row in page.rows if row.type == "assistant/message" and row.data["text"]]
        assert [(update.row, row.data["text"]) for update in replies] == [(row, "a streamed reply")]
        assert (updates.cursor, updates.cursor.epoch) == (page.end, agent.session.epoch)


@pytest.mark.behaviour("P-245")
async def test_the_echo_of_a_prompt_is_a_patch_of_its_row_and_no_row(host, agent, provider):
    async def echo(session, request):
        message = request.messages[-1]
        session.emit(
            UserEcho(text="go", provider_message_id="native", client_message_id=message.id, turn_id=session.turn),
            TextDelta(text="yes", message_id="m", turn_id=session.turn),
        )
        session.end()

    provider.starting = echo
    async with host.service(TimelineService).subscribe(agent.id) as updates:
        await anext(updates)
        await agent.run("go")
        found = await take_until_quiet(host, agent, updates)
    prompts = [u.row for u in found if isinstance(u, RowAdded) and u.row.type == "user/message"]
    patches = [u.patch for u in found if isinstance(u, Patched)]
    assert [(patch.update, patch.data) for patch in patches] == [(prompts[0].seq, {"provider_message_id": "native"})]
    assert len(prompts) == 1


async def test_the_timeline_of_an_agent_goes_on_in_its_session_when_it_is_closed(host, provider):
    handle = await host.agents.create(AgentSpec(options=AgentOptions()), owner=host.scope)
    await handle.agent.run("go")
    timeline = host.service(TimelineService)
    live = await timeline.fetch(handle.agent.id, limit=0)
    await handle.dispose()
    stored = await timeline.fetch(handle.agent.id, limit=0)
    assert stored.rows[: len(live.rows)] == live.rows
    assert stored.epoch == live.epoch


async def rows_of_prompts(host, agent):
    page = await host.service(TimelineService).fetch(agent.id)
    return [row for row in page.rows if row.type == "user/message"]


def text_of(row):
    return row.data["message"]["content"][0]["text"]


@pytest.mark.behaviour("P-240")
async def test_the_id_that_a_prompt_was_given_stands_in_its_row_and_in_the_update(host, agent):
    async with host.service(TimelineService).subscribe(agent.id) as updates:
        await anext(updates)
        await agent.run(Message("given-id", (Text("go"),), UserSource()))
        [update] = [
            update.row
            for update in await take_until_quiet(host, agent, updates)
            if isinstance(update, RowAdded) and update.row.type == "user/message"
        ]
    [row] = await rows_of_prompts(host, agent)
    assert update.data["message"]["id"] == row.data["message"]["id"] == "given-id"


@pytest.mark.behaviour("P-241")
async def test_an_echo_with_the_id_and_text_of_the_prompt_adds_no_row_however_often_it_comes(host, agent, provider):
    async def echo(session, request):
        for _ in range(2):
            session.emit(
                UserEcho(
                    text="go",
                    provider_message_id="native",
                    client_message_id=request.messages[-1].id,
                    turn_id=session.turn,
                )
            )
        session.end()

    provider.starting = echo
    await agent.run("go")
    [row] = await rows_of_prompts(host, agent)
    assert text_of(row) == "go"


@pytest.mark.behaviour("P-248")
@pytest.mark.parametrize(("given", "ours"), [(None, False), ("", False), (" \n", False), ("  {} ", True), ("{}", True)])
async def test_a_blank_id_of_our_message_counts_as_none_and_another_one_is_trimmed(host, agent, provider, given, ours):
    async def echo(session, request):
        mine = None if given is None else given.format(request.messages[-1].id)
        session.emit(
            UserEcho(text="other words", provider_message_id="native", client_message_id=mine, turn_id=session.turn)
        )
        session.end()

    provider.starting = echo
    await agent.run("go")
    told = [row.data.get("provider_message_id") for row in await rows_of_prompts(host, agent)]
    assert told == ["native" if ours else None]  # one that names nobody was typed elsewhere, and opens a turn


@pytest.mark.behaviour("P-249")
@pytest.mark.parametrize("ident", ["", "  ", "\t"])
async def test_a_message_without_an_id_is_given_one_and_another_keeps_its_own(host, agent, ident):
    sent = agent.followup(Message(ident, (Text("first"),), UserSource()))
    await agent.when_idle()
    await agent.run(Message("mine", (Text("second"),), UserSource()))
    ids = [row.data["message"]["id"] for row in await rows_of_prompts(host, agent)]
    assert ids == [sent.id, "mine"]
    assert len(sent.id) > len(ident)
    assert sent.id.strip()


@pytest.mark.behaviour("P-242")
async def test_what_was_typed_elsewhere_under_another_id_is_a_row_of_its_own(host, agent, provider):
    await agent.run("go")
    provider.session.emit(UserEcho(text="typed", provider_message_id="other"), TurnStarted(turn_id="own"))
    provider.session.emit(TurnCompleted(turn_id="own"))
    await logged(agent, "turn/end", 2)
    assert [text_of(row) for row in await rows_of_prompts(host, agent)] == ["go", "typed"]


@pytest.mark.behaviour("P-244")
async def test_a_message_that_only_the_provider_knows_is_a_row(host, agent, provider):
    provider.session.emit(UserEcho(text="typed", provider_message_id="other"), TurnStarted(turn_id="own"))
    provider.session.emit(TurnCompleted(turn_id="own"))
    await logged(agent, "turn/end", 1)
    [row] = await rows_of_prompts(host, agent)
    assert text_of(row) == "typed"


async def logged(agent, kind, count):
    """Wait until the log holds so many events of a type."""
    done = anyio.Event()

    def look(_event=None):
        if sum(event.type == kind for event in agent.session.tail) >= count:
            done.set()

    undo = agent.session.observe(look)
    look()
    await done.wait()
    undo()
