"""The hook trace: every outcome of every implementation, in a ring."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACE_LENGTH: Final = 1_000
"""Outcomes kept; a turn with ten tool calls and ten plugins makes about 400."""

Raw = tuple[tuple[str, str, int], int, str | None, str | None]
"""`Impl.named`, nanoseconds, texts of value and error: an outcome as the dispatcher records it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one implementation did in one call.

    Attributes:
        duration: seconds.
        value, error: bounded texts of what came back, at most one of the two set.
    """

    hook: str
    plugin: str
    generation: int
    duration: float
    value: str | None
    error: str | None


class Trace:
    """A ring of outcomes; the newest `length` are kept.

    `append` takes raw tuples, because it stands on the hottest path of the host. Values and errors come as bounded
    texts: they would keep whole agents alive, and what they say may change later.
    """

    __slots__ = ("_ring", "append")

    def __init__(self, length: int = TRACE_LENGTH) -> None:
        self._ring: deque[Raw] = deque(maxlen=length)
        self.append: Final[Callable[[Raw], None]] = self._ring.append

    def __iter__(self) -> Iterator[Outcome]:
        for (hook, plugin, generation), nanoseconds, value, error in tuple(self._ring):
            yield Outcome(hook, plugin, generation, nanoseconds / 1e9, value, error)

    def __len__(self) -> int:
        return len(self._ring)
