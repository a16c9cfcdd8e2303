"""What is said to one client and not sent yet."""

from __future__ import annotations

from typing import Final

import anyio
from anyio.abc import ByteSendStream

ROOM: Final = 256 << 10
"""Bytes beyond which whoever has more to say waits; about a thousand rows."""


class Outbox:
    """Gathers lines and sends what has gathered at once; holds no more than `ROOM` and what was said last.

    Attributes:
        size: bytes that were not handed to the connection yet.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0
        self._said = anyio.Event()
        self._taken = anyio.Event()

    def put(self, line: bytes) -> None:
        """Say a line."""
        self._parts.append(line)
        self.size += len(line)
        if len(self._parts) == 1:
            self._said.set()

    @property
    def full(self) -> bool:
        """Whether one should wait for `room`."""
        return self.size > ROOM

    async def room(self) -> None:
        """Wait until the client has taken what was said. Cancelled: nothing was said."""
        while self.size > ROOM:
            await self._taken.wait()

    async def drain(self) -> None:
        """Wait until everything was handed to the connection."""
        while self.size:
            await self._taken.wait()

    async def send_to(self, stream: ByteSendStream) -> None:
        """Send for ever. Raises what the stream raises."""
        while True:
            await self._said.wait()
            self._said = anyio.Event()
            data, self._parts = b"".join(self._parts), []
            await stream.send(data)
            self.size -= len(data)
            self._taken.set()
            self._taken = anyio.Event()
