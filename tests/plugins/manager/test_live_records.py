"""What is kept of an agent while it lives: configuration, what the provider reports, states, completion."""

from __future__ import annotations

import anyio
import pytest

from greenroom.agents import AgentNotFound, AgentOptions, AgentSpec, Closed, Initializing, Resting, Running
from greenroom.providers import ConfigChanged, Mode, RuntimeInfo, SessionStarted, TurnFailed, Usage, UsageUpdated
from greenroom.sessions import Medium, MemoryStore
from greenroom_manager._records import NAMESPACE
from greenroom_manager._row import decode
from greenroom_testing import ScriptedProvider, ScriptedSession, accept, hang

from .house import Gate, house

pytestmark = pytest.mark.anyio


async def on_disk(home, agent_id):
    """The record as another process reads it."""
    return decode(agent_id, (await MemoryStore(home.medium).records(NAMESPACE).get(agent_id)).value)


async def settled(home, agent):
    """Wait until the agent rests and everything that is known of it is stored."""
    await agent.when_idle()
    await anyio.wait_all_tasks_blocked()
    return await on_disk(home, agent.id)


async def begin(agent, text):
    """Open a turn and wait until the provider has accepted it."""
    accepted = anyio.Event()
    undo = agent.session.observe(lambda event: accepted.set() if event.type == "turn/accepted" else None)
    agent.followup(text)
    await accepted.wait()
    undo()


@pytest.mark.behaviour("P-020")
async def test_a_title_stands_on_disk_and_the_agent_is_idle_when_create_returns(home):
    agent = await home.create(title="a title")
    stored = await on_disk(home, agent.id)
    assert (stored.title, stored.state) == ("a title", "idle")
    assert agent.state == Resting()


class Revealing(ScriptedSession):
    """Tells its native id as soon as it is opened."""

    def __init__(self, provider, request, link):
        super().__init__(provider, request, link)
        self.reveal("native-7")


@pytest.mark.behaviour("P-021")
async def test_what_the_provider_uses_and_its_conversation_are_known_when_create_returns(anyio_backend):
    provider = ScriptedProvider()
    provider.session_type = Revealing
    provider.info = RuntimeInfo(model="m-9", mode="plan", context_window=1_000)
    async with house(provider=provider) as home:
        agent = await home.create()
        record = (await home.directory.find(agent.id)).record
        assert (record.runtime.model, record.runtime.mode, record.runtime.context_window) == ("m-9", "plan", 1_000)
        assert record.native.native_id == agent.session.state.native_id == "native-7"
        assert await on_disk(home, agent.id) == record


async def test_what_the_provider_reports_at_first_is_not_what_was_asked_for(home):
    agent = await home.create(options=AgentOptions(mode="plan"))
    record = await on_disk(home, agent.id)
    assert (record.settings.model, record.settings.mode) == (None, "plan")
    assert (record.runtime.model, record.runtime.mode) == ("scripted-1", "default")


@pytest.mark.behaviour("P-182")
async def test_changes_of_mode_model_and_thinking_are_stored_without_anybody_listening(home):
    agent = await home.create()
    await agent.set_mode("plan")
    await agent.set_model("m-2")
    await agent.set_thinking("high")
    stored = await settled(home, agent)
    for kept in (stored.settings, stored.runtime):
        assert (kept.mode, kept.model, kept.thinking) == ("plan", "m-2", "high")


@pytest.mark.behaviour("P-183")
@pytest.mark.behaviour("P-184")
async def test_what_drifts_by_itself_is_kept_in_what_is_asked_for_and_used_and_makes_no_row(home):
    agent = await home.create()
    before = len(agent.session)
    modes = (Mode(id="a", label="A"), Mode(id="b", label="B"))
    home.provider.session.emit(ConfigChanged(mode="b", modes=modes, model="m-3", thinking="low"))
    stored = await settled(home, agent)
    for kept in (stored.settings, stored.runtime):
        assert (kept.mode, kept.model, kept.thinking) == ("b", "m-3", "low")
    assert list(agent.modes) == list(modes)
    assert [event.type for event in await agent.session.events(before)] == ["agent/config"]


class Slow(ScriptedSession):
    """Reports a drift while it is told to change, and only then does what it was told."""

    async def set_model(self, model):
        self.emit(ConfigChanged(model="drifted"))
        await super().set_model(model)


