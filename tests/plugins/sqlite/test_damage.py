"""Damaged files: what is whole is read, what is not is named, nothing is invented, and repair brings back the rest."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from greenroom.errors import GreenroomError
from greenroom.sessions import SessionDamaged, SessionExists, StoreStalled, UnreadableSession
from greenroom_sqlite import SqliteStore
from greenroom_sqlite._rebuild import repair_file
from greenroom_sqlite._swap import alone
from greenroom_testing import sample_header, sample_log

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


def edit(path: Path, *statements: str) -> None:
    """Change the file behind the store's back."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def content(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def copy_store(source: Path, target: Path) -> None:
    """Copy database and log, as they are."""
    target.parent.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        if Path(f"{source}{suffix}").exists():
            Path(f"{target}{suffix}").write_bytes(content(f"{source}{suffix}"))


def key(seq: int, number: int = 1) -> int:
    return (number << 32) + 1 + seq


async def fill(path: Path, sessions: int = 1, turns: int = 3, **options) -> None:
    store = SqliteStore(path, barrier="normal", **options)
    for number in range(sessions):
        lease = await store.create(sample_header(f"s{number + 1}"))
        lease.append(sample_log(turns))
        await lease.flush()
    await store.aclose()


async def errors(store: SqliteStore, session_id: str = "s1") -> list[tuple[str, int | None]]:
    return [(f.code, f.seq) for f in await store.verify(session_id) if f.severity == "error"]


FIELDS = [
    "time = time + 1",
    "type = 1 + type % 4",
    "flags = flags + 1",
    "crc = crc + 1",
    "raw = x'7b7d'",
    "raw = NULL",
    "time = 'text'",
    "extra = x'7b7d'",
    f"id = id + {1 << 32}",
]


@pytest.mark.parametrize("change", FIELDS)
async def test_a_change_of_any_field_is_noticed_and_what_is_before_it_is_read(path, change):
    await fill(path)
    edit(path, f"UPDATE events SET {change} WHERE id = {key(8)}")
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged) as caught:
        await store.read_from("s1")
    assert (caught.value.session_id, caught.value.seq) == ("s1", 8)
    assert list(await store.read_from("s1", before=8)) == sample_log(3)[:8]
    assert ("event", 8) in await errors(store)
    await store.aclose()


async def test_an_event_of_another_session_is_not_taken_for_ours(path):
    await fill(path, sessions=2)
    edit(
        path,
        f"DELETE FROM events WHERE id = {key(4, 2)}",
        f"UPDATE events SET id = {key(4, 2)} WHERE id = {key(4, 1)}",
    )
    store = SqliteStore(path)
    for session_id in ("s1", "s2"):
        with pytest.raises(SessionDamaged) as caught:
            await store.read_from(session_id)
        assert caught.value.seq == 4
    await store.aclose()


@pytest.mark.behaviour("D-645")
async def test_a_torn_tail_is_dropped_when_the_session_is_taken(path):
    await fill(path)
    edit(path, f"DELETE FROM events WHERE id = {key(17)}", f"UPDATE events SET crc = 0 WHERE id = {key(15)}")
    store = SqliteStore(path)
    lease = await store.acquire("s1")
    assert (lease.torn, lease.next_seq, lease.taken_over) == (3, 15, True)
    lease.append(sample_log(3)[15:])
    await lease.release()
    assert list(await store.read_from("s1")) == sample_log(3)
    assert await errors(store) == []
    await store.aclose()


async def test_damage_in_front_of_a_later_end_of_a_turn_refuses_the_session(path):
    await fill(path)
    edit(path, f"UPDATE events SET crc = 0 WHERE id = {key(6)}")
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged) as caught:
        await store.acquire("s1")
    assert caught.value.seq == 6
    entry = await store.entry("s1")
    assert entry.owner is None
    assert entry.next_seq == 18
    await store.aclose()


