"""Sessions and their store together: what is written when, read back how, and left behind by whom."""

from __future__ import annotations

import gc
import weakref

import anyio
import anyio.lowlevel
import msgspec
import pytest

from greenroom.sessions import (
    Event,
    EventRefused,
    MemoryStore,
    ProviderProcess,
    Session,
    SessionNotFound,
    SessionOwned,
    StoreStalled,
    derive_messages,
    resume_session,
)
from greenroom.sessions.vocabulary import Notice

pytestmark = pytest.mark.anyio

NOTE = Notice("info", "hello")


class SlowStore(MemoryStore):
    """Reads wait until they are let go."""

    def __init__(self, medium):
        super().__init__(medium)
        self.gate = anyio.Event()
        self.waiting = anyio.Event()

    async def read_from(self, session_id, seq=0, **more):
        self.waiting.set()
        await self.gate.wait()
        return await super().read_from(session_id, seq, **more)


@pytest.fixture
async def stored(registry, store, scripted):
    """A closed session `s` of two turns in the store."""
    entered = await registry.create(registry.new_header("s", cwd="/w", provider="fake"))
    scripted(entered.session).whole_turn()
    scripted(entered.session).whole_turn()
    await entered.close()
    return entered.session


@pytest.fixture
async def long(registry, store, scripted):
    """A closed session `s` that is longer than what a resume keeps in memory, with three messages a turn."""
    entered = await registry.create(registry.new_header("s"))
    for _ in range(40):
        scripted(entered.session).whole_turn()
    await entered.close()
    return entered.session


@pytest.mark.behaviour("D-614")
async def test_what_was_created_and_appended_is_loaded_with_identical_header_and_events(stored, store, vocabulary):
    session = await resume_session(store, "s", vocabulary)
    assert session.header == stored.header
    assert list(await session.events()) == list(stored.tail)
    await session.load_history()
    assert session.derive_messages() == stored.derive_messages()


@pytest.mark.behaviour("D-619", "D-626")
async def test_a_session_that_was_only_created_is_neither_listed_nor_loaded(registry, store):
    prepared = await registry.prepare(registry.new_header("a"))
    registry.enter(prepared)
    await prepared.session.flush()
    assert await store.list() == []
    with pytest.raises(SessionNotFound):
        await store.acquire("a")
    with pytest.raises(SessionNotFound):
        await store.read_from("a")


@pytest.mark.behaviour("D-620")
async def test_a_read_in_a_cancelled_scope_does_not_happen(stored, store, vocabulary):
    slow = SlowStore(store._medium)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await resume_session(slow, "s", vocabulary)
        pytest.fail("the read went on")
    assert scope.cancelled_caught
    assert (await store.entry("s")).owner is None


@pytest.mark.behaviour("D-621")
async def test_a_read_from_a_seq_is_exactly_the_suffix_and_changes_nothing(stored, store):
    before = await store.entry("s")
    for seq in range(len(stored) + 1):
        assert list(await store.read_from("s", seq)) == list(stored.tail[seq:])
    assert await store.entry("s") == before


@pytest.mark.behaviour("D-622")
async def test_a_revision_is_stable_and_changes_after_an_append(stored, registry, store):
    first = (await store.entry("s")).revision
    assert (await store.entry("s")).revision == first
    prepared = await registry.prepare_resume("s")
    assert (await store.entry("s")).revision == first
    prepared.session.append("notice", NOTE)
    await prepared.session.flush()
    assert (await store.entry("s")).revision != first


@pytest.mark.behaviour("D-623")
async def test_a_wrong_first_seq_and_a_gap_are_refused_by_the_lease(registry, store):
    lease = await store.create(registry.new_header("a"))
    event = Event(0, 1, "notice", msgspec.json.encode(NOTE))
    for wrong in ([1], [0, 2], [0, 0], [-1]):
        with pytest.raises(EventRefused):
            lease.append([msgspec.structs.replace(event, seq=seq) for seq in wrong])
    assert lease.next_seq == 0
    lease.append([event])
    with pytest.raises(EventRefused):
        lease.append([event])


@pytest.mark.behaviour("D-641")
async def test_taking_a_stored_session_continues_its_seq_and_an_empty_append_does_nothing(stored, store):
    lease = await store.acquire("s")
    assert lease.next_seq == len(stored)
    lease.append([])
    await lease.flush()
    assert (await store.entry("s")).next_seq == len(stored)
    lease.append([Event(len(stored), 1, "notice", msgspec.json.encode(NOTE))])
    await lease.release()
    assert (await store.entry("s")).next_seq == len(stored) + 1


