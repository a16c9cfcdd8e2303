"""The endpoint of a host, and its way to the endpoints of others."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketListener, SocketStream
from filelock import FileLock, Timeout

from greenroom import Scope
from greenroom.agents import HostGone, RemoteHost
from greenroom.errors import GreenroomError
from greenroom.sessions import SessionNotFound

from ._address import SERVING, Address, lock_path, private_name, serving_path
from ._client import Remote
from ._connection import Connection
from ._desk import Desk

BACKLOG: Final = 1_024
"""Connections that wait to be accepted, as far as the system allows so many."""
SOON: Final = 2.0
"""Seconds within which an owner that has just taken a session listens at its endpoint."""
AGAIN: Final = 0.05
"""Seconds between two tries."""


class Control:
    """See HostClient; and where other processes are clients of this host.

    A host listens once it owns a session, at an address that stands in the rows of its sessions. One that serves the
    data directory listens at the address that everybody knows.

    Args:
        scope: the plugin's.
        data_directory: None = nobody else can be reached, or reach this host.

    Attributes:
        desk: what clients may reach.
        connections: the clients that are connected.
    """

    def __init__(self, scope: Scope, data_directory: Path | None) -> None:
        self.desk: Final = Desk(scope)
        self._scope = scope
        self._data = data_directory
        self._private = Address(data_directory, private_name()) if data_directory is not None else None
        self._listening = False
        self._clients = 0
        self.connections: set[Connection] = set()
        self._lock: FileLock | None = None

    # our own endpoint

    @property
    def endpoint(self) -> str | None:
        """See HostClient.endpoint."""
        if self._data is not None and self.desk.serving:
            return str(serving_path(self._data))
        return str(self._private.path) if self._private is not None else None

    def owned(self) -> None:
        """This host owns a session: listen, if it does not yet."""
        if self._private is not None and not self._listening and not self.desk.serving:
            self._listening = True
            self._scope.spawn(self._listen, self._private, name="private endpoint")

    async def serve(self) -> str:
        """Serve the data directory from now on; the address. Cancelled: it is not served.

        Raises:
            GreenroomError: another host serves it, or the address cannot be made.
        """
        if self._data is None:
            raise GreenroomError("a host without a data directory cannot be found", hint="give it one")
        address = Address(self._data, SERVING)
        address.prepare()
        lock = FileLock(str(lock_path(self._data)), timeout=0, mode=0o600, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise await self._served_already(self._data) from None
        self._scope.undo(lock.release, label="the right to serve")
        listener = await self._bind(address)
        self.desk.serving = True
        self._scope.spawn(self._accept, listener, name="serving endpoint")
        return str(address.path)

    async def _served_already(self, data: Path) -> GreenroomError:
        who = "another host"
        try:
            with anyio.fail_after(SOON):
                async with Remote(serving_path(data)) as other:
                    who = f"process {other.about.get('pid')}"
        except (GreenroomError, TimeoutError):
            pass  # it is about to begin, or to end
        return GreenroomError(f"{who} serves {data} already", hint="use it (greenroom attach), or end it first")

    async def _listen(self, address: Address) -> None:
        try:
            address.prepare()
            listener = await self._bind(address)
        except (OSError, GreenroomError) as error:  # nobody else can follow; the host's own work goes on
            self.desk.host.diagnostics.failed("endpoint_failed", error)
            return
        await self._accept(listener)

    async def _bind(self, address: Address) -> SocketListener:
        listener = await anyio.create_unix_listener(address.unnamed, mode=0o600, backlog=BACKLOG)
        self._scope.undo(address.remove, label=f"endpoint {address.path.name}")
        address.publish()
        return listener

    async def _accept(self, listener: SocketListener) -> None:
        async with listener, anyio.create_task_group() as tasks:
            await listener.serve(self._client, tasks)

    async def _client(self, stream: SocketStream) -> None:
        self._clients += 1
        connection = Connection(self.desk, stream, f"control-{self._clients}")
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)

    # the endpoints of others

    @asynccontextmanager
    async def owner(self, session_id: str) -> AsyncIterator[RemoteHost | None]:
        """See HostClient.owner. Raises GreenroomError if the owner cannot be reached."""
        async with AsyncExitStack() as stack:
            yield await self._dial_owner(session_id, stack)

    async def _dial_owner(self, session_id: str, stack: AsyncExitStack) -> Remote | None:
        began = anyio.current_time()
        while True:
            try:
                owner = (await self.desk.host.sessions.store.entry(session_id)).owner
            except SessionNotFound:
                return None
            if owner is None or not owner.alive or self.desk.owns(session_id):
                return None
            if owner.endpoint is None:
                if owner.pid == os.getpid():
                    return None
                raise GreenroomError(
                    f"{owner.name} (process {owner.pid}) owns session {session_id} and cannot be talked to",
                    hint="pip install greenroom-control where it runs, or end it",
                )
            if owner.endpoint == self.endpoint:
                return None
            try:
                return await stack.enter_async_context(Remote(Path(owner.endpoint)))
            except HostGone:
                if anyio.current_time() - began > SOON:
                    raise
            await anyio.sleep(AGAIN)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[RemoteHost | None]:
        """See HostClient.serving."""
        async with AsyncExitStack() as stack:
            yield await self._dial_serving(stack)

    async def _dial_serving(self, stack: AsyncExitStack) -> Remote | None:
        if self._data is None or self.desk.serving:
            return None
        try:
            return await stack.enter_async_context(Remote(serving_path(self._data)))
        except HostGone:
            return None
