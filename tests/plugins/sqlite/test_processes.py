"""Several processes on one file: kills at any moment, races, suspended owners, locks that are not given back."""

from __future__ import annotations

import os
import random
import signal
import time
from itertools import pairwise

import anyio
import pytest

from greenroom.sessions import SessionOwned, SessionRegistry, StoreStalled, Vocabulary
from greenroom.sessions.vocabulary import Reason, Trigger, TurnEnd, TurnStart
from greenroom_sqlite import SqliteStore, _writer
from greenroom_sqlite._rebuild import repair_file
from greenroom_testing import sample_header, sample_log

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def begin(path, *session_ids: str) -> None:
    """Sessions with one whole turn."""
    store = SqliteStore(path, barrier="normal")
    registry = SessionRegistry(store, Vocabulary())
    for session_id in session_ids:
        entered = await registry.create(registry.new_header(session_id))
        entered.session.append("turn/start", TurnStart(1, Trigger("message")))
        entered.session.append("turn/end", TurnEnd(1, Reason("completed")))
        await entered.close()
    await store.aclose()


def spin(seconds: float) -> None:
    """Let a random moment pass while others run."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        os.sched_yield()


@pytest.mark.timeout(300)
@pytest.mark.behaviour("D-616", "D-645")
async def test_whatever_the_moment_of_a_kill_what_was_flushed_is_there_and_the_open_turn_is_closed(
    path, start, soak_count
):
    await begin(path, "s")
    chance = random.Random(7)
    epochs = set()
    for round_ in range(soak_count(200)):
        job = start("write_turns", seed=round_)
        assert job.heard()[0] == "ready"
        durable = 0
        for _ in range(chance.randint(0, 12)):
            durable = int(job.heard()[1])
        spin(chance.random() * 0.003)
        for word, *rest in job.kill():
            durable = int(rest[0]) if word == "durable" and rest else durable

        store = SqliteStore(path, barrier="normal")
        stored = list(await store.read_from("s", limit=None))
        assert [event.seq for event in stored] == list(range(len(stored)))
        assert len(stored) >= durable, "an event that was acknowledged is gone"
        assert [f.text for f in await store.verify("s")] == []
        texts = [e for e in stored if e.type == "assistant/message" and not e.data.interrupted]
        assert all(event.data.text == str(event.seq) for event in texts), "an event is not what was written"
        turns = [event for event in stored if event.type in ("turn/start", "turn/end")]
        open_turn = turns[-1].data.turn if turns[-1].type == "turn/start" else None

        prepared = await SessionRegistry(store, Vocabulary()).prepare_resume("s")
        session = prepared.session
        added = list(await session.events(len(stored)))
        assert added[0].type == "session/recast"
        assert added[0].data.reason == "repair"
        assert session.state.epoch not in epochs
        epochs.add(session.state.epoch)
        closed = [event.data.turn for event in added if event.type == "turn/end"]
        assert closed == ([] if open_turn is None else [open_turn])
        assert session.state.open_turn is None
        prepared.registry.enter(prepared)
        turn = session.state.next_turn()
        session.append("turn/start", TurnStart(turn, Trigger("message")))
        session.append("turn/end", TurnEnd(turn, Reason("completed")))
        await store.aclose()
    assert len(epochs) == soak_count(200)


@pytest.mark.timeout(120)
@pytest.mark.behaviour("D-705", "X-009", "D-625")
async def test_of_two_processes_that_race_for_a_session_one_owns_it_and_the_other_is_told_by_whom(
    path, start, soak_count
):
    rounds = soak_count(100)
    ids = [f"s{number}" for number in range(rounds)]
    await begin(path, "s", *ids)
    left = start("race", name="dead")
    assert left.heard() == ["ready"]
    for session_id in ids[::2]:  # half of them were left by a process that was killed
        left.tell(session_id)
        assert left.heard()[0] == "owner"
    left.kill()
    racers = [start("race", name=name) for name in ("left", "right")]
    for racer in racers:
        assert racer.heard() == ["ready"]
    winners = []
    for session_id in ids:
        for racer in racers:
            racer.tell(session_id)
        said = [racer.heard() for racer in racers]
        assert sorted(words[0] for words in said) == ["SessionOwned", "owner"]
        winner = 0 if said[0][0] == "owner" else 1
        assert f"is owned by {('left', 'right')[winner]} (process {racers[winner].pid}) since " in said[1 - winner][1]
        winners.append(winner)


@pytest.mark.behaviour("X-009", "D-625")
async def test_a_suspended_owner_stays_the_owner_and_is_fenced_after_a_forced_repair(path, start):
    await begin(path, "s")
    job = start("own")
    assert job.heard() == ["ready"]
    job.tell("write")
    assert job.heard()[0] == "written"
    os.kill(job.pid, signal.SIGSTOP)
    store = SqliteStore(path, barrier="normal")
    before = list(await store.read_from("s"))
    with pytest.raises(SessionOwned, match="the old owner"):
        await store.acquire("s")
    with pytest.raises(SessionOwned, match="the old owner"):
        await store.repair("s")
    assert (await store.entry("s")).owner.alive
    await store.repair("s", force=True)
    lease = await store.acquire("s")
    assert lease.taken_over
    os.kill(job.pid, signal.SIGCONT)
    job.tell("write")
    assert job.heard()[0] == "fenced"
    assert list(await store.read_from("s")) == before
    await store.aclose()


async def test_a_killed_owner_is_taken_over_at_once_even_if_a_forked_child_of_it_lives_on(path, start):
    await begin(path, "s")
    job = start("fork_and_end")
    child = int(job.heard()[1])
    store = SqliteStore(path, barrier="normal")
    with pytest.raises(SessionOwned):
        await store.acquire("s")
    os.kill(job.pid, signal.SIGKILL)
    while (await store.entry("s")).owner.alive:  # the kernel ends the process in its own time
        spin(0.001)
    try:
        assert (await store.acquire("s")).taken_over
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
    await store.aclose()


@pytest.mark.behaviour("D-708", "D-669")
async def test_a_barrier_that_waits_too_long_names_the_process_and_keeps_the_batch(path, start, monkeypatch):
    monkeypatch.setattr(_writer, "BUSY_LIMIT", 0.3)
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    lease.append(sample_log(1))
    await lease.flush()
    job = start("lock")
    assert job.heard() == ["ready"]
    lease.append(sample_log(1, seq=6))
    with pytest.raises(StoreStalled, match=f"held by process {job.pid}"):
        await lease.flush()
    with pytest.raises(StoreStalled, match=str(job.pid)):
        await store.records("n").put("k", b"1")
    assert list(await store.read_from("s1")) == sample_log(2)  # readers are not held up, and see the queue
    job.kill()
    await lease.flush()
    await store.aclose()
    other = SqliteStore(path)
    assert list(await other.read_from("s1")) == sample_log(2)
    await other.aclose()


@pytest.mark.behaviour("D-705")
async def test_a_lock_that_is_given_back_in_time_is_only_waited_for(path, start):
    store = SqliteStore(path, barrier="normal")
    lease = await store.create(sample_header())
    job = start("lock")
    assert job.heard() == ["ready"]
    lease.append(sample_log(1))
    async with anyio.create_task_group() as group:
        group.start_soon(lease.flush)
        await anyio.wait_all_tasks_blocked()
        job.kill()
    await store.aclose()


async def test_tokens_only_grow_whoever_takes_the_session(path):
    await begin(path, "s")
    tokens = []
    for _ in range(3):
        store = SqliteStore(path, barrier="normal")
        tokens.append((await store.acquire("s")).token)
        await store.aclose()
    assert all(earlier < later for earlier, later in pairwise(tokens))


async def test_a_repair_of_the_file_that_is_killed_at_any_step_is_ended_by_the_next_who_opens_it(path, start):
    original = path.parent / "original.db"
    store = SqliteStore(original, barrier="normal")
    lease = await store.create(sample_header("s"))
    lease.append(sample_log(5))
    await lease.flush()  # all of it stands in the log only
    data, log = b"\xff" * 4096 + original.read_bytes()[4096:], original.with_name("original.db-wal").read_bytes()
    await store.aclose()

    killed = 0
    while True:
        for part in path.parent.glob(f"{path.name}*"):
            part.unlink()
        path.write_bytes(data)
        path.with_name(f"{path.name}-wal").write_bytes(log)
        done = start("repair", step=killed).heard() == ["done"]
        if path.exists() and path.read_bytes() == data and path.with_name(f"{path.name}-wal").exists():
            assert not done  # it had not come so far: the old file is still there, with its log
            assert [(one.session_id, one.kept) for one in repair_file(path).sessions] == [("s", 30)]
        store = SqliteStore(path)
        assert list(await store.read_from("s")) == sample_log(5)
        await store.aclose()
        assert path.with_name(f"{path.name}.damaged-1").read_bytes() == data
        assert path.with_name(f"{path.name}.damaged-1-wal").read_bytes() == log
        assert not list(path.parent.glob(f"{path.name}.repaired*"))
        if done:
            break
        killed += 1
    assert killed >= 4
