"""Conversations that began elsewhere: listing them, taking them over once, and going back in one."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
import pytest

import greenroom_driver
import greenroom_sqlite
from greenroom import Host, load_settings
from greenroom.agents import (
    AgentBusy,
    AgentDirectory,
    AgentError,
    AgentExists,
    AgentNotFound,
    AgentOptions,
    AgentSpec,
)
from greenroom.providers import (
    Capability,
    Handle,
    MessageDone,
    NativeSession,
    ProviderError,
    SubAgent,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UserEcho,
)
from greenroom.sessions import Medium
from greenroom_manager import ManagerPlugin
from greenroom_manager._history import LIST_WAIT, imported_id, title_of
from greenroom_testing import ScriptedPlugin, ScriptedProvider

from .house import JUMPING, Gate, house

pytestmark = pytest.mark.anyio


def turn(number: int, prompt: str, *events) -> list:
    name = f"t{number}"
    echo = UserEcho(text=prompt, provider_message_id=f"u{number}", turn_id=name)
    return [TurnStarted(turn_id=name), echo, *events, TurnCompleted(turn_id=name)]


def said(text: str, ident: str) -> MessageDone:
    return MessageDone(message_id=ident, text=text)


class Archive(ScriptedProvider):
    """A provider that has conversations which began without us.

    Attributes:
        natives: what it lists, by id; `pasts`: their histories.
        listed: the limits that it was asked with.
        listing, reading: what happens before it answers.
    """

    def __init__(self, name: str = "scripted") -> None:
        super().__init__(name)
        self.natives: dict[str, NativeSession] = {}
        self.pasts: dict[str, list] = {}
        self.listed: list[int] = []
        self.listing = self.reading = None

    def add(self, ident: str, cwd: Path, *events, title=None, at=0):
        prompt = next((event.text for event in events if isinstance(event, UserEcho)), None)
        self.natives[ident] = NativeSession(
            handle=Handle(native_id=ident), cwd=cwd, title=title, first_prompt=prompt, updated_at=at
        )
        self.pasts[ident] = [msgspec.structs.replace(event, from_history=True) for event in events]

    async def list_native(self, *, cwd, limit):
        self.listed.append(limit)
        if self.listing is not None:
            await self.listing()
        found = sorted(self.natives.values(), key=lambda native: -(native.updated_at or 0))
        return [native for native in found if cwd is None or native.cwd == cwd][:limit]

    async def import_native(self, handle):
        if self.reading is not None:
            await self.reading()
        if handle.native_id not in self.pasts:
            raise ProviderError(f"no conversation {handle.native_id}")
        return self.pasts[handle.native_id]


@pytest.fixture
def archive(tmp_path):
    made = Archive()
    made.add("n1", tmp_path, *turn(1, "Fix the\n tests", said("Done.", "m1")), *turn(2, "Thanks", said("Sure.", "m2")))
    return made


@pytest.fixture
async def home(anyio_backend, archive):
    async with house(provider=archive) as made:
        yield made


def ids(found) -> list[str]:
    return [native.handle.native_id for _, native in found.sessions]


async def rows(home, agent_id: str) -> list:
    return list(await home.store.read_from(agent_id, limit=None))


# --- listing ------------------------------------------------------------------------------


class Talking(Archive):
    """One with a translator, by which those that extend it are known to be the same."""

    @property
    def spec(self):
        return replace(super().spec, translator=dict)  # never called


SETTINGS = """
[plugins.manager.providers.off]
enabled = false

