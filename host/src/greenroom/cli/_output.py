"""How commands answer: tables, JSON, errors and questions."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from pathlib import PurePath
from typing import IO, NoReturn

import click

from greenroom.errors import GreenroomError


def emit_json(value: object) -> None:
    """Print a value as JSON, in ASCII, so that no terminal and no pipe can break it.

    Dataclasses become objects; paths, dates, infinities and the like become strings.

    Raises:
        TypeError: something in it has no JSON form.
    """
    click.echo(json.dumps(_plain(value), indent=2))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: drawn by rich on a terminal that has it, else as aligned columns.

    None is shown as `-`; control characters are escaped, since a cell may come from foreign metadata.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    if _is_terminal(sys.stdout) and _draw(headers, cells):
        return
    widths = [max(map(_width, column)) for column in zip(headers, *cells, strict=True)]
    for row in (headers, *cells):
        padded = [text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=True)]
        click.echo("  ".join(padded).rstrip())


def warn(warnings: Iterable[str]) -> None:
    """Print warnings to stderr, a line each."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def fail(message: str, *, hint: str | None = None) -> NoReturn:
    """End the command with `error: message`, its hint, and exit status 1.

    Raises:
        GreenroomError: always.
    """
    raise GreenroomError(message, hint=hint)


def interactive() -> bool:
    """Whether there is a person to ask: both the input and the place where questions go are a terminal."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def confirm(question: str, *, instead: str) -> bool:
    """Ask yes or no on the terminal; the default is no.

    Args:
        question: without the question mark's answer, such as `Remove it?`.
        instead: the command that does it without asking, for the error below.

    Raises:
        GreenroomError: there is no terminal; at once, nothing is waited for.
    """
    if not interactive():
        fail(f"this asks {question!r} and there is no terminal", hint=f"without asking: {instead}")
    return click.confirm(question, default=False, err=True)


def show_error(error: GreenroomError) -> None:
    """Print an error and its hint to stderr."""
    message = str(error.args[0]) if error.args else type(error).__name__
    click.echo(f"error: {escape(message, keep=chr(10))}", err=True)
    if error.hint:
        click.echo(f"hint: {escape(error.hint, keep=chr(10))}", err=True)


def _is_terminal(stream: IO[str] | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _draw(headers: Sequence[str], cells: list[list[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:  # the extra `cli` is not installed
        return False
    drawn = Table(*headers, box=None, header_style="bold", pad_edge=False)
    for row in cells:
        drawn.add_row(*map(Text, row))
    Console().print(drawn)
    return True


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(str(value))


def escape(text: str, keep: str = "") -> str:
    """A text without what could drive the terminal; `keep` names control characters that may stay."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def _plain(value: object) -> object:
    """Data as JSON has it, at all depths; `json` alone would write NaN and infinities, which are no JSON."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON form")
