"""Archive, unarchive, detach and delete: what is kept, in which order, and who is told."""

from __future__ import annotations

import itertools

import anyio
import pytest

from greenroom import hookimpl
from greenroom.agents import (
    PARENT_LABEL,
    AgentArchived,
    AgentError,
    AgentNotFound,
    AgentRecord,
    Closed,
    Resting,
    Unread,
)
from greenroom.providers import Capability, Handle, ProviderError
from greenroom_manager.ways._family import Member, descendants
from greenroom_testing import EVERYTHING, ScriptedProvider, accept

from .house import JUMPING, Fails, Gate, house

pytestmark = pytest.mark.anyio


async def working(home, agent_id="a", **fields):
    """A live agent that has worked, so that its provider knows it."""
    agent = await home.create(agent_id, title=agent_id, **fields)
    await agent.run("hello")
    await agent.when_idle()
    return agent


def states(seen, agent_id):
    """The states that a subscriber saw, each as long as it lasted."""
    shown = [type(change.snapshot.state) for change in seen if change.agent_id == agent_id and change.snapshot]
    return [state for state, _ in itertools.groupby(shown)]


async def stored_record(home, agent_id) -> bytes:
    return (await home.store.records("agents").get(agent_id)).value


@pytest.mark.behaviour("P-076")
async def test_the_mark_is_stored_before_the_closed_state_is_told(home) -> None:
    await working(home)
    await home.directory.mark_unread("a")
    on_disk = []

    class Look:
        @hookimpl
        def agent_disposed(self, agent):
            on_disk.append(home.medium.records["agents", "a"].value)

    await home.host.load(Look(), name="look")
    async with home.follow() as seen:
        await home.directory.archive("a")
        await home.until(lambda: states(seen, "a")[-1:] == [Closed])
    assert states(seen, "a")[-2:] == [Resting, Closed]
    record = await home.record("a")
    assert record.unread is None
    assert record.state == "closed"
    assert 0 <= record.updated_at - record.archived_at <= 5
    assert b'"archived_at":%d' % record.archived_at in on_disk[0]
    assert b"unread" not in on_disk[0]


@pytest.mark.behaviour("P-077", "P-078", "P-085")
async def test_an_agent_that_is_only_stored_is_archived_settled_and_told(home) -> None:
    record = AgentRecord(id="a", provider="scripted", created_at=1, updated_at=2, state="running",
                         unread=Unread("finished", 3))  # fmt: skip
    await home.directory._book.insert(record)
    async with home.follow() as seen:
        cascade = await home.directory.archive("a")
        await home.until(lambda: seen[-1].snapshot.record.archived_at is not None)
    assert cascade.results == {"a": None}
    kept = await home.record("a")
    assert kept.unread is None
    assert kept.state == "idle"
    assert kept.archived_at is not None
    assert home.provider.opened == []


@pytest.mark.behaviour("P-079", "P-080")
async def test_an_archive_marks_then_closes_then_archives_the_providers_side_then_the_children(home) -> None:
    await working(home)
    await working(home, "child", parent="a")
    steps = []
    home.directory._book.observe(
        lambda agent_id, _before, after: (
            steps.append(f"marked {agent_id}")
            if after is not None and after.archived_at is not None and f"marked {agent_id}" not in steps
            else None
        )
    )

    async def closing(session) -> None:
        steps.append(f"closed {session.request.session_id}")

    async def archiving(_native_id) -> None:
        archived = next(step.partition(" ")[2] for step in reversed(steps) if step.startswith("closed"))
        assert archived not in home.writers()
        assert (await home.store.entry(archived)).owner is None
        steps.append(f"natively {archived}")

    home.provider.closing, home.provider.archiving = closing, archiving
    await home.directory.archive("a")
    assert steps == [f"{step} {who}" for who in ("a", "child") for step in ("marked", "closed", "natively")]


@pytest.mark.behaviour("P-079")
async def test_a_provider_that_cannot_archive_its_side_does_not_keep_ours(home) -> None:
    await working(home)
    home.provider.archiving = Fails(ProviderError("read-only"))
    cascade = await home.directory.archive("a")
    assert cascade.failed == {}
    assert "not_archived_natively" in home.said
    assert await home.archived() == {"a"}


@pytest.mark.parametrize("anyio_backend", [JUMPING], ids=["trio"])
async def test_a_provider_that_never_answers_does_not_keep_the_archive_waiting(home) -> None:
    await working(home)
    home.provider.archiving = Gate()
    with anyio.fail_after(60):
        assert (await home.directory.archive("a")).failed == {}


