"""What every store of sessions must do with logs, told as what its callers see."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from greenroom.sessions import (
    Event,
    EventRefused,
    SessionDamaged,
    SessionExists,
    SessionNotFound,
)
from greenroom_testing._store_ownership import OwnershipConformance
from greenroom_testing._store_records import RecordConformance
from greenroom_testing._store_samples import TURN, StoreTests, sample_header, sample_log


class LogConformance(StoreTests):
    """Events in, the same events out."""

    async def test_what_was_written_is_read_back_by_another_process(self, tmp_path: Path) -> None:
        """Header and events are identical: bytes, order, times that go backwards, surface, sources."""
        log = sample_log(3)
        async with self.stores(tmp_path, 2) as (writer, reader):
            await self.write(writer, log)
            assert await reader.header("s1") == sample_header()
            assert list(await reader.read_from("s1")) == log

    async def test_what_was_appended_is_read_at_once_and_by_others_after_a_flush(self, tmp_path: Path) -> None:
        """Reads of the same store see the queue."""
        log = sample_log(2)
        async with self.stores(tmp_path, 2) as (writer, reader):
            lease = await self.write(writer, log[:TURN])
            lease.append(log[TURN:])
            assert list(await writer.read_from("s1", 3)) == log[3:]
            assert list(await writer.find("s1", "m2")) == [TURN + 1, TURN + 2]
            await lease.flush()
            assert list(await reader.read_from("s1", 3)) == log[3:]

    async def test_a_range_is_exactly_what_was_asked_for(self, tmp_path: Path) -> None:
        """From, before, limit, newest, types, and reading changes nothing."""
        log = sample_log(4, close_last=False)
        ends = [event for event in log if event.type == "turn/end"]
        pieces = [event for event in log if event.type == "assistant/message"]
        async with self.stores(tmp_path) as (store,):
            await self.write(store, log)
            revision = (await store.entry("s1")).revision
            assert list(await store.read_from("s1", 5)) == log[5:]
            assert list(await store.read_from("s1", 5, before=9)) == log[5:9]
            assert list(await store.read_from("s1", 2, limit=4)) == log[2:6]
            assert list(await store.read_from("s1", limit=4, newest=True)) == log[-4:]
            assert list(await store.read_from("s1", limit=None)) == log
            assert list(await store.read_from("s1", len(log))) == []
            assert list(await store.read_from("s1", types=["turn/end"])) == ends
            assert list(await store.read_from("s1", types=["turn/end"], limit=1, newest=True)) == ends[-1:]
            assert list(await store.read_from("s1", 3, types=["assistant/message"], limit=3)) == pieces[2:5]
            assert list(await store.read_from("s1", types=["assistant/message"], limit=3, newest=True)) == pieces[-3:]
            assert list(await store.read_from("s1", types=["no/such"])) == []
            assert (await store.entry("s1")).revision == revision

    async def test_the_first_seq_must_be_the_next_and_the_batch_dense(self, tmp_path: Path) -> None:
        """A wrong first seq and a gap are refused, with nothing taken."""
        log = sample_log(2)
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, log[:3])
            for wrong in (log[2:], log[4:], [log[3], log[5]]):
                with pytest.raises(EventRefused):
                    lease.append(wrong)
            assert lease.next_seq == log[3].seq
            lease.append(log[3:])
            await lease.flush()
            assert list(await store.read_from("s1")) == log

    async def test_an_empty_append_does_nothing(self, tmp_path: Path) -> None:
        """Neither does a flush before the first event."""
        async with self.stores(tmp_path) as (store,):
            lease = await store.create(sample_header())
            lease.append([])
            await lease.flush()
            assert (lease.next_seq, await store.list()) == (0, [])

    async def test_batches_and_results_are_nobodys_to_change(self, tmp_path: Path) -> None:
        """What the caller does to its list afterwards, or to a result, is not seen."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (store,):
            lease = await store.create(sample_header())
            batch = list(log)
            lease.append(batch)
            batch.clear()
            await lease.flush()
            read = list(await store.read_from("s1"))
            assert read == log
            read.clear()
            assert list(await store.read_from("s1")) == log

    async def test_sessions_do_not_mix(self, tmp_path: Path) -> None:
        """Interleaved appends of two sessions stay apart."""
        first, second = sample_log(2), sample_log(3)
        async with self.stores(tmp_path) as (store,):
            one, two = await store.create(sample_header("one")), await store.create(sample_header("two"))
            for at in range(len(second)):
                one.append(first[at : at + 1])
                two.append(second[at : at + 1])
            async with anyio.create_task_group() as group:
                group.start_soon(one.flush)
                group.start_soon(two.flush)
            assert list(await store.read_from("one")) == first
            assert list(await store.read_from("two")) == second

    async def test_types_say_what_occurs_and_whether_it_can_be_skipped(self, tmp_path: Path) -> None:
        """One event that cannot be ignored is enough; queued events count."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, log[:5])
            assert await store.types("s1") == {
                "turn/start": False,
                "assistant/message": False,
                "context/message": False,
                "sample/event": True,
            }
            lease.append([Event(5, 1, "sample/event", b"{}")])
            assert (await store.types("s1"))["sample/event"] is False
            await lease.flush()
            assert (await store.types("s1"))["sample/event"] is False

    async def test_a_call_or_message_is_found_by_its_id(self, tmp_path: Path) -> None:
        """All of its events, in order; nothing for an unknown id."""
        log = sample_log(3)
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, log[:8])
            lease.append(log[8:])
            await lease.flush()
            assert list(await store.find("s1", "m2")) == [7, 8]
            assert list(await store.find("s1", "c")) == [3, 9, 15]
            assert list(await store.find("s1", "m9")) == []

    async def test_a_cancelled_read_has_not_happened_and_the_next_one_works(self, tmp_path: Path) -> None:
        """Cancelled before it begins, a read gives nothing but the cancellation."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (store,):
            await self.write(store, log)
            found: list[Event] = []
            with anyio.CancelScope() as scope:
                scope.cancel()
                found.extend(await store.read_from("s1"))
                await anyio.lowlevel.checkpoint()
                found.clear()
            assert scope.cancelled_caught
            assert list(await store.read_from("s1")) == log

    async def test_a_cancelled_flush_leaves_the_batch_queued(self, tmp_path: Path) -> None:
        """The next flush writes it, once."""
        log = sample_log(1)
        async with self.stores(tmp_path, 2) as (store, reader):
            lease = await store.create(sample_header())
            lease.append(log)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await lease.flush()
            await lease.flush()
            assert list(await reader.read_from("s1")) == log

    async def test_a_session_without_an_event_is_not_there(self, tmp_path: Path) -> None:
        """It is not listed, not readable and not to be acquired; its id is free when its lease is given back."""
        async with self.stores(tmp_path) as (store,):
            lease = await store.create(sample_header())
            assert await store.list() == []
            for read in (store.header, store.entry, store.read_from, store.acquire, store.verify, store.delete):
                with pytest.raises(SessionNotFound):
                    await read("s1")
            with pytest.raises(SessionExists):
                await store.create(sample_header())
            await lease.release()
            await (await store.create(sample_header())).release()
            assert await store.list() == []

    async def test_a_header_that_is_none_reserves_nothing(self, tmp_path: Path) -> None:
        """A time with a fraction is refused, and the id can be used."""
        async with self.stores(tmp_path) as (store,):
            wrong = msgspec.structs.replace(sample_header())
            msgspec.structs.force_setattr(wrong, "created_at", 1.5)
            with pytest.raises((ValueError, SessionDamaged)):
                await store.create(wrong)
            await (await store.create(sample_header())).release()

    async def test_a_known_id_is_not_created_again(self, tmp_path: Path) -> None:
        """Whoever tries, and nothing of the session changes."""
        log = sample_log(1)
        async with self.stores(tmp_path, 2) as (store, other):
            lease = await self.write(store, log)
            for again in (store, other):
                with pytest.raises(SessionExists):
                    await again.create(msgspec.structs.replace(sample_header(), cwd="/elsewhere"))
            await lease.release()
            with pytest.raises(SessionExists):
                await other.create(sample_header())
            assert await other.header("s1") == sample_header()
            assert list(await other.read_from("s1")) == log

    async def test_the_list_is_newest_first_and_names_the_owner(self, tmp_path: Path) -> None:
        """One entry per session, without reading logs."""
        async with self.stores(tmp_path) as (store,):
            leases = {}
            for time, name in ((1, "old"), (3, "new"), (2, "mid")):
                lease = leases[name] = await store.create(sample_header(name), owner=f"owner of {name}")
                lease.append([Event(0, time, "usage/updated", b"{}")])
                await lease.flush()
            await leases["mid"].release()
            found = await store.list()
            assert [e.id for e in found] == ["new", "mid", "old"]
            assert [(e.next_seq, e.error) for e in found] == [(1, None)] * 3
            assert [e.owner and e.owner.name for e in found] == ["owner of new", None, "owner of old"]
            assert found[0].header == sample_header("new")

    async def test_verify_names_each_payload_that_does_not_fit_its_type(self, tmp_path: Path) -> None:
        """Whole bytes that a resume would be refused at: another version wrote them, or another program."""
        log = sample_log(2)
        log[0] = msgspec.structs.replace(log[0], raw=b'{"turn":"one"}')
        log[4] = msgspec.structs.replace(log[4], raw=b"{")
        async with self.stores(tmp_path) as (store,):
            await self.write(store, log)
            found = [each for each in await store.verify("s1") if each.code == "payload"]
            assert [(each.severity, each.seq, each.plugin) for each in found] == [
                ("error", 0, None),
                ("error", 4, "sample"),
            ]
            assert found[0].text.startswith("event 0 is no turn/start: ")
            assert found[1].text.startswith("event 4 is no sample/event of plugin sample: ")

    async def test_a_revision_is_stable_and_changes_with_an_append(self, tmp_path: Path) -> None:
        """Also while the append is only queued; writing it changes nothing more."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, log[:3])
            first = [(await store.entry("s1")).revision for _ in range(2)]
            lease.append(log[3:])
            queued = (await store.entry("s1")).revision
            await lease.flush()
            assert first[0] == first[1] != queued == (await store.entry("s1")).revision


class StoreConformance(LogConformance, OwnershipConformance, RecordConformance):
    """Subclass it with `open_store` and `kill`: green means that sessions can rely on the store."""