@pytest.mark.behaviour("D-647")
async def test_the_events_of_a_seed_are_kept_themselves_and_not_copied(stored, header, vocabulary):
    again = Session(header, vocabulary, seed=stored.tail)
    assert all(kept is given for kept, given in zip(again.tail, stored.tail, strict=False))


@pytest.mark.behaviour("D-637")
async def test_closing_writes_everything_before_the_session_is_given_up(registry, store):
    entered = await registry.create(registry.new_header("a"))
    order = []
    entered.session.append("notice", NOTE)
    real = entered.lease.flush

    async def flush(barrier=None):
        await anyio.lowlevel.checkpoint()
        order.append(("flush", registry.get("a") is entered.session))
        await real(barrier)

    entered.lease.flush = flush
    await entered.close()
    assert order[0] == ("flush", True)
    assert len(await store.read_from("a")) == 1


@pytest.mark.behaviour("D-659")
async def test_a_close_that_cannot_write_keeps_the_session_and_can_be_tried_again(registry, store):
    entered = await registry.create(registry.new_header("a"))
    entered.session.append("notice", NOTE)
    real, full = entered.lease.flush, [True]

    async def flush(barrier=None):
        if full:
            raise StoreStalled("the disk is full")
        await real(barrier)

    entered.lease.flush = flush
    with pytest.raises(StoreStalled):
        await entered.close()
    assert registry.get("a") is entered.session
    with pytest.raises(SessionOwned):
        await store.acquire("a")
    full.clear()
    await entered.close()
    await entered.close()
    successor = registry.enter(await registry.prepare_resume("a"))
    entered.detach()
    assert registry.get("a") is successor.session
    successor.session.append("notice", NOTE)


@pytest.mark.behaviour("D-652")
async def test_a_recovery_that_cannot_be_written_fails_the_resume_and_a_good_one_goes_on(
    registry, store, vocabulary, scripted, monkeypatch
):
    entered = await registry.create(registry.new_header("a"))
    scripted(entered.session).turn()
    await entered.session.flush()
    store.kill()
    other = MemoryStore(store._medium)
    real, broken = other.acquire, [True]

    async def acquire(session_id, **more):
        lease = await real(session_id, **more)
        if broken:

            async def flush(barrier=None):
                broken.clear()
                lease.flush = type(lease).flush.__get__(lease)
                lease.queued.clear()  # what a store drops that never wrote it
                raise StoreStalled("the disk is full")

            lease.flush = flush
        return lease

    monkeypatch.setattr(other, "acquire", acquire)
    with pytest.raises(StoreStalled):
        await resume_session(other, "a", vocabulary)
    session = await resume_session(other, "a", vocabulary)
    assert session.state.open_turn is None
    session.append("notice", NOTE)
    await session.flush()
    assert (await other.read_from("a"))[-1].type == "notice"


@pytest.mark.behaviour("D-658")
async def test_a_cancelled_load_harms_neither_the_session_nor_another_load(long, store, registry):
    prepared = await registry.prepare_resume("s")
    session = prepared.session
    slow = SlowStore(store._medium)
    session._store = slow
    async with anyio.create_task_group() as tasks:
        scope = anyio.CancelScope()

        async def first():
            with scope:
                await session.load_history()

        tasks.start_soon(first)
        await slow.waiting.wait()
        session.append("notice", NOTE)
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        slow.gate.set()
        tasks.start_soon(session.load_history)
    assert scope.cancelled_caught
    assert session.derive_messages() == derive_messages(await session.events())


async def test_events_that_come_while_the_history_is_read_are_part_of_it(long, store, registry, scripted):
    prepared = await registry.prepare_resume("s")
    session = prepared.session
    slow = SlowStore(store._medium)
    session._store = slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.load_history)
        await slow.waiting.wait()
        scripted(session).whole_turn("three")
        slow.gate.set()
    session._store = registry.store
    assert session.derive_messages() == derive_messages(await session.events())
    assert len(session.derive_messages()) == 123


