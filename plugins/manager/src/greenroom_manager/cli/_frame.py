"""What the commands of both groups have in common."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Final

import click

as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
agent: Final = click.argument("agent", metavar="ID|last")


def run(command: Callable[..., Awaitable[int]], *arguments: object) -> None:
    """Run a command on its own loop; it returns the exit status."""
    import anyio

    try:
        status = anyio.run(command, *arguments)
    except KeyboardInterrupt:
        status = 130
    if status:
        sys.exit(status)
