"""What of a provider's history is missing in our log: items of both sides in, a plan out. No input or output.

Items are matched by the provider's ids, then by what they say and their order. Whatever the two sides are, carrying the
plan out and planning again finds nothing more to do: a refresh that is repeated doubles nothing.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Final, Literal

Kind = Literal["user", "text", "reasoning", "tool", "todo", "compaction", "notice"]

PRIMARY: Final = frozenset({"user", "text", "reasoning", "tool"})
"""What a conversation consists of. The others accompany it, and live and replay tell them differently."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something that one side shows.

    Attributes:
        content: what it says; compared without regard to white space.
        turn: the turn on its own side, increasing.
        ids: by which the other side may know it.
        named: an id of the provider is among them: another id is another item, whatever it says.
        whole: its end is known: the result of a call, the acknowledgement of a prompt, the rest of a text.
    """

    kind: Kind
    content: str
    turn: int
    ids: frozenset[str] = frozenset()
    named: bool = False
    whole: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """What it is compared by where ids do not tell."""
        return self.kind, " ".join(self.content.split())


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in terms of the places in the two lists.

    Attributes:
        add: theirs that are missing here, in order.
        complete: theirs that stand here without an end -> ours.
        known: theirs that stand here, also those without an end.
    """

    add: Sequence[int] = ()
    complete: Mapping[int, int] = field(default_factory=dict)
    known: frozenset[int] = frozenset()


def reconcile(ours: Sequence[Item], theirs: Sequence[Item], unfinished: frozenset[int] = frozenset()) -> Plan:
    """Plan what to add to ours, so that it tells what theirs tells.

    A turn of which nothing is known here is added. Of one that is known in part, what stands behind the last known
    item: items with an id of the provider, and the others too if our turn is `unfinished` (its end was lost). What
    stands before it was told live in another way.
    """
    found = match(ours, theirs, unfinished)
    last: dict[int, int] = {}
    for place, mine in enumerate(found):
        if mine is not None and theirs[place].kind in PRIMARY:
            last[theirs[place].turn] = place
    newest = max(last, default=-1)
    talks = {item.turn for item in theirs if item.kind in PRIMARY}
    add = []
    for place, item in enumerate(theirs):
        if found[place] is not None:
            continue
        known = last.get(item.turn)
        if known is None:
            wanted = item.turn in talks or item.turn > newest
        else:
            lost = ours[found[known] or 0].turn in unfinished
            wanted = place > known and (lost or (item.named and item.kind in PRIMARY))
        if wanted:
            add.append(place)
    pairs = {place: mine for place, mine in enumerate(found) if mine is not None}
    complete = {place: mine for place, mine in pairs.items() if _ends(ours[mine], theirs[place])}
    return Plan(add, complete, frozenset(pairs))


def _ends(here: Item, there: Item) -> bool:
    """Whether theirs knows the end of ours."""
    if here.whole or not there.whole:
        return False
    if here.kind not in ("text", "reasoning"):
        return True
    return len(there.content) > len(here.content) and there.content.startswith(here.content)


def match(ours: Sequence[Item], theirs: Sequence[Item], unfinished: frozenset[int] = frozenset()) -> list[int | None]:
    """For each of theirs the place of the same item in ours, or None; no item of ours is given twice."""
    return _Matching(ours, theirs, unfinished).run()


