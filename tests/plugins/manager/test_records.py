"""The book of records: order, concurrency, other processes, newer versions."""

from __future__ import annotations

import anyio
import msgspec
import pytest

from greenroom.agents import AgentExists, AgentNotFound, AgentRecord, AgentSettings
from greenroom.providers import RuntimeInfo
from greenroom.sessions import MemoryStore
from greenroom_manager._records import NAMESPACE, RecordBook
from greenroom_manager._row import UnreadableRecord, decode, encode

pytestmark = pytest.mark.anyio


def record(agent_id="a", **fields):
    return AgentRecord(**{"id": agent_id, "provider": "scripted", "created_at": 5, "updated_at": 0, **fields})


def titled(title):
    return lambda known: msgspec.structs.replace(known, title=title)


class Shelf:
    """A store's table, one or several books on it, and a clock that stands still until it is turned."""

    def __init__(self):
        self.store = MemoryStore()
        self.table = self.store.records(NAMESPACE)
        self.now = 1_000
        self.reports = []
        self.puts = 0
        self.gate = None
        self.fails = None

    def book(self):
        return RecordBook(lambda: self, clock=lambda: self.now, report=lambda code, text: self.reports.append(code))

    async def get(self, key):
        return await self.table.get(key)

    async def list(self, prefix="", *, damaged=None):
        return await self.table.list(prefix, damaged=damaged)

    async def delete(self, key, *, expect=None):
        return await self.table.delete(key, expect=expect)

    async def put(self, key, value, *, expect=None):
        self.puts += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return await self.table.put(key, value, expect=expect)


@pytest.fixture
async def shelf(anyio_backend):
    return Shelf()


@pytest.fixture
async def book(shelf):
    return shelf.book()


@pytest.mark.behaviour("P-202")
async def test_changes_in_the_same_millisecond_have_strictly_increasing_times(shelf, book):
    await book.insert(record("a"))
    times = [(await book.change("a", titled(str(n)))).updated_at for n in range(3)]
    staged = [book.stage("a", titled(f"s{n}")).updated_at for n in range(3)]
    assert times + staged == [1_001, 1_002, 1_003, 1_004, 1_005, 1_006]


async def test_a_clock_that_goes_back_moves_no_time_backwards(shelf, book):
    await book.insert(record("a"))
    shelf.now = 10
    assert (await book.change("a", titled("later"))).updated_at == 1_001


@pytest.mark.behaviour("P-187")
async def test_a_title_and_its_time_are_written_in_one_go(shelf, book):
    await book.insert(record("a"))
    before = shelf.puts
    shelf.now = 2_000
    await book.change("a", titled("a title"))
    stored = decode("a", (await shelf.get("a")).value)
    assert (shelf.puts - before, stored.title, stored.updated_at) == (1, "a title", 2_000)


async def test_a_change_that_changes_nothing_is_neither_written_nor_told(shelf, book):
    await book.insert(record("a", title="x"))
    heard, puts = [], shelf.puts
    book.observe(lambda *change: heard.append(change))
    assert (await book.change("a", titled("x"))).updated_at == 1_000
    assert (heard, shelf.puts) == ([], puts)


@pytest.mark.behaviour("P-332")
async def test_a_change_of_a_record_that_is_not_there_names_those_that_are_close(book):
    await book.insert(record("agent-1"))
    with pytest.raises(AgentNotFound, match="agent-2") as raised:
        await book.change("agent-2", titled("x"))
    assert "agent-1" in raised.value.hint


async def test_a_record_is_inserted_once(book):
    await book.insert(record("a"))
    with pytest.raises(AgentExists):
        await book.insert(record("a"))


@pytest.mark.behaviour("P-335")
async def test_a_change_waits_for_the_write_before_it_and_begins_with_its_outcome(shelf, book):
    await book.insert(record("a"))
    shelf.gate = anyio.Event()
    seen = []

    def look(known):
        seen.append(known.title)
        return msgspec.structs.replace(known, labels={"k": "v"})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.change, "a", titled("in flight"))
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(book.change, "a", look)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        shelf.gate.set()
    assert seen == ["in flight"]
    known = book.get("a")
    assert (known.title, known.labels) == ("in flight", {"k": "v"})