@pytest.mark.behaviour("P-185")
async def test_an_explicit_change_beats_a_drift_that_was_queued_before_it(anyio_backend):
    provider = ScriptedProvider()
    provider.session_type = Slow
    async with house(provider=provider) as home:
        agent = await home.create()
        await agent.set_model("chosen")
        stored = await settled(home, agent)
        assert (stored.settings.model, stored.runtime.model) == ("chosen", "chosen")
        changes = [e.data.model for e in await agent.session.events(0, types=["agent/config"]) if e.data.model]
        assert changes[-2:] == ["drifted", "chosen"]


class Clamping(ScriptedSession):
    """A model without the thinking level that was chosen: it says what it uses instead, and a new conversation."""

    async def set_model(self, model):
        await super().set_model(model)
        self.emit(ConfigChanged(thinking="low"), SessionStarted(native_id="native-2"))

    async def runtime_info(self):
        if self.config:
            raise RuntimeError("cannot say")
        return RuntimeInfo(model="m-1", thinking="high")


@pytest.mark.behaviour("P-186")
async def test_a_change_of_model_keeps_the_thinking_level_that_it_allows_and_the_new_conversation(anyio_backend):
    provider = ScriptedProvider()
    provider.session_type = Clamping
    async with house(provider=provider) as home:
        agent = await home.create(options=AgentOptions(thinking="high"))
        await agent.set_model("small")
        stored = await settled(home, agent)
        assert (stored.settings.model, stored.settings.thinking, stored.runtime.thinking) == ("small", "low", "low")
        assert stored.native.native_id == "native-2"
        with pytest.raises(RuntimeError, match="cannot say"):
            await agent.refresh()
        assert (await settled(home, agent)).runtime.thinking == "low"


@pytest.mark.behaviour("P-188")
async def test_a_stored_agent_is_renamed_and_labelled_in_one_write_with_a_later_time(home):
    await home.family(("a", None))
    before = await MemoryStore(home.medium).records(NAMESPACE).get("a")
    shown = await home.directory.update("a", title="new", labels={"k": "v"})
    after = await MemoryStore(home.medium).records(NAMESPACE).get("a")
    assert after.revision == before.revision + 1
    assert (shown.record.title, shown.record.labels) == ("new", {"k": "v"})
    assert shown.record.updated_at > decode("a", before.value).updated_at
    assert decode("a", after.value) == shown.record


@pytest.mark.behaviour("P-189")
@pytest.mark.parametrize("live", [True, False])
async def test_labels_are_merged_removed_by_none_and_stored(home, live):
    agent = await home.create(labels={"keep": "1", "drop": "1", "change": "1"})
    if not live:
        await home.directory.close(agent.id)
    shown = await home.directory.update(agent.id, labels={"drop": None, "change": "2", "new": "3"})
    assert shown.record.labels == {"keep": "1", "change": "2", "new": "3"}
    assert (await on_disk(home, agent.id)).labels == shown.record.labels


@pytest.mark.behaviour("P-331")
@pytest.mark.behaviour("P-334")
async def test_a_title_outlives_everything_else_that_is_kept(home):
    home.provider.info = RuntimeInfo(model="m")  # it says nothing of the mode that it was told to use
    agent = await home.create(title="first")
    await home.directory.update(agent.id, title="mine")
    await agent.run("work")
    await agent.set_mode("plan")
    await home.directory.close(agent.id)
    again = await home.directory.open(agent.id)
    await again.run("more")
    stored = await settled(home, again)
    assert (stored.title, stored.state, stored.settings.mode) == ("mine", "idle", "plan")


@pytest.mark.behaviour("P-330")
async def test_what_an_archived_agent_that_is_looked_into_reports_leaves_it_archived(home):
    home.provider.info = RuntimeInfo(model="m")
    await home.family(("a", None))
    await home.directory.archive("a")
    archived_at = (await home.record("a")).archived_at
    agent = await home.directory.open("a", purpose="history")
    await agent.set_mode("plan")
    stored = await settled(home, agent)
    assert (stored.archived_at, stored.settings.mode) == (archived_at, "plan")


@pytest.mark.behaviour("P-333")
async def test_a_title_can_be_given_to_a_record_that_has_none(home):
    agent = await home.create()
    assert (await on_disk(home, agent.id)).title is None
    await home.directory.update(agent.id, title="explicit")
    assert (await on_disk(home, agent.id)).title == "explicit"