@pytest.mark.parametrize("dry_run", [True, False])
async def test_repair_keeps_the_longest_whole_prefix(path, dry_run):
    await fill(path, sessions=2)
    edit(path, f"UPDATE events SET raw = x'00' WHERE id = {key(9)}")
    store = SqliteStore(path)
    report = await store.repair("s1", dry_run=dry_run)
    assert (report.kept, report.dropped, report.dry_run) == (9, 9, dry_run)
    assert [f.code for f in report.findings if f.severity == "error"] == ["event"]
    assert (await errors(store) == []) is not dry_run
    assert await errors(store, "s2") == []
    if not dry_run:
        assert list(await store.read_from("s1")) == sample_log(3)[:9]
        assert list(await store.find("s1", "m2")) == [7, 8]
        assert (await store.acquire("s1")).taken_over  # its clients start over: rows that they saw are gone
    await store.aclose()


async def test_a_backup_is_made_before_a_repair(path, tmp_path):
    await fill(path)
    edit(path, f"UPDATE events SET raw = x'00' WHERE id = {key(9)}")
    store = SqliteStore(path)
    backup = tmp_path / "backup.db"
    report = await store.repair("s1", backup=str(backup))
    assert report.backup == str(backup)
    assert backup.stat().st_mode & 0o077 == 0
    rows = sqlite3.connect(backup)
    assert rows.execute("SELECT raw FROM events WHERE id = ?", (key(9),)).fetchone() == (b"\0",)
    rows.close()
    await store.aclose()


@pytest.mark.parametrize("change", ["header = x'7b7d'", "header_crc = 1", "next_seq = 5", "token = 9", "types = '[]'"])
async def test_a_damaged_row_is_listed_with_its_error_and_repaired_from_the_events(path, change):
    await fill(path, sessions=2)
    edit(path, f"UPDATE sessions SET {change} WHERE number = 1")
    store = SqliteStore(path)
    entries = {entry.id: entry for entry in await store.list()}
    assert "checksum" in (entries["s1"].error or "")
    assert entries["s2"].error is None
    with pytest.raises(SessionDamaged):
        await store.acquire("s1")
    await store.repair("s1")
    assert await errors(store) == []
    assert await store.header("s1") == sample_header("s1")
    assert list(await store.read_from("s1")) == sample_log(3)
    await store.aclose()


async def test_a_damaged_index_is_noticed_by_reads_of_types_and_built_anew(path):
    await fill(path)
    index = "SELECT rootpage FROM sqlite_schema WHERE name = 'folded'"
    connection = sqlite3.connect(path)
    page = connection.execute(index).fetchone()[0]
    connection.close()
    data = bytearray(path.read_bytes())
    at = (page - 1) * 4096
    entries = int.from_bytes(data[at + 3 : at + 5], "big")
    data[at + 3 : at + 5] = (entries - 1).to_bytes(2, "big")  # the last entry is not there any more
    path.write_bytes(data)
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged, match="index"):
        await store.read_from("s1", types=["turn/start", "turn/end"])
    assert ("index", None) in await errors(store)
    await store.repair("s1")
    assert await errors(store) == []
    assert len(await store.read_from("s1", types=["turn/end"])) == 3
    await store.aclose()


async def test_a_lost_name_of_a_type_costs_no_events(path):
    await fill(path)
    edit(path, "UPDATE types SET name = 'turn/lost' WHERE name = 'turn/start'")
    store = SqliteStore(path)
    assert "types" in [code for code, _ in await errors(store)]
    for read in (store.acquire("s1"), store.types("s1"), store.read_from("s1", types=["turn/start", "turn/end"])):
        with pytest.raises(SessionDamaged, match="types"):
            await read
    assert (await store.entry("s1")).next_seq == 18  # and nothing was taken for a torn tail
    with pytest.raises(SessionDamaged, match="types"):
        await store.repair("s1")
    await store.aclose()
    assert [(r.kept, r.lost) for r in repair_file(path).sessions] == [(18, 0)]
    store = SqliteStore(path)
    assert list(await store.read_from("s1")) == sample_log(3)
    await store.aclose()


