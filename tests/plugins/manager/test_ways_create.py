"""Creating an agent: what is checked, what is handed on, and that a refusal leaves nothing."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import (
    Agent,
    AgentError,
    AgentNotFound,
    AgentOptions,
    AgentSpec,
    CreationAborted,
    ProviderCatalogue,
)
from greenroom.errors import HookError
from greenroom.providers import Availability
from greenroom.sessions import Event, SessionExists
from greenroom_testing import ScriptedPlugin, ScriptedProvider, ScriptedSession

from .house import Gate, house

pytestmark = pytest.mark.anyio


async def nothing_was_made(home) -> None:
    assert home.provider.opened == []
    assert list(await home.directory.list(archived=True, internal=True)) == []
    assert list(await home.store.list()) == []
    assert home.host.agents.list() == []
    assert home.ways.idle


@pytest.mark.behaviour("P-002")
@pytest.mark.parametrize("model", ["default", "", "  ", " default "])
async def test_the_model_default_or_a_blank_one_asks_for_none(home, model) -> None:
    agent = await home.create(options=AgentOptions(model=model))
    assert home.provider.opened[-1].model is None
    assert (await home.record(agent.id)).settings.model is None


@pytest.mark.behaviour("P-003")
async def test_a_mode_that_was_not_asked_for_is_not_made_up(home) -> None:
    agent = await home.create()
    assert home.provider.opened[-1].mode is None
    assert (await home.record(agent.id)).settings.mode is None


@pytest.mark.behaviour("P-004")
@pytest.mark.parametrize("model", ["no such model", "DEFAULT", "default-2", " padded "])
async def test_a_model_that_was_named_reaches_the_provider_as_it_is(home, model) -> None:
    await home.create(options=AgentOptions(model=model))
    assert home.provider.opened[-1].model == model


@pytest.mark.behaviour("P-005")
async def test_the_working_directory_is_made_absolute(home, tmp_path, monkeypatch) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)
    agent = await home.create(cwd=(tmp_path / "project").relative_to(tmp_path))
    assert home.provider.opened[-1].cwd == tmp_path / "project"
    assert (await home.record(agent.id)).cwd == str(tmp_path / "project")


@pytest.mark.behaviour("P-005", "P-006")
@pytest.mark.parametrize(("name", "said"), [("gone", "does not exist"), ("file", "is not a directory")])
async def test_a_working_directory_that_is_none_is_refused_and_nothing_is_made(home, tmp_path, name, said) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AgentError, match=said):
        await home.create(cwd=tmp_path / name)
    await nothing_was_made(home)


@pytest.mark.behaviour("P-007")
async def test_an_unknown_provider_is_refused_with_those_that_there_are(home) -> None:
    await home.host.load(ScriptedPlugin(ScriptedProvider("second")), name="second")
    with pytest.raises(AgentError) as raised:
        await home.create(options=AgentOptions(provider="nobody"))
    assert "nobody" in str(raised.value)
    assert "scripted" in said(raised)
    assert "second" in said(raised)
    await nothing_was_made(home)


@pytest.mark.behaviour("P-008")
async def test_a_provider_that_cannot_be_used_is_refused_with_those_that_can(home) -> None:
    broken = Broken("broken")
    await home.host.load(ScriptedPlugin(broken), name="broken")
    with pytest.raises(AgentError, match="broken") as raised:
        await home.create(options=AgentOptions(provider="broken"))
    assert "scripted" in said(raised)
    assert "no program" in said(raised)
    assert broken.opened == []
    await nothing_was_made(home)


@pytest.mark.behaviour("P-009")
async def test_a_disabled_provider_is_refused_as_disabled_and_nothing_is_made(home) -> None:
    await home.host.service(ProviderCatalogue).configure({"scripted": {"enabled": False}})
    with pytest.raises(AgentError, match="disabled"):
        await home.create(options=AgentOptions(provider="scripted"))
    await nothing_was_made(home)


class Broken(ScriptedProvider):
    async def availability(self) -> Availability:
        return Availability(ok=False, problem="no program")


def said(raised) -> str:
    error = raised.value
    return f"{error} {error.hint or ''}"


@pytest.mark.behaviour("P-016")
async def test_a_malformed_id_that_was_generated_is_refused(home) -> None:
    home.host.sessions.ports = replace(home.host.sessions.ports, new_id=lambda: "no/id")
    with pytest.raises(ValueError, match="no/id"):
        await home.create()
    await nothing_was_made(home)


@pytest.mark.behaviour("P-017")
@pytest.mark.parametrize("agent_id", ["", "a b", "../up", "x" * 129, "é"])
async def test_a_malformed_id_that_was_given_is_refused(home, agent_id) -> None:
    with pytest.raises(ValueError, match="id"):
        await home.create(agent_id)
    await nothing_was_made(home)


@pytest.mark.behaviour("P-018")
async def test_of_two_creations_of_one_id_one_is_refused(home) -> None:
    outcomes = []

    async def create() -> None:
        try:
            outcomes.append(await home.create("same"))
        except SessionExists as error:
            outcomes.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create)
        tasks.start_soon(create)
    assert len(outcomes) == 2
    agents = [outcome for outcome in outcomes if isinstance(outcome, Agent)]
    assert len(agents) == 1
    assert home.live("same") is agents[0]
    assert home.writers() == ["same"]


@pytest.mark.behaviour("P-019")
async def test_an_id_that_the_store_knows_is_refused_and_its_session_is_untouched(home) -> None:
    first = await home.create("known", title="first")
    await first.run("hello")
    await home.directory.close("known")
    before = await home.store.read_from("known")
    with pytest.raises(SessionExists):
        await home.create("known", title="second")
    assert await home.store.read_from("known") == before
    assert (await home.record("known")).title == "first"


@pytest.mark.behaviour("P-019")
async def test_what_a_failed_creation_left_in_memory_is_cleared_by_the_next(home) -> None:
    home.provider.opening = Gate(raises=RuntimeError("no"))
    home.provider.opening.go.set()
    with pytest.raises(RuntimeError, match="no"):
        await home.create("again", title="first")
    home.provider.opening = ScriptedProvider().opening
    agent = await home.create("again", title="second")
    assert agent.session.state.config.title == "second"
    assert (await home.record("again")).title == "second"


@pytest.mark.behaviour("P-022", "P-025")
async def test_the_processes_of_an_agent_get_its_id_and_the_variables_of_its_creator(home) -> None:
    agent = await home.directory.create(AgentSpec(), environment={"TOKEN": "t", "GREENROOM_AGENT_ID": "forged"})
    env = home.provider.session.link.env
    assert env["GREENROOM_AGENT_ID"].partition(":")[0] == agent.id
    assert env["TOKEN"] == "t"
    assert (await home.record(agent.id)).environment["TOKEN"] == "t"


@pytest.mark.parametrize("environment", [{"": "x"}, {"a=b": "x"}, {"a": "\0"}, {"a\0": "x"}, {"a": 1}, {3: "x"}])
async def test_a_variable_that_no_process_can_be_given_is_refused(home, environment) -> None:
    with pytest.raises(AgentError, match="no variable"):
        await home.directory.create(AgentSpec(), environment=environment)
    await nothing_was_made(home)


class Steps:
    """Writes down what happens to a new agent, in order."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    @hookimpl
    def agent_setup(self, agent):
        self.steps.append("setup")
        return lambda: self.steps.append("commit")

    @hookimpl
    def session_created(self, session):
        self.steps.append("enter the session")

    @hookimpl
    def agent_created(self, agent):
        self.steps.append(f"announce ({type(agent.state).__name__})")

    @hookimpl
    def agent_session_start(self, agent, source):
        self.steps.append(f"started by {source}")


