"""Talks to a host in another process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final, Self

import anyio
from anyio.abc import ByteStream

from greenroom.agents import HostGone
from greenroom.sessions.vocabulary import JsonObject

from ._address import reachable
from ._connection import BROKEN, CHUNK
from ._errors import gone, raised
from ._wire import ABSENT, PROTOCOL, Incoming, Lines, encode, read_incoming, read_object

IDLE: Final = 4
"""Connections that are kept for the next call."""


class Line:
    """A connection with one request at a time: nothing has to be sorted, and a slow reader only stops itself."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._lines = Lines(limit=None)
        self._ready: list[bytes | None] = []
        self._at = 0
        self._count = 0

    @classmethod
    async def dial(cls, path: Path) -> tuple[Self, JsonObject]:
        """Connect and say hello; also what the host says of itself. Raises HostGone, GreenroomError."""
        try:
            stream = await anyio.connect_unix(reachable(path))
        except OSError as error:
            raise HostGone(f"nobody listens at {path}: {error.strerror or error}") from error
        line = cls(stream)
        try:
            return line, await line.ask("hello", {"protocol": PROTOCOL})
        except BaseException:
            await line.aclose()
            raise

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Ask once; updates begin behind the answer. Cancelled: the connection is of no use any more."""
        self._count += 1
        body = encode({"id": self._count, "method": method, "params": params})
        try:
            await self._stream.send(body + b"\n")
        except BROKEN as error:
            raise gone("it reads no more") from error
        while True:
            said = await self._next()
            if said.error is not None:
                raise raised(said.error)
            if said.result is not ABSENT:
                return read_object(said.result)

    async def update(self) -> JsonObject | None:
        """The next update of what was asked; None at its end. Cancelled: nothing was taken."""
        while True:
            said = await self._next()
            if said.update is not ABSENT:
                return read_object(said.update)
            if said.error is not None:
                raise raised(said.error)
            if said.end is not ABSENT:
                return None

    async def _next(self) -> Incoming:
        while self._at >= len(self._ready):
            try:
                data = await self._stream.receive(CHUNK)
            except BROKEN as error:
                raise gone("the connection is closed") from error
            self._ready, self._at = self._lines.feed(data), 0
        text = self._ready[self._at]
        self._at += 1
        return read_incoming(text or b"{}")

    async def aclose(self) -> None:
        """Hang up."""
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()


class Remote:
    """See RemoteHost. Each call and each subscription has a connection of its own while it goes on.

    Attributes:
        about: what the host said of itself at the first hello.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[Line] = []
        self.about: JsonObject = {}

    async def __aenter__(self) -> Self:
        """Connect. Raises HostGone if nobody listens, GreenroomError for another version of the protocol."""
        line, self.about = await Line.dial(self._path)
        self._idle.append(line)
        return self

    async def __aexit__(self, *_error: object) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def call(self, method: str, **params: object) -> JsonObject:
        """See RemoteHost.call."""
        line = self._idle.pop() if self._idle else (await Line.dial(self._path))[0]
        try:
            answer = await line.ask(method, params)
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, HostGone):
                self._idle.append(line)
            else:
                await line.aclose()
            raise
        if len(self._idle) < IDLE:
            self._idle.append(line)
        else:
            await line.aclose()
        return answer

    def follow(self, method: str, **params: object) -> AbstractAsyncContextManager[AsyncIterator[JsonObject]]:
        """See RemoteHost.follow."""
        return self._follow(method, params)

    @asynccontextmanager
    async def _follow(self, method: str, params: JsonObject) -> AsyncIterator[AsyncIterator[JsonObject]]:
        line, _about = await Line.dial(self._path)
        try:
            await line.ask(method, params)
            yield _Updates(line)
        finally:
            await line.aclose()


class _Updates:
    """What a subscription gives; an iterator whose `__anext__` may be cancelled and called again."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JsonObject:
        found = await self._line.update()
        if found is None:
            raise StopAsyncIteration
        return found
