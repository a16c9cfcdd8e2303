"""One request while it is carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from greenroom import Host

from ._desk import Desk
from ._outbox import Outbox
from ._wire import Updates, encode, line

P = TypeVar("P", bound=Struct)


class Call(Generic[P]):
    """What a method gets.

    Attributes:
        desk: the host.
        client: a name for the connection.
        params: the parameters, checked.
        stop: ends another request of the same client by its id; False if there is none.
    """

    def __init__(
        self,
        desk: Desk,
        client: str,
        request_id: int | str,
        params: P,
        outbox: Outbox,
        stop: Callable[[int | str], bool],
    ) -> None:
        self.desk = desk
        self.client = client
        self.id = request_id
        self.params = params
        self.stop = stop
        self._outbox = outbox
        self._updates = Updates(request_id)

    @property
    def host(self) -> Host:
        """The host."""
        return self.desk.host

    def opened(self, result: object) -> None:
        """Say that a subscription has begun."""
        self._outbox.put(line(self.id, "result", encode(result)))

    async def update(self, body: bytes) -> None:
        """Say one thing of a subscription; waits for a client that does not read."""
        self._outbox.put(self._updates.line(body))
        if self._outbox.full:
            await self._outbox.room()

    def progress(self, kind: str, **more: object) -> None:
        """Say how far a call is; to a client that does not read, nothing."""
        if not self._outbox.full:
            self._outbox.put(line(self.id, "progress", encode({"kind": kind, **more})))


@dataclass(frozen=True, slots=True)
class Method(Generic[P]):
    """One method of the protocol. `call` answers once; `stream` says `opened`, then updates, until it returns."""

    name: str
    params: type[P]
    kind: Literal["call", "stream"]
    run: Callable[[Call[P]], Awaitable[object]]

    def read(self, raw: msgspec.Raw) -> P:
        """The parameters. Raises msgspec.ValidationError, msgspec.DecodeError."""
        return msgspec.json.decode(raw, type=self.params)
