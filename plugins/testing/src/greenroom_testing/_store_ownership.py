"""What every store must do about owners: one at a time, named, and displaced only when dead or by force."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom.sessions import (
    DeadOwner,
    ProcessNotEnded,
    ProviderProcess,
    SessionFenced,
    SessionNotLive,
    SessionOwned,
)
from greenroom_testing._store_samples import TURN, StoreTests, sample_header, sample_log


class OwnershipConformance(StoreTests):
    """Who may write."""

    async def test_a_live_owner_is_named_and_not_displaced(self, tmp_path: Path) -> None:
        """The refusal says who, the session can be read meanwhile, and it is free after a release."""
        log = sample_log(1)
        async with self.stores(tmp_path, 2) as (store, other):
            lease = await store.create(sample_header(), owner="the first one", endpoint="over there")
            lease.append(log)
            await lease.flush()
            with pytest.raises(SessionOwned, match=r"the first one.* since "):
                await other.acquire("s1")
            assert list(await other.read_from("s1")) == log
            owner = (await other.entry("s1")).owner
            assert owner is not None
            assert (owner.name, owner.endpoint) == ("the first one", "over there")
            await lease.release()
            taken = await other.acquire("s1")
            owner = (await other.entry("s1")).owner
            assert owner is not None
            assert owner.endpoint is None
            assert (taken.next_seq, taken.taken_over, taken.torn) == (len(log), False, 0)
            assert taken.token > lease.token
            assert taken.marker == f"s1:{taken.token}"

    async def test_a_released_lease_has_written_everything_and_writes_no_more(self, tmp_path: Path) -> None:
        """Release flushes, can be repeated, and ends the lease."""
        log = sample_log(1)
        async with self.stores(tmp_path, 2) as (store, reader):
            lease = await store.create(sample_header())
            lease.append(log)
            await lease.release()
            await lease.release()
            assert list(await reader.read_from("s1")) == log
            with pytest.raises(SessionNotLive):
                lease.append(sample_log(1, seq=len(log)))

    async def test_closing_a_store_flushes_and_releases(self, tmp_path: Path) -> None:
        """What was queued is there, and the session is free without a takeover."""
        log = sample_log(1)
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            (await store.create(sample_header())).append(log)
            await store.aclose()
            assert list(await other.read_from("s1")) == log
            assert not (await other.acquire("s1")).taken_over

    async def test_a_dead_owner_is_taken_over_after_its_process_was_ended(self, tmp_path: Path) -> None:
        """The process in the row is handed to `end_process` first; what was not flushed is gone."""
        log = sample_log(2)
        process = ProviderProcess(4711, 12.5, 4710)
        asked: list[DeadOwner] = []
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            lease = await self.write(store, log[:TURN])
            await lease.set_process(process)
            assert (await other.entry("s1")).process == process
            lease.append(log[TURN:])
            await self.kill(store)

            async def end(dead: DeadOwner) -> None:
                asked.append(dead)
                owner = (await other.entry("s1")).owner
                assert owner is not None
                assert not owner.alive

            taken = await other.acquire("s1", end_process=end)
            assert asked == [DeadOwner("s1", lease.token, lease.marker, process)]
            assert (taken.taken_over, taken.next_seq) == (True, TURN)
            assert taken.token > lease.token
            assert (await other.entry("s1")).process is None

    async def test_a_process_that_does_not_end_keeps_the_session(self, tmp_path: Path) -> None:
        """The lease stays where it was, and the next try asks again."""
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            lease = await self.write(store, sample_log(1))
            await lease.set_process(ProviderProcess(4711, 12.5))
            await self.kill(store)
            asked: list[DeadOwner] = []

            async def refuse(dead: DeadOwner) -> None:
                asked.append(dead)
                raise ProcessNotEnded("process 4711 goes on")

            for _ in range(2):
                with pytest.raises(ProcessNotEnded, match="4711"):
                    await other.acquire("s1", end_process=refuse)
            assert [dead.token for dead in asked] == [lease.token] * 2

    async def test_an_id_that_a_dead_owner_had_reserved_is_free(self, tmp_path: Path) -> None:
        """Nothing was written under it."""
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            await store.create(sample_header())
            await self.kill(store)
            await self.write(other, sample_log(1))

    async def test_force_takes_the_session_and_fences_its_owner(self, tmp_path: Path) -> None:
        """What the old owner writes afterwards is refused and never in the log."""
        log = sample_log(2)
        async with self.stores(tmp_path) as (other,):
            store = self.open_store(tmp_path)
            old = await self.write(store, log[:3])
            new = await other.acquire("s1", force=True)
            assert new.taken_over
            old.append(log[3:5])
            with pytest.raises(SessionFenced):
                await old.flush()
            new.append(log[3:])
            await new.flush()
            assert list(await other.read_from("s1")) == log
            await self.kill(store)
