"""The life of one agent as a transaction: from the first check to the lease given back, with one way out.

Everything that may end it (its handle, its owner's scope, its factory's scope, the caller's signal) calls the same
`close`. While it is being made that means giving up; afterwards, one memoised teardown that all of them share.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents._errors import AgentError, CreationAborted, DisposeFailed
from greenroom.agents._initiator import current_initiator

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from greenroom._effect import Effect
    from greenroom._scope import Scope
    from greenroom.agents._agent import Agent


class Abort:
    """The caller's signal to give up a creation. It has no power once the handle was returned."""

    def __init__(self) -> None:
        self.reason: object = None
        self._set = False
        self._listeners: list[Callable[[object], None]] = []

    @property
    def aborted(self) -> bool:
        """Whether it was given."""
        return self._set

    def abort(self, reason: object = None) -> None:
        """Give the signal; only the first one counts. `reason` may be anything; an exception becomes the cause."""
        if not self._set:
            self._set, self.reason = True, reason
            for listener in self._listeners:
                listener(reason)

    def listen(self, listener: Callable[[object], None]) -> Callable[[], None]:
        """Call `listener` when the signal is given, at once if it was; returns the undo."""
        if self._set:
            listener(self.reason)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)


class Life:
    """One agent, from before it exists until after it is gone.

    Args:
        session_id: the id that it reserves.
        tasks: the host's task group, in which the teardown runs.
        teardown: ends the published agent; called once.

    Attributes:
        depart: what happens at once when the end is asked for, before the teardown runs.
    """

    def __init__(self, session_id: str, tasks: TaskGroup, teardown: Callable[[Life], Awaitable[None]]) -> None:
        self.session_id: Final = session_id
        self.agent: Agent | None = None
        self.published = False
        self.depart: Callable[[], None] = lambda: None
        self.error: BaseException | None = None
        self.making: Final = anyio.CancelScope()
        self.gone: anyio.Event = anyio.Event()
        self._tasks = tasks
        self._teardown = teardown
        self._why: CreationAborted | None = None
        self._started = False
        self._effect: Effect | None = None

    def belong_to(self, owner: Scope, home: Scope) -> None:
        """End with the owner's scope and with the factory's, whichever ends first; replaces earlier owners."""
        effect = owner.undo(self.close, label=f"life of agent {self.session_id}", grace=None)
        if home is not owner:
            effect.also(home)
        if self._effect is not None:
            self._effect.forget()
        self._effect = effect

    @property
    def ending(self) -> bool:
        """Whether its teardown has begun, or has failed."""
        return self._started or self.error is not None

    def give_up(self, why: str, reason: object = None) -> None:
        """Abort the creation; nothing when it is over."""
        if self.published or self._why is not None:
            return
        error = CreationAborted(f"the creation of agent {self.session_id} was aborted: {why}")
        if isinstance(reason, BaseException):
            error.__cause__ = reason
        elif reason is not None:
            error.__cause__ = AgentError(repr(reason))
        self._why = error
        self.making.cancel()

    def check(self) -> None:
        """Raise CreationAborted if the creation was given up."""
        if self._why is not None:
            raise self._why

    def over(self) -> None:
        """Nothing is left: retire the undos and wake who waits."""
        if self._effect is not None:
            self._effect.forget()
        self.gone.set()

    async def close(self, why: str = "its owner is going") -> None:
        """End it, whatever its state, and wait until it is gone. Cancelled: it ends all the same.

        Raises:
            DisposeFailed: it could not be ended; it keeps its lease.
            AgentError: called from inside the agent's own chain, which it would have to wait for; it was requested.
        """
        if not self.published:
            self.give_up(why)
            await self.gone.wait()
            return
        self.request()
        if self.agent is not None and current_initiator() is self.agent:
            raise AgentError(f"agent {self.session_id} cannot wait for its own end; it has been requested")
        await self.gone.wait()
        if self.error is not None:
            raise DisposeFailed(f"agent {self.session_id} could not be closed: {self.error}") from self.error

    def request(self) -> None:
        """Begin the teardown, or try it again after it failed, without waiting for it."""
        if not self._started:
            self._started = True
            if self.gone.is_set():
                self.gone = anyio.Event()
            self.depart()
            self._tasks.start_soon(self._run, name=f"closing agent {self.session_id}")

    async def _run(self) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._teardown(self)
            except Exception as error:  # noqa: BLE001 - whoever waits gets it; the host's task group must not
                self.error = error
                self._started = False  # a process that would not end may be gone by the next try
                self.gone.set()
            else:
                self.error = None
                self.over()