async def test_naming_an_agent_that_is_not_there_names_those_that_are_close(home):
    await home.family(("agent-one", None))
    with pytest.raises(AgentNotFound, match="agent-two") as raised:
        await home.directory.update("agent-two", title="x")
    assert "agent-one" in raised.value.hint


@pytest.mark.behaviour("P-328")
async def test_features_that_were_chosen_are_asked_for_again(home):
    agent = await home.create(options=AgentOptions(features={"fast": True}))
    await agent.set_feature("web", "on")
    assert (await settled(home, agent)).settings.features == {"fast": True, "web": "on"}
    await home.directory.close(agent.id)
    await home.directory.open(agent.id)
    assert dict(home.provider.opened[-1].features) == {"fast": True, "web": "on"}


@pytest.mark.behaviour("P-097")
async def test_the_end_of_the_last_completed_turn_is_kept_until_a_turn_fails(home):
    agent = await home.create()
    await agent.run("works")
    completed = (await settled(home, agent)).completed_at
    end = (await agent.session.events(0, types=["turn/end"]))[-1]
    assert completed == end.time

    async def fail(session, _request):
        session.emit(TurnFailed(turn_id=session.turn, error="out of credit"))

    home.provider.starting = fail
    agent.followup("fails")
    stored = await settled(home, agent)
    assert (stored.completed_at, stored.state, stored.last_error) == (None, "error", "out of credit")


async def test_a_new_run_clears_the_error_of_the_last_one(home):
    home.provider.starting = accept
    agent = await home.create()
    await begin(agent, "fails")
    home.provider.session.emit(TurnFailed(turn_id=home.provider.session.turn, error="no"))
    assert (await settled(home, agent)).last_error == "no"
    await begin(agent, "runs")
    await anyio.wait_all_tasks_blocked()
    stored = await on_disk(home, agent.id)
    assert (stored.state, stored.last_error) == ("running", None)
    home.provider.session.end()
    await agent.when_idle()


@pytest.mark.behaviour("P-314")
@pytest.mark.behaviour("P-320")
@pytest.mark.parametrize("field", ["total_cost_usd", "input_tokens", "context_max", "context_used"])
async def test_a_usage_with_a_number_that_is_none_is_dropped_as_a_whole(home, field):
    agent = await home.create()
    home.provider.session.emit(UsageUpdated(usage=Usage(**{"output_tokens": 3, field: float("nan")})))
    assert (await settled(home, agent)).usage is None


@pytest.mark.behaviour("P-319")
@pytest.mark.behaviour("P-321")
async def test_the_usage_is_kept_with_the_numbers_of_the_context_window_if_there_are_any(home):
    agent = await home.create()
    for usage in (Usage(input_tokens=1, context_max=200, context_used=20), Usage(input_tokens=2)):
        home.provider.session.emit(UsageUpdated(usage=usage))
        assert (await settled(home, agent)).usage == usage


@pytest.mark.behaviour("P-312")
async def test_every_state_of_an_agent_reaches_its_record(anyio_backend):
    provider = ScriptedProvider()
    info = Gate()

    async def slow_info(self):
        await info()
        return RuntimeInfo(model="m")

    provider.session_type = type("SlowInfo", (ScriptedSession,), {"runtime_info": slow_info})
    provider.starting = accept
    async with house(provider=provider) as home:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(home.create, "a")
            await info.reached.wait()
            await anyio.wait_all_tasks_blocked()
            seen = [(await on_disk(home, "a")).state]
            info.go.set()
        agent = home.live("a")
        seen.append((await settled(home, agent)).state)
        await begin(agent, "x")
        await anyio.wait_all_tasks_blocked()
        seen.append((await on_disk(home, "a")).state)
        provider.session.emit(TurnFailed(turn_id=provider.session.turn, error="no"))
        seen.append((await settled(home, agent)).state)
        await home.directory.close("a")
        seen.append((await on_disk(home, "a")).state)
        assert seen == ["initializing", "idle", "running", "error", "closed"]


@pytest.mark.behaviour("P-204")
async def test_what_is_found_of_an_agent_holds_nothing_of_its_session(home):
    agent = await home.create(labels={"k": "v"})
    await agent.run("work")
    await agent.when_idle()
    shown = await home.directory.find(agent.id)
    held = [getattr(shown, name) for name in shown.__slots__]
    assert [type(value).__name__ for value in held] == ["AgentRecord", "Resting", "tuple", "bool", "bool"]
    assert not any(hasattr(shown.record, name) for name in ("session", "rows", "epoch", "events"))


