"""Names the plugin that blocks the event loop.

Nothing can interrupt a `def` that runs on the loop, so it has no time-out. What
can be done is to say who it is while it hangs: a daemon thread looks at the mark
that the dispatcher leaves and reports plugin, hook and stack after a second.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from greenroom._impl import Impl

BLOCKING_AFTER: Final = 1.0
"""Seconds on the loop before a `def` implementation is reported (hooks.md)."""

FRAMES: Final = 12
"""Innermost frames in a report; the outer ones are the host's own."""

Mark = tuple["Impl", int]
"""Who is running on the loop, and since when (`time.perf_counter_ns`)."""


class Watchdog:
    """Watches one event loop thread.

    `mark` is written by the dispatcher around each `def` implementation: a plain
    attribute, because this stands on the hottest path of the host.
    """

    def __init__(self, report: Callable[[Impl, float, str], None], *, after: float = BLOCKING_AFTER) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            report: called in the watchdog's thread with the implementation, the
                seconds so far and the stack.
            after: seconds before a report.
        """
        self.mark: Mark | None = None
        self._report = report
        self._after = after
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the calling thread until `stop`."""
        self._stop.clear()
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="greenroom-watchdog", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; returns when it is gone."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, thread: int) -> None:
        reported = 0
        while not self._stop.wait(self._after / 4):
            reported = self._look(thread, reported)

    def _look(self, thread: int, reported: int) -> int:
        """Report the running call once; returns its start, and keeps nothing of its plugin."""
        mark = self.mark
        if mark is None or mark[1] == reported:
            return reported
        impl, since = mark
        seconds = (time.perf_counter_ns() - since) / 1e9
        frame = sys._current_frames().get(thread)  # noqa: SLF001  # the documented way to another thread's stack
        if seconds < self._after or frame is None:
            return reported
        stack = "".join(traceback.format_stack(frame)[-FRAMES:])
        # A call that ended while we looked was slow too, but this stack would be somebody else's.
        if self.mark is not mark:
            return reported
        self._report(impl, seconds, stack)
        return since
