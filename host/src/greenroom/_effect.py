"""One addition to the host, and how to take it back."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskGroup

if TYPE_CHECKING:
    from greenroom._host import Host
    from greenroom._scope import Scope

Undo = Callable[[], Awaitable[object] | object]
"""Takes an addition back; sync or async, its result is ignored."""


class Ground(Protocol):
    """What every scope of one host stands on."""

    @property
    def host(self) -> Host:
        """The host itself."""

    @property
    def tasks(self) -> TaskGroup:
        """The host's task group, in which the tasks of all scopes live."""

    @property
    def left(self) -> dict[Scope, None]:
        """The scopes that ended without one of their tasks, an ordered set."""

    def report(self, code: str, error: BaseException, scope: Scope) -> None:
        """Take the error of a clean-up or of a background task to the diagnostics."""

    def provide(self, scope: Scope, protocol: type[object], service: object) -> Effect:
        """Offer a service to other plugins."""


class Effect:
    """The undo of one addition; it stands on the list of one scope, or of two.

    Whoever adds gets it back and may undo early; otherwise the scope does it
    when it ends. It runs once, however many ask for it.
    """

    __slots__ = ("_done", "_homes", "_undo", "child", "grace", "label")

    def __init__(self, label: str, undo: Undo, home: Scope, *, child: Scope | None, grace: float | None) -> None:
        """Prepare; `Scope.undo` is the way to make one.

        Args:
            grace: seconds an async undo may take, None where it is bounded in itself.
        """
        self.label: str = label
        self.child: Scope | None = child
        self.grace: float | None = grace
        self._undo: Undo | None = undo
        self._homes = [home]
        self._done: anyio.Event | None = None

    def also(self, scope: Scope) -> None:
        """Undo with `scope` too: it runs when the first of its scopes ends.

        Raises:
            ScopeClosed: `scope` has begun to stop.
        """
        scope._hold(self)  # noqa: SLF001  # the two classes are one mechanism
        self._homes.append(scope)

    def forget(self) -> None:
        """Take it off the lists without running it."""
        self._undo = None
        for home in self._homes:
            home._release(self)  # noqa: SLF001  # the two classes are one mechanism
        self._homes.clear()

    async def aclose(self) -> None:
        """Undo now.

        A second caller waits for the first one's run. Cancellation interrupts
        the undo where it stands; it is not run again.

        Raises:
            Exception: whatever the undo raises, to the caller that ran it.
        """
        undo = self._undo
        if undo is None:
            if self._done is not None:
                await self._done.wait()
            return
        self._undo = None
        self._done = anyio.Event()
        try:
            result = undo()
            if inspect.isawaitable(result):
                await result
        finally:
            # Only now: a scope that ends meanwhile must not be gone before this is.
            self.forget()
            self._done.set()


@dataclass(frozen=True, slots=True)
class EffectTree:
    """What a scope holds, for people and for leak checks; compares by content."""

    label: str
    children: tuple[EffectTree, ...] = ()

    def __str__(self) -> str:
        below = "".join(f"\n{line}" for child in self.children for line in str(child).splitlines())
        return self.label + below.replace("\n", "\n  ")

    def count(self) -> int:
        """Return the number of effects below this label."""
        return sum(1 + child.count() for child in self.children)
