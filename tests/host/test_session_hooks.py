"""A host's plugins bring event types, checks and the store, and hear of sessions."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import msgspec
import pytest

from greenroom import Host, hookimpl, load_settings
from greenroom.errors import NameTaken
from greenroom.sessions import (
    EventRefused,
    EventType,
    Invariant,
    InvariantsViolated,
    MemoryStore,
    TriggerKind,
    Violation,
)

pytestmark = pytest.mark.anyio


class Note(msgspec.Struct, frozen=True):
    text: str


class Notes:
    """Registers a type that stands outside of turns, and a trigger."""

    @hookimpl
    def event_types(self):
        return [EventType("audit/note", Note, enclosure="free"), TriggerKind("audit/check")]


class Store(MemoryStore):
    closed = False

    async def aclose(self):
        self.closed = True
        await super().aclose()


class Keeps:
    def __init__(self):
        self.store = Store()

    @hookimpl
    def session_store(self, settings, data_directory):
        self.given = (settings, data_directory)
        return self.store


async def new_session(host):
    return (await host.sessions.create(host.sessions.new_header(cwd="/tmp", provider="none"))).session


async def test_event_types_are_known_while_their_plugin_is_active(host):
    session = await new_session(host)
    with pytest.raises(EventRefused, match="audit/note"):
        session.append("audit/note", {"text": "a"})
    await host.load(Notes(), name="audit")
    assert session.append("audit/note", {"text": "a"}).data["text"] == "a"
    await host.unload("audit")
    with pytest.raises(EventRefused, match="audit/note"):
        session.append("audit/note", {"text": "b"})


async def test_event_types_of_one_name_fail_the_second_plugin_naming_both(host):
    await host.load(Notes(), name="audit")
    record = await host.load(Notes(), name="other")
    assert record.state == "failed"
    assert "local:audit" in record.error


async def test_session_store_is_taken_from_the_slot_and_closed_with_its_plugin(tmp_path, anyio_backend):
    plugin = Keeps()
    async with Host(discovery=False, data_directory=tmp_path, plugins={"keeps": plugin}) as host:
        assert host.sessions.store is plugin.store
        assert plugin.given == (None, tmp_path)
        session = await new_session(host)
        session.append("notice", {"level": "info", "message": "kept"})
        await session.flush()
        assert [entry.id for entry in await plugin.store.list()] == [session.id]
    assert plugin.store.closed


async def test_a_second_session_store_fails_its_plugin_naming_both(anyio_backend):
    async with Host(discovery=False, plugins={"one": Keeps(), "two": Keeps()}) as host:
        assert host.plugin("one").state == "active"
        record = host.plugin("two")
        assert record.state == "failed"
        assert "local:one" in record.error
        assert "local:two" in record.error


async def test_without_a_session_store_sessions_live_in_memory_and_the_host_warns(anyio_backend):
    async with Host(discovery=False) as host:
        assert isinstance(host.sessions.store, MemoryStore)
        assert any("memory" in warning for warning in host.warnings)


def refuse(word):
    return Invariant(
        f"no-{word}",
        check=lambda trace, event, data: Violation(f"{word} is refused") if data.message == word else trace,
        types=frozenset({"notice"}),
    )


class Checks:
    def __init__(self, *words):
        self.words = words

    @hookimpl
    def invariants(self):
        return [refuse(word) for word in self.words]


async def test_invariants_veto_an_event_and_name_their_plugin_until_it_leaves(host):
    session = await new_session(host)
    await host.load(Checks("bad"), name="checks")
    session.append("notice", {"level": "info", "message": "good"})
    with pytest.raises(InvariantsViolated, match="bad is refused") as caught:
        session.append("notice", {"level": "info", "message": "bad"})
    assert caught.value.exceptions[0].plugin == "local:checks"
    assert len(session) == 1
    await host.unload("checks")
    session.append("notice", {"level": "info", "message": "bad"})


async def test_invariants_are_selected_by_the_settings(anyio_backend):
    settings = load_settings(overrides={"invariants.block": ["checks"]})
    async with Host(settings, discovery=False, plugins={"checks": Checks("bad")}) as host:
        session = await new_session(host)
        session.append("notice", {"level": "info", "message": "bad"})


async def test_invariants_that_cannot_be_collected_are_missing_and_recorded(host):
    class Broken:
        @hookimpl
        def invariants(self):
            raise RuntimeError("no checks today")

    record = await host.load(Broken(), name="broken")
    assert record.state == "active"
    assert any("no checks today" in item.text for item in host.diagnostics.recent)


class Hears:
    def __init__(self):
        self.heard = []

    @hookimpl
    def session_created(self, session):
        self.heard.append(("created", session.id))

    @hookimpl
    def session_event(self, session, event):
        self.heard.append((event.seq, event.type))

    @hookimpl
    def session_disposed(self, session):
        self.heard.append(("disposed", session.id))


async def test_session_created_session_event_and_session_disposed_are_heard_in_order(host):
    plugin = Hears()
    await host.load(plugin, name="hears")
    entered = await host.sessions.create(host.sessions.new_header(cwd="/tmp", provider="none"))
    entered.session.append("notice", {"level": "info", "message": "one"})
    await entered.close()
    identity = entered.session.id
    assert plugin.heard == [("created", identity), (0, "notice"), ("disposed", identity)]


async def test_session_created_that_raises_vetoes_the_session_after_all_have_run(host):
    class Veto:
        @hookimpl(before=["hears"])
        def session_created(self, session):
            raise RuntimeError("not today")

    plugin = Hears()
    await host.load(plugin, name="hears")
    await host.load(Veto(), name="veto")
    with pytest.raises(ExceptionGroup, match="vetoed"):
        await new_session(host)
    assert [what for what, _ in plugin.heard] == ["created", "disposed"]
    assert host.sessions.list() == []


async def test_session_event_of_an_async_observer_that_lagged_delivers_each_event_once(host):
    class Slow:
        def __init__(self):
            self.seen = []
            self.go = anyio.Event()
            self.done = anyio.Event()

        @hookimpl
        async def session_event(self, session, event):
            await self.go.wait()
            self.seen.append((session.id, event.seq))
            if len(self.seen) == 2 * count:
                self.done.set()

    count = 1_700
    plugin = Slow()
    await host.load(plugin, name="slow")
    sessions = [await new_session(host), await new_session(host)]
    for _ in range(count):
        for session in sessions:
            session.append("notice", {"level": "info", "message": "x"})
    plugin.go.set()
    await plugin.done.wait()
    for session in sessions:
        assert [seq for identity, seq in plugin.seen if identity == session.id] == list(range(count))


async def test_session_event_observers_that_raise_change_nothing(host):
    class Broken:
        @hookimpl
        def session_event(self, session, event):
            raise RuntimeError("no ears")

    await host.load(Broken(), name="broken")
    session = await new_session(host)
    session.append("notice", {"level": "info", "message": "one"})
    assert len(session) == 1
    assert any("no ears" in item.text for item in host.diagnostics.recent)


async def test_names_of_types_are_taken_across_plugins(host):
    await host.load(Notes(), name="audit")
    with pytest.raises(NameTaken):
        host.sessions.vocabulary.add(EventType("audit/note", Note, enclosure="free"), "other")
