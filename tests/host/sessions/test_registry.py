"""Sessions that are live: prepared, entered, announced, detached."""

from __future__ import annotations

import pytest

from greenroom.sessions import (
    EventRefused,
    Medium,
    MemoryStore,
    SessionError,
    SessionExists,
    SessionNotFound,
    SessionNotLive,
    SessionRegistry,
    StoreStalled,
)
from greenroom.sessions.vocabulary import Notice

pytestmark = pytest.mark.anyio

NOTE = Notice("info", "hello")


class Log(list):
    """Who heard what, in order."""

    def created(self, session, subject):
        self.append(("created", session.id))

    def disposed(self, session, subject):
        self.append(("disposed", session.id))

    def event(self, session, event, subject):
        self.append((event.type, session.id))


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def heard(make_registry, log):
    return make_registry(created=log.created, disposed=log.disposed, event=log.event)


@pytest.mark.behaviour("D-043", "D-054")
async def test_a_created_session_is_found_heard_and_gone_after_its_end(heard, log):
    entered = await heard.create(heard.new_header("a"))
    assert heard.get("a") is entered.session
    assert heard.list() == [entered.session]
    entered.session.append("notice", NOTE)
    await entered.close()
    assert heard.get("a") is None
    assert heard.list() == []
    assert log == [("created", "a"), ("notice", "a"), ("disposed", "a")]


@pytest.mark.behaviour("D-044", "D-635", "D-642")
async def test_a_second_session_of_one_id_is_refused_live_or_stored(heard, store):
    entered = await heard.create(heard.new_header("a"), seed=())
    with pytest.raises(SessionExists, match="live here"):
        await heard.prepare(heard.new_header("a"))
    await entered.close()
    with pytest.raises(SessionExists, match="resume it"):
        await heard.prepare(heard.new_header("a"))
    with pytest.raises(SessionNotFound):
        await heard.prepare_resume("b")


@pytest.mark.behaviour("D-044")
async def test_a_seed_becomes_the_beginning_of_the_stored_log(registry, store, session, script):
    script.whole_turn()
    entered = await registry.create(registry.new_header("a"), seed=session.tail)
    await entered.session.flush()
    stored = await store.read_from("a")
    assert list(stored[: len(session)]) == list(session.tail)
    assert stored[-1].type == "session/seed-end"


@pytest.mark.behaviour("D-045")
async def test_a_stale_prepared_session_cannot_overwrite_the_live_one(registry):
    stale = await registry.prepare(registry.new_header("a"))
    await stale.lease.release()  # its reservation is gone, so another may take the id
    live = await registry.create(registry.new_header("a"))
    with pytest.raises(SessionExists):
        registry.enter(stale)
    assert registry.get("a") is live.session
    live.session.append("notice", NOTE)


@pytest.mark.behaviour("D-046")
async def test_prepare_enter_announce_is_create_and_tells_once(heard, log):
    prepared = await heard.prepare(heard.new_header("a"))
    assert heard.get("a") is None
    assert log == []
    entered = heard.enter(prepared)
    assert heard.get("a") is prepared.session
    assert log == []
    entered.announce()
    assert log == [("created", "a")]


@pytest.mark.behaviour("D-636")
async def test_a_discarded_session_leaves_its_id_free(registry, store):
    prepared = await registry.prepare(registry.new_header("a"))
    await prepared.discard()
    await prepared.discard()
    assert await store.list() == []
    await registry.create(registry.new_header("a"))


@pytest.mark.behaviour("D-047")
async def test_one_session_cannot_be_entered_twice_or_elsewhere(registry, make_registry):
    prepared = await registry.prepare(registry.new_header("a"))
    other = make_registry(store=MemoryStore())
    with pytest.raises(SessionNotLive, match="not prepared here"):
        other.enter(prepared)
    registry.enter(prepared)
    with pytest.raises(SessionNotLive, match="not prepared here"):
        registry.enter(prepared)


