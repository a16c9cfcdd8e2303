"""A store in a folder to which nothing may be written: it is read if that can be right, else it is said why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from greenroom.errors import GreenroomError
from greenroom.sessions import StoreStalled
from greenroom_sqlite import SqliteStore
from greenroom_testing import sample_header, sample_log

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def fill(path: Path) -> SqliteStore:
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    lease.append(sample_log(2))
    await lease.flush()
    return store


async def read(path: Path) -> list[object]:
    store = SqliteStore(path)
    try:
        assert [entry.id for entry in await store.list()] == ["s1"]
        assert list(await store.verify("s1")) == []
        return list(await store.read_from("s1"))
    finally:
        await store.aclose()


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.mark.parametrize("files", [0o400, 0o600, 0o444])
async def test_a_store_that_was_closed_is_read(folder, read_only, files):
    await (await fill(folder / "a.db")).aclose()
    assert [each.name for each in folder.glob("a.db*")] == ["a.db"]
    with read_only(folder, files=files):
        assert await read(folder / "a.db") == sample_log(2)


async def test_a_store_in_use_is_read_with_what_stands_in_its_log(folder, read_only):
    owner = await fill(folder / "a.db")
    with read_only(folder):
        store = SqliteStore(folder / "a.db")
        assert list(await store.read_from("s1")) == sample_log(2)
        entry = await store.entry("s1")
        assert entry.owner is not None
        assert entry.owner.alive
        await store.aclose()
    await owner.aclose()


async def test_a_closed_store_that_somebody_else_writes_is_read_as_it_is_now(folder, read_only):
    await (await fill(folder / "a.db")).aclose()
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    writer = SqliteStore(other / "a.db", barrier="normal")
    await (await writer.acquire("s1")).release()
    lease = await writer.acquire("s1")
    lease.append(sample_log(1, seq=12))
    await lease.flush()
    await writer.aclose()
    with read_only(folder):
        store = SqliteStore(folder / "a.db")
        assert len(await store.read_from("s1")) == 12
        (folder / "a.db").chmod(0o600)
        (folder / "a.db").write_bytes((other / "a.db").read_bytes())  # in place, so that it is the same file
        assert len(await store.read_from("s1")) == 18
        await store.aclose()


async def test_a_log_without_its_index_is_not_passed_over(folder, read_only):
    owner = await fill(folder / "a.db")
    copy = folder.parent / "copy"
    copy.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{folder / 'a.db'}{suffix}", copy)
    await owner.aclose()
    with read_only(copy):
        store = SqliteStore(copy / "a.db")
        with pytest.raises(GreenroomError, match=r"a\.db-wal holds changes") as caught:
            await store.list()
        assert f"copy {copy} to a place where you may write" in caught.value.hint
        await store.aclose()


async def test_an_empty_log_is_none(folder, read_only):
    await (await fill(folder / "a.db")).aclose()
    (folder / "a.db-wal").touch()
    with read_only(folder):
        assert await read(folder / "a.db") == sample_log(2)


async def test_a_write_is_refused_with_the_folder_that_has_to_be_writable(folder, read_only):
    await (await fill(folder / "a.db")).aclose()
    with read_only(folder):
        store = SqliteStore(folder / "a.db")
        with pytest.raises(StoreStalled, match="may not be used like this: attempt to write") as caught:
            await store.delete("s1")
        assert str(folder) in caught.value.hint
        await store.aclose()


async def test_a_store_that_may_not_be_read_is_refused_with_what_to_do(folder, read_only):
    await (await fill(folder / "a.db")).aclose()
    with read_only(folder, files=0):
        store = SqliteStore(folder / "a.db")
        with pytest.raises(StoreStalled, match="may not be used like this: unable to open") as caught:
            await store.list()
        assert "permissions" in caught.value.hint
        await store.aclose()


async def test_a_folder_that_may_not_be_entered_is_no_empty_one(folder, read_only):
    await (await fill(folder / "a.db")).aclose()
    folder.chmod(0)
    store = SqliteStore(folder / "a.db")
    for look in (store.list(), store.entry("s1")):
        with pytest.raises(StoreStalled, match=r"may not be used like this: .*Permission denied"):
            await look
    folder.chmod(0o700)
    await store.aclose()


async def test_an_owner_whose_lock_may_not_be_looked_at_counts_as_alive(folder, read_only):
    owner = await fill(folder / "a.db")
    with read_only(folder / "owners", files=0):
        store = SqliteStore(folder / "a.db")
        entry = await store.entry("s1")
        assert entry.owner is not None
        assert entry.owner.alive
        await store.aclose()
    await owner.aclose()
