"""The hook trace: every outcome of every implementation, in a ring."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from greenroom._foreign import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACE_LENGTH: Final = 1_000
"""Outcomes kept; a turn with ten tool calls and ten plugins makes about 400."""

Raw = tuple[tuple[str, str, int], int, object, str | None]
"""`Impl.named`, nanoseconds, value, text of the error: an outcome as the dispatcher records it."""


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

    `append` takes raw tuples, because making texts of every value would cost more
    than the calls themselves. Errors come as texts: their tracebacks would keep
    whole agents alive.
    """

    __slots__ = ("_ring", "append")

    def __init__(self, length: int = TRACE_LENGTH) -> None:
        self._ring: deque[Raw] = deque(maxlen=length)
        self.append: Final[Callable[[Raw], None]] = self._ring.append

    def __iter__(self) -> Iterator[Outcome]:
        for (hook, plugin, generation), nanoseconds, value, error in tuple(self._ring):
            yield Outcome(hook, plugin, generation, nanoseconds / 1e9, _text(value), error)

    def __len__(self) -> int:
        return len(self._ring)

    def forget(self, plugin: str) -> None:
        """Turn the values that came from a plugin into texts, so that none of its objects is held."""
        for at, (named, nanoseconds, value, error) in enumerate(tuple(self._ring)):
            if named[1] == plugin and value is not None:
                self._ring[at] = (named, nanoseconds, _Text(_text(value) or ""), error)


class _Text(str):
    """What is left of a value."""

    __slots__ = ()


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, _Text) else safe_repr(value)