async def test_what_is_staged_is_shown_at_once_and_written_by_the_task_of_the_book(shelf, book):
    await book.insert(record("a"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.run)
        await anyio.wait_all_tasks_blocked()
        book.stage("a", titled("now"))
        assert book.get("a").title == "now"
        assert decode("a", (await shelf.get("a")).value).title is None
        await anyio.wait_all_tasks_blocked()
        assert decode("a", (await shelf.get("a")).value).title == "now"
        tasks.cancel_scope.cancel()


async def test_what_is_staged_while_a_write_goes_on_is_kept_and_written_afterwards(shelf, book):
    await book.insert(record("a"))
    shelf.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.change, "a", titled("first"))
        await anyio.wait_all_tasks_blocked()
        book.stage("a", lambda known: msgspec.structs.replace(known, labels={"n": "1"}))
        shelf.gate.set()
    assert (book.get("a").title, book.get("a").labels) == ("first", {"n": "1"})
    await book.flush()
    stored = decode("a", (await shelf.get("a")).value)
    assert (stored.title, stored.labels) == ("first", {"n": "1"})


@pytest.mark.behaviour("P-203")
async def test_a_flush_ends_only_when_nothing_is_left_to_write(shelf, book):
    await book.insert(record("a"))
    book.stage("a", titled("first"))
    shelf.gate = anyio.Event()
    done = []

    async def flush():
        await book.flush()
        done.append(decode("a", (await shelf.get("a")).value).title)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flush)
        await anyio.wait_all_tasks_blocked()
        book.stage("a", titled("staged while the first was written"))
        assert done == []
        shelf.gate.set()
    assert done == ["staged while the first was written"]


async def test_a_store_that_refuses_changes_nothing_of_what_is_awaited_and_loses_nothing_of_what_was_staged(
    shelf, book
):
    await book.insert(record("a"))
    shelf.fails = RuntimeError("the disk is full")
    with pytest.raises(RuntimeError):
        await book.change("a", titled("awaited"))
    assert book.get("a").title is None
    book.stage("a", titled("staged"))
    with pytest.raises(RuntimeError):
        await book.flush()
    shelf.fails = None
    await book.flush()
    assert decode("a", (await shelf.get("a")).value).title == "staged"


async def test_two_processes_that_change_one_record_both_have_their_change(shelf):
    mine, theirs = shelf.book(), shelf.book()
    await mine.insert(record("a"))
    await theirs.read("a")
    await mine.change("a", titled("mine"))
    await theirs.change("a", lambda known: msgspec.structs.replace(known, labels={"by": "them"}))
    stored = decode("a", (await shelf.get("a")).value)
    assert (stored.title, stored.labels) == ("mine", {"by": "them"})


async def test_a_record_that_another_process_has_removed_is_gone_here_too(shelf):
    mine, theirs = shelf.book(), shelf.book()
    await mine.insert(record("a"))
    heard = []
    mine.observe(lambda agent_id, before, after: heard.append((agent_id, after)))
    await theirs.remove("a")
    assert await mine.list() == []
    assert heard == [("a", None)]


