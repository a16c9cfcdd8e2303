"""What a provider session gets from the driver: a way to speak, and what belongs to its agent."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from greenroom.agents import process_started
from greenroom.errors import GreenroomError
from greenroom.providers import OwnedProcess, ProviderEvent, ToolEndpoint
from greenroom.sessions import Message, ProviderProcess

if TYPE_CHECKING:
    from greenroom.agents import AgentScope

    from ._pump import Pump

MARKER: Final = "GREENROOM_AGENT_ID"
"""The variable by which every process of a session is found again, with the lease's marker as its value."""


class Steps(Protocol):
    """What a host-stepped provider asks of the driver."""

    async def next_step(self) -> Sequence[Message] | None: ...
    async def stopping(self) -> bool: ...


class Link:
    """The link of one provider session; see `greenroom.providers.ProviderLink`."""

    def __init__(
        self,
        pump: Pump,
        scope: AgentScope,
        steps: Steps,
        lost: Callable[[Link, str, str, str | None], None],
        environment: Mapping[str, str],
    ) -> None:
        self._pump = pump
        self._scope = scope
        self._steps = steps
        self._lost = lost
        self._over = False
        self._owns = False
        self._tasks: set[anyio.CancelScope] = set()
        self.emit: Callable[[ProviderEvent], None] = pump.emit
        self.prompt: str | None = None
        self.tools: ToolEndpoint | None = None
        self.env: Mapping[str, str] = {**environment, MARKER: scope.lease.marker}

    async def room(self) -> None:
        """See `ProviderLink.room`."""
        await self._pump.room()

    def spawn(self, task: Callable[[], Awaitable[None]], *, name: str) -> None:
        """See `ProviderLink.spawn`."""
        self._scope.spawn(self._run, task, name=name)

    async def _run(self, task: Callable[[], Awaitable[None]]) -> None:
        with anyio.CancelScope() as own:
            self._tasks.add(own)
            if self._over:
                own.cancel()
            try:
                await task()
            except Exception as error:  # noqa: BLE001 - the provider's own task; its failure is the session's
                text = "".join(traceback.format_exception(error))
                self.lost(f"{type(error).__name__}: {error}", code="provider_crashed", diagnostic=text[-4000:])
            finally:
                self._tasks.discard(own)

    def lost(self, message: str, *, code: str = "provider_exited", diagnostic: str | None = None) -> None:
        """See `ProviderLink.lost`."""
        if self._over:
            return
        self._over = True
        self._pump.post(lambda: self._lost(self, message, code, diagnostic))

    async def owns(self, process: OwnedProcess) -> None:
        """See `ProviderLink.owns`."""
        started = process_started(process.pid)
        if started is not None:  # else it has ended already
            self._owns = True
            await self._scope.lease.set_process(ProviderProcess(process.pid, started, process.group))

    async def next_step(self) -> Sequence[Message] | None:
        """See `ProviderLink.next_step`."""
        return await self._steps.next_step()

    async def stopping(self) -> bool:
        """See `ProviderLink.stopping`."""
        return await self._steps.stopping()

    async def disown(self) -> None:
        """The session's processes are gone: their row is void.

        A store that cannot be told keeps a row whose process has ended, which harms nobody.
        """
        if self._owns:
            self._owns = False
            with contextlib.suppress(GreenroomError):
                await self._scope.lease.set_process(None)

    def close(self) -> None:
        """The session is closed: what it still says does not count, its tasks end."""
        self._over = True
        self.emit = _ignore
        for task in list(self._tasks):
            task.cancel()


def _ignore(_event: ProviderEvent) -> None:
    """A session that is closed has nothing to say."""