class Watched(ScriptedProvider):
    steps_of: Steps

    @property
    def spec(self):
        async def opening(session) -> None:
            self.steps_of.steps.append("open")

        self.opening = opening
        return super().spec


@pytest.mark.behaviour("P-037")
async def test_an_agent_is_made_in_the_order_of_the_lifecycles(anyio_backend) -> None:
    hooks, provider = Steps(), Watched()
    provider.steps_of = hooks
    refreshing = Gate()

    class Session(provider.session_type):
        async def runtime_info(self):
            hooks.steps.append("refresh")
            await refreshing()
            return await super().runtime_info()

    provider.session_type = Session
    async with house(provider=provider, steps=hooks) as home:
        async with anyio.create_task_group() as tasks, home.follow() as seen:
            tasks.start_soon(home.create, "a")
            await refreshing.reached.wait()
            await home.until(lambda: seen)
            shown = [type(change.snapshot.state).__name__ for change in seen]
            assert set(shown) == {"Initializing"}
            refreshing.go.set()
            await home.until(lambda: type(seen[-1].snapshot.state).__name__ == "Resting")
        hooks.steps.append("idle")
        assert (await home.record("a")).state == "idle"
        stored = await home.store.records("agents").get("a")
        assert b'"idle"' in stored.value
    assert hooks.steps == [
        "setup",
        "open",
        "commit",
        "enter the session",
        "announce (Initializing)",
        "started by startup",
        "refresh",
        "idle",
    ]


