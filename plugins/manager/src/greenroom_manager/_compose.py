"""Puts the parts together for one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._context import Context
from ._directory import Directory
from ._history import History
from .ways import Ways

if TYPE_CHECKING:
    from greenroom import Scope


def compose(scope: Scope) -> Directory:
    """Make the parts of a host, and start what they do in the background."""
    context = Context(scope)
    ways = Ways(context)
    directory = Directory(context, ways, History(context, ways))
    scope.spawn(context.book.run, name="records")
    scope.spawn(directory.boot, name="reconcile records")
    return directory
