"""A session that begins with a prefix of another."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.sessions import (
    ForkRefused,
    SessionDamaged,
    SessionExists,
    SessionNotFound,
    SessionNotLive,
    derive_messages,
)
from greenroom.sessions.vocabulary import (
    CompactionStart,
    InboxSpliced,
    Notice,
    PermissionAsked,
    PermissionRequest,
    ProviderSessionId,
)

pytestmark = pytest.mark.anyio

NOTE = Notice("info", "hello")
ENDS = [
    ("completed", {}),
    ("max_tokens", {}),
    ("interrupted", {}),
    ("aborted", {"cause": "user"}),
    ("blocked", {"by": "p", "reason": "r"}),
    ("error", {"message": "m", "code": "c"}),
]


@pytest.fixture
async def parent(registry):
    return (await registry.create(registry.new_header("parent", cwd="/w", provider="fake"))).session


@pytest.mark.behaviour("D-124")
async def test_an_empty_live_session_forks_to_an_empty_child_with_its_lineage(registry, parent):
    child = (await registry.fork(parent, child_id="child")).session
    assert [event.type for event in child.tail] == ["session/seed-end"]
    header = child.header
    assert (header.parent_session, header.seed_length, header.origin) == ("parent", 0, "fork")
    assert (header.cwd, header.provider) == ("/w", "fake")
    assert header.epoch != parent.header.epoch


@pytest.mark.behaviour("D-125", "D-627")
async def test_the_default_boundary_is_the_latest_event(registry, parent, scripted):
    scripted(parent).whole_turn()
    child = (await registry.fork(parent)).session
    assert child.tail[:-1] == parent.tail
    assert child.header.seed_length == len(parent)
    with pytest.raises(AttributeError):
        child.tail[0].raw = b""
    assert child.derive_messages() == parent.derive_messages()


@pytest.mark.behaviour("D-126")
async def test_bookkeeping_behind_a_closed_turn_is_included(registry, parent, scripted):
    scripted(parent).whole_turn()
    note = parent.append("notice", NOTE)
    child = (await registry.fork(parent, note.seq)).session
    assert child.tail[-2] == note


@pytest.mark.behaviour("D-127")
async def test_an_earlier_closed_turn_is_a_boundary_while_a_turn_is_open(registry, parent, scripted):
    script = scripted(parent)
    script.whole_turn()
    boundary = len(parent) - 1
    script.turn()
    child = (await registry.fork(parent, boundary)).session
    assert len(child) == boundary + 2
    assert child.state.open_turn is None
    assert scripted(child).turn() == 2


@pytest.mark.behaviour("D-128")
@pytest.mark.parametrize(("kind", "fields"), ENDS, ids=[kind for kind, _ in ENDS])
async def test_every_end_of_a_turn_is_a_boundary(registry, parent, scripted, kind, fields):
    script = scripted(parent)
    script.turn()
    end = script.end(kind, **fields)
    assert len((await registry.fork(parent, end.seq)).session) == end.seq + 2


@pytest.mark.behaviour("D-129")
async def test_what_the_parent_left_open_is_told_from_the_childs_own_by_the_end_marker(registry, parent, scripted):
    request = PermissionRequest("q", "Bash")
    parent.append("permission/asked", PermissionAsked(request))
    child = (await registry.fork(parent)).session
    assert child.state.first_live_seq == 1
    assert child.tail[0].seq < child.state.first_live_seq
    assert child.state.asked == {}
    assert "q" in parent.state.asked


@pytest.mark.behaviour("D-130")
@pytest.mark.parametrize("boundary", [-1, 8, 1.0, True, "1", 10**9], ids=repr)
async def test_an_impossible_boundary_is_refused_before_a_child_exists(registry, parent, scripted, store, boundary):
    scripted(parent).whole_turn()
    with pytest.raises(ForkRefused) as caught:
        await registry.fork(parent, boundary, child_id="child")
    assert caught.value.code == "invalid_boundary"
    with pytest.raises(SessionNotFound):
        await store.entry("child")


@pytest.mark.behaviour("D-133")
async def test_a_boundary_inside_an_open_turn_is_refused(registry, parent, scripted):
    script = scripted(parent)
    script.whole_turn()
    for boundary in (0, 3, 6):
        with pytest.raises(ForkRefused, match="inside turn 1") as caught:
            await registry.fork(parent, boundary)
        assert caught.value.code == "open_turn"
    script.turn()
    parent.append("notice", NOTE)
    with pytest.raises(ForkRefused, match="inside turn 2"):
        await registry.fork(parent)


async def test_a_compaction_of_an_open_turn_is_no_boundary(registry, parent, scripted):
    scripted(parent).turn()
    parent.append("compaction/start", CompactionStart("auto"))
    with pytest.raises(ForkRefused):
        await registry.fork(parent)


@pytest.mark.behaviour("D-131")
async def test_a_parent_whose_places_and_numbers_disagree_is_refused(registry, parent, scripted, store):
    scripted(parent).whole_turn()
    await parent.flush()
    events = store._medium.sessions["parent"].events
    events[2] = msgspec.structs.replace(events[2], seq=5)
    with pytest.raises(SessionDamaged) as caught:
        await registry.fork("parent", child_id="child")
    assert caught.value.seq == 2


@pytest.mark.behaviour("D-132")
async def test_an_unknown_id_and_an_object_that_is_not_the_live_one_are_refused(registry, parent, session):
    with pytest.raises(SessionNotFound):
        await registry.fork("nobody")
    with pytest.raises(SessionNotLive):
        await registry.fork(session)
    prepared = await registry.prepare(registry.new_header("other"))
    entered = registry.enter(prepared)
    entered.detach()
    with pytest.raises(SessionNotLive):
        await registry.fork(entered.session)


@pytest.mark.behaviour("D-134")
async def test_a_live_childs_id_is_refused_before_the_boundary_is_looked_at(registry, parent):
    await registry.create(registry.new_header("child"))
    with pytest.raises(SessionExists):
        await registry.fork(parent, 999, child_id="child")


async def test_a_stored_childs_id_is_refused(registry, parent, scripted):
    other = await registry.create(registry.new_header("child"))
    other.session.append("notice", NOTE)
    await other.close()
    with pytest.raises(SessionExists):
        await registry.fork(parent, child_id="child")


async def test_a_child_inherits_neither_the_inbox_nor_the_native_conversation(registry, parent, scripted):
    parent.append("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(scripted.message("x", "x"),)))
    parent.append("provider/session", ProviderSessionId("native"))
    entered = registry.enter(await registry.fork(parent, child_id="child"))
    assert parent.state.inbox.ids == {"x"}
    assert (entered.session.state.inbox.ids, entered.session.state.native_id) == (frozenset(), None)
    await entered.close()
    again = (await registry.prepare_resume("child")).session
    assert (again.state.inbox.ids, again.state.native_id) == (frozenset(), None)


async def test_a_child_of_a_recast_parent_has_its_own_epoch(registry, parent, scripted):
    scripted(parent).whole_turn()
    parent.recast("rewind", 0)
    entered = registry.enter(await registry.fork(parent, child_id="child"))
    assert entered.session.epoch == entered.session.header.epoch
    assert entered.session.derive_messages() == []
    await entered.close()
    assert (await registry.prepare_resume("child")).session.epoch == entered.session.header.epoch


@pytest.mark.behaviour("D-631", "D-632")
async def test_a_forks_seed_is_stored_once_and_not_again_on_resume(registry, parent, scripted, store):
    scripted(parent).whole_turn()
    entered = registry.enter(await registry.fork(parent, child_id="child"))
    await entered.close()
    stored = await store.read_from("child")
    assert list(stored[:-1]) == list(parent.tail)
    prepared = await registry.prepare_resume("child")
    assert await store.read_from("child") == stored
    await prepared.session.load_history()
    assert prepared.session.derive_messages() == derive_messages(stored)


async def test_a_stored_session_that_is_not_live_can_be_forked(registry, parent, scripted):
    other = await registry.create(registry.new_header("other"))
    scripted(other.session).whole_turn()
    await other.close()
    child = (await registry.fork("other")).session
    assert child.header.parent_session == "other"
    assert len(child) == len(other.session) + 1