@pytest.mark.behaviour("P-190")
@pytest.mark.behaviour("P-191")
async def test_internal_agents_are_found_by_their_id_and_not_listed(home):
    await home.create("shown")
    await home.create("hidden", internal=True)
    assert [one.record.id for one in await home.directory.list()] == ["shown"]
    assert {one.record.id for one in await home.directory.list(internal=True)} == {"shown", "hidden"}
    assert (await home.directory.find("hidden")).record.internal


async def test_an_agent_is_found_by_last_and_by_the_id_of_its_native_conversation(home):
    for name in ("a", "b"):
        agent = await home.create(name)
        home.provider.session.reveal(f"native-{name}")
        await settled(home, agent)
    assert (await home.directory.find("last")).record.id == "b"
    assert (await home.directory.find("native-a")).record.id == "a"
    await home.directory.update("a", title="x")
    assert (await home.directory.find("last")).record.id == "a"


@pytest.mark.behaviour("P-205")
async def test_a_session_that_is_opened_after_the_host_began_to_leave_is_closed_and_never_registered(anyio_backend):
    provider, medium, opening = ScriptedProvider(), Medium(), Gate()

    async def shielded(_session):
        with anyio.CancelScope(shield=True):
            await opening()

    provider.opening = shielded
    seen = []
    async with anyio.create_task_group() as tasks:

        async def create(home):
            try:
                await home.create("late")
            except Exception as error:
                seen.append(type(error).__name__)

        async with house(medium, provider) as home:
            tasks.start_soon(create, home)
            await opening.reached.wait()
            tasks.start_soon(_let_go_when_stopping, home, opening)
    assert seen
    assert [session.closed for session in provider.sessions] == [True]
    assert home.live("late") is None
    assert medium.sessions == {}


async def _let_go_when_stopping(home, opening):
    await home.until(lambda: home.host.scope.stopping)
    opening.go.set()


@pytest.mark.behaviour("P-205")
async def test_an_agent_that_is_still_initializing_when_the_host_leaves_is_stored_as_closed(anyio_backend):
    provider, medium = ScriptedProvider(), Medium()
    provider.session_type = type("NeverSays", (ScriptedSession,), {"runtime_info": hang})
    async with house(medium, provider) as home:
        handle = await home.host.agents.create(AgentSpec(id="a"), owner=home.host.scope)
        assert handle.agent.state == Initializing()
    assert decode("a", (await MemoryStore(medium).records(NAMESPACE).get("a")).value).state == "closed"


async def test_a_host_that_ends_while_agents_work_says_which_and_stores_them_as_closed(anyio_backend):
    provider, medium = ScriptedProvider(), Medium()
    provider.starting = accept
    async with house(medium, provider) as home:
        busy = await home.create("busy", title="long work")
        await home.create("resting")
        await begin(busy, "x")
        assert isinstance(busy.state, Running)
    said = [entry.text for entry in home.host.diagnostics.recent if entry.code == "ended_at_work"]
    assert said == ["the host ended while 1 agent(s) were at work: busy (long work)"]
    table = MemoryStore(medium).records(NAMESPACE)
    assert [decode(row.key, row.value).state for row in await table.list()] == ["closed", "closed"]


async def test_an_agent_that_is_closed_while_it_works_is_not_said_to_be_cut_short_by_the_host(anyio_backend):
    provider = ScriptedProvider()
    provider.starting = accept
    async with house(provider=provider) as home:
        agent = await home.create("a")
        await begin(agent, "x")
        await home.directory.close("a")
        assert (await home.directory.find("a")).state == Closed()
    assert "ended_at_work" not in home.said


async def test_a_creation_that_is_given_up_while_the_agent_is_still_initializing_leaves_nothing(anyio_backend):
    provider, medium = ScriptedProvider(), Medium()
    provider.session_type = type("NeverSays", (ScriptedSession,), {"runtime_info": hang})
    async with house(medium, provider) as home:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(home.create, "a")
            await home.until(lambda: home.live("a") is not None)
            tasks.cancel_scope.cancel()
        assert home.live("a") is None
        assert list(await home.directory.list()) == []
        assert (medium.sessions, list(medium.records)) == ({}, [])
