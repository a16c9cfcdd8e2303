"""Whatever is done to both stores, they answer alike."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from greenroom.sessions import (
    FOLDED_TYPES,
    Event,
    Extras,
    Medium,
    MemoryStore,
    RecordWrite,
    Replace,
    SessionLease,
    SessionStore,
)
from greenroom.sessions.vocabulary import CORE_TYPES
from greenroom_sqlite import SqliteStore
from greenroom_testing import sample_header

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

TYPES = [*(kind.name for kind in CORE_TYPES), "plugin/one", "plugin/two"]
IDS = ("a", "b", "c")
TEXTS = ["", "text", "\u2028 é 😀", "x" * 5000, "\\u0000", '"quoted"']


def random_event(chance: random.Random, seq: int) -> Event:
    """Any type with any payload: a store judges neither."""
    name = chance.choice(TYPES)
    key = f'"{chance.choice("klm")}"'
    text = chance.choice(TEXTS).replace("\\", "\\\\").replace('"', '\\"')
    raw = f'{{"call_id":{key},"message_id":{key},"child_id":{key},"message":{{"id":{key}}},"text":"{text}"}}'.encode()
    surface = chance.choice([None, None, "append", Replace((seq // 2, seq // 2))])
    sources = chance.choice([None, None, (), (0,), tuple(range(min(seq, 9)))])
    return Event(seq, chance.randrange(1 << 45), name, raw, chance.random() < 0.3, surface, sources)


class Pair:
    """Both stores, and the leases on each; every answer is compared."""

    def __init__(self, memory: Callable[[], SessionStore], file: Callable[[], SessionStore]) -> None:
        self._openers = (memory, file)
        self.stores = [opener() for opener in self._openers]
        self.leases: dict[str, list[SessionLease]] = {}

    async def same(self, ask: Callable[[SessionStore], Awaitable[object]]) -> object:
        return await self._compare([lambda s=store: ask(s) for store in self.stores])

    async def same_lease(self, session_id: str, ask: Callable[[SessionLease], Awaitable[object]]) -> object:
        return await self._compare([lambda x=lease: ask(x) for lease in self.leases[session_id]])

    async def _compare(self, questions: list[Callable[[], Awaitable[object]]]) -> object:
        answers = [await outcome(question) for question in questions]
        assert answers[0] == answers[1]
        return answers[0]

    async def take(self, name: str, ask: Callable[[SessionStore], Awaitable[SessionLease]]) -> None:
        taken = [await outcome(lambda s=store: ask(s)) for store in self.stores]
        if isinstance(taken[0], str) or isinstance(taken[1], str):
            assert taken[0] == taken[1]
            return
        facts = [(x.header, x.next_seq, x.taken_over, x.torn) for x in taken]
        assert facts[0] == facts[1]
        self.leases[name] = taken

    async def release(self, name: str) -> None:
        # a conflict of a record is told by the flush inside; both tell it, and a second release succeeds
        while await self.same_lease(name, lambda lease: lease.release()) == "RecordConflict":
            pass
        del self.leases[name]

    async def close(self) -> None:
        for name in list(self.leases):
            await self.release(name)
        for store in self.stores:
            await store.aclose()

    async def reopen(self) -> None:
        await self.close()
        self.stores = [opener() for opener in self._openers]


async def outcome(question: Callable[[], Awaitable[object]]) -> object:
    """The answer, or the name of the error: the words differ."""
    try:
        answer = await question()
    except Exception as error:
        return type(error).__name__
    return list(answer) if isinstance(answer, tuple) else answer


async def step(pair: Pair, chance: random.Random) -> None:
    """Do something at random to both."""
    name = chance.choice(IDS)
    leases = pair.leases.get(name)
    if leases is None:
        how = chance.random()
        if how < 0.5:
            await pair.take(name, lambda store: store.create(sample_header(name)))
        elif how < 0.9:
            await pair.take(name, lambda store: store.acquire(name))
        else:
            await pair.same(lambda store: store.delete(name))
        return
    if chance.random() < 0.5:
        first = leases[0].next_seq + (chance.random() < 0.05)
        events = [random_event(chance, first + n) for n in range(chance.choice([0, 1, 1, 2, 5, 40]))]
        value, expect = chance.choice([b"1", b"2", None]), chance.choice([None, 0, 1, 2])
        record = RecordWrite(name, chance.choice("xy"), value, expect)
        extras = chance.choice([None, None, Extras(records=(record,))])

        async def append(lease: SessionLease) -> None:
            lease.append(events, extras)

        await pair.same_lease(name, append)
    elif chance.random() < 0.5:
        barrier = chance.choice([None, "normal"])
        await pair.same_lease(name, lambda lease: lease.flush(barrier))
    elif chance.random() < 0.3:
        await pair.release(name)
    else:
        await look(pair, chance, name)


async def look(pair: Pair, chance: random.Random, name: str) -> None:
    """Ask both about a session."""
    start = chance.randrange(60)
    before = chance.choice([None, start, start + chance.randrange(80)])
    types = chance.choice([None, sorted(FOLDED_TYPES), chance.sample(TYPES, 3), ["plugin/one", "turn/end"]])
    limit = chance.choice([None, 1, 7, 1000])
    newest = chance.random() < 0.5
    await pair.same(lambda store: store.read_from(name, start, before=before, types=types, limit=limit, newest=newest))
    await pair.same(lambda store: store.types(name))
    await pair.same(lambda store: store.header(name))
    for key in "klm?":
        await pair.same(lambda store, k=key: store.find(name, k))

    async def entry(store: SessionStore) -> object:
        found = await store.entry(name)
        return found.header, found.next_seq, found.updated_at, found.error, found.owner is None

    await pair.same(entry)

    async def listed(store: SessionStore) -> object:
        return sorted(found.id for found in await store.list())

    await pair.same(listed)


@pytest.mark.timeout(300)
@pytest.mark.behaviour("D-702")
async def test_random_logs_and_calls_get_the_same_answers_from_both_stores(tmp_path, soak_count):
    for seed in range(soak_count(200)):
        chance, medium, path = random.Random(seed), Medium(), tmp_path / f"{seed}.db"
        window = chance.choice([0, 0.001, 60])
        pair = Pair(
            lambda m=medium: MemoryStore(m),
            lambda p=path, w=window: SqliteStore(p, barrier="normal", window=w),
        )
        for number in range(60):
            await step(pair, chance)
            if number % 25 == 24:
                await pair.reopen()
        for name in IDS:
            await look(pair, chance, name)
            if not isinstance(await outcome(lambda n=name, p=pair: p.stores[1].header(n)), str):
                # a store keeps what it is given: the payloads here are of no type
                found = [f.code for f in await pair.stores[1].verify(name) if f.severity == "error"]
                assert set(found) <= {"payload"}
        await pair.close()