@pytest.mark.behaviour("D-048", "D-638")
async def test_a_second_announcement_is_refused_also_from_inside_the_first(make_registry, log):
    refused = []

    def created(session, subject):
        log.created(session, subject)
        with pytest.raises(SessionNotLive) as caught:
            handles[0].announce()
        refused.append(str(caught.value))

    registry = make_registry(created=created, disposed=log.disposed)
    handles = [registry.enter(await registry.prepare(registry.new_header("a")))]
    handles[0].announce()
    with pytest.raises(SessionNotLive, match="announced already"):
        handles[0].announce()
    assert log == [("created", "a")]
    assert "announcing already" in refused[0]


@pytest.mark.behaviour("D-049", "D-050")
async def test_a_detach_inside_the_announcement_waits_for_its_end_and_rolls_it_back(make_registry, log):
    def created(session, subject):
        handles[0].detach()
        log.append(("still there", registry.get("a") is session))
        log.created(session, subject)

    registry = make_registry(created=created, disposed=log.disposed)
    handles = [registry.enter(await registry.prepare(registry.new_header("a")))]
    with pytest.raises(SessionNotLive, match="left while it was announced"):
        handles[0].announce()
    assert log == [("still there", True), ("created", "a"), ("disposed", "a")]
    assert registry.get("a") is None


@pytest.mark.behaviour("D-055")
async def test_a_veto_rolls_back_says_farewell_and_frees_the_id(make_registry, log, store):
    def created(session, subject):
        log.created(session, subject)
        raise PermissionError("not this one")

    registry = make_registry(created=created, disposed=log.disposed)
    with pytest.raises(PermissionError):
        await registry.create(registry.new_header("a"))
    assert log == [("created", "a"), ("disposed", "a")]
    assert registry.list() == []
    assert await store.list() == []
    await store.create(registry.new_header("a"))


async def test_a_session_that_was_entered_and_never_announced_leaves_silently(heard, log):
    entered = heard.enter(await heard.prepare(heard.new_header("a")))
    entered.detach()
    assert log == []


@pytest.mark.behaviour("D-061")
async def test_a_detach_by_an_observer_waits_until_all_have_heard_the_event(heard, log):
    entered = await heard.create(heard.new_header("a"))
    entered.session.observe(lambda event: entered.detach())
    entered.session.observe(lambda event: log.append(("heard", heard.get("a") is not None)))
    event = entered.session.append("notice", NOTE)
    assert log == [("created", "a"), ("notice", "a"), ("heard", True), ("disposed", "a")]
    assert event.seq == 0
    with pytest.raises(SessionNotLive):
        entered.session.append("notice", NOTE)


@pytest.mark.behaviour("D-061")
async def test_a_detach_by_a_validator_waits_for_the_commit(heard, log):
    entered = await heard.create(heard.new_header("a"))

    class Judge:
        def stage(self, event, data):
            entered.detach()

        def commit(self):
            log.append(("committed", "a"))

    entered.session.validate_with([Judge()])
    entered.session.append("notice", NOTE)
    assert log == [("created", "a"), ("committed", "a"), ("notice", "a"), ("disposed", "a")]


@pytest.mark.behaviour("D-063", "D-064")
async def test_a_failing_farewell_is_reported_and_changes_nothing(store, vocabulary, log):
    from greenroom.sessions import Ports, SessionHooks

    reports = []

    def disposed(session, subject):
        log.disposed(session, subject)
        raise RuntimeError("no goodbye")

    hooks = SessionHooks(disposed=disposed)
    ports = Ports(report=lambda error, what: reports.append((str(error), what)))
    registry = SessionRegistry(store, vocabulary, hooks=hooks, ports=ports)
    entered = await registry.create(registry.new_header("a"))
    entered.detach()
    entered.detach()
    assert registry.get("a") is None
    assert log == [("disposed", "a")]
    assert reports == [("no goodbye", "the farewell of session a")]


@pytest.mark.behaviour("D-092", "D-094", "D-100")
async def test_the_subject_captured_at_entry_goes_with_everything_that_is_heard(make_registry):
    heard = []
    registry = make_registry(
        created=lambda session, subject: heard.append(("created", subject)),
        disposed=lambda session, subject: heard.append(("disposed", subject)),
        event=lambda session, event, subject: heard.append((event.type, subject)),
    )
    one, two = object(), object()
    first = await registry.create(registry.new_header("a"), subject=one)
    second = await registry.create(registry.new_header("b"), subject=two)
    first.session.append("notice", NOTE)
    second.session.append("notice", NOTE)
    second.detach()
    first.detach()
    assert [(what, whose is one) for what, whose in heard] == [
        ("created", True),
        ("created", False),
        ("notice", True),
        ("notice", False),
        ("disposed", False),
        ("disposed", True),
    ]


