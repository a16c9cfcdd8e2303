"""The form of the protocol: JSON lines, and the bytes of each kind of message. No input or output."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

PROTOCOL: Final = 1
"""Raised when an older client could misread what it gets. New methods, parameters and fields do not raise it."""

MAX_LINE: Final = 4 << 20
"""Bytes of a line that a host takes: an event holds at most 1 MiB, and escapes in JSON may make more of it."""

ABSENT: Final = Raw()
"""What stands for a part that is not there."""
_NOTHING: Final = Raw(b"{}")


class Request(Struct, frozen=True):
    """What a client sends. `id` is its own choice and stands in everything that answers it."""

    id: int | str
    method: str
    params: Raw = _NOTHING


class Refusal(Struct, frozen=True, omit_defaults=True):
    """Why something was not done: a code for programs, a sentence and a hint for people."""

    code: str
    message: str
    hint: str | None = None


class Incoming(Struct, frozen=True):
    """What a client gets; exactly one of the parts beside `id` is there, the others are `ABSENT`."""

    id: int | str | None = None
    result: Raw = ABSENT
    error: Refusal | None = None
    update: Raw = ABSENT
    progress: Raw = ABSENT
    end: Raw = ABSENT


encode: Final = msgspec.json.Encoder().encode
read_request: Final = msgspec.json.Decoder(Request).decode
read_incoming: Final = msgspec.json.Decoder(Incoming).decode
read_object: Final = msgspec.json.Decoder(dict[str, object]).decode


def line(request_id: int | str | None, part: str, body: bytes) -> bytes:
    """One message: what it answers, and one part."""
    return b'{"id":%b,"%b":%b}\n' % (encode(request_id), part.encode(), body)


class Updates:
    """Makes the lines of one subscription; what is said is encoded once by whoever says it, for all clients."""

    __slots__ = ("_head",)

    def __init__(self, request_id: int | str) -> None:
        self._head = b'{"id":%b,"update":' % encode(request_id)

    def line(self, body: bytes) -> bytes:
        """One update."""
        return self._head + body + b"}\n"


class Lines:
    """Cuts a stream of bytes into lines; holds less than one line, and never more than the limit.

    Args:
        limit: bytes of the longest line; None for a peer that is trusted.
    """

    def __init__(self, limit: int | None = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """The lines that are complete now, without their ends; None stands for one that was too long."""
        *whole, rest = data.split(b"\n")
        found = [self._finish(part) for part in whole]
        self._hold(rest)
        return found

    def _finish(self, last: bytes) -> bytes | None:
        if not self._parts and not self._skipping and (self._limit is None or len(last) <= self._limit):
            return last
        self._hold(last)
        text = None if self._skipping else b"".join(self._parts)
        self._parts, self._size, self._skipping = [], 0, False
        return text

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._limit is not None and self._size > self._limit:
            self._parts, self._skipping = [], True
        elif part:
            self._parts.append(part)
