"""Asks the person at the terminal, without a thread: a question that is withdrawn stops waiting."""

from __future__ import annotations

import os
import sys

import anyio
import click

from greenroom.cli import interactive
from greenroom.providers import PermissionAllow, PermissionDeny, PermissionRequest, PermissionResponse

from ._transcript import clean

YES = frozenset({"y", "yes"})


async def decide(request: PermissionRequest, *, ask: bool) -> PermissionResponse:
    """The person's answer to a question; a denial, with a line that says so, if nobody can be asked.

    Cancelled: nothing was answered, and what was typed so far stays on the terminal's line.
    """
    what = clean(request.title or request.description or request.name)
    if not ask or not interactive():
        click.secho(f"denied without asking: {what} (there is no terminal)", fg="yellow", err=True)
        return PermissionDeny(message="nobody can be asked: the agent runs without a terminal")
    sys.stdout.flush()
    click.secho(f"allow {what}? [y/N] ", fg="yellow", nl=False, err=True)
    try:
        answer = await _line()
    except anyio.get_cancelled_exc_class():
        click.echo(err=True)
        raise
    if answer.strip().lower() in YES:
        return PermissionAllow()
    return PermissionDeny(message="the user said no")


async def _line() -> str:
    """What is typed, empty at the end of input. A terminal gives whole lines."""
    await anyio.wait_readable(sys.stdin)
    return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")
