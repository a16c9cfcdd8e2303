"""Copies of a store, cut at every byte and with every bit of a page flipped: what is read is what was written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from greenroom.errors import GreenroomError
from greenroom.sessions import FOLDED_TYPES, SessionDamaged, SessionNotFound
from greenroom_sqlite import SqliteStore, _check, _reader, _tail
from greenroom_sqlite._file import StoreFile
from greenroom_sqlite._rebuild import repair_file
from greenroom_sqlite._state import load
from greenroom_testing import sample_header, sample_log

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PAGE = 512
"""The smallest page of SQLite, so that every bit of one is a number that can be tried."""

LOG = sample_log(2)
EVERYTHING = _reader.Range(0, None, None, None, newest=False)
FOLDED = _reader.Range(0, None, FOLDED_TYPES, None, newest=False)
DATABASE, WAL = "", "-wal"


@pytest.fixture
async def images(path, kill_store) -> dict[str, dict[str, bytes]]:
    """Database and log with a last commit of three events, before and after a checkpoint."""
    store = SqliteStore(path, barrier="normal", page_size=PAGE)
    lease = await store.create(sample_header())
    lease.append(LOG[:9])
    await lease.flush()
    first = len(_content(f"{path}{WAL}"))
    for event in LOG[9:]:
        lease.append((event,))
        await lease.flush()
    before = {part: _content(f"{path}{part}") for part in (DATABASE, WAL)}
    await kill_store(store)
    after = {part: _content(f"{path}{part}") for part in (DATABASE, WAL)}
    assert len(after[DATABASE]) > len(before[DATABASE])
    assert len(before[WAL]) > first
    before["first"] = before[WAL][:first]
    return {"before": before, "after": after}


def _content(path: str) -> bytes:
    return Path(path).read_bytes() if Path(path).exists() else b""


def judge(folder: Path, image: dict[str, bytes]) -> int | None:
    """Open a copy and read it in every way: how many events it has, None if it is refused. Fails on a wrong read."""
    path = folder / "copy.db"
    for part in (DATABASE, WAL):
        Path(f"{path}{part}").write_bytes(image[part])
    Path(f"{path}-shm").unlink(missing_ok=True)
    file = StoreFile(path, page_size=PAGE)
    try:
        return _ask(file.read)
    except GreenroomError as error:
        if not (isinstance(error, SessionDamaged) or error.hint):
            pytest.fail(f"refused without a reason: {error!r}")
        return None
    finally:
        file.close()


def _ask(read) -> int | None:
    """Every answer is a true one: a prefix of the log, all of its folded events. How many events, None if damaged."""
    with suppress(SessionDamaged):
        entries = read(lambda c: list(_reader.read_entries(c, lambda name: False)))
        assert all(entry.error or entry.header == sample_header() for entry in entries)
    count, damage = 0, None
    try:
        count, events = read(lambda c: _reader.read_range(c, "s1", EVERYTHING, {}))
        assert events == LOG[:count], "a wrong read"
    except SessionDamaged as error:
        damage = error
    if damage is not None and damage.seq:
        kept = _reader.Range(0, damage.seq, None, None, newest=False)
        assert read(lambda c: _reader.read_range(c, "s1", kept, {}))[1] == LOG[: damage.seq], "a wrong read"
    with suppress(SessionDamaged):
        stored, folded = read(lambda c: _reader.read_range(c, "s1", FOLDED, {}))
        assert folded == [event for event in LOG[:stored] if event.type in FOLDED_TYPES], "a wrong read by type"
    with suppress(SessionDamaged):
        tail = read(lambda c: _tail.inspect(c, load(c, "s1")))
        assert damage is not None or tail.torn == 0
    findings = read(lambda c: _check.verify(c, "s1"))
    assert damage is None or any(finding.severity == "error" for finding in findings), f"verify misses {damage}"
    return None if damage is not None else count


def cuts(image: dict[str, bytes], part: str, last: int) -> Iterator[dict[str, bytes]]:
    """The part without its last byte, without its last two, and so on."""
    for size in range(max(len(image[part]) - last, 0), len(image[part])):
        yield {**image, part: image[part][:size]}


def flips(image: dict[str, bytes], part: str, start: int, stop: int) -> Iterator[dict[str, bytes]]:
    """The part with one bit flipped, each bit between the two bytes."""
    for bit in range(start * 8, stop * 8):
        data = bytearray(image[part])
        data[bit // 8] ^= 1 << bit % 8
        yield {**image, part: bytes(data)}


def sampled(cases: Callable[[], Iterator[dict[str, bytes]]], soak_count) -> list[dict[str, bytes]]:
    """All cases in a soak run, else some of them, always the same."""
    found = list(cases())
    wanted = len(found) if soak_count(10) == 10 else 40
    return random.Random(3).sample(found, min(wanted, len(found)))


FRAME = PAGE + 24
MOMENTS = ["before", "after"]


def check_all(folder: Path, cases: list[dict[str, bytes]], least: int) -> None:
    """Judge all; enough of them can still be read, so that refusing everything would not pass."""
    results = [judge(folder, image) for image in cases]
    assert sum(result is not None for result in results) >= least * len(results)


async def test_the_untouched_copies_are_read_in_full(images, tmp_path):
    assert [judge(tmp_path, images[moment]) for moment in MOMENTS] == [len(LOG)] * 2


@pytest.mark.timeout(600)
@pytest.mark.behaviour("D-686")
async def test_a_log_that_is_cut_at_any_byte_of_its_last_records_gives_every_event_before(images, tmp_path, soak_count):
    image = images["before"]
    check_all(tmp_path, sampled(lambda: cuts(image, WAL, len(image[WAL]) - len(image["first"])), soak_count), least=1)


@pytest.mark.timeout(600)
async def test_a_log_with_any_bit_of_its_last_page_flipped_is_never_read_wrongly(images, tmp_path, soak_count):
    image = images["before"]
    size = len(image[WAL])
    check_all(tmp_path, sampled(lambda: flips(image, WAL, size - FRAME, size), soak_count), least=1)


@pytest.mark.timeout(600)
async def test_a_database_that_is_cut_at_any_byte_of_its_last_records_is_never_read_wrongly(
    images, tmp_path, soak_count
):
    for moment in MOMENTS:
        check_all(tmp_path, sampled(lambda m=moment: cuts(images[m], DATABASE, 3 * PAGE), soak_count), least=0)


@pytest.mark.timeout(1200)
async def test_a_database_with_any_bit_of_a_page_flipped_is_never_read_wrongly(images, tmp_path, soak_count):
    image = images["after"]
    pages = len(image[DATABASE]) // PAGE
    for number in range(pages):  # the last page alone would be one kind of page
        span = (number * PAGE, (number + 1) * PAGE)
        every = sampled(lambda s=span: flips(image, DATABASE, *s), soak_count)
        check_all(tmp_path, every if number == pages - 1 else every[: max(len(every) // 8, 5)], least=0)


@pytest.mark.timeout(600)
async def test_a_repair_of_a_damaged_copy_brings_back_a_true_beginning(images, tmp_path, soak_count):
    image = images["after"]
    chance = random.Random(5)
    path = tmp_path / "damaged.db"
    brought = 0
    for _ in range(soak_count(300)):
        data = bytearray(image[DATABASE])
        for _ in range(chance.randint(1, 40)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for stale in tmp_path.glob("damaged.db*"):
            stale.unlink()
        path.write_bytes(data)
        report = repair_file(path, page_size=PAGE)
        store = SqliteStore(path)
        for one in report.sessions:
            assert one.session_id == "s1"
            if one.kept:
                assert list(await store.read_from("s1")) == LOG[: one.kept]
                assert [f for f in await store.verify("s1") if f.severity == "error"] == []
                brought += 1
        with suppress(SessionNotFound):
            assert await store.header("s1") == sample_header()
        await store.aclose()
    assert brought > soak_count(300) // 2
