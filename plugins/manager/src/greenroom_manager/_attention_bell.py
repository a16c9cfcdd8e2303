"""Rings the bell of the terminal that the host runs in."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Final, TextIO

BELL: Final = "\a"


def ring(reason: str, reasons: Collection[str], out: TextIO | None = None) -> bool:
    """Ring, if this reason is one to ring for and the output is a terminal; whether it rang."""
    out = sys.stdout if out is None else out
    if reason not in reasons or out.closed or not out.isatty():
        return False
    out.write(BELL)
    out.flush()
    return True
