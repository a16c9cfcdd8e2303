"""Where the events of a session come from: the live session's memory, or the store."""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.sessions import Event, Session, SessionDamaged, SessionStore

from ._events import FACTS, id_of, row_key
from ._line import Ranges

_NEAR = 64
"""Events that are read in vain rather than to ask the store once more."""


class Source:
    """Reads one session. Attributes: session, the live one, None while it is only stored."""

    def __init__(self, store: SessionStore, session_id: str) -> None:
        self._store = store
        self.id = session_id
        self.session: Session | None = None

    async def epoch(self) -> str:
        """The first epoch. Raises SessionNotFound."""
        if self.session is not None:
            return self.session.header.epoch
        return (await self._store.header(self.id)).epoch

    async def length(self) -> int:
        """The seq of the next event. Raises SessionNotFound, SessionDamaged."""
        if self.session is not None:
            return len(self.session)
        entry = await self._store.entry(self.id)
        if entry.error is not None:
            raise SessionDamaged(entry.error, session_id=self.id)
        return entry.next_seq

    async def kept(self, length: int) -> int:
        """The first seq from which the log can be read: 0, unless a store has lost its beginning.

        Raises SessionDamaged if not even the end can be read.
        """
        low, high = 0, max(length - 1, 0)
        while low < high:
            middle = (low + high) // 2 if low else 0
            try:
                await self.read(middle, middle + 1)
                high = middle
            except SessionDamaged:
                low = middle + 1
        await self.read(low, min(low + 1, length))
        return low

    async def read(self, start: int, stop: int) -> Sequence[Event]:
        """Every event with `start <= seq < stop`."""
        if start >= stop:
            return ()
        if self.session is not None:
            return await self.session.events(start, stop)
        return await self._store.read_from(self.id, start, before=stop, limit=None)

    async def facts(self, start: int, stop: int) -> Sequence[Event]:
        """The recasts and the patches in that range, but for the items of sub-agents; from the store's index."""
        if self.session is not None:
            return await self.session.events(start, stop, types=FACTS)
        return await self._store.read_from(self.id, start, before=stop, types=FACTS, limit=None)

    async def rows_of(self, key: str, stop: int) -> list[int]:
        """The rows of a key below `stop`."""
        events = await self._at([seq for seq in await self._find(id_of(key)) if seq < stop])
        return [event.seq for event in events if row_key(event.type, event.raw) == key]

    async def items_of(self, child_id: str, stop: int) -> list[Event]:
        """What a sub-agent did below `stop`."""
        events = await self._at([seq for seq in await self._find(child_id) if seq < stop])
        return [event for event in events if event.type == "subagent/item" and event.data.child_id == child_id]

    async def _at(self, seqs: Sequence[int]) -> list[Event]:
        """The events of sorted seqs; those that stand close to each other are read at once."""
        found: list[Event] = []
        index = 0
        while index < len(seqs):
            last = index
            while last + 1 < len(seqs) and seqs[last + 1] - seqs[last] <= _NEAR:
                last += 1
            wanted = set(seqs[index : last + 1])
            found += [event for event in await self.read(seqs[index], seqs[last] + 1) if event.seq in wanted]
            index = last + 1
        return found

    async def _find(self, key: str) -> Sequence[int]:
        if self.session is not None:
            return await self.session.find(key)
        return await self._store.find(self.id, key)

    async def back(self, ranges: Ranges, stop: int, size: int) -> tuple[Sequence[Event], int]:
        """At most `size` shown events just below `stop`, and the seq where they begin (0 when there are none)."""
        for low, high in ranges.down(stop):
            start = max(low, high - size)
            return await self.read(start, high), start
        return (), 0