async def test_a_close_that_fails_leaves_an_archived_agent_and_no_archived_conversation(home) -> None:
    await working(home)
    home.provider.closing = Fails(ProviderError("it would not die"))
    cascade = await home.directory.archive("a")
    assert "it would not die" in cascade.failed["a"]
    assert (await home.record("a")).archived_at is not None
    assert home.provider.archived == []
    home.provider.closing = ScriptedProvider().closing
    assert (await home.directory.archive("a")).failed == {}
    assert home.provider.archived == ["native-1"]
    assert home.writers() == []


@pytest.mark.behaviour("P-081")
def test_descendants_are_found_by_the_labels_each_once_and_behind_its_parent() -> None:
    pairs = [("b", "a"), ("c", "b"), ("d", "a"), ("x", None), ("y", "x"), ("a", "c"), ("b", "a"), ("e", "e")]
    assert descendants("a", pairs) == [Member("b", "a"), Member("d", "a"), Member("c", "b")]
    assert descendants("e", pairs) == []
    assert descendants("nobody", pairs) == []


@pytest.mark.behaviour("P-081", "P-082", "P-085")
async def test_a_cascade_takes_live_and_stored_descendants_and_tells_of_each(home) -> None:
    await working(home)
    await working(home, "live", parent="a")
    await home.family(("stored", "a"), ("grandchild", "stored"), ("stranger", None))
    async with home.follow() as seen:
        cascade = await home.directory.archive("a")
        told = {change.agent_id for change in seen if change.snapshot and change.snapshot.record.archived_at}
        await home.until(lambda: len(told) == 4 or told.update(
            change.agent_id for change in seen if change.snapshot and change.snapshot.record.archived_at))  # fmt: skip
    assert cascade.results == dict.fromkeys(("a", "live", "stored", "grandchild"))
    assert await home.archived() == set(cascade.results)
    assert home.host.agents.list() == []
    assert (await home.record("stranger")).archived_at is None


@pytest.mark.behaviour("P-082")
async def test_a_child_that_fails_is_a_result_and_stops_nobody(home) -> None:
    await home.create("a", title="a")
    await home.create("bad", parent="a", title="bad")
    await home.create("good", parent="a", title="good")
    await home.family(("below", "bad"))

    async def closing(session) -> None:
        if session.request.session_id == "bad":
            raise ProviderError("it would not die")

    home.provider.closing = closing
    cascade = await home.directory.archive("a")
    assert set(cascade.results) == {"a", "bad", "good", "below"}
    assert set(cascade.failed) == {"bad"}
    assert "it would not die" in cascade.failed["bad"]
    home.provider.closing = ScriptedProvider().closing


@pytest.mark.behaviour("P-083", "P-087")
async def test_a_child_that_is_detached_while_the_cascade_goes_on_is_left_alone_with_all_below_it(home) -> None:
    await home.create("a", title="a")
    await home.family(("child", "a"), ("grandchild", "child"), ("other", "a"))
    home.provider.closing = gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.archive, "a")
        await gate.reached.wait()
        await home.directory.detach("child")
        gate.go.set()
    assert await home.archived() == {"a", "other"}


@pytest.mark.behaviour("P-083")
async def test_a_detach_wins_also_when_the_cascade_waits_for_the_child(home) -> None:
    await home.create("a", title="a")
    await home.create("child", parent="a", title="child")
    home.provider.opening = gate = Gate()
    await home.directory.close("child")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.open, "child")
        await gate.reached.wait()
        tasks.start_soon(home.directory.archive, "a")
        await anyio.wait_all_tasks_blocked()
        await home.directory.detach("child")
        gate.go.set()
    assert await home.archived() == {"a"}
    assert home.live("child") is not None


@pytest.mark.behaviour("P-084")
async def test_a_parent_that_is_closed_already_takes_its_children_along(home) -> None:
    await home.family(("a", None), ("child", "a"))
    await home.directory.open("child")
    await home.directory.archive("a")
    assert await home.archived() == {"a", "child"}
    assert home.host.agents.list() == []


async def test_labels_that_make_a_circle_end_with_everybody_archived_once(home) -> None:
    await home.family(("a", "c"), ("b", "a"), ("c", "b"), ("self", "self"))
    async with anyio.create_task_group() as tasks:
        for agent_id in ("a", "b", "c", "self"):
            tasks.start_soon(home.directory.archive, agent_id)
    assert await home.archived() == {"a", "b", "c", "self"}
    assert home.ways.idle


