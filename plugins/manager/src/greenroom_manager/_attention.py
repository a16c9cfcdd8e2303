"""When an agent wants attention: the edges between what was seen of it and what is, as pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from greenroom.agents import PARENT_LABEL, AgentRecord, AttentionReason, Unread

Rest = Literal["running", "idle", "error"]
"""What attention asks of a state: the agent works, is at rest, or is at rest after a failure."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of an agent: how it is, and how many questions wait."""

    rest: Rest = "idle"
    questions: int = 0


@dataclass(frozen=True, slots=True)
class Edge:
    """What follows from a change: why to tell somebody, and what becomes of the mark.

    Attributes:
        reason: None = nobody is told.
        unread: the mark to set, `clear` to take one away that a run has made, None to leave it.
    """

    reason: AttentionReason | None = None
    unread: Literal["finished", "error", "clear"] | None = None


NOTHING: Final = Edge()


def edge(before: Seen, after: Seen, unread: Unread | None) -> Edge:
    """What follows when an agent that was `before` is `after`, and `unread` is its mark.

    From running to rest it has finished, into error it has failed; both mark it, and an agent that is marked already
    tells nobody again. A new run takes the mark of the last one away. The first open question tells somebody and
    marks nothing: it is shown as long as it is open.
    """
    if after.rest == "error" and before.rest != "error":
        return NOTHING if unread is not None else Edge("error", "error")
    if after.rest == "running" and before.rest != "running":
        asks = after.questions and not before.questions
        return Edge("permission" if asks else None, "clear")
    if after.questions and not before.questions:
        return Edge("permission")
    if after.rest == "idle" and before.rest == "running":
        return NOTHING if unread is not None else Edge("finished", "finished")
    return NOTHING


def concerns_people(record: AgentRecord) -> bool:
    """Whether people are told of this agent: not if it is internal, or works for another one."""
    return not record.internal and PARENT_LABEL not in record.labels


def marked(record: AgentRecord, mark: Literal["finished", "error", "clear"], now: int) -> AgentRecord:
    """The record behind an edge; a mark that a person has made stays."""
    if mark == "clear":
        mine = record.unread is not None and record.unread.reason != "marked"
        return msgspec.structs.replace(record, unread=None) if mine else record
    return record if record.unread is not None else msgspec.structs.replace(record, unread=Unread(mark, now))


def read(record: AgentRecord) -> AgentRecord:
    """The record when somebody has looked."""
    return msgspec.structs.replace(record, unread=None)


def unread(record: AgentRecord, now: int) -> AgentRecord:
    """The record when somebody wants it to be looked at again; one that is marked keeps its reason and time."""
    return record if record.unread is not None else msgspec.structs.replace(record, unread=Unread("marked", now))
