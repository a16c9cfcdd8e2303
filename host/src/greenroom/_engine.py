"""Runs one implementation: time-out, worker thread, watchdog, trace, attribution.

Every kind of call is built from two functions, `attempt` and `attempt_now`: they
return the error instead of raising it, because what an error means is the kind's
affair, and they let cancellation through.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from greenroom._trace import Trace
from greenroom.errors import PLUGIN_ERRORS, HookError

if TYPE_CHECKING:
    from greenroom._impl import Impl
    from greenroom._watchdog import Watchdog

Report = Callable[["Impl", BaseException], None]
"""Takes a recorded failure to the diagnostics."""

Result = tuple[Any, BaseException | None]
"""The value and None, or None and the error."""


class Engine:
    """What all hooks of a host share.

    Attributes:
        trace: every outcome.
        watchdog: whose `mark` says who blocks the loop.
        overdue: `plugin: hook` of worker threads that went on after their
            time-out, with their number; nothing can end a thread.
        guards: ids of plugins whose absence denies every guarded decision, with
            why they are absent.
    """

    def __init__(self, watchdog: Watchdog, report: Report, trace: Trace) -> None:
        self.trace = trace
        self.watchdog = watchdog
        self.report = report
        self.overdue: dict[str, int] = {}
        self.guards: dict[str, str] = {}

    def attempt_now(self, impl: Impl, arguments: tuple[object, ...]) -> Result:
        """Call a `def` implementation on the loop."""
        watchdog = self.watchdog
        outer = watchdog.mark
        since = perf_counter_ns()
        watchdog.mark = (impl, since)
        value: Any = None
        error: BaseException | None = None
        try:
            value = impl.call(*impl.bind(arguments))
        except PLUGIN_ERRORS as raised:
            error = raised
        finally:
            watchdog.mark = outer
        if value is not None and inspect.iscoroutine(value):
            value.close()
            value, error = None, TypeError("a def implementation returned a coroutine where nobody awaits it")
        return self._recorded(impl, since, value, error)

    async def attempt(self, impl: Impl, arguments: tuple[object, ...], passing: Sequence[BaseException] = ()) -> Result:
        """Call an implementation of either colour, within its time-out.

        Args:
            passing: errors that are not this implementation's when they come out
                of it (those of the body that it wraps).

        Cancellation passes through. A value that comes after the time-out
        because the implementation swallowed its cancellation is not used.
        """
        if not impl.is_async and not impl.options.thread:
            value, error = self._call_on_loop(impl, arguments)
            if error is not None or not inspect.isawaitable(value):
                return value, error
            pending = value
        else:
            pending = None
        since = perf_counter_ns()
        value = None
        error = None
        deadline = anyio.current_time() + (math.inf if impl.timeout is None else impl.timeout)
        with anyio.CancelScope(deadline=deadline) as bounded:
            try:
                value = await (pending if pending is not None else self._start(impl, arguments))
            except PLUGIN_ERRORS as raised:
                error = raised
        if bounded.cancelled_caught or (bounded.cancel_called and anyio.current_time() >= deadline):
            value, error = None, TimeoutError(f"no answer within {impl.timeout:g} s")
        if any(error is other for other in passing):
            return None, error
        return self._recorded(impl, since, value, error)

    def _call_on_loop(self, impl: Impl, arguments: tuple[object, ...]) -> Result:
        """Call a `def`; an awaitable that it returns is handed on, for its caller may await it."""
        watchdog = self.watchdog
        outer = watchdog.mark
        since = perf_counter_ns()
        watchdog.mark = (impl, since)
        try:
            value = impl.call(*impl.bind(arguments))
        except PLUGIN_ERRORS as raised:
            return self._recorded(impl, since, None, raised)
        finally:
            watchdog.mark = outer
        if inspect.isawaitable(value):
            return value, None
        return self._recorded(impl, since, value, None)

    def _start(self, impl: Impl, arguments: tuple[object, ...]) -> Awaitable[object]:
        bound = impl.bind(arguments)
        if impl.options.thread:
            return self._in_thread(impl, bound)
        return cast("Awaitable[object]", impl.call(*bound))

    async def _in_thread(self, impl: Impl, bound: tuple[object, ...]) -> object:
        key = f"{impl.plugin}: {impl.spec.name}"
        finished = False

        def work() -> object:
            nonlocal finished
            try:
                return impl.call(*bound)
            finally:
                finished = True
                # Only a call that was given up has been counted.
                if self.overdue.get(key):
                    self.overdue[key] -= 1

        try:
            return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            if not finished:
                self.overdue[key] = self.overdue.get(key, 0) + 1

    def _recorded(self, impl: Impl, since: int, value: object, error: BaseException | None) -> Result:
        self.trace.append((impl, perf_counter_ns() - since, value, error))
        if error is not None:
            note = f"in hook {impl.spec.name} of plugin {impl}"
            if note not in getattr(error, "__notes__", ()):
                error.add_note(note)
            self.report(impl, error)
        return value, error


def failure(impl: Impl, error: BaseException) -> HookError:
    """Return the error for the caller of a hook whose kind lets the failure through."""
    raised = HookError(
        f"hook {impl.spec.name} failed in plugin {impl}: {type(error).__name__}: {error}",
        hook=impl.spec.name,
        plugin=impl.plugin,
        generation=impl.generation,
    )
    raised.__cause__ = error
    return raised
