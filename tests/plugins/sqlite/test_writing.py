"""Group commit: one window, shared barriers, order kept through every failure."""

from __future__ import annotations

import math
import sqlite3

import anyio
import msgspec
import pytest

from greenroom.errors import GreenroomError
from greenroom.sessions import (
    Event,
    Extras,
    RecordConflict,
    RecordWrite,
    SessionDamaged,
    SessionFenced,
    SessionNotLive,
    StoreStalled,
)
from greenroom_sqlite import SqliteStore, _lease, _repair
from greenroom_sqlite._window import Window
from greenroom_testing import sample_header, sample_log

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

LONG = 60  # seconds: nothing is written by the window while the test runs


@pytest.fixture
async def store(path):
    made = SqliteStore(path, barrier="normal", window=LONG)
    yield made
    made._writer._window.close()
    await made.aclose()


def commits(store: SqliteStore) -> int:
    return store._writer.commits


def big(seq: int, size: int = 1 << 20) -> Event:
    return Event(seq, 1, "usage/updated", b'{"usage":{},"x":"' + b"x" * size + b'"}')


# --- the window


@pytest.mark.behaviour("D-666")
async def test_the_first_event_opens_a_window_of_fixed_length_that_later_ones_do_not_extend():
    window = Window(0.200)
    assert window.remaining(0) is None
    for number in range(20):
        window.admit(number * 0.010)
    assert window.remaining(0.190) == pytest.approx(0.010)
    assert not window.due(0.199)
    assert window.due(0.200)


@pytest.mark.behaviour("D-668")
async def test_what_arrives_during_a_write_counts_from_its_own_arrival():
    window = Window(0.200)
    window.admit(1.0)
    window.close()  # the batch is taken at 1.2, and written until 1.35
    window.admit(1.25)
    assert not window.due(1.35)
    assert window.due(1.45)


@pytest.mark.behaviour("D-666", "D-628")
async def test_twenty_events_of_one_window_are_one_commit_of_what_they_were_then(store):
    lease = await store.create(sample_header())
    before = commits(store)
    log = sample_log(4)[:20]
    for event in log:
        batch = [event]
        lease.append(batch)
        batch.clear()
        with pytest.raises(AttributeError):
            event.seq = 99
    assert commits(store) == before
    await lease.flush()
    assert commits(store) == before + 1
    assert list(await store.read_from("s1")) == log


async def test_the_window_alone_writes_the_batch(path):
    store, reader = SqliteStore(path, barrier="normal", window=0.001), SqliteStore(path)
    lease = await store.create(sample_header())
    before = commits(store)
    lease.append(sample_log(1))
    with anyio.fail_after(10):
        while commits(store) == before:
            await anyio.lowlevel.checkpoint()
    assert list(await reader.read_from("s1")) == sample_log(1)
    await store.aclose()
    await reader.aclose()


@pytest.mark.behaviour("D-668")
async def test_more_than_a_mebibyte_does_not_wait_for_the_window(store):
    lease = await store.create(sample_header())
    before = commits(store)
    for seq in range(3):
        lease.append([big(seq, 600_000)])
    with anyio.fail_after(10):
        while commits(store) == before:
            await anyio.lowlevel.checkpoint()


@pytest.mark.behaviour("D-650")
@pytest.mark.parametrize("window", [-1, math.nan, math.inf, 61])
async def test_a_window_that_makes_no_sense_is_refused(path, window):
    with pytest.raises(ValueError, match="window"):
        SqliteStore(path, window=window)


# --- barriers


