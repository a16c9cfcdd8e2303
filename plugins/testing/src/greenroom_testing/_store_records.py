"""What every store must do with what stands beside the logs: records, mail, blobs; and with their care."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom.sessions import (
    Extras,
    RecordConflict,
    RecordWrite,
    SessionDamaged,
    SessionFenced,
    SessionNotFound,
    SessionOwned,
)
from greenroom_testing._store_samples import StoreTests, sample_header, sample_log


class RecordConformance(StoreTests):
    """Records, mail, blobs, verify, repair, delete."""

    async def test_records_have_revisions_and_compare_them(self, tmp_path: Path) -> None:
        """Namespaces are apart; a stale writer is told the revision that stands."""
        async with self.stores(tmp_path, 2) as (store, other):
            table = store.records("agents")
            assert await table.get("a") is None
            revisions = [await table.put("a", b"1"), await table.put("a", b"2", expect=1)]
            assert revisions == [1, 2]
            with pytest.raises(RecordConflict) as caught:
                await other.records("agents").put("a", b"3", expect=1)
            assert caught.value.revision == revisions[-1]
            with pytest.raises(RecordConflict):
                await table.put("new", b"1", expect=4)
            await table.put("ab", b"3", expect=0)
            await store.records("elsewhere").put("a", b"4")
            assert [(r.key, r.value, r.revision) for r in await other.records("agents").list("a")] == [
                ("a", b"2", 2),
                ("ab", b"3", 1),
            ]
            with pytest.raises(RecordConflict):
                await table.delete("a", expect=1)
            assert [await table.delete("a", expect=2), await table.delete("a")] == [True, False]
            assert [r.key for r in await table.list()] == ["ab"]

    async def test_records_go_with_the_events_and_a_conflict_is_told_once(self, tmp_path: Path) -> None:
        """The events are written in any case, the record that moved is not."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (store,):
            lease = await store.create(sample_header())
            await store.records("n").put("moved", b"1")
            writes = (RecordWrite("n", "moved", b"2", expect=0), RecordWrite("n", "fresh", b"3", expect=0))
            lease.append(log, Extras(records=writes))
            with pytest.raises(RecordConflict):
                await lease.flush()
            await lease.flush()
            assert list(await store.read_from("s1")) == log
            assert [(r.key, r.value) for r in await store.records("n").list()] == [("fresh", b"3"), ("moved", b"1")]

    async def test_mail_waits_for_the_owner_until_it_is_consumed(self, tmp_path: Path) -> None:
        """Sent by another process, oldest first, consumed with the events that it became."""
        log = sample_log(1)
        async with self.stores(tmp_path, 2) as (store, other):
            with pytest.raises(SessionNotFound):
                await other.send_mail("s1", b"nobody")
            lease = await self.write(store, log[:3])
            sent = [await other.send_mail("s1", text) for text in (b"first", b"second")]
            assert [(m.id, m.message) for m in await lease.mail()] == [(sent[0], b"first"), (sent[1], b"second")]
            lease.append(log[3:], Extras(consumed_mail=(sent[0],)))
            await lease.flush()
            assert [m.id for m in await lease.mail()] == [sent[1]]

    async def test_a_blob_is_named_by_its_content_and_read_back(self, tmp_path: Path) -> None:
        """At once by the same store, by others after a flush; an unknown one is refused."""
        data = bytes(range(256)) * 400
        async with self.stores(tmp_path, 2) as (store, other):
            lease = await store.create(sample_header())
            blob = lease.put_blob(data)
            assert lease.put_blob(data) == blob
            lease.append(sample_log(1))
            assert await store.read_blob("s1", blob.sha256) == data
            await lease.flush()
            assert await other.read_blob("s1", blob.sha256) == data
            with pytest.raises(SessionDamaged):
                await other.read_blob("s1", "0" * 64)

    async def test_a_whole_session_has_no_findings_and_a_repair_changes_nothing(self, tmp_path: Path) -> None:
        """Neither as a dry run nor for real."""
        log = sample_log(2)
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, log)
            await lease.release()
            assert [f for f in await store.verify("s1") if f.severity == "error"] == []
            for dry_run in (True, False):
                report = await store.repair("s1", dry_run=dry_run)
                assert (report.kept, report.dropped, report.dry_run) == (len(log), 0, dry_run)
            assert list(await store.read_from("s1")) == log
            assert not (await store.acquire("s1")).taken_over

    async def test_a_repair_leaves_a_live_owner_alone_unless_forced(self, tmp_path: Path) -> None:
        """Forced, it fences the owner."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            lease = await self.write(store, log[:3])
            with pytest.raises(SessionOwned):
                await other.repair("s1")
            await other.repair("s1", force=True)
            lease.append(log[3:])
            with pytest.raises(SessionFenced):
                await lease.flush()
            assert list(await other.read_from("s1")) == log[:3]
            await self.kill(store)

    async def test_a_deleted_session_is_gone_and_its_id_is_free(self, tmp_path: Path) -> None:
        """Not while it is held; nothing of it turns up in a new session of the same id."""
        async with self.stores(tmp_path) as (store,):
            lease = await self.write(store, sample_log(2))
            blob = lease.put_blob(b"bytes")
            await store.send_mail("s1", b"mail")
            with pytest.raises(SessionOwned):
                await store.delete("s1")
            await lease.release()
            await store.delete("s1")
            for gone in (store.header, store.delete):
                with pytest.raises(SessionNotFound):
                    await gone("s1")
            again = await self.write(store, sample_log(1)[:1])
            assert list(await store.find("s1", "m1")) == []
            assert list(await again.mail()) == []
            with pytest.raises(SessionDamaged):
                await store.read_blob("s1", blob.sha256)