@pytest.mark.behaviour("D-093")
async def test_a_session_without_a_subject_is_heard_without_one(make_registry):
    heard = []
    registry = make_registry(event=lambda session, event, subject: heard.append(subject))
    entered = await registry.create(registry.new_header("a"))
    entered.session.append("notice", NOTE)
    assert heard == [None]


@pytest.mark.behaviour("D-099")
async def test_a_session_that_was_never_entered_or_has_left_cannot_be_flushed(registry, session):
    with pytest.raises(SessionNotLive):
        await session.flush()
    entered = await registry.create(registry.new_header("a"))
    entered.session.append("notice", NOTE)
    await entered.session.flush()
    await entered.close()
    with pytest.raises(SessionNotLive):
        await entered.session.flush()


@pytest.mark.behaviour("D-097")
async def test_what_a_flush_raises_reaches_its_caller(registry, monkeypatch):
    entered = await registry.create(registry.new_header("a"))

    async def full(barrier=None):
        raise StoreStalled("the disk is full")

    monkeypatch.setattr(entered.lease, "flush", full)
    with pytest.raises(StoreStalled):
        await entered.session.flush()
    with pytest.raises(StoreStalled):
        await entered.close()
    assert registry.get("a") is entered.session


async def test_a_store_that_takes_nothing_keeps_the_event_out_of_the_log(registry, monkeypatch):
    entered = await registry.create(registry.new_header("a"))
    entered.session.append("notice", NOTE)
    real = entered.session._outlet.write

    def full(events, extras=None):
        raise StoreStalled("the disk is full")

    entered.session._outlet.write = full
    with pytest.raises(StoreStalled):
        entered.session.append("notice", NOTE)
    assert len(entered.session) == 1
    entered.session._outlet.write = real
    assert entered.session.append("notice", NOTE).seq == 1


async def test_an_atomic_batch_is_written_as_one_and_tried_again_if_it_was_refused(registry, monkeypatch):
    entered = await registry.create(registry.new_header("a"))
    session, batches = entered.session, []
    real = entered.lease.append
    refuse = [True]

    def append(events, extras=None):
        if refuse:
            refuse.clear()
            raise StoreStalled("for a moment")
        batches.append([event.seq for event in events])
        real(events, extras)

    monkeypatch.setattr(entered.lease, "append", append)
    with pytest.raises(StoreStalled), session.atomic():
        session.append("notice", NOTE)
        session.append("notice", NOTE)
    session.append("notice", NOTE)
    await session.flush()
    assert batches == [[0, 1], [2]]


async def test_a_broken_atomic_batch_still_writes_what_was_committed(registry, store):
    entered = await registry.create(registry.new_header("a"))
    with pytest.raises(EventRefused), entered.session.atomic():
        entered.session.append("notice", NOTE)
        entered.session.append("unknown", NOTE)
    assert len(await store.read_from("a")) == 1


async def test_a_resumed_session_is_entered_like_a_created_one(heard, log, scripted):
    first = await heard.create(heard.new_header("a"))
    scripted(first.session).whole_turn()
    await first.close()
    log.clear()
    prepared = await heard.prepare_resume("a")
    assert prepared.source == "resume"
    entered = heard.enter(prepared)
    entered.announce()
    entered.session.append("notice", NOTE)
    assert log == [("created", "a"), ("notice", "a")]
    with pytest.raises(SessionExists):
        await heard.prepare_resume("a")


async def test_two_hosts_on_one_medium_do_not_share_a_session(vocabulary, ports):
    medium = Medium()
    here = SessionRegistry(MemoryStore(medium), vocabulary, ports=ports, owner="host one")
    there = SessionRegistry(MemoryStore(medium), vocabulary, ports=ports)
    entered = await here.create(here.new_header("a"))
    entered.session.append("notice", NOTE)
    await entered.session.flush()
    with pytest.raises(SessionError, match="owned by host one since"):
        await there.prepare_resume("a")
    await entered.close()
    await there.prepare_resume("a")