async def test_a_child_that_is_being_created_is_archived_as_soon_as_it_is_there(home) -> None:
    await home.create("a", title="a")
    home.provider.opening = gate = Gate()
    cascades = []

    async def archive() -> None:
        cascades.append(await home.directory.archive("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: home.create("child", parent="a", title="child"))
        await gate.reached.wait()
        tasks.start_soon(archive)
        await anyio.wait_all_tasks_blocked()
        assert cascades == []
        gate.go.set()
    assert cascades[0].results == {"a": None, "child": None}
    assert await home.archived() == {"a", "child"}
    assert home.host.agents.list() == []


async def test_a_child_whose_creation_fails_meanwhile_is_no_result(home) -> None:
    await home.create("a", title="a")
    home.provider.opening = gate = Gate(raises=ProviderError("no program"))
    cascades = []

    async def create() -> None:
        with pytest.raises(ProviderError):
            await home.create("child", parent="a")

    async def archive() -> None:
        cascades.append(await home.directory.archive("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create)
        await gate.reached.wait()
        tasks.start_soon(archive)
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert cascades[0].results == {"a": None}


async def test_nothing_new_works_for_an_agent_that_is_archived_or_about_to_be(home) -> None:
    await home.create("a", title="a")
    home.provider.closing = gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.archive, "a")
        await gate.reached.wait()
        with pytest.raises(AgentArchived):
            await home.create("late", parent="a")
        gate.go.set()
    with pytest.raises(AgentArchived):
        await home.create("later", parent="a")
    await home.directory.unarchive("a")
    assert (await home.create("child", parent="a")).id == "child"


@pytest.mark.behaviour("P-090")
async def test_an_archive_waits_for_the_resume_that_goes_on_and_then_closes_it(home) -> None:
    await home.family(("a", None))
    home.provider.opening = gate = Gate()
    opened = []

    async def open_() -> None:
        opened.append(await home.directory.open("a"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_)
        await gate.reached.wait()
        tasks.start_soon(home.directory.archive, "a")
        await anyio.wait_all_tasks_blocked()
        assert (await home.record("a")).archived_at is None
        gate.go.set()
    assert opened[0].gone
    assert home.live("a") is None
    assert home.writers() == []
    assert await home.archived() == {"a"}


@pytest.mark.behaviour("P-086")
@pytest.mark.parametrize("live", [True, False])
async def test_a_detach_removes_the_label_of_the_parent_and_nothing_else(home, live) -> None:
    await home.create("a", parent="parent", labels={"team": "x"}, title="T")
    if not live:
        await home.directory.close("a")
    async with home.follow("a") as seen:
        snapshot = await home.directory.detach("a")
        await home.until(lambda: PARENT_LABEL not in seen[-1].snapshot.record.labels)
    assert snapshot.record.labels == {"team": "x"}
    assert snapshot.record.title == "T"
    assert snapshot.live is live
    assert PARENT_LABEL.encode() not in await stored_record(home, "a")
    if live:
        assert (home.live("a").session.state.config.labels or {}).get(PARENT_LABEL) is None
    else:
        await home.directory.open("a")
        assert PARENT_LABEL not in (await home.record("a")).labels


@pytest.mark.behaviour("P-087")
async def test_a_detached_agent_is_not_archived_with_its_former_parent(home) -> None:
    await home.family(("a", None), ("child", "a"), ("other", "a"))
    await home.directory.detach("child")
    await home.directory.archive("a")
    assert await home.archived() == {"a", "other"}


@pytest.mark.behaviour("P-088")
async def test_an_unarchive_restores_the_providers_side_first_and_stays_archived_if_that_fails(home) -> None:
    await working(home)
    await home.directory.archive("a")
    home.provider.restoring = Fails(ProviderError("gone"))
    with pytest.raises(ProviderError, match="gone"):
        await home.directory.unarchive("a")
    assert await home.archived() == {"a"}
    was = []

    async def restoring(native_id) -> None:
        was.append((native_id, (await home.record("a")).archived_at is not None))

    home.provider.restoring = restoring
    snapshot = await home.directory.unarchive("a")
    assert snapshot.record.archived_at is None
    assert was == [("native-1", True)]


@pytest.mark.behaviour("P-088")
async def test_concurrent_unarchives_restore_once_by_id_or_by_native_id(home) -> None:
    await working(home)
    await home.directory.archive("a")
    home.provider.restoring = gate = Gate()
    found = []

    async def unarchive(known_as) -> None:
        found.append(await home.directory.unarchive(known_as))

    async with anyio.create_task_group() as tasks:
        for known_as in ("a", "native-1", "a"):
            tasks.start_soon(unarchive, known_as)
        await gate.reached.wait()
        await anyio.wait_all_tasks_blocked()
        gate.go.set()
    assert gate.calls == 1
    assert [snapshot.record.archived_at for snapshot in found] == [None] * 3


@pytest.mark.behaviour("P-088")
async def test_an_unarchive_of_an_active_agent_does_nothing(home) -> None:
    agent = await working(home)
    before = await home.record("a")
    assert (await home.directory.unarchive("a")).live
    assert await home.record("a") == before
    assert home.provider.restored == []
    assert home.live("a") is agent


async def test_a_provider_without_the_capability_is_not_asked(anyio_backend) -> None:
    provider = ScriptedProvider(capabilities=EVERYTHING - {Capability.ARCHIVE})
    async with house(provider=provider) as home:
        await working(home)
        await home.directory.archive("a")
        await home.directory.unarchive("a")
    assert provider.archived == provider.restored == []


async def test_an_archive_in_the_middle_of_a_turn_ends_the_turn(home) -> None:
    home.provider.starting = accept
    agent = await home.create("a", title="a")
    agent.followup("go on")
    await home.until(lambda: home.provider.session.turn is not None)
    assert (await home.directory.archive("a")).failed == {}
    ends = await home.store.read_from("a", types=["turn/end"])
    assert [event.data.reason.kind for event in ends] == ["aborted"]
    assert (await home.record("a")).native == Handle(native_id="native-1")


# delete


async def test_a_delete_removes_records_and_sessions_children_first(home) -> None:
    await working(home)
    await home.family(("child", "a"), ("grandchild", "child"), ("stranger", None))
    gone = []
    home.directory._book.observe(lambda agent_id, _before, after: gone.append(agent_id) if after is None else None)
    async with home.follow() as seen:
        cascade = await home.directory.delete("a")
        await home.until(lambda: {change.agent_id for change in seen if change.snapshot is None} == set(gone))
    assert gone == ["grandchild", "child", "a"]
    assert cascade.results == dict.fromkeys(("grandchild", "child", "a"))
    assert [entry.id for entry in await home.store.list()] == ["stranger"]
    assert [snapshot.record.id for snapshot in await home.directory.list()] == ["stranger"]
    for agent_id in ("a", "child"):
        with pytest.raises(AgentNotFound):
            await home.directory.find(agent_id)
    assert (await home.create("a", title="again")).id == "a"


async def test_who_has_a_child_that_cannot_be_deleted_is_kept_and_the_others_go(home) -> None:
    await home.family(("a", None), ("good", "a"), ("bad", "a"))
    await home.directory.open("bad")
    home.provider.closing = Fails(ProviderError("it would not die"))
    cascade = await home.directory.delete("a")
    assert cascade.results["good"] is None
    assert "it would not die" in cascade.failed["bad"]
    assert "bad" in cascade.failed["a"]
    assert {snapshot.record.id for snapshot in await home.directory.list()} == {"a", "bad"}
    home.provider.closing = ScriptedProvider().closing
    assert (await home.directory.delete("a")).failed == {}
    assert list(await home.store.list()) == []


async def test_a_child_that_is_detached_in_time_is_not_deleted_nor_is_what_is_below_it(home) -> None:
    await home.family(("a", None), ("child", "a"), ("grandchild", "child"))
    await home.directory.open("grandchild")
    home.provider.closing = gate = Gate()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(home.directory.delete, "a")
        await gate.reached.wait()
        await home.directory.detach("child")
        gate.go.set()
    assert {snapshot.record.id for snapshot in await home.directory.list()} == {"child", "grandchild"}


async def test_an_archived_agent_can_be_deleted(home) -> None:
    await working(home)
    await home.directory.archive("a")
    assert (await home.directory.delete("a")).results == {"a": None}
    assert list(await home.directory.list(archived=True)) == []


@pytest.mark.parametrize("way", ["archive", "unarchive", "detach", "delete", "close", "reload", "open"])
async def test_what_nobody_knows_is_not_found(home, way) -> None:
    with pytest.raises(AgentNotFound):
        await getattr(home.directory, way)("nobody")
    assert home.ways.idle


async def test_an_agent_that_archives_itself_is_not_kept_waiting_for_it(home) -> None:
    agent = await home.create("a", title="a")
    with agent.initiators.boundary(agent), pytest.raises(AgentError, match="requested"):
        await home.directory.archive("a")
    await home.until(lambda: home.live("a") is None and home.ways.idle)
    assert await home.archived() == {"a"}