@pytest.mark.behaviour("D-667")
async def test_flushes_at_the_same_time_share_one_barrier(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    before = commits(store)
    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(lease.flush)
    assert commits(store) - before < 5


@pytest.mark.behaviour("D-667")
async def test_a_barrier_also_writes_what_is_appended_while_it_waits(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    async with anyio.create_task_group() as group:
        group.start_soon(lease.flush)
        await anyio.wait_all_tasks_blocked()
        lease.append(sample_log(1, seq=6))
        await lease.flush()
    assert not lease.channel.backlog
    before = commits(store)
    lease.append(sample_log(1, seq=12))  # and afterwards there is a new window
    await anyio.lowlevel.checkpoint()
    assert commits(store) == before


@pytest.mark.behaviour("D-644")
async def test_a_flush_before_the_first_event_writes_nothing_and_is_done(store):
    lease = await store.create(sample_header())
    await lease.flush("normal")
    assert lease.next_seq == 0
    lease.append(sample_log(1))
    await lease.flush()
    assert list(await store.read_from("s1")) == sample_log(1)


async def test_a_full_barrier_behind_normal_commits_writes_a_row_and_a_second_one_nothing(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush("normal")
    before = commits(store)
    await lease.flush("full")
    assert commits(store) == before + 1
    await lease.flush("full")
    await lease.flush("normal")
    assert commits(store) == before + 1


async def test_barriers_commit_with_full_synchronisation_and_the_window_with_normal(store):
    lease = await store.create(sample_header())
    seen = []
    connection = store._writer._connection
    connection.set_trace_callback(
        lambda sql: seen.append(sql) if sql.startswith(("PRAGMA synchronous", "COMMIT")) else None
    )
    lease.append(sample_log(1))
    await lease.flush("full")
    lease.append(sample_log(1, seq=6))
    await lease.flush("normal")
    connection.set_trace_callback(None)
    assert seen == ["PRAGMA synchronous = FULL", "COMMIT", "PRAGMA synchronous = NORMAL", "COMMIT"]


# --- failures


def limit(store: SqliteStore, more: int | None) -> None:
    """Let the file grow by so many pages, or without a limit: what a full disk looks like to SQLite."""
    connection = store._writer._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {(1 << 30) - 2 if more is None else pages + more}")


@pytest.mark.behaviour("D-669")
async def test_a_full_disk_keeps_the_batch_in_order_tells_every_barrier_and_refuses_beyond_the_limit(store, caplog):
    lease = await store.create(sample_header())
    lease.append([big(0)])
    await lease.flush()
    limit(store, 10)
    for seq in range(1, 15):
        lease.append([big(seq)])
        await anyio.lowlevel.checkpoint()
    for _ in range(3):
        with pytest.raises(StoreStalled, match="full"):
            await lease.flush()
    assert store._writer._window.remaining(0) is None  # nothing is tried again by itself
    assert not store._writer._dirty
    await lease.room()  # it does not wait for a disk that is stalled
    with pytest.raises(StoreStalled, match=r"16 may wait.*full"):
        for seq in range(15, 40):
            lease.append([big(seq)])
    count = lease.next_seq
    assert 15 <= count <= 17
    assert len(await store.read_from("s1", limit=None)) == count
    assert len([r for r in caplog.records if r.name == "greenroom.sqlite"]) == 1  # once, not at every try
    limit(store, None)
    await lease.flush()
    reader = SqliteStore(store.path)
    assert [event.seq for event in await reader.read_from("s1", limit=None)] == list(range(count))
    assert list(await reader.verify("s1")) == []
    await reader.aclose()


@pytest.mark.behaviour("D-648")
async def test_a_store_that_cannot_be_opened_waits_for_nothing_and_works_once_it_can(tmp_path):
    (tmp_path / "place").write_text("a file where a folder should be")
    store = SqliteStore(tmp_path / "place" / "greenroom.db", barrier="normal", window=LONG)
    for _ in range(2):
        with pytest.raises(StoreStalled):
            await store.create(sample_header())
    assert store._writer._window.remaining(0) is None
    (tmp_path / "place").unlink()
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    lease.append(sample_log(1, seq=6))
    await lease.flush()
    assert list(await store.read_from("s1")) == sample_log(2)
    await store.aclose()


@pytest.mark.behaviour("D-708")
async def test_the_file_has_a_write_ahead_log_whoever_changed_that(path):
    store = SqliteStore(path, barrier="normal")
    await (await store.create(sample_header("other"))).release()
    await store.aclose()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    connection.close()
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    assert store._writer._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.aclose()


@pytest.mark.behaviour("D-707")
async def test_a_repair_whose_session_moved_meanwhile_changes_nothing(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.release()
    stale = await store._file.read_async(lambda c: _repair.plan(c, "s1", store._liveness, force=False))
    stale.scan.note("event", "say that it found something")
    stale.scan.whole = 3
    lease = await store.acquire("s1")
    lease.append(sample_log(1, seq=6))
    await lease.release()
    with pytest.raises(SessionDamaged, match="changed"):
        await store.write(lambda c: _repair.apply(c, stale, store._liveness, force=False))
    assert list(await store.read_from("s1")) == sample_log(2)


async def test_a_forced_repair_keeps_what_the_live_owner_wrote_since_it_looked(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    stale = await store._file.read_async(lambda c: _repair.plan(c, "s1", store._liveness, force=True))
    lease.append(sample_log(1, seq=6))
    await lease.flush()
    stale.scan.header_wrong = True
    await store.write(lambda c: _repair.apply(c, stale, store._liveness, force=True))
    assert list(await store.read_from("s1")) == sample_log(2)
    with pytest.raises(SessionFenced):
        await lease.release()


async def test_mail_that_could_not_be_taken_in_stays_in_the_box(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    mail = await store.send_mail("s1", b"hello")
    limit(store, 10)
    for seq in range(6, 21):
        lease.append([big(seq)])
    with pytest.raises(StoreStalled):
        await lease.flush()
    with pytest.raises(StoreStalled):
        lease.append([big(21), big(22)], Extras(consumed_mail=(mail,)))
    assert [each.id for each in await lease.mail()] == [mail]
    limit(store, None)


async def test_who_waits_for_a_lock_is_told_when_the_store_is_closed(path):
    store = SqliteStore(path, barrier="normal", window=LONG)
    lease = await store.create(sample_header())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    lease.append(sample_log(1))
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(SessionNotLive, match="closed"):
                await lease.flush()

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(30):
            await store._writer.stop()
    other.close()


async def test_blobs_outlive_every_ancestor_in_any_order(store):
    data = b"an image"
    lease = await store.create(sample_header("one"))
    sha256 = lease.put_blob(data).sha256
    lease.append(sample_log(1))
    await lease.release()
    for child, parent in (("two", "one"), ("three", "two")):
        header = msgspec.structs.replace(sample_header(child), parent_session=parent, seed_length=6, origin="fork")
        lease = await store.create(header)
        lease.append(sample_log(1))
        await lease.release()
    await store.delete("two")
    await store.delete("one")
    assert await store.read_blob("three", sha256) == data


async def test_a_batch_that_does_not_fit_does_not_hold_up_one_that_does(store):
    one, two = await store.create(sample_header("one")), await store.create(sample_header("two"))
    limit(store, 20)
    one.append([big(0)])
    two.append(sample_log(1))
    await two.flush()
    with pytest.raises(StoreStalled, match="full"):
        await one.flush()
    limit(store, None)
    await one.flush()
    assert [len(await store.read_from(name)) for name in ("one", "two")] == [1, 6]


async def test_a_file_that_is_removed_under_us_stops_writes_and_reads_until_it_is_back(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    aside = store.path.with_name("aside")
    store.path.rename(aside)
    lease.append(sample_log(1, seq=6))
    with pytest.raises(StoreStalled, match="removed"):
        await lease.flush()
    with pytest.raises(StoreStalled, match="removed"):
        await store.read_from("s1")
    store.path.write_bytes(b"another file")
    with pytest.raises(StoreStalled, match="replaced"):
        await lease.flush()
    assert store.path.read_bytes() == b"another file"
    aside.rename(store.path)
    await lease.flush()
    assert list(await store.read_from("s1")) == sample_log(2)


@pytest.mark.behaviour("D-707")
async def test_a_tail_that_moved_refuses_the_batch_and_the_winner_stays(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    other = SqliteStore(store.path, barrier="normal")
    winner = await other.acquire("s1", force=True)
    winner.append(sample_log(1, seq=6))
    await winner.flush()
    lease.append([Event(6, 1, "usage/updated", b'"the loser"')])
    with pytest.raises(SessionFenced):
        await lease.flush()
    with pytest.raises(SessionFenced):
        lease.append([Event(7, 1, "usage/updated", b"{}")])
    assert list(await other.read_from("s1")) == sample_log(2)
    assert [f.text for f in await other.verify("s1")] == []
    with pytest.raises(SessionFenced):
        await lease.release()
    await lease.release()
    await other.aclose()


async def test_damage_in_one_session_does_not_hold_up_the_batches_of_others(store, monkeypatch):
    one, two = await store.create(sample_header("one")), await store.create(sample_header("two"))
    write = type(one.channel.sink).write

    def broken(self, connection, batch):
        if self.row.id == "one":
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return write(self, connection, batch)

    monkeypatch.setattr(type(one.channel.sink), "write", broken)
    one.append(sample_log(1))
    two.append(sample_log(1))
    await two.flush()
    assert list(await store.read_from("two")) == sample_log(1)
    with pytest.raises(SessionDamaged):
        await one.flush()
    monkeypatch.undo()
    await one.flush()


async def test_a_bug_in_the_writer_fails_who_waits_and_the_thread_goes_on(store, monkeypatch):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    monkeypatch.setattr(store._writer, "_commit", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await lease.flush()
    monkeypatch.undo()
    await lease.flush()
    assert list(await store.read_from("s1")) == sample_log(1)


async def test_conflicts_of_several_batches_are_told_once_by_one_error_that_names_all(store):
    lease = await store.create(sample_header())
    await store.records("n").put("k", b"1")
    for seq, event in enumerate(sample_log(1)[:3]):
        lease.append([event], Extras(records=(RecordWrite("n", "k", b"%d" % seq, expect=7),)))
    with pytest.raises(RecordConflict) as caught:
        await lease.flush()
    assert len(caught.value.__notes__) == 2
    await lease.flush()
    assert (await store.records("n").get("k")).value == b"1"


async def test_a_record_that_is_queued_with_events_is_read_at_once(store):
    lease = await store.create(sample_header())
    lease.append(sample_log(1), Extras(records=(RecordWrite("n", "k", b"1", expect=0),)))
    assert (await store.records("n").get("k")).value == b"1"


# --- back-pressure


async def test_room_is_there_at_once_and_waits_when_too_much_is_queued(store, monkeypatch):
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    before = commits(store)
    await lease.room()
    assert commits(store) == before
    monkeypatch.setattr(_lease, "HURRY_BYTES", 1 << 30)
    lease.append([big(6 + n) for n in range(6)])
    await lease.room()
    assert commits(store) > before
    assert not lease.channel.backlog


@pytest.mark.behaviour("D-669")
async def test_a_very_large_batch_is_written_in_one_go(store):
    lease = await store.create(sample_header())
    count = 60_000
    lease.append([Event(seq, 1, "usage/updated", b'{"usage":{}}') for seq in range(count)])
    await lease.flush()
    assert (await store.entry("s1")).next_seq == count
    assert list(await store.verify("s1")) == []


async def test_one_batch_of_any_size_is_taken_as_long_as_the_store_works(store):
    lease = await store.create(sample_header())
    lease.append([big(0)])
    lease.append([big(seq) for seq in range(1, 40)])  # the replay of a history is one transaction
    await lease.flush()
    assert (await store.entry("s1")).next_seq == 40
    lease.append([big(40, 100)])
    blob = lease.put_blob(b"x" * (20 << 20))
    await lease.flush()
    assert len(await store.read_blob("s1", blob.sha256)) == 20 << 20


async def test_a_lease_that_was_taken_in_the_same_process_does_not_take_the_new_one_along(store):
    old = await store.create(sample_header())
    old.append(sample_log(1))
    await old.flush()
    new = await store.acquire("s1", force=True)
    old.append(sample_log(1, seq=6))
    with pytest.raises(SessionFenced):
        await old.release()
    new.append(sample_log(1, seq=6))
    assert list(await store.read_from("s1")) == sample_log(2)


# --- the place


@pytest.mark.behaviour("D-709")
async def test_nothing_is_created_by_reads_nor_by_what_changes_nothing(path):
    store = SqliteStore(path.parent / "new" / "greenroom.db")
    assert list(await store.list()) == []
    assert await store.records("n").get("k") is None
    assert list(await store.records("n").list()) == []
    assert await store.records("n").delete("k") is False
    await store.aclose()
    assert not (path.parent / "new").exists()


@pytest.mark.behaviour("D-709")
async def test_the_file_and_all_beside_it_are_for_their_owner_only(path):
    store = SqliteStore(path.parent / "new" / "greenroom.db", barrier="normal")
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    made = [*(path.parent / "new").rglob("*"), path.parent / "new"]
    assert len(made) >= 6
    assert [p for p in made if p.stat().st_mode & 0o077] == []
    await store.aclose()
    store.path.chmod(0o644)
    again = SqliteStore(store.path)
    await again.list()
    assert store.path.stat().st_mode & 0o077 == 0
    await again.aclose()


@pytest.mark.behaviour("D-709")
async def test_a_link_or_a_folder_that_anybody_may_write_to_is_no_place(path, tmp_path):
    target = tmp_path / "elsewhere.db"
    path.symlink_to(target)
    store = SqliteStore(path)
    with pytest.raises(GreenroomError, match="symbolic link"):
        await store.create(sample_header())
    await store.aclose()
    assert not target.exists()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    store = SqliteStore(tmp_path / "open" / "greenroom.db")
    with pytest.raises(GreenroomError, match="anybody may write"):
        await store.create(sample_header())
    await store.aclose()
    assert list((tmp_path / "open").iterdir()) == []


@pytest.mark.behaviour("D-709")
@pytest.mark.parametrize("wrong", ["../x", "a/b", "", ".", "é", "x" * 129, "\ud800"])
async def test_an_id_that_is_none_never_reaches_the_file(store, wrong):
    for read in (store.header, store.read_from, store.acquire, store.delete, store.verify):
        with pytest.raises(ValueError, match="no session id"):
            await read(wrong)
    assert not store.path.exists()


async def test_two_that_create_the_file_at_the_same_time_share_it(path):
    for number in range(10):
        place = path.parent / str(number) / "greenroom.db"
        stores = [SqliteStore(place, barrier="normal") for _ in range(2)]

        async def begin(store, name):
            lease = await store.create(sample_header(name))
            lease.append(sample_log(1))
            await lease.release()

        async with anyio.create_task_group() as group:
            for store, name in zip(stores, "ab", strict=True):
                group.start_soon(begin, store, name)
        assert {entry.id for entry in await stores[0].list()} == {"a", "b"}
        for store in stores:
            await store.aclose()


async def test_a_file_whose_creator_ended_before_its_tables_were_there_is_used(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0
    store = SqliteStore(path, barrier="normal")
    assert list(await store.list()) == []
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await store.aclose()
    reader = SqliteStore(path)
    assert list(await reader.read_from("s1")) == sample_log(1)
    await reader.aclose()


async def test_a_closed_store_takes_nothing_more(path):
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    await store.aclose()
    with pytest.raises(SessionNotLive):
        lease.append(sample_log(1))
    with pytest.raises(SessionNotLive):
        await store.create(sample_header("other"))
    await store.aclose()
