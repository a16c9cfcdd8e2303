"""Opening a stored agent: one resume whoever asks, what it is started with, and what cannot be opened."""

from __future__ import annotations

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import (
    Agent,
    AgentArchived,
    AgentError,
    AgentNotFound,
    AgentOptions,
    AgentRecord,
    AgentSettings,
    AgentSpec,
    DisposeFailed,
    Resting,
)
from greenroom.providers import (
    Capability,
    Handle,
    MessageDone,
    Notice,
    ProviderError,
    RuntimeInfo,
    TurnCompleted,
    UserEcho,
)
from greenroom.sessions import Medium, SessionError
from greenroom_manager.ways._checks import options_of
from greenroom_testing import EVERYTHING, ScriptedPlugin, ScriptedProvider

from .house import JUMPING, Fails, Gate, house

pytestmark = pytest.mark.anyio


async def stored(home, agent_id="a", **fields) -> None:
    """An agent that has worked and was closed."""
    agent = await home.create(agent_id, **{"title": "A", **fields})
    await agent.run("hello")
    await home.directory.close(agent_id)


@pytest.mark.behaviour("P-023")
async def test_the_processes_of_a_resumed_agent_get_its_id_and_the_stored_variables(home) -> None:
    await home.directory.create(AgentSpec(id="a", title="A"), environment={"TOKEN": "t"})
    await home.directory.close("a")
    await home.directory.open("a")
    env = home.provider.session.link.env
    assert env["GREENROOM_AGENT_ID"].startswith("a:")
    assert env["TOKEN"] == "t"


@pytest.mark.behaviour("P-041", "P-095", "P-099")
async def test_a_resume_continues_with_what_is_stored_and_what_is_given_goes_before_it(home) -> None:
    options = AgentOptions(model="m-1", mode="plan", thinking="high", features={"fast": True}, max_output_tokens=7)
    home.provider.info = RuntimeInfo()
    agent = await home.directory.create(AgentSpec(id="a", options=options), environment={"TOKEN": "t"})
    await agent.run("hello")
    created = (await home.record("a")).created_at
    await home.directory.close("a")
    await home.directory.open("a", AgentOptions(thinking="low", environment={"MORE": "m"}))
    request = home.provider.opened[-1]
    assert (request.model, request.thinking, request.max_output_tokens) == ("m-1", "low", 7)
    assert request.features == {"fast": True}
    assert request.handle == Handle(native_id="native-1")
    env = home.provider.session.link.env
    assert (env["TOKEN"], env["MORE"]) == ("t", "m")
    assert (await home.record("a")).created_at == created


@pytest.mark.behaviour("P-095")
async def test_an_agent_whose_conversation_was_never_named_is_started_anew_from_its_record(home) -> None:
    home.provider.reveals = False
    home.provider.capabilities = EVERYTHING - {Capability.RESUME}
    agent = await home.create("a", labels={"team": "x"}, options=AgentOptions(mode="plan", model="m-2"))
    assert agent.session.state.native_id is None
    created = (await home.record("a")).created_at
    await home.directory.close("a")
    again = await home.directory.open("a")
    request = home.provider.opened[-1]
    assert request.handle is None
    assert request.session_id == "a"
    record = await home.record("a")
    assert (record.labels["team"], record.created_at) == ("x", created)
    assert again is home.live("a")


@pytest.mark.behaviour("P-095")
async def test_an_agent_of_which_only_the_record_is_left_is_started_from_it(home) -> None:
    settings = AgentSettings(model="m-2", mode="plan", thinking="low", features={"fast": "yes"}, max_output_tokens=9)
    record = AgentRecord(id="a", provider="scripted", title="T", labels={"team": "x"}, created_at=5, updated_at=6,
                         settings=settings, environment={"TOKEN": "t"}, native=Handle(native_id="n-7"))  # fmt: skip
    await home.directory._book.insert(record)
    agent = await home.directory.open("a")
    request = home.provider.opened[-1]
    assert (request.model, request.mode, request.thinking) == ("m-2", "plan", "low")
    assert (request.features, request.max_output_tokens) == ({"fast": "yes"}, 9)
    assert request.handle == Handle(native_id="n-7")
    assert home.provider.session.link.env["TOKEN"] == "t"
    assert agent.session.state.config.title == "T"
    assert (await home.record("a")).created_at == 5


@pytest.mark.behaviour("P-089", "P-098")
async def test_an_archived_agent_is_opened_for_its_history_only(home) -> None:
    await stored(home)
    await home.directory.archive("a")
    with pytest.raises(AgentArchived, match="archived"):
        await home.directory.open("a")
    agent = await home.directory.open("a", purpose="history")
    assert home.live("a") is agent
    with pytest.raises(AgentArchived):
        await home.directory.open("a")
    await home.directory.unarchive("a")
    assert await home.directory.open("a") is agent


