"""The hook trace: every outcome of every implementation, in a ring."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from reprlib import Repr
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greenroom._impl import Impl

TRACE_LENGTH: Final = 1_000
"""Outcomes kept; a turn with ten tool calls and ten plugins makes about 400."""

_repr = Repr()
_repr.maxstring = _repr.maxother = 120


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

    `append` takes raw tuples `(impl, nanoseconds, value, error)`, because making
    texts of every value would cost more than the calls themselves.
    """

    __slots__ = ("_ring", "append")

    def __init__(self, length: int = TRACE_LENGTH) -> None:
        self._ring: deque[tuple[Impl, int, object, BaseException | None] | Outcome] = deque(maxlen=length)
        self.append: Final[Callable[[tuple[Impl, int, object, BaseException | None]], None]] = self._ring.append

    def __iter__(self) -> Iterator[Outcome]:
        for entry in tuple(self._ring):
            yield entry if isinstance(entry, Outcome) else _outcome(*entry)

    def __len__(self) -> int:
        return len(self._ring)

    def forget(self, plugin: str) -> None:
        """Turn the plugin's entries into texts, so that they hold none of its objects."""
        for at, entry in enumerate(self._ring):
            if not isinstance(entry, Outcome) and entry[0].plugin == plugin:
                self._ring[at] = _outcome(*entry)


def _outcome(impl: Impl, nanoseconds: int, value: object, error: BaseException | None) -> Outcome:
    return Outcome(
        impl.spec.name,
        impl.plugin,
        impl.generation,
        nanoseconds / 1e9,
        None if value is None else safe_repr(value),
        None if error is None else f"{type(error).__name__}: {safe_text(error)}",
    )


def safe_repr(value: object) -> str:
    """Return a bounded representation; a broken `__repr__` of a plugin never reaches the caller."""
    try:
        return _repr.repr(value)
    except Exception as error:  # noqa: BLE001  # any error of foreign code becomes a text
        return f"<{type(value).__name__}, its repr raised {type(error).__name__}>"


def safe_text(value: object, limit: int = 2_000) -> str:
    """Return `str(value)`, cut at `limit` characters, whatever `__str__` does."""
    try:
        return str(value)[:limit]
    except Exception as error:  # noqa: BLE001  # any error of foreign code becomes a text
        return f"<{type(value).__name__}, its str raised {type(error).__name__}>"
