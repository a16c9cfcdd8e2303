"""Puts the parts together for one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ways as _ways
from ._context import Context
from ._directory import Directory

if TYPE_CHECKING:
    from greenroom import Scope


def compose(scope: Scope) -> Directory:
    """Make the parts of a host, and start what they do in the background."""
    context = Context(scope)
    make = getattr(_ways, "Ways", None)
    directory = Directory(context, make(context) if make is not None else None, None)
    scope.spawn(context.book.run, name="records")
    scope.spawn(directory.boot, name="reconcile records")
    return directory