@pytest.mark.behaviour("P-092")
async def test_an_agent_that_is_live_is_returned_as_it_is(home) -> None:
    agent = await home.create("a")
    assert await home.directory.open("a") is agent
    assert len(home.provider.opened) == 1


@pytest.mark.behaviour("P-093")
@pytest.mark.parametrize("count", [2, 50])
async def test_concurrent_openings_share_one_resume_and_nothing_is_left_of_it(home, count) -> None:
    await stored(home)
    home.provider.opening = gate = Gate()
    found = []

    async def open_() -> None:
        found.append(await home.directory.open("a"))

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(open_)
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert gate.calls == 1
    assert found == [home.live("a")] * count
    assert home.ways.idle


async def test_a_shared_resume_that_fails_fails_for_everybody_and_the_next_one_tries_again(home) -> None:
    await stored(home)
    home.provider.opening = gate = Gate(raises=RuntimeError("no program"))
    errors = []

    async def open_() -> None:
        try:
            await home.directory.open("a")
        except RuntimeError as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(open_)
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert (len(errors), gate.calls) == (3, 1)
    assert home.ways.idle
    home.provider.opening = ScriptedProvider().opening
    assert (await home.directory.open("a")).id == "a"


async def test_an_opening_goes_on_when_the_one_who_asked_stops_waiting(home) -> None:
    await stored(home)
    home.provider.opening = gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.open, "a")
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    gate.go.set()
    agent = await home.directory.open("a")
    assert gate.calls == 1
    assert home.live("a") is agent


@pytest.mark.behaviour("P-094")
async def test_an_id_that_nobody_knows_is_not_found_and_names_those_that_are_close(home) -> None:
    await home.create("agent-one")
    with pytest.raises(AgentNotFound) as raised:
        await home.directory.open("agent-onf")
    assert "agent-one" in raised.value.hint


@pytest.mark.behaviour("P-094", "P-104", "P-105")
async def test_a_record_whose_provider_is_gone_is_listed_and_cannot_be_opened(anyio_backend) -> None:
    medium = Medium()
    async with house(medium, second=ScriptedPlugin(ScriptedProvider("second"))) as home:
        await stored(home, options=AgentOptions(provider="second"))
        await stored(home, "b", options=AgentOptions(provider="scripted"))
    async with house(medium) as home:
        found = {snapshot.record.id: snapshot for snapshot in await home.directory.list()}
        assert not found["a"].available
        assert found["b"].available
        with pytest.raises(AgentError, match="second") as raised:
            await home.directory.open("a")
        assert "scripted" in str(raised.value)
        assert home.provider.opened == []
        assert home.ways.idle


@pytest.mark.behaviour("P-105")
async def test_a_conversation_of_a_provider_that_is_gone_cannot_be_restored_by_its_handle(anyio_backend) -> None:
    medium = Medium()
    async with house(medium, second=ScriptedPlugin(ScriptedProvider("second"))) as home:
        await stored(home, options=AgentOptions(provider="second"))
        await home.directory.archive("a")
    async with house(medium) as home:
        for known_as in ("a", "native-1"):
            with pytest.raises(AgentError, match="second"):
                await home.directory.unarchive(known_as)
        assert await home.archived() == {"a"}


@pytest.mark.behaviour("P-096")
async def test_an_opening_ends_when_what_the_log_lacked_of_the_history_stands_in_it(home) -> None:
    await stored(home)
    elsewhere = [
        UserEcho(text="typed elsewhere", provider_message_id="p-9"),
        MessageDone(message_id="m-9", text="answered elsewhere"),
        TurnCompleted(turn_id="t-9"),
    ]
    agent = await home.directory.open("a")
    texts = [event.data.text for event in await agent.session.events(0, types=["assistant/message"])]
    await home.directory.close("a")
    home.provider.past = [
        UserEcho(text="hello", provider_message_id="p-1"),
        MessageDone(message_id="m", text="ok"),
        TurnCompleted(turn_id="t-1"),
        *elsewhere,
    ]
    agent = await home.directory.open("a")
    after = [event.data.text for event in await agent.session.events(0, types=["assistant/message"])]
    assert "answered elsewhere" in after
    assert len([text for text in after if text == "ok"]) == len([text for text in texts if text == "ok"])


async def test_a_history_that_cannot_be_read_is_reported_and_the_agent_is_open_without_it(home) -> None:
    await stored(home)

    class Broken(home.provider.session_type):
        async def history(self):
            raise OSError("torn")
            yield

    home.provider.session_type = Broken
    before = await home.store.read_from("a")
    agent = await home.directory.open("a")
    assert isinstance(agent.state, Resting)
    assert (await agent.run("on")).text == "ok"
    assert list(await home.store.read_from("a"))[: len(before)] == list(before)


