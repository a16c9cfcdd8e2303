"""One client of this host, from its first byte to its last."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import ByteStream, TaskGroup

from greenroom.agents import Presence

from ._call import Call, Method
from ._desk import Desk
from ._errors import Refused, refusal
from ._methods import Hello
from ._outbox import Outbox
from ._table import METHODS
from ._wire import MAX_LINE, PROTOCOL, Lines, Request, encode, line, read_request

CHUNK: Final = 64 << 10
OPEN: Final = 256
"""Requests of one client that may be open at a time."""
WORKING: Final = 2.0
"""Seconds after which a call that takes longer says so, and how often it does."""
FAREWELL: Final = 1.0
"""Seconds that the last words to a client may take."""
BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class Connection:
    """Reads requests, runs each in a task of its own, and says what they say. It ends with the client, or with us.

    What a client has begun to ask for is cancelled when it goes: for most methods that only ends the waiting.
    """

    def __init__(self, desk: Desk, stream: ByteStream, name: str) -> None:
        self._desk = desk
        self._stream = stream
        self._name = name
        self._outbox = Outbox()
        self._open: dict[int | str, _Work] = {}
        self._known = self._ticking = False

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._outbox.size

    async def run(self) -> None:
        """Serve the client until it or the host goes; never raises but on cancellation."""
        try:
            async with self._stream, anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, tasks)
                await self._read(tasks)
                with anyio.move_on_after(FAREWELL):
                    await self._outbox.drain()
                tasks.cancel_scope.cancel()
        finally:
            presence = self._desk.host.service(Presence)
            if presence is not None and self._known:
                presence.leave(self._name)

    async def _write(self, tasks: TaskGroup) -> None:
        try:
            await self._outbox.send_to(self._stream)
        except BROKEN:
            tasks.cancel_scope.cancel()

    async def _read(self, tasks: TaskGroup) -> None:
        lines = Lines()
        while True:
            try:
                data = await self._stream.receive(CHUNK)
            except BROKEN:
                tasks.cancel_scope.cancel()
                return
            for text in lines.feed(data):
                await self._outbox.room()
                if text is None:
                    self._refuse(None, Refused("line_too_long", f"a line has at most {MAX_LINE >> 20} MiB"))
                elif text.strip() and not self._take(text, tasks):
                    return

    def _refuse(self, request_id: int | str | None, error: Exception) -> None:
        self._outbox.put(line(request_id, "error", encode(refusal(error))))

    def _take(self, text: bytes, tasks: TaskGroup) -> bool:
        """Begin with a request; False ends the connection."""
        try:
            request = read_request(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._refuse(None, Refused("malformed", f"no request: {error}"))
            return True
        try:
            method = self._admit(request)
            params = method.read(request.params)
            if isinstance(params, Hello):
                self._greet(params)
        except (Refused, msgspec.DecodeError, RecursionError) as error:
            wrong = error if isinstance(error, Refused) else Refused("invalid_params", str(error))
            self._refuse(request.id, wrong)
            return wrong.code != "protocol"
        call = Call(self._desk, self._name, request.id, params, self._outbox, self._stop)
        work = self._open[request.id] = _Work(call, method.kind)
        tasks.start_soon(self._carry_out, method, work)
        if not self._ticking and method.kind == "call":
            self._ticking = True
            tasks.start_soon(self._tick)
        return True

    def _admit(self, request: Request) -> Method[Any]:
        """The method, if the request may be carried out. Raises Refused."""
        if not self._known and request.method != "hello":
            raise Refused("hello_first", "the first request is hello", hint=f"say hello with protocol {PROTOCOL}")
        if request.id in self._open:
            raise Refused("id_in_use", f"request {request.id!r} is not over yet")
        if len(self._open) >= OPEN:
            raise Refused("too_many", f"a client may have {OPEN} requests open")
        method = METHODS.get(request.method)
        if method is None:
            near = get_close_matches(request.method, METHODS, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "docs/protocol.md lists the methods"
            raise Refused("unknown_method", f"there is no method {request.method!r}", hint=hint)
        return method

    def _greet(self, hello: Hello) -> None:
        """The client is known from here on. Raises Refused for another version of the protocol."""
        if hello.protocol != PROTOCOL:
            hint = "install the same version of greenroom-control on both sides"
            text = f"this host speaks version {PROTOCOL} of the protocol, not {hello.protocol}"
            raise Refused("protocol", text, hint=hint)
        presence = self._desk.host.service(Presence)
        if presence is not None and not self._known:
            presence.enter(self._name)
        self._known = True

    def _stop(self, request_id: int | str) -> bool:
        work = self._open.get(request_id)
        if work is not None:
            work.scope.cancel()
        return work is not None

    async def _carry_out(self, method: Method[Any], work: _Work) -> None:
        call, said = work.call, ("end", b"{}")
        try:
            with work.scope:
                result = await method.run(call)
                if method.kind == "call":
                    said = ("result", encode(result))
            self._outbox.put(line(call.id, *said))
        except Exception as error:  # noqa: BLE001 - the client is told, and one request ends no other
            self._failed(call, _only(error))
        finally:
            del self._open[call.id]

    def _failed(self, call: Call[Any], error: Exception) -> None:
        refused = refusal(error)
        if refused.code == "internal":
            self._desk.host.diagnostics.failed("control_failed", error)
        self._outbox.put(line(call.id, "error", encode(refused)))

    async def _tick(self) -> None:
        """Say of calls that take long that they are under way."""
        while any(work.kind == "call" for work in self._open.values()):
            await anyio.sleep(WORKING)
            now = anyio.current_time()
            for work in self._open.values():
                if work.kind == "call" and now - work.since >= WORKING:
                    work.call.progress("working", seconds=round(now - work.since, 1))
        self._ticking = False


class _Work:
    """A request that is carried out."""

    __slots__ = ("call", "kind", "scope", "since")

    def __init__(self, call: Call[Any], kind: str) -> None:
        self.call = call
        self.kind = kind
        self.scope = anyio.CancelScope()
        self.since = anyio.current_time()


def _only(error: Exception) -> Exception:
    """The error that a task group has wrapped."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
