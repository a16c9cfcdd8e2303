"""The background tasks of one scope.

They live in the host's task group, each in a cancel scope of its own, so that a
scope can go on without one that ignores its cancellation: a task group of its
own would wait for it for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from greenroom._context import INITIATOR
from greenroom._foreign import plugins_own

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


class Tasks:
    """What runs for a scope, by name."""

    def __init__(self, group: TaskGroup, failed: Callable[[str, BaseException], None]) -> None:
        """Prepare; tasks that are added before `begin` wait for it.

        Args:
            group: where they run.
            failed: takes the name and the error of one that raised.
        """
        self._group: Final = group
        self._failed: Final = failed
        self._early: list[Callable[[], object]] = []
        self._begun = False
        self._running: Final[dict[anyio.CancelScope, str]] = {}
        self._quiet = anyio.Event()

    @property
    def running(self) -> tuple[str, ...]:
        """The names of those that have begun, or are about to, and have not ended."""
        return tuple(self._running.values()) if self._begun else ()

    def add(self, label: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` without an initiator."""
        # Shielded: a cancelled host closes its scopes in reverse, while cancellation would reach all tasks at once.
        bound = anyio.CancelScope(shield=True)
        self._running[bound] = label

        async def clean() -> None:
            INITIATOR.set(None)
            # `try` is outside: leaving the scope may take the cancellation out of a group and raise the rest.
            try:
                with bound:
                    await work()
            except BaseException as raised:  # noqa: BLE001  # `plugins_own` raises what is not the plugin's
                self._failed(label, plugins_own(raised))
            finally:
                del self._running[bound]
                if not self._running:
                    self._quiet.set()

        self._early.append(lambda: self._group.start_soon(clean, name=label))
        if self._begun:
            self.begin()

    def begin(self) -> None:
        """Start those that were added so far, and from now on each at once."""
        self._begun = True
        while self._early:
            self._early.pop(0)()

    def cancel(self) -> None:
        """Cancel all of them."""
        for bound in self._running:
            bound.cancel()

    async def ended(self, bound: float) -> tuple[str, ...]:
        """Wait at most `bound` seconds for the end of those that were cancelled; shielded.

        Returns:
            The names of those that go on all the same.
        """
        if self.running:
            self._quiet = anyio.Event()
            with anyio.move_on_after(bound, shield=True):
                await self._quiet.wait()
        return self.running
