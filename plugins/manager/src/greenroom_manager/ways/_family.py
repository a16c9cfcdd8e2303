"""Whose child is whose, by the label; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from greenroom.agents import PARENT_LABEL, AgentRecord


@dataclass(frozen=True, slots=True)
class Member:
    """A descendant, and the parent through which it was found."""

    id: str
    parent: str


def parent_of(record: AgentRecord) -> str | None:
    """The agent on whose behalf this one works, or None."""
    return record.labels.get(PARENT_LABEL)


def descendants(root: str, parents: Iterable[tuple[str, str | None]]) -> list[Member]:
    """Everybody below `root`, each once and behind its parent, whatever circles the labels make.

    Args:
        parents: each agent's id, and its parent's.
    """
    below: dict[str, list[str]] = {}
    for child, parent in parents:
        if parent is not None:
            below.setdefault(parent, []).append(child)
    found: dict[str, Member] = {}
    todo = deque([root])
    while todo:
        parent = todo.popleft()
        for child in below.get(parent, ()):
            if child != root and child not in found:
                found[child] = Member(child, parent)
                todo.append(child)
    return list(found.values())
