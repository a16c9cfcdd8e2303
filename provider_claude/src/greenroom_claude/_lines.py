"""Lines out of chunks: only a line feed ends one, and a line may be of any length up to a limit."""

from __future__ import annotations

LIMIT = 64 * 1024 * 1024
"""Bytes of a line that are kept. Frames of 2 MB are ordinary (pictures, large files)."""


class LineBuffer:
    """Sans-IO framing. A line over the limit is dropped and counted, so that one cannot exhaust the memory."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._skipping = False
        self.dropped = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, without their line feeds; empty lines are left out."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._append(part)
            if not self._skipping and self._buffer:
                lines.append(bytes(self._buffer))
            self._buffer.clear()
            self._skipping = False
        self._append(rest)
        return lines

    def end(self) -> bytes | None:
        """What stands behind the last line feed, or None."""
        rest = None if self._skipping else bytes(self._buffer)
        self._buffer.clear()
        return rest or None

    def _append(self, part: bytes) -> None:
        if self._skipping:
            return
        if len(self._buffer) + len(part) > self._limit:
            self._skipping = True
            self.dropped += 1
            self._buffer.clear()
            return
        self._buffer += part
