"""How much of a line memory holds, and how much is read at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The bounds of one line.

    Attributes:
        keep: rows and patches that stay in memory; the older half goes at twice as many. Five pages.
        keep_bytes: the same bound in bytes, so that large rows do not make it large.
        inbox: events that wait for a reader; when more came, they are read from the log instead.
        enough: rows, or entries of the projected end, that a line is opened with: a page and a bit.
        chunk: events that are read at a time: two or three pages, some tenths of a millisecond.
        large_chunk: the same where everything is asked for.
        entries: finished entries of the projected end that stay; older ones go at four times as many. The turn
            that is open stays whole.
    """

    keep: int = 1_024
    keep_bytes: int = 4 * 1024 * 1024
    inbox: int = 4_096
    enough: int = 256
    chunk: int = 512
    large_chunk: int = 4_096
    entries: int = 1_024


SIZES = Sizes()
"""What is used unless a test wants to see the borders."""