@pytest.mark.behaviour("P-040")
async def test_what_the_provider_says_at_its_start_is_logged_once_behind_the_history(home) -> None:
    await stored(home)

    async def greet(session) -> None:
        session.emit(Notice(level="info", message="welcome back"))

    home.provider.opening = greet
    agent = await home.directory.open("a")
    await agent.flush()
    events = await agent.session.events(0)
    said = [event.seq for event in events if event.type == "notice"]
    assert len(said) == 1
    assert said[0] > max(event.seq for event in events if event.type == "turn/end")


@pytest.mark.behaviour("P-040")
async def test_a_history_of_ours_that_cannot_be_read_leaves_no_provider_session_and_no_lease(home) -> None:
    await stored(home)
    kept = home.medium.sessions["a"]
    whole, kept.events = kept.events, kept.events[1:]
    opened = len(home.provider.opened)
    with pytest.raises(SessionError):
        await home.directory.open("a")
    assert home.writers() == []
    assert len(home.provider.opened) == opened
    kept.events = whole
    assert (await home.directory.open("a")).id == "a"


@pytest.mark.behaviour("P-068", "P-057")
async def test_an_opening_waits_for_the_close_that_goes_on_and_resumes_once(home) -> None:
    await stored(home)
    await home.directory.open("a")
    home.provider.closing = gate = Gate()
    opened = len(home.provider.opened)
    found: list[Agent] = []

    async def open_() -> None:
        found.append(await home.directory.open("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.close, "a")
        await gate.reached.wait()
        tasks.start_soon(open_)
        tasks.start_soon(open_)
        await anyio.wait_all_tasks_blocked()
        assert len(home.provider.opened) == opened
        assert home.writers() == ["a"]
        home.provider.closing = ScriptedProvider().closing
        gate.go.set()
    assert len(home.provider.opened) == opened + 1
    assert found[0] is found[1] is home.live("a")
    assert home.writers() == ["a"]


@pytest.mark.behaviour("P-103")
async def test_options_are_built_from_a_record_of_whatever_provider_there_is(home) -> None:
    for name in ("scripted", "acme", "a.b-c", "x" * 64):
        settings = AgentSettings(model="m", features={"a": True, "b": "x", "c": None, "odd": {"not": "a value"}})
        record = AgentRecord(id="a", provider=name, created_at=1, updated_at=2, settings=settings)
        chosen = options_of(record, fresh=True)
        assert (chosen.provider, chosen.model) == (name, "m")
        assert chosen.features == {"a": True, "b": "x", "c": None}


@pytest.mark.parametrize("anyio_backend", [JUMPING], ids=["trio"])
@pytest.mark.behaviour("P-091")
async def test_an_agent_at_rest_stays_live_however_long_nobody_needs_it(home) -> None:
    agent = await home.create("a")
    await anyio.sleep(30 * 24 * 3600)
    assert home.live("a") is agent
    assert home.writers() == ["a"]
    assert (await agent.run("still there?")).text == "ok"


@pytest.mark.behaviour("P-100")
async def test_who_opens_for_work_while_the_history_is_opened_gets_an_agent_that_everybody_is_told_of(home) -> None:
    await stored(home)
    home.provider.opening = gate = Gate()
    found = []

    async def open_(purpose) -> None:
        found.append(await home.directory.open("a", purpose=purpose))

    async with home.follow() as seen, anyio.create_task_group() as tasks:
        tasks.start_soon(open_, "history")
        await gate.reached.wait()
        tasks.start_soon(open_, "interactive")
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
        await home.until(lambda: len(found) == 2 and type(seen[-1].snapshot.state) is Resting)
        assert seen[-1].snapshot.live
    assert found[0] is found[1]
    assert gate.calls == 1


class Veto:
    @hookimpl
    def agent_created(self, agent):
        raise AgentError("not today")


async def test_a_start_that_fails_and_whose_process_does_not_end_keeps_the_lease_until_it_does(home) -> None:
    await stored(home)
    await home.host.load(Veto(), name="veto")
    home.provider.closing = Fails(ProviderError("it would not die"))
    with pytest.raises(ExceptionGroup):
        await home.directory.open("a")
    await home.host.unload("local:veto")
    assert home.live("a") is None
    assert home.writers() == ["a"]
    assert (await home.store.entry("a")).owner is not None
    opened = len(home.provider.opened)
    with pytest.raises(DisposeFailed, match="it would not die"):
        await home.directory.open("a")
    assert len(home.provider.opened) == opened
    home.provider.closing = ScriptedProvider().closing
    await home.directory.open("a")
    assert home.writers() == ["a"]