async def test_changes_that_come_after_a_deletion_has_begun_are_dropped(shelf, book):
    await book.insert(record("a"))
    book.stage("a", titled("pending"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.remove, "a")
        await anyio.wait_all_tasks_blocked()
        assert book.stage("a", titled("late")) is None
    await book.flush()
    assert await shelf.get("a") is None
    with pytest.raises(AgentNotFound):
        await book.change("a", titled("later still"))


@pytest.mark.behaviour("P-195")
async def test_an_observer_that_raises_disturbs_neither_the_others_nor_the_record(shelf, book):
    await book.insert(record("a"))
    heard = []
    book.observe(lambda *_change: 1 / 0)
    book.observe(lambda agent_id, before, after: heard.append((before.title, after.title)))
    await book.change("a", titled("x"))
    book.stage("a", titled("y"))
    assert heard == [(None, "x"), ("x", "y")]
    assert shelf.reports == ["record_observer_failed"] * 2


@pytest.mark.behaviour("P-329")
async def test_the_time_of_creation_is_that_of_the_first_write(shelf, book):
    await book.insert(record("a", created_at=77))
    shelf.now = 99_999
    await book.change("a", titled("x"))
    assert (await shelf.book().find("a")).created_at == 77


@pytest.mark.behaviour("P-325")
@pytest.mark.behaviour("P-326")
async def test_what_was_asked_for_is_there_again_after_a_restart(shelf, book):
    settings = AgentSettings(model="m", mode="plan", thinking="high", features={"fast": True}, max_output_tokens=9)
    made = await book.insert(
        record("a", settings=settings, title="t", labels={"k": "v"}, runtime=RuntimeInfo(mode="x"))
    )
    assert await shelf.book().find("a") == made
    assert (await shelf.book().find("a")).settings.features == {"fast": True}


@pytest.mark.behaviour("P-327")
async def test_features_that_were_never_set_do_not_stand_in_the_row(shelf, book):
    await book.insert(record("a", settings=AgentSettings(model="m")))
    stored = msgspec.json.decode((await shelf.get("a")).value)
    assert stored["settings"] == {"model": "m"}


@pytest.mark.behaviour("P-336")
@pytest.mark.behaviour("P-337")
@pytest.mark.behaviour("P-338")
async def test_the_book_lists_and_finds_internal_records_and_keeps_that_they_are(shelf, book):
    await book.insert(record("a", internal=True))
    again = shelf.book()
    assert [known.internal for known in await again.list()] == [True]
    assert (await again.find("a")).internal is True


async def test_the_latest_changed_comes_first(shelf, book):
    for name in "abc":
        await book.insert(record(name))
    await book.change("a", titled("x"))
    assert [known.id for known in await shelf.book().list()] == ["a", "c", "b"]


async def test_fields_of_a_newer_writer_survive_a_change(shelf, book):
    await shelf.put("a", encode(record("a"))[:-1] + b',"colour":"red","settings":{"model":"m","tone":"dry"}}')
    await book.change("a", titled("x"))
    stored = msgspec.json.decode((await shelf.get("a")).value)
    assert (stored["colour"], stored["title"], stored["settings"]) == ("red", "x", {"model": "m", "tone": "dry"})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b'{"version":2,"id":"new","provider":"p","created_at":1,"updated_at":1}', "upgrade greenroom"),
        (b'{"version":1,"id":"new","provider":"p","created_at":1,"updated_at":1,"state":"levitating"}', "delete new"),
        (b"not json", "delete new"),
        (b"[]", "delete new"),
        (b"\xff\xfe", "delete new"),
    ],
)
async def test_a_record_that_cannot_be_read_is_refused_by_name_and_harms_no_other(shelf, book, value, said):
    await book.insert(record("old"))
    await shelf.put("new", value)
    fresh = shelf.book()
    assert [known.id for known in await fresh.list()] == ["old"]
    assert list(fresh.unreadable) == ["new"]
    with pytest.raises(UnreadableRecord, match="new") as raised:
        await fresh.find("new")
    assert said in raised.value.hint
    with pytest.raises(UnreadableRecord):
        await fresh.change("new", titled("overwritten"))
    assert (await shelf.get("new")).value == value
    assert (await fresh.change("old", titled("x"))).title == "x"


async def test_a_write_that_was_begun_is_finished_when_its_caller_is_cancelled(shelf, book):
    await book.insert(record("a"))
    shelf.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(book.change, "a", titled("x"))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        shelf.gate.set()
    assert book.get("a").title == decode("a", (await shelf.get("a")).value).title == "x"


@pytest.mark.parametrize("ask", ["read", "list"])
async def test_an_answer_of_the_store_that_a_write_has_overtaken_makes_nobody_forget_the_record(shelf, ask) -> None:
    book, asked, go = shelf.book(), anyio.Event(), anyio.Event()
    answer = shelf.table

    class Slow:
        def __getattr__(self, name):
            return getattr(answer, name)

        async def get(self, key):
            found = await answer.get(key)
            asked.set()
            await go.wait()
            return found

        async def list(self, prefix="", **more):
            found = await answer.list(prefix, **more)
            asked.set()
            await go.wait()
            return found

    told = []
    book.observe(lambda _id, _before, after: told.append(after))
    shelf.table = Slow()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(*((book.read, "a") if ask == "read" else (book.list,)))
        await asked.wait()
        await book.insert(record("a"))
        go.set()
    assert book.get("a") is not None
    assert None not in told