class _Matching:
    """Pairs of the same items, found from the surest to the least sure sign."""

    def __init__(self, ours: Sequence[Item], theirs: Sequence[Item], unfinished: frozenset[int]) -> None:
        self._ours, self._theirs, self._unfinished = ours, theirs, unfinished
        self._found: list[int | None] = [None] * len(theirs)
        self._taken = [False] * len(ours)

    def run(self) -> list[int | None]:
        self._by_id()
        self._inside_known_turns()
        self._in_order(self._left_ours(), self._left_theirs())
        self._in_any_order()
        return self._found

    def _by_id(self) -> None:
        known: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        for mine, item in enumerate(self._ours):
            for ident in item.ids:
                known[item.kind, ident].append(mine)
        for place, item in enumerate(self._theirs):
            for ident in sorted(item.ids):
                waiting = known.get((item.kind, ident), deque())
                while waiting and self._taken[waiting[0]]:
                    waiting.popleft()
                if waiting:
                    self._pair(place, waiting.popleft())
                    break

    def _inside_known_turns(self) -> None:
        """What has no id belongs to the turn in which something with an id was found."""
        turns: dict[int, set[int]] = defaultdict(set)
        for place, mine in enumerate(self._found):
            if mine is not None:
                turns[self._theirs[place].turn].add(self._ours[mine].turn)
        theirs, ours = _by_turn(self._theirs, self._left_theirs()), _by_turn(self._ours, self._left_ours())
        for turn, partners in turns.items():
            if turn in theirs:
                near = [mine for partner in sorted(partners) for mine in ours.get(partner, ())]
                near = [mine for mine in near if not self._taken[mine]]
                self._in_order(near, theirs[turn])
                self._beginnings(near, theirs[turn])

    def _in_order(self, ours: Sequence[int], theirs: Sequence[int]) -> None:
        """Pair what says the same, in the order of both sides."""
        mine, their = [self._ours[i].key for i in ours], [self._theirs[i].key for i in theirs]
        same = 0
        while same < min(len(mine), len(their)) and mine[same] == their[same]:
            self._try(theirs[same], ours[same])
            same += 1
        if same == len(mine) or same == len(their):
            return
        blocks = SequenceMatcher(None, mine[same:], their[same:]).get_matching_blocks()
        for block in blocks:
            for step in range(block.size):
                self._try(theirs[same + block.b + step], ours[same + block.a + step])

    def _in_any_order(self) -> None:
        """What was added late stands elsewhere here; an item is missing only if it is told more often there."""
        left: dict[tuple[str, str], list[int]] = defaultdict(list)
        for mine in self._left_ours():
            left[self._ours[mine].key].append(mine)
        for place in self._left_theirs():
            for mine in left.get(self._theirs[place].key, ()):
                if not self._taken[mine] and self._try(place, mine):
                    break
        self._beginnings(self._left_ours(), self._left_theirs())
        self._endings()

    def _endings(self) -> None:
        """A prompt that was handed over together with context, just before a crash, is the last part of theirs."""
        for mine in self._left_ours():
            asked = self._ours[mine]
            if asked.kind != "user" or asked.whole or asked.turn not in self._unfinished or not asked.key[1]:
                continue
            for place in self._left_theirs():
                there = self._theirs[place]
                if there.kind == "user" and there.key[1].endswith(asked.key[1]) and self._try(place, mine):
                    break

    def _beginnings(self, ours: Sequence[int], theirs: Sequence[int]) -> None:
        """A text whose rest was lost here is the one that begins like it."""
        torn = [mine for mine in ours if not self._taken[mine] and _torn(self._ours[mine])]
        for mine in torn:
            begun = self._ours[mine]
            for place in theirs:
                there = self._theirs[place]
                if there.kind == begun.kind and there.content.startswith(begun.content) and self._try(place, mine):
                    break

    def _try(self, place: int, mine: int) -> bool:
        """Pair the two, unless one is paired already or their ids tell them apart."""
        there, here = self._theirs[place], self._ours[mine]
        if self._found[place] is not None or self._taken[mine] or (there.named and here.named):
            return False
        self._pair(place, mine)
        return True

    def _pair(self, place: int, mine: int) -> None:
        self._found[place] = mine
        self._taken[mine] = True

    def _left_ours(self) -> list[int]:
        return [mine for mine, taken in enumerate(self._taken) if not taken]

    def _left_theirs(self) -> list[int]:
        return [place for place, mine in enumerate(self._found) if mine is None]


def _torn(item: Item) -> bool:
    return not item.whole and item.kind in ("text", "reasoning") and bool(item.content)


def _by_turn(items: Sequence[Item], places: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for place in places:
        found[items[place].turn].append(place)
    return found