[plugins.manager.providers.derived]
extends = "plain"
"""


@asynccontextmanager
async def configured(folder, *brought):
    file = folder / "greenroom.toml"
    file.write_text(SETTINGS)
    plugins = {"driver": greenroom_driver, "scripted": ScriptedPlugin(*brought), "manager": ManagerPlugin()}
    async with Host(load_settings(user_file=file), discovery=False, plugins=plugins) as host:
        yield host.service(AgentDirectory)


@pytest.mark.behaviour("P-044")
async def test_enabled_providers_that_can_list_are_listed_derived_ones_too_and_others_are_not(tmp_path, anyio_backend):
    brought = {name: Archive(name) for name in ("plain", "off", "mute")}
    brought["mute"].capabilities -= {Capability.LIST}
    for name, provider in brought.items():
        provider.add(f"of-{name}", tmp_path, *turn(1, "hi"))
    async with configured(tmp_path, *brought.values()) as directory:
        found = await directory.importable()
        assert sorted(name for name, _ in found.sessions) == ["derived", "plain"]
        assert set(ids(found)) == {"of-plain"}
        assert [name for name, _ in (await directory.importable(provider="derived")).sessions] == ["derived"]
        for refused in ("off", "mute", "unknown"):
            with pytest.raises(AgentError, match="lists no conversations") as error:
                await directory.importable(provider=refused)
            assert "plain, derived" in str(error.value.hint)
    assert brought["off"].listed == brought["mute"].listed == []


async def test_a_conversation_is_listed_and_imported_once_although_two_providers_have_it(tmp_path, anyio_backend):
    plain = Talking("plain")
    plain.add("n", tmp_path, *turn(1, "hi"))
    async with configured(tmp_path, plain) as directory:
        assert [name for name, _ in (await directory.importable()).sessions] == ["plain"]
        agent = await directory.import_native("derived", "n")
        assert agent.session.header.provider == "derived"
        with pytest.raises(AgentExists, match=agent.id):
            await directory.import_native("plain", "n")
        assert (await directory.importable()).sessions == []


@pytest.mark.behaviour("P-045")
@pytest.mark.parametrize("anyio_backend", [JUMPING], indirect=False, ids=["jumping"])
async def test_a_provider_that_fails_or_takes_too_long_has_an_error_and_the_others_are_listed(tmp_path, anyio_backend):
    fine, late, broken = Archive("fine"), Archive("late"), Archive("broken")
    fine.add("n", tmp_path, *turn(1, "hi"))
    late.listing = anyio.sleep_forever

    async def fail():
        raise RuntimeError("no disk")

    broken.listing = fail
    async with house(provider=fine, more=ScriptedPlugin(late, broken)) as home:
        before = anyio.current_time()
        found = await home.directory.importable()
        assert anyio.current_time() - before == pytest.approx(LIST_WAIT) == pytest.approx(90)
    assert ids(found) == ["n"]
    assert set(found.errors) == {"late", "broken"}
    assert "90 s" in found.errors["late"]
    assert "no disk" in found.errors["broken"]


@pytest.mark.behaviour("P-046")
async def test_a_query_filters_before_the_limit_cuts(home, archive, tmp_path):
    for number in range(300):
        archive.add(f"other-{number}", tmp_path, *turn(1, "something else"), at=1_000 + number)
    found = await home.directory.importable(query="FIX tests", limit=1)
    assert ids(found) == ["n1"]
    assert len(ids(await home.directory.importable(limit=5))) == 5


async def test_the_latest_come_first_and_only_those_of_a_folder_when_asked(home, archive, tmp_path):
    archive.add("new", tmp_path / "b", *turn(1, "new"), at=9)
    archive.add("old", tmp_path / "b", *turn(1, "old"), at=3)
    assert ids(await home.directory.importable()) == ["new", "old", "n1"]
    assert ids(await home.directory.importable(cwd=tmp_path / "b")) == ["new", "old"]
    assert ids(await home.directory.importable(limit=1)) == ["new"]
    assert ids(await home.directory.importable(limit=0)) == []


async def test_what_is_an_agent_already_is_not_listed(home, archive, tmp_path):
    archive.add("n2", tmp_path, *turn(1, "two"))
    await home.directory.import_native("scripted", "n1")
    assert ids(await home.directory.importable()) == ["n2"]


@pytest.mark.behaviour("P-043")
async def test_an_agent_is_found_by_its_id_or_its_conversations_and_an_unknown_one_by_neither(home, archive):
    agent = await home.directory.import_native("scripted", "n1")
    assert (await home.directory.find(agent.id)).record.id == agent.id
    assert (await home.directory.find("n1")).record.id == agent.id
    with pytest.raises(AgentNotFound):
        await home.directory.find("n2")
    archive.listed.clear()
    history = home.directory._history
    assert await history.locate("n2") is None
    assert (await history.locate("n1"))[1] == archive.natives["n1"]
    assert archive.listed == [200, 200]


# --- importing ----------------------------------------------------------------------------


@pytest.mark.behaviour("P-047")
async def test_an_import_asks_for_no_listing_numbers_the_rows_anew_and_is_ready_once(home, archive, tmp_path):
    async with home.follow() as seen:
        agent = await home.directory.import_native("scripted", "n1", cwd=tmp_path)
    assert archive.listed == []
    log = await rows(home, agent.id)
    assert [event.seq for event in log] == list(range(len(log)))
    assert [event.data.turn for event in log if event.type == "turn/start"] == [1, 2]
    assert [event.data.reason.kind for event in log if event.type == "turn/end"] == ["completed", "completed"]
    states = [type(change.snapshot.state).__name__ for change in seen]
    told = [name for at, name in enumerate(states) if at == 0 or states[at - 1] != name]
    assert told == ["Initializing", "Resting"]
    archive.past = archive.pasts["n1"]
    assert (await agent.hydrate()).added == 0  # it has its history
    assert len(await rows(home, agent.id)) == len(log)


async def test_an_imported_agent_has_its_native_conversation_and_continues_it(home, archive, tmp_path):
    agent = await home.directory.import_native("scripted", "n1")
    assert archive.opened[-1].handle == Handle(native_id="n1")
    assert archive.opened[-1].cwd == tmp_path
    assert (agent.session.header.origin, agent.session.header.provider) == ("import", "scripted")
    record = await home.record(agent.id)
    assert (record.native.native_id, record.cwd, record.state) == ("n1", str(tmp_path), "idle")
    assert (await agent.run("go on")).text == "ok"
    assert agent.session.state.last_turn == 3
    await home.directory.close(agent.id)
    again = await home.directory.open(agent.id)
    assert archive.opened[-1].handle == Handle(native_id="n1")
    await again.session.load_history()
    texts = [message.content[0].text for message in again.session.derive_messages() if message.role == "user"]
    assert texts == ["Fix the\n tests", "Thanks", "go on"]


@pytest.mark.behaviour("P-048")
async def test_an_imported_output_of_a_mebibyte_is_cut_to_64_kib_and_the_whole_is_reachable(home, archive, tmp_path):
    huge = "0123456789abcdef" * (1 << 16)
    call = {"call_id": "c", "name": "Bash"}
    archive.add("huge", tmp_path, *turn(1, "go", ToolStarted(**call), ToolFinished(**call, output=huge)))
    agent = await home.directory.import_native("scripted", "huge")
    log = await rows(home, agent.id)
    assert max(len(event.raw) for event in log) <= 64 * 1024 + 512
    (result,) = [event.data for event in log if event.type == "tool/result"]
    assert result.output.bytes == 1 << 20
    assert await home.store.read_blob(agent.id, result.output.sha256) == huge.encode()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_large_outputs_are_imported_into_a_file(archive, tmp_path, anyio_backend):
    outputs = [f"{number:04d}" * (1 << 18) for number in range(24)]  # more than a store takes unwritten
    calls = [
        event
        for number, output in enumerate(outputs)
        for event in (
            ToolStarted(call_id=f"c{number}", name="Bash"),
            ToolFinished(call_id=f"c{number}", name="Bash", output=output),
        )
    ]
    archive.add("huge", tmp_path, *turn(1, "go", *calls))
    plugins = {
        "driver": greenroom_driver,
        "sqlite": greenroom_sqlite,
        "scripted": ScriptedPlugin(archive),
        "manager": ManagerPlugin(),
    }
    async with Host(load_settings(), discovery=False, plugins=plugins, data_directory=tmp_path / "data") as host:
        agent = await host.service(AgentDirectory).import_native("scripted", "huge")
        store = host.sessions.store
        results = await store.read_from(agent.id, types=["tool/result"], limit=None)
        assert len(results) == len(outputs)
        last = results[-1].data.output
        assert await store.read_blob(agent.id, last.sha256) == outputs[-1].encode()
        assert await store.verify(agent.id) == []


@pytest.mark.behaviour("P-049")
async def test_an_import_restores_sub_agents_and_takes_its_title_from_the_first_prompt(home, archive, tmp_path):
    work = [
        ToolStarted(call_id="c", name="Task"),
        SubAgent(action="upsert", child_id="k", call_id="c", title="Look around"),
        SubAgent(action="item", child_id="k", item=TextDelta(text="I look")),
        SubAgent(action="upsert", child_id="k", status="completed"),
        ToolFinished(call_id="c", name="Task"),
    ]
    archive.add("n2", tmp_path, *turn(1, "  Explore\nthe code  ", *work))
    agent = await home.directory.import_native("scripted", "n2")
    assert (await home.record(agent.id)).title == "Explore the code"
    told = [event.data for event in await rows(home, agent.id) if event.type.startswith("subagent/")]
    assert {data.child_id for data in told} == {"k"}
    assert (told[0].call_id, told[0].title, told[-1].status) == ("c", "Look around", "completed")


@pytest.mark.parametrize(
    ("prompt", "title"), [(None, None), (" \n", None), ("a" * 200, "a" * 79 + "…"), ("b c", "b c")]
)
def test_a_title_is_one_short_line(prompt, title, anyio_backend):
    assert title_of(prompt) == title


@pytest.mark.behaviour("P-050")
async def test_importing_twice_is_refused_and_names_the_agent(home, archive, tmp_path):
    agent = await home.directory.import_native("scripted", "n1")
    log = await rows(home, agent.id)
    for provider in ("scripted", None):
        with pytest.raises(AgentExists, match=agent.id):
            await home.directory.import_native(provider, "n1", cwd=tmp_path)
    await home.directory.archive(agent.id)
    with pytest.raises(AgentExists, match=agent.id):
        await home.directory.import_native("scripted", "n1")
    assert [event.raw for event in await rows(home, agent.id)][: len(log)] == [event.raw for event in log]
    assert len(home.host.sessions.list()) == 0
    await home.directory.delete(agent.id)
    assert (await home.directory.import_native("scripted", "n1")).id == agent.id


async def test_a_conversation_that_an_agent_of_ours_began_is_refused_too(home, archive, tmp_path):
    mine = await home.create(cwd=tmp_path, options=AgentOptions(provider="scripted"))
    await mine.run("hello")
    archive.add("native-1", tmp_path, *turn(1, "hello"))
    with pytest.raises(AgentExists, match=mine.id):
        await home.directory.import_native("scripted", "native-1")


async def test_of_two_imports_at_once_one_is_refused_and_names_the_agent(home, archive):
    archive.reading = gate = Gate()
    outcomes = []

    async def take():
        try:
            outcomes.append((await home.directory.import_native("scripted", "n1")).id)
        except AgentExists as error:
            outcomes.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await gate.reached.wait()
        await take()
        gate.go.set()
    refused, made = outcomes
    assert made in refused
    assert len(home.host.agents.list()) == 1


@pytest.mark.parametrize("closed", [False, True])
async def test_what_another_host_has_imported_is_refused_while_it_is_live_there_and_after(archive, tmp_path, closed):
    medium, other = Medium(), Archive()
    other.natives, other.pasts = archive.natives, archive.pasts
    async with house(medium, archive) as there, house(medium, other) as here:
        agent = await there.directory.import_native("scripted", "n1")
        if closed:
            await there.directory.close(agent.id)
        with pytest.raises(AgentExists, match=agent.id):
            await here.directory.import_native("scripted", "n1")
        assert other.opened == []


async def test_two_hosts_that_import_at_once_make_one_agent(archive, tmp_path):
    medium, other = Medium(), Archive()
    other.natives, other.pasts = archive.natives, archive.pasts
    async with house(medium, archive) as there, house(medium, other) as here:
        other.reading = gate = Gate()
        outcomes = []

        async def late():
            try:
                outcomes.append((await here.directory.import_native("scripted", "n1")).id)
            except AgentExists as error:
                outcomes.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(late)
            await gate.reached.wait()
            agent = await there.directory.import_native("scripted", "n1")
            gate.go.set()
        assert agent.id in outcomes[0]
        assert other.opened == []
        assert (await there.record(agent.id)).native.native_id == "n1"


async def nothing_was_made(home) -> None:
    assert home.provider.opened == []
    assert list(await home.directory.list(archived=True, internal=True)) == []
    assert list(await home.store.list()) == []


@pytest.mark.parametrize("native", ["unknown", "", "../../etc/passwd", "x" * 2_000])
async def test_a_conversation_that_is_not_there_makes_nothing(home, native):
    for provider in ("scripted", None):
        with pytest.raises(ProviderError):
            await home.directory.import_native(provider, native)
    await nothing_was_made(home)


async def test_a_conversation_that_cannot_be_read_makes_nothing_and_can_be_imported_later(home, archive):
    async def fail():
        raise OSError("bad sector")

    archive.reading = fail
    with pytest.raises(ProviderError, match="bad sector"):
        await home.directory.import_native("scripted", "n1")
    await nothing_was_made(home)
    archive.reading = None
    assert await home.directory.import_native("scripted", "n1")


async def test_an_empty_conversation_makes_nothing(home, archive, tmp_path):
    archive.add("empty", tmp_path)
    with pytest.raises(ProviderError, match="nothing to import"):
        await home.directory.import_native("scripted", "empty")
    await nothing_was_made(home)


async def test_an_import_that_is_cancelled_leaves_nothing(home, archive):
    archive.opening = gate = Gate()
    async with anyio.create_task_group() as tasks:

        async def take():
            await home.directory.import_native("scripted", "n1")

        tasks.start_soon(take)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    gate.go.set()
    await home.until(lambda: home.ways.idle)
    assert list(await home.store.list()) == []
    archive.opening = Gate()
    archive.opening.go.set()
    assert await home.directory.import_native("scripted", "n1")


async def test_what_no_log_takes_is_left_out_and_reported(home, archive, tmp_path):
    deep: object = "x"
    for _ in range(300):
        deep = [deep]
    odd = ToolFinished(call_id="c", name="Odd", input=deep)
    archive.add("odd", tmp_path, *turn(1, "go", odd, said("on", "m")))
    agent = await home.directory.import_native("scripted", "odd")
    texts = [event.data.text for event in await rows(home, agent.id) if event.type == "assistant/message"]
    assert texts == ["on"]
    assert "event_refused" in home.said


def test_the_id_of_an_imported_agent_is_made_of_its_conversation(anyio_backend):
    assert imported_id("a", "b") == imported_id("a", "b") != imported_id("a", "c")
    assert imported_id("ab", "c") != imported_id("a", "bc")


# --- going back ---------------------------------------------------------------------------


@pytest.mark.parametrize("live", [True, False])
async def test_an_imported_conversation_is_cut_in_front_of_a_message(home, archive, live):
    agent = await home.directory.import_native("scripted", "n1")
    if not live:
        await home.directory.close(agent.id)
    await home.directory.rewind(agent.id, "u2")
    assert archive.session.reverted == ["u2"]
    log = await rows(home, agent.id)
    (recast,) = [event for event in log if event.type == "session/recast"]
    assert log[recast.data.keep_before].data.turn == 2


async def test_a_rewind_is_refused_while_the_agent_works(home, archive):
    agent = await home.directory.import_native("scripted", "n1")
    archive.starting = gate = Gate()
    agent.followup("go")
    await gate.reached.wait()
    with pytest.raises(AgentBusy):
        await home.directory.rewind(agent.id, "u2")
    gate.go.set()


async def test_a_rewind_is_refused_for_an_agent_or_a_message_that_is_not_there(home):
    with pytest.raises(AgentNotFound):
        await home.directory.rewind("nobody", "u2")
    agent = await home.directory.import_native("scripted", "n1")
    with pytest.raises(AgentError, match="not on this line"):
        await home.directory.rewind(agent.id, "nothing")


@pytest.mark.behaviour("P-066")
async def test_sub_agents_of_an_internal_parent_are_shown_to_nobody(home, archive, tmp_path):
    agent = await home.directory.create(
        AgentSpec(cwd=tmp_path, internal=True, options=AgentOptions(provider="scripted"))
    )
    archive.past = turn(1, "go", SubAgent(action="upsert", child_id="k", title="hidden"))
    async with home.follow() as seen:
        await agent.reopen(rehydrate=True)
    assert seen == []
    assert [e.data.child_id for e in await rows(home, agent.id) if e.type == "subagent/upserted"] == ["k"]
