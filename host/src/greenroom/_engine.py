"""Runs one implementation: time-out, worker thread, watchdog, trace, attribution.

Every kind of call is built from two functions, `attempt` and `attempt_now`: they
return the error instead of raising it, because what an error means is the kind's
affair, and they let cancellation through.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from greenroom._foreign import error_text, note, only, plugins_own, safe_repr
from greenroom._threads import Threads
from greenroom._trace import Trace
from greenroom.errors import HookError

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
        guards: ids of plugins whose absence denies every guarded decision, with
            why they are absent.
    """

    def __init__(self, watchdog: Watchdog, report: Report, trace: Trace) -> None:
        self.trace = trace
        self.watchdog = watchdog
        self.report = report
        self.guards: dict[str, str] = {}
        self._threads = Threads()

    @property
    def overdue(self) -> dict[str, int]:
        """Return `plugin: hook` of worker threads that went on after their time-out, with their number.

        Nothing can end a thread; one that ends by itself is no longer named.
        """
        return self._threads.overdue

    def attempt_now(self, impl: Impl, arguments: tuple[object, ...]) -> Result:
        """Call a `def` implementation on the loop."""
        since = perf_counter_ns()
        value, error = self._on_loop(impl, arguments, since)
        return self.settled(impl, since, value, error)

    def settled(self, impl: Impl, since: int, value: object, error: BaseException | None) -> Result:
        """Record what a `def` returned to a synchronous caller; a coroutine is an error, for nobody awaits it."""
        if value is not None and inspect.iscoroutine(value):
            value.close()
            value, error = None, TypeError("a def implementation returned a coroutine where nobody awaits it")
        return self._recorded(impl, since, value, error)

    async def attempt(self, impl: Impl, arguments: tuple[object, ...], passing: Sequence[BaseException] = ()) -> Result:
        """Call an implementation of either colour, within its time-out.

        Args:
            passing: errors that are not this implementation's when they come out
                of it (those of the body that it wraps).

        Cancellation passes through, also one that the implementation swallowed.
        A value that comes after the time-out because the implementation swallowed
        its cancellation is not used.
        """
        begun = self.begin(impl, arguments, passing)
        return begun if isinstance(begun, tuple) else await begun

    def begin(
        self, impl: Impl, arguments: tuple[object, ...], passing: Sequence[BaseException] = ()
    ) -> Result | Coroutine[Any, Any, Result]:
        """Do as much of `attempt` as needs no waiting: all of it for a `def`; else return the rest."""
        since = perf_counter_ns()
        if impl.options.thread:
            return self._finish(impl, since, self._threads.call(impl, impl.bind(arguments)), passing)
        # An `async def` runs nothing yet. A `def` that returns an awaitable has a caller that awaits.
        value, error = self._on_loop(impl, arguments, since)
        if error is None and value is not None and inspect.isawaitable(value):
            return self._finish(impl, since, value, passing)
        return self._recorded(impl, since, value, error)

    async def _finish(
        self, impl: Impl, since: int, pending: Awaitable[object], passing: Sequence[BaseException]
    ) -> Result:
        value: object = None
        error: BaseException | None = None
        deadline = anyio.current_time() + (math.inf if impl.timeout is None else impl.timeout)
        bounded = anyio.CancelScope(deadline=deadline)
        # `try` is outside: leaving the scope may take the cancellation out of a group and raise the rest.
        try:
            with bounded:
                value = await pending
        except BaseException as raised:  # noqa: BLE001  # `plugins_own` raises what is not the plugin's
            error = plugins_own(raised)
        if bounded.cancelled_caught or (bounded.cancel_called and anyio.current_time() >= deadline):
            late, error = error, TimeoutError(self._threads.why_late(impl, pending))
            error.__cause__ = late
            value = None
        # A task group around the body wraps what passes through it.
        inner = only(error) if error is not None else None
        passed = any(inner is other for other in passing)
        result = (None, inner) if passed else self._recorded(impl, since, value, error)
        await anyio.lowlevel.checkpoint_if_cancelled()
        return result

    def _on_loop(self, impl: Impl, arguments: tuple[object, ...], since: int) -> Result:
        watchdog = self.watchdog
        outer = watchdog.mark
        watchdog.mark = (impl, since)
        try:
            return impl.call(*impl.bind(arguments)), None
        except BaseException as raised:  # noqa: BLE001  # `plugins_own` raises what is not the plugin's
            return None, plugins_own(raised)
        finally:
            watchdog.mark = outer

    def _recorded(self, impl: Impl, since: int, value: object, error: BaseException | None) -> Result:
        took = perf_counter_ns() - since
        said = None if value is None else safe_repr(value)
        self.trace.append((impl.named, took, said, None if error is None else error_text(error)))
        if error is not None:
            note(error, f"in hook {impl.spec.name} of plugin {impl}")
            self.report(impl, error)
        return value, error


def failure(impl: Impl, error: BaseException) -> HookError:
    """Return the error for the caller of a hook whose kind lets the failure through."""
    raised = HookError(
        f"hook {impl.spec.name} failed in plugin {impl}: {error_text(error)}",
        hook=impl.spec.name,
        plugin=impl.plugin,
        generation=impl.generation,
    )
    raised.__cause__ = error
    return raised
