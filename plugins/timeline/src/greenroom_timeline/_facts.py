"""What later events say about rows: every patch of a line, by the key of its row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from greenroom.sessions import Event
from greenroom.sessions.vocabulary import JsonObject
from greenroom.timeline import MAX_CHILD_ITEMS, Patch, Row, apply_patch

from ._events import CALLS, MESSAGES, PATCHABLE, child_patch, keyed_patch, raw


class Fact(msgspec.Struct, frozen=True, gc=False):
    """A patch whose row is not looked up yet."""

    seq: int
    key: str
    fields: JsonObject

    def of(self, row: int) -> Patch:
        """The patch of that row."""
        return Patch(self.seq, row, raw(self.fields))


class _Said(msgspec.Struct, frozen=True, gc=False):
    """A patch event as it is kept, and the one before it with the same key: there may be a hundred thousand."""

    seq: int
    type: str
    raw: bytes
    before: _Said | None


class _Child:
    """A sub-agent: whose call it belongs to, and the last of what it did.

    Attributes:
        loaded: whether all of its items were seen; else they have to be read from the log.
        since: seq of its last removal; `count` is the number of its items behind that.
        born: seq of the event that named its parent's call; what stands before says nothing about a row.
    """

    __slots__ = ("born", "count", "items", "key", "loaded", "since")

    def __init__(self, *, loaded: bool) -> None:
        self.key: str | None = None
        self.items: list[Fact] = []
        self.count = 0
        self.loaded = loaded
        self.since = self.born = -1


class Facts:
    """The patches of a line, in the order of the log. Items of sub-agents are kept up to a number for each.

    A recast hides rows, not facts: what was said about a row that is still shown stays true.

    Attributes:
        types: of the rows that anything may be said about.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, _Said] = {}
        self._children: dict[str, _Child] = {}
        self.types: AbstractSet[str] = frozenset()

    def __contains__(self, key: str | None) -> bool:
        """Whether anything is said about a row of that key."""
        return key in self._by_key

    def read(self, event: Event | _Said) -> Fact | None:
        """What a patch event says; None if nobody knows which call its sub-agent belongs to."""
        if not event.type.startswith("subagent/"):
            key, fields = keyed_patch(event.type, event.raw)
            return Fact(event.seq, key, fields)
        child_id, call, fields = child_patch(event.type, event.raw)
        child = self._children.get(child_id)
        if child is not None and child.key is not None:
            return Fact(event.seq, child.key, fields) if event.seq >= child.born else None
        return Fact(event.seq, f"call {call}", fields) if call is not None else None

    def add(self, event: Event, *, live: bool = True) -> Fact | None:
        """Keep what a patch event says, later than everything that is kept, and return it.

        `live`: no patch in front of it was left out, items of sub-agents neither.
        """
        fact = self.read(event)
        if event.type.startswith("subagent/"):
            self._note(event, fact, live=live)
        if fact is not None and event.type != "subagent/item":
            self._by_key[fact.key] = _Said(event.seq, event.type, event.raw, self._by_key.get(fact.key))
            if len(self.types) < len(PATCHABLE):
                self.types |= CALLS if fact.key.startswith("call ") else MESSAGES
        return fact

    def _note(self, event: Event, fact: Fact | None, *, live: bool) -> None:
        child = self._children.setdefault(child_patch(event.type, event.raw)[0], _Child(loaded=live))
        if event.type == "subagent/removed":
            child.count, child.since = 0, event.seq
            child.loaded = child.loaded and live
        elif event.type == "subagent/upserted" and fact is not None and child.key is None:
            child.key, child.born = fact.key, event.seq
        elif event.type == "subagent/item" and fact is not None and child.loaded:
            child.items.append(fact)
            child.count += 1
            if len(child.items) > MAX_CHILD_ITEMS:
                del child.items[0]

    def skip(self) -> None:
        """Say that items of sub-agents may be left out from here on."""
        for child in self._children.values():
            child.items, child.count, child.loaded = [], 0, False

    def unread_children(self, key: str) -> list[str]:
        """The sub-agents of a call whose items have to be read from the log."""
        return [name for name, child in self._children.items() if child.key == key and not child.loaded]

    def load_items(self, child_id: str, events: Iterable[Event]) -> None:
        """Keep the last items of a sub-agent, of all of its items in the log."""
        child = self._children[child_id]
        read = [self.read(event) for event in events]
        facts = [fact for fact in read if fact is not None]
        child.count = sum(fact.seq > child.since for fact in facts)
        child.items, child.loaded = facts[-MAX_CHILD_ITEMS:], True

    def about(self, key: str, row: int, until: int | None = None) -> list[Fact]:
        """What is said about the row of that key and seq, in order; `until` is the next row with the same key."""
        said = self._by_key.get(key)
        if said is None:
            return []
        found: list[Fact] = []
        while said is not None and row < said.seq:
            fact = self.read(said) if until is None or said.seq < until else None
            if fact is not None:
                found.append(fact)
            said = said.before
        found.reverse()
        if self._children and key.startswith("call "):
            found = self._with_items(key, found, row, until)
        return found

    def _with_items(self, key: str, found: list[Fact], row: int, until: int | None) -> list[Fact]:
        for name, child in self._children.items():
            if child.key != key or not child.items:
                continue
            items = [fact for fact in child.items if row < fact.seq and (until is None or fact.seq < until)]
            dropped = child.count - sum(fact.seq > child.since for fact in child.items)
            behind = [index for index, fact in enumerate(items) if fact.seq > child.since]
            if dropped and behind:
                first = items[behind[0]]
                known = {**first.fields["children"][name], "dropped": dropped}
                items[behind[0]] = Fact(first.seq, key, {"children": {name: known}})
            found.extend(items)
        return sorted(found, key=lambda fact: fact.seq)


class KnownRows:
    """Where the rows of a key stand, for keys that were looked up; ids may come again in a later turn."""

    def __init__(self) -> None:
        self._by_key: dict[str, list[int]] = {}

    def put(self, key: str, seqs: Iterable[int]) -> None:
        """Note all rows of a key."""
        self._by_key[key] = sorted(seqs)

    def add(self, key: str, seq: int) -> None:
        """Note a new row, if its key was looked up."""
        known = self._by_key.get(key)
        if known is not None:
            known.append(seq)

    def get(self, key: str) -> Sequence[int] | None:
        """The rows of a key, None if it was not looked up."""
        return self._by_key.get(key)

    def clear(self) -> None:
        """Forget everything."""
        self._by_key.clear()


def latest_before(seqs: Sequence[int], seq: int) -> int | None:
    """The largest of the sorted seqs that is smaller than `seq`."""
    index = bisect_left(seqs, seq)
    return seqs[index - 1] if index else None


def patched(row: Row, facts: Sequence[Fact]) -> Row:
    """The row with what is said about it."""
    item = row.data
    for fact in facts:
        item = apply_patch(item, fact.fields)
    return msgspec.structs.replace(row, item=raw(item), patched=facts[-1].seq)
