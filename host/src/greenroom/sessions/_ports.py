"""What a session is given from outside: who judges, who listens, clocks, ids, and where errors go."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from greenroom.sessions._event import Event
from greenroom.sessions.vocabulary import JsonValue

Observer: TypeAlias = Callable[[Event], object]
Report: TypeAlias = Callable[[Exception, str], None]
"""Gets what a contained observer raised, and what it was."""


class Validator(Protocol):
    """Looks at each event before it is committed."""

    def stage(self, event: Event, data: JsonValue) -> None:
        """Judge the candidate; raise to veto it. What a veto left staged is overwritten by the next candidate."""
        ...

    def commit(self) -> None:
        """The staged candidate was committed. Cannot fail."""
        ...

    def replay(self, events: Sequence[Event]) -> None:
        """Start over from these events of the log: those of folded types, and the open turn."""
        ...


def wall_clock() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def random_id() -> str:
    """A random UUID."""
    return str(uuid.uuid4())


def log_error(error: Exception, what: str) -> None:
    """Report a contained error to the logger `greenroom.sessions`."""
    logging.getLogger("greenroom.sessions").error("%s failed", what, exc_info=error)


@dataclass(frozen=True, slots=True)
class Ports:
    """Time (milliseconds since the epoch), fresh ids, and where contained errors go."""

    clock: Callable[[], int] = wall_clock
    new_id: Callable[[], str] = random_id
    report: Report = log_error
