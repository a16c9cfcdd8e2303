"""When a batch is written: the first event opens a window of fixed length, and nothing extends it."""

from __future__ import annotations


class Window:
    """Times are seconds of any monotonic clock; the caller brings them along.

    `length` is how long the first event waits for company.
    """

    def __init__(self, length: float) -> None:
        self._length = length
        self._deadline: float | None = None

    def admit(self, at: float) -> None:
        """Something was queued at that time. It opens a window if there is none and changes nothing otherwise."""
        if self._deadline is None:
            self._deadline = at + self._length

    def due(self, now: float) -> bool:
        """Whether the window is over."""
        return self._deadline is not None and now >= self._deadline

    def remaining(self, now: float) -> float | None:
        """Seconds until it is over, None while nothing waits."""
        return None if self._deadline is None else max(self._deadline - now, 0)

    def close(self) -> None:
        """What waited is taken; the next event opens a new window, which counts from that event."""
        self._deadline = None