async def test_a_rewind_that_comes_while_the_history_is_read_is_part_of_it(long, store, registry, scripted):
    prepared = await registry.prepare_resume("s")
    session = prepared.session
    slow = SlowStore(store._medium)
    session._store = slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.load_history)
        await slow.waiting.wait()
        session.recast("rewind", len(long) // 2)
        session._store = registry.store
        slow.gate.set()
    assert session.derive_messages() == derive_messages(await session.events())
    assert len(session.derive_messages()) == 60


@pytest.mark.behaviour("D-662")
async def test_nothing_holds_a_session_that_was_closed(registry, store):
    entered = await registry.create(registry.new_header("a"))
    entered.session.append("notice", NOTE)
    await entered.close()
    gone = weakref.ref(entered.session)
    del entered
    gc.collect()
    assert gone() is None
    assert store._leases == {}


async def test_long_sessions_resume_with_a_bounded_tail_and_the_right_state(registry, store, vocabulary, scripted):
    entered = await registry.create(registry.new_header("a"))
    for _ in range(400):
        scripted(entered.session).whole_turn()
    await entered.close()
    session = await resume_session(store, "a", vocabulary)
    assert len(session.tail) == 256
    assert session.tail[-1].seq == len(session) - 1
    assert (session.state.last_turn, session.state.open_turn) == (400, None)
    assert scripted(session).turn() == 401


async def test_records_and_mail_go_with_the_events_they_belong_to(registry, store):
    from greenroom.sessions import Extras, RecordWrite

    entered = await registry.create(registry.new_header("a"))
    session = entered.session
    session.append("notice", NOTE)
    await session.flush()
    mail = await store.send_mail("a", b"hello")
    with session.atomic():
        session.append("notice", NOTE, extras=Extras(consumed_mail=(mail,)))
        session.append("notice", NOTE, extras=Extras((RecordWrite("agents", "a", b"{}", 0),)))
        assert await entered.lease.mail() != ()
    await session.flush()
    assert await entered.lease.mail() == ()
    assert (await store.records("agents").get("a")).revision == 1


@pytest.mark.behaviour("D-624", "D-633", "D-634")
async def test_live_sessions_go_on_with_a_reloaded_store_and_keep_their_open_turn(registry, store, scripted):
    entered = await registry.create(registry.new_header("a"))
    empty = await registry.create(registry.new_header("b"))
    session, script = entered.session, scripted(entered.session)
    script.whole_turn()
    script.turn()
    session.append("notice", NOTE)
    fresh = MemoryStore(store._medium)
    await registry.move_to(fresh)
    await store.aclose()
    assert session.state.open_turn == 2
    assert session.epoch == session.header.epoch
    script.end()
    empty.session.append("notice", NOTE)
    await session.flush()
    await empty.session.flush()
    assert list(await fresh.read_from("a")) == list(session.tail)
    assert len(await fresh.read_from("b")) == 1
    await entered.close()
    assert (await fresh.entry("a")).owner is None


async def test_a_reloaded_store_still_knows_the_providers_process(registry, store, scripted):
    entered = await registry.create(registry.new_header("a"))
    scripted(entered.session).turn()
    await entered.session.flush()
    process = ProviderProcess(4711, 12.5, 4711)
    await entered.lease.set_process(process)
    fresh = MemoryStore(store._medium)
    await registry.move_to(fresh)
    assert (await fresh.entry("a")).process == process


@pytest.mark.behaviour("D-633")
async def test_what_a_live_session_is_ahead_of_the_store_is_written_on_adoption(registry, store, scripted):
    entered = await registry.create(registry.new_header("a"))
    session, script = entered.session, scripted(entered.session)
    script.whole_turn()
    await session.flush()
    script.turn()
    entered.lease.queued.clear()  # the old store died with these
    store.kill()
    fresh = MemoryStore(store._medium)
    await registry.move_to(fresh)
    await session.flush()
    assert list(await fresh.read_from("a")) == list(session.tail)


@pytest.mark.behaviour("D-633")
async def test_what_is_appended_during_the_move_waits_for_the_new_store(registry, store, scripted):
    entered = await registry.create(registry.new_header("a"))
    session = entered.session
    scripted(session).whole_turn()
    fresh = SlowStore(store._medium)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.move_to, fresh)
        await fresh.waiting.wait()
        event = session.append("notice", NOTE)
        fresh.gate.set()
    await session.flush()
    assert (await fresh.read_from("a"))[-1] == event


async def test_a_store_that_holds_something_else_does_not_get_the_session(registry, store, scripted):
    entered = await registry.create(registry.new_header("a"))
    other = await registry.create(registry.new_header("b"))
    scripted(entered.session).whole_turn()
    await entered.session.flush()
    stored = store._medium.sessions["a"].events
    stored[-1] = msgspec.structs.replace(stored[-1], time=7)
    fresh = MemoryStore(store._medium)
    with pytest.raises(ExceptionGroup, match="1 sessions could not be moved") as caught:
        await registry.move_to(fresh)
    assert "another session a" in str(caught.value.exceptions[0])
    assert registry.list() == [other.session]
    assert (await fresh.entry("a")).owner is None
    other.session.append("notice", NOTE)
