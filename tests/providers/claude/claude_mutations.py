"""Recorded conversations, damaged: dropped, doubled and reordered frames, unknown fields, wrong types."""

from __future__ import annotations

import copy
import random
from typing import Any

JUNK: tuple[Any, ...] = (None, True, 7, -1.5, "junk", "\ufffd", [], [None], {}, {"type": 3}, [{"type": []}])


def mutate(conversation: list[tuple[str, Any]], rng: random.Random) -> list[tuple[str, Any]]:
    """A copy of the conversation with one to four damages to what the agent says."""
    out = copy.deepcopy(conversation)
    for _ in range(rng.randint(1, 4)):
        places = [index for index, (direction, _) in enumerate(out) if direction == "out"]
        if not places:
            return out
        index = rng.choice(places)
        damage = rng.choice(("drop", "double", "swap", "field", "type", "cut", "kind"))
        if damage == "drop":
            del out[index]
        elif damage == "double":
            out.insert(rng.randint(index, min(index + 6, len(out))), copy.deepcopy(out[index]))
        elif damage == "swap":
            other = rng.choice(places)
            out[index], out[other] = out[other], out[index]
        else:
            out[index] = ("out", _damage(out[index][1], damage, rng))
    return out


def _damage(frame: Any, damage: str, rng: random.Random) -> Any:
    if damage == "kind":
        return rng.choice((None, 7, "text", [], {}, {"type": "no_such_type", "x": 1}, {"type": ["list"]}))
    holders = list(_objects(frame))
    if not holders:
        return copy.deepcopy(rng.choice(JUNK))
    holder = rng.choice(holders)
    if damage == "field" or not holder:
        holder[f"unknown_{rng.randint(0, 9)}"] = copy.deepcopy(rng.choice(JUNK))
    elif damage == "cut":
        del holder[rng.choice(list(holder))]
    else:
        holder[rng.choice(list(holder))] = copy.deepcopy(rng.choice(JUNK))
    return frame


def _objects(value: Any):
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)