@pytest.mark.behaviour("P-038")
@pytest.mark.parametrize("moment", ["open", "setup"])
async def test_a_host_that_shuts_down_while_an_agent_is_made_leaves_no_session(anyio_backend, moment) -> None:
    gate, errors = Gate(), []
    provider = ScriptedProvider()

    class Slow:
        @hookimpl
        async def agent_setup(self, agent):
            if moment == "setup":
                await gate()

    async def create(home) -> None:
        try:
            await home.create("a")
        except AgentError as error:
            errors.append(error)

    if moment == "open":
        provider.opening = gate
    async with anyio.create_task_group() as tasks:
        async with house(provider=provider, slow=Slow()) as home:
            tasks.start_soon(create, home)
            await gate.reached.wait()
        assert [type(error).__name__ for error in errors] in (["AgentClosed"], ["CreationAborted"])
        assert home.host.agents.list() == []
        assert [session for session in provider.sessions if not session.closed] == []
        assert "a" not in home.medium.sessions


@pytest.mark.behaviour("P-039")
async def test_the_log_begins_with_the_given_events_else_the_stored_ones_else_empty(home) -> None:
    empty = await home.create("empty")
    assert {event.type for event in await empty.session.events(0)} <= {"agent/config", "request/context"}
    given = (Event(0, 1, "turn/start", b'{"turn":1,"trigger":{"kind":"import"}}'),
             Event(1, 2, "turn/end", b'{"turn":1,"reason":{"kind":"completed"}}'))  # fmt: skip
    seeded = await home.create("seeded", seed=given)
    assert tuple(await seeded.session.events(0))[:2] == given
    await seeded.run("more")
    await home.directory.close("seeded")
    stored = await home.store.read_from("seeded")
    again = await home.directory.open("seeded")
    assert tuple(await again.session.events(0))[: len(stored)] == tuple(stored)


@pytest.mark.parametrize("moment", ["opening", "refresh"])
async def test_a_creation_whose_caller_is_cancelled_leaves_nothing(home, moment) -> None:
    gate = Gate()
    if moment == "opening":
        home.provider.opening = gate
    else:

        class Slow(home.provider.session_type):
            async def runtime_info(self):
                await gate()

        home.provider.session_type = Slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.create, AgentSpec(id="a", title="a"))
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    with pytest.raises(AgentNotFound):
        await home.directory.find("a")
    assert home.live("a") is None
    assert list(await home.store.list()) == []
    assert home.writers() == []
    assert home.ways.idle
    home.provider.opening, home.provider.session_type = ScriptedProvider().opening, ScriptedSession
    assert (await home.create("a")).id == "a"


async def test_a_creation_that_is_given_up_raises_what_gave_it_up(home) -> None:
    class Veto:
        @hookimpl
        def agent_created(self, agent):
            raise CreationAborted("not today")

    await home.host.load(Veto(), name="veto")
    with pytest.raises(ExceptionGroup) as raised:
        await home.create("a", title="T")
    assert raised.group_contains(HookError, match="not today")
    assert home.live("a") is None
    assert list(await home.store.list()) == []
    assert list(await home.directory.list()) == []
    assert home.ways.idle
