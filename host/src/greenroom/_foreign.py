"""What the host does with values and errors of foreign code, so that they cannot hurt it."""

from __future__ import annotations

import asyncio
from reprlib import Repr
from typing import Final

from greenroom.errors import PLUGIN_ERRORS

TEXT_LENGTH: Final = 2_000
"""Characters of a text that was made of a foreign value; enough for a message and a hint."""


class _Brief(Repr):
    """Also of a large event or detail only the beginning of each field is looked at."""

    def repr_instance(self, x: object, level: int) -> str:
        names = getattr(type(x), "__struct_fields__", ())
        if not names or "__repr__" in vars(type(x)):
            return super().repr_instance(x, level)
        shown = (f"{name}={self.repr1(getattr(x, name), level - 1)}" for name in names) if level > 0 else ("...",)
        return f"{type(x).__name__}({', '.join(shown)})"


_repr = _Brief()
_repr.maxstring = _repr.maxother = 120
_repr.maxlevel = 3


def plugins_own(raised: BaseException) -> BaseException:
    """Return the error of foreign code; raise cancellation and what else is not its own.

    On asyncio, code that awaits a cancelled future raises a cancellation that nobody
    asked for. Passed on, it would end the caller's task without a word.
    """
    if isinstance(raised, PLUGIN_ERRORS):
        return raised
    # anyio has no word for it; only asyncio's own counter also knows of cancellations from outside anyio.
    task = asyncio.current_task() if isinstance(raised, asyncio.CancelledError) else None
    if task is None or task.cancelling():
        raise raised
    error = RuntimeError("it raised a cancellation that nobody asked for (of a future or task of its own?)")
    error.__cause__ = raised
    return error


def only(group: BaseException) -> BaseException:
    """Return the single error inside nested groups, or the group."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


def note(error: BaseException, text: str) -> None:
    """Add a note once; errors of plugins may be frozen, or one object that is raised again and again."""
    try:
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
    except PLUGIN_ERRORS:  # then it has no note, and is still the error that it is
        pass


def error_text(error: BaseException) -> str:
    """Return the type of an error and its bounded text."""
    return f"{type(error).__name__}: {safe_text(error)}"


def safe_text(value: object, limit: int = TEXT_LENGTH) -> str:
    """Return `str(value)`, cut at `limit` characters, whatever `__str__` does."""
    try:
        return str(value)[:limit]
    except PLUGIN_ERRORS as error:
        return f"<{type(value).__name__}, its str raised {type(error).__name__}>"


def safe_repr(value: object) -> str:
    """Return a bounded representation; a broken `__repr__` of a plugin never reaches the caller."""
    try:
        return _repr.repr(value)[:TEXT_LENGTH]
    except PLUGIN_ERRORS as error:
        return f"<{type(value).__name__}, its repr raised {type(error).__name__}>"
