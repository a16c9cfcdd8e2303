"""The initiator: which agent's asynchronous chain caused the running code. Attribution, never permission.

A boundary sets it for the code inside and restores what was before. The host counts its boundaries, so that closing
can wait until no chain is left that might still name an agent; a chain that closes its own host is excused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

import anyio

from greenroom._context import INITIATOR
from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from greenroom.agents._agent import Agent


class NoInitiator(GreenroomError):
    """Raised when an initiator is required and the running code has none, or its host has closed."""


class Boundary:
    """One entered boundary; `outer` is the one around it in the same chain."""

    __slots__ = ("agent", "outer", "owner")

    def __init__(self, owner: Initiators, agent: Agent | None, outer: Boundary | None) -> None:
        self.owner = owner
        self.agent = agent
        self.outer = outer


_BOUNDARY: Final[ContextVar[Boundary | None]] = ContextVar("greenroom_boundary", default=None)


class Initiators:
    """The boundaries of one host."""

    def __init__(self) -> None:
        self._active: set[Boundary] = set()
        self._closing = False
        self._closed = False
        self._changed = anyio.Event()

    @property
    def closed(self) -> bool:
        """Whether the last boundary has ended: nothing has an initiator of this host any more."""
        return self._closed

    @contextmanager
    def boundary(self, agent: Agent | None) -> Iterator[None]:
        """Run the block with `agent` as its initiator, or without one.

        Never inside an async generator: its consumer would inherit it.

        Raises:
            NoInitiator: the host has begun to close.
        """
        if self._closing:
            raise NoInitiator("the host is closing: no initiator can be set any more")
        entered = Boundary(self, agent, _BOUNDARY.get())
        boundary_token = _BOUNDARY.set(entered)
        initiator_token = INITIATOR.set(agent)
        self._active.add(entered)
        try:
            yield
        finally:
            self._active.discard(entered)
            INITIATOR.reset(initiator_token)
            _BOUNDARY.reset(boundary_token)
            self._changed.set()

    async def aclose(self) -> None:
        """Refuse new boundaries and wait for the others to end, except those of the calling chain.

        Afterwards nothing has an initiator of this host any more. Cancelled: stops waiting, new ones stay refused.
        """
        self._closing = True
        excused = set(_chain())
        while self._active - excused:
            self._changed = anyio.Event()
            await self._changed.wait()
        self._closed = True

    def disable(self) -> None:
        """End it without waiting any longer: a chain that is left names nobody."""
        self._closing = self._closed = True


def current_initiator() -> Agent | None:
    """Return the agent whose chain caused the running code, or None."""
    agent: Agent | None = INITIATOR.get()
    boundary = _BOUNDARY.get()
    if agent is None or (boundary is not None and boundary.owner.closed):
        return None
    return agent


def require_initiator() -> Agent:
    """Return the initiator.

    Raises:
        NoInitiator: there is none, or its host has closed.
    """
    agent = current_initiator()
    if agent is None:
        raise NoInitiator("this code runs on behalf of no agent")
    return agent


@contextmanager
def with_initiator(agent: Agent) -> Iterator[None]:
    """Run the block on behalf of `agent`; see `Initiators.boundary`."""
    with agent.initiators.boundary(agent):
        yield


@contextmanager
def without_initiator() -> Iterator[None]:
    """Run the block on behalf of no agent."""
    token = INITIATOR.set(None)
    try:
        yield
    finally:
        INITIATOR.reset(token)


def _chain() -> Iterator[Boundary]:
    at = _BOUNDARY.get()
    while at is not None:
        yield at
        at = at.outer