async def test_verify_of_fifty_one_sessions_fails_only_the_damaged_one(path):
    await fill(path, sessions=51, turns=1)
    edit(path, f"UPDATE events SET raw = x'00' WHERE id = {key(2, 17)}")
    store = SqliteStore(path)
    entries = await store.list()
    assert len(entries) == 51
    assert [entry.id for entry in entries if await errors(store, entry.id)] == ["s17"]
    await store.aclose()


def leaf_pages(path: Path, table: str) -> dict[int, set[int]]:
    """Leaf page -> the session numbers whose events it holds."""
    connection = sqlite3.connect(path)
    pages = [
        row[0] for row in connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,))
    ]
    connection.close()
    from greenroom_sqlite._pages import Pages

    found = Pages(path, page_size=4096)
    result = {}
    for page in pages:
        image = found.image(page)
        count = int.from_bytes(image[3:5], "big")
        offsets = [int.from_bytes(image[8 + 2 * at : 10 + 2 * at], "big") for at in range(count)]
        result[page] = {found._cell(image, offset)[0] >> 32 for offset in offsets}
    return result


async def test_a_damaged_page_names_the_sessions_that_it_hits_and_no_others(path):
    await fill(path, sessions=20, turns=20)
    pages = leaf_pages(path, "events")
    page = sorted(pages)[len(pages) // 2]
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = random.Random(1).randbytes(4096)
    path.write_bytes(data)
    store = SqliteStore(path)
    hit = {entry.id for entry in await store.list() if await errors(store, entry.id)}
    assert hit == {f"s{number}" for number in pages[page]}
    await store.aclose()


async def test_a_row_that_a_page_gives_twice_is_not_taken_for_the_one_that_it_hides(path):
    await fill(path, turns=20)
    page = min(leaf_pages(path, "events"))
    data = bytearray(path.read_bytes())
    pointers = (page - 1) * 4096 + 8
    data[pointers + 8 : pointers + 10] = data[pointers + 20 : pointers + 22]  # slot 4, event 3, is event 9 now
    path.write_bytes(data)
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged) as caught:
        await store.read_from("s1")
    assert caught.value.seq == 3
    assert list(await store.read_from("s1", before=3)) == sample_log(1)[:3]
    assert ("event", 3) in await errors(store)
    await store.aclose()


@pytest.mark.parametrize("table", ["events", "sessions", "types", "sqlite_schema"])
async def test_with_a_damaged_root_page_a_repair_of_the_file_brings_back_what_the_pages_hold(path, table):
    await fill(path, sessions=10, turns=20)
    store = SqliteStore(path, barrier="normal")
    lease = await store.acquire("s3")
    blob = lease.put_blob(b"blob" * 5000)
    await store.send_mail("s3", b"mail")
    await store.records("n").put("k", b'{"a":1}')
    await store.aclose()
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    connection.close()
    page = found[0] if found else 1
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged):
        await store.read_from("s3")
    await store.aclose()

    report = repair_file(path)
    assert [(r.kept, r.lost) for r in report.sessions] == [(120, 0)] * 10
    assert content(report.backup) == bytes(data)
    store = SqliteStore(path)
    for number in range(1, 11):
        assert await errors(store, f"s{number}") == []
        assert await store.header(f"s{number}") == sample_header(f"s{number}")
        assert list(await store.read_from(f"s{number}")) == sample_log(20)
    assert await store.read_blob("s3", blob.sha256) == b"blob" * 5000
    assert (await store.records("n").get("k")).value == b'{"a":1}'
    lease = await store.acquire("s3")
    assert [mail.message for mail in await lease.mail()] == [b"mail"]
    await store.aclose()


async def test_a_repair_of_the_file_reads_the_log_of_a_process_that_was_killed(path, kill_store):
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header("s1"))
    lease.append(sample_log(5))
    await lease.flush()
    copy = path.parent / "copy" / "greenroom.db"
    copy_store(path, copy)
    await kill_store(store)
    data = bytearray(content(copy))
    assert len(data) < len(content(f"{copy}-wal"))
    data[:4096] = b"\xff" * 4096
    copy.write_bytes(data)
    assert [(r.session_id, r.kept) for r in repair_file(copy).sessions] == [("s1", 30)]


