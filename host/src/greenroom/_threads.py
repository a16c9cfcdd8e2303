"""The worker threads of hooks: their own, so that a plugin that hangs in them takes none of the host's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from greenroom._impl import Impl

THREADS: Final = 40
"""Calls at once, as many as anyio gives to everybody else; they wait for I/O, so cores are no measure."""


class Threads:
    """Which calls run in threads, and which go on after their time-out."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None
        self.running: Final[dict[ThreadCall, str]] = {}
        self.late: Final[dict[ThreadCall, str]] = {}

    @property
    def overdue(self) -> dict[str, int]:
        """`plugin: hook` of those that go on after their time-out, with their number."""
        return dict(Counter(tuple(self.late.values())))

    @property
    def limiter(self) -> anyio.CapacityLimiter:
        """Made when a loop runs."""
        self._limiter = self._limiter or anyio.CapacityLimiter(THREADS)
        return self._limiter

    def call(self, impl: Impl, arguments: tuple[object, ...]) -> ThreadCall:
        """Prepare a call; awaiting it makes it, in a thread."""
        return ThreadCall(self, impl, arguments)

    def why_late(self, impl: Impl, pending: object) -> str:
        """Why a call was not answered within its time-out."""
        if isinstance(pending, ThreadCall) and not pending.started and len(self.running) >= THREADS:
            return f"no thread was free for {impl.timeout:g} s: {self.holders()}"
        return f"no answer within {impl.timeout:g} s"

    def holders(self) -> str:
        """Who has the threads."""
        return ", ".join(f"{who} ({count})" for who, count in Counter(tuple(self.running.values())).most_common())


class ThreadCall:
    """One call in a worker thread, which goes on when it is given up."""

    __slots__ = ("_arguments", "_finished", "_given_up", "_impl", "_threads", "started")

    def __init__(self, threads: Threads, impl: Impl, arguments: tuple[object, ...]) -> None:
        self._threads, self._impl, self._arguments = threads, impl, arguments
        self.started = self._finished = self._given_up = False

    def __await__(self) -> Generator[Any, Any, object]:
        """Make the call. Cancelled: the thread goes on, and is overdue. Raises GreenroomError if no thread is left."""
        return self._run().__await__()

    async def _run(self) -> object:
        threads = self._threads
        # Whether a thread that was given up keeps its place in the limiter depends on the loop.
        if len(threads.late) >= THREADS:
            raise GreenroomError(f"no thread is free: {threads.holders()}", hint="a thread cannot be ended: restart")
        try:
            return await anyio.to_thread.run_sync(self._work, abandon_on_cancel=True, limiter=threads.limiter)
        finally:
            # Loop and thread race here. Each says what it did before it looks at what the
            # other did, so a call that goes on is always named, and one that ended never.
            self._given_up = True
            if self.started and not self._finished:
                threads.late[self] = self._named
            if self._finished:
                threads.late.pop(self, None)

    @property
    def _named(self) -> str:
        return f"{self._impl.plugin}: {self._impl.spec.name}"

    def _work(self) -> object:
        self.started = True
        self._threads.running[self] = self._named
        try:
            return None if self._given_up else self._impl.call(*self._arguments)
        finally:
            self._finished = True
            self._threads.running.pop(self, None)
            self._threads.late.pop(self, None)