@pytest.mark.behaviour("D-649")
async def test_a_header_of_another_session_is_refused_and_the_id_stays_taken_until_and_after_the_repair(path):
    await fill(path, sessions=2)
    other = "(SELECT {0} FROM sessions WHERE id = 's2')"
    fields = ", ".join(f"{name} = {other.format(name)}" for name in ("header", "header_crc"))
    edit(path, f"UPDATE sessions SET {fields} WHERE id = 's1'")
    store = SqliteStore(path)
    for read in (store.header, store.acquire):
        with pytest.raises(SessionDamaged, match="header"):
            await read("s1")
    for _ in range(2):
        with pytest.raises(SessionExists):
            await store.create(sample_header("s1"))
        await store.repair("s1")
    assert await store.header("s1") == sample_header("s1")
    await store.aclose()


@pytest.mark.behaviour("D-656")
async def test_after_a_repair_by_another_process_the_session_is_read_anew_and_a_vanished_file_is_an_error(path):
    await fill(path)
    reader, other = SqliteStore(path), SqliteStore(path)
    folded = ["turn/start", "turn/end"]
    assert len(await reader.read_from("s1", types=folded)) == 6
    edit(path, f"UPDATE events SET crc = 0 WHERE id = {key(9)}")
    with pytest.raises(SessionDamaged):
        await reader.read_from("s1")
    await other.repair("s1")
    assert list(await reader.read_from("s1")) == sample_log(3)[:9]
    assert [event.seq for event in await reader.read_from("s1", types=folded)] == [0, 5, 6]
    assert (await reader.entry("s1")).next_seq == 9
    await other.aclose()
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(StoreStalled, match="removed"):
        await reader.read_from("s1")
    await reader.aclose()


async def test_a_session_whose_row_stands_on_a_damaged_page_is_still_listed_by_its_name(path):
    await fill(path, sessions=40, turns=1)
    connection = sqlite3.connect(path)
    query = "SELECT pageno FROM dbstat WHERE name = 'sessions' AND pagetype = 'leaf' ORDER BY path"
    page = [row[0] for row in connection.execute(query)][1]
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    store = SqliteStore(path)
    entries = await store.list()
    assert {entry.id for entry in entries} == {f"s{number}" for number in range(1, 41)}
    hit = [entry.id for entry in entries if entry.error]
    assert 0 < len(hit) < 40
    whole = next(entry.id for entry in entries if entry.error is None)
    assert list(await store.read_from(whole)) == sample_log(1)
    await store.aclose()


@pytest.mark.behaviour("D-706")
@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("PRAGMA application_id = 7", "another program"),
        ("PRAGMA user_version = 2", "upgrade"),
        ("PRAGMA user_version = 0", "changed"),
        ("ALTER TABLE mail ADD COLUMN more", "changed"),
        ("DROP INDEX folded", "changed"),
        ("CREATE TABLE extra (a)", "changed"),
    ],
)
async def test_a_file_that_is_foreign_old_newer_or_altered_is_refused_and_not_touched(path, change, what):
    await fill(path)
    edit(path, change)
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.list(), store.read_from("s1"), store.create(sample_header("new"))):
        with pytest.raises(UnreadableSession, match=what):
            await use
    await store.aclose()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused_with_the_way_out(path):
    path.write_bytes(b"not a database" * 1000)
    store = SqliteStore(path)
    with pytest.raises(SessionDamaged, match="repair --file"):
        await store.list()
    await store.aclose()


async def test_two_repairs_of_one_file_do_not_meet(path):
    await fill(path)
    with alone(path, wait=0), pytest.raises(GreenroomError, match="is being repaired"):
        repair_file(path)
    assert [(r.kept, r.lost) for r in repair_file(path).sessions] == [(18, 0)]
