"""Asks the person at the terminal, without a thread: a question that is withdrawn stops waiting."""

from __future__ import annotations

import os
import sys

import anyio
import click

from greenroom.agents import AnsweredBy, HeadlessPolicy
from greenroom.cli import interactive
from greenroom.providers import PermissionAllow, PermissionDeny, PermissionRequest, PermissionResponse

from ._transcript import clean

NOBODY = "nobody can be asked: the agent runs without a terminal"


async def decide(
    request: PermissionRequest, *, ask: bool, policy: HeadlessPolicy | None
) -> tuple[PermissionResponse, AnsweredBy]:
    """The answer to a question and who gave it: the person, or, if nobody can be asked, the policy, with a line.

    Cancelled: nothing was answered, and what was typed so far stays on the terminal's line.

    Args:
        ask: whether a person may be asked.
        policy: what answers otherwise; None denies.
    """
    if not ask or not interactive():
        response = policy.answer(request) if policy is not None else PermissionDeny(message=NOBODY)
        word = "allowed" if isinstance(response, PermissionAllow) else "denied"
        click.secho(f"{word} without asking: {_what(request)} (there is no terminal)", fg="yellow", err=True)
        return response, "policy"
    sys.stdout.flush()
    show(request)
    try:
        answer = await _line()
    except anyio.get_cancelled_exc_class():
        click.echo(err=True)
        raise
    return answer_of(answer), "user"


def show(request: PermissionRequest) -> None:
    """Put a question on the terminal."""
    click.secho(f"allow {_what(request)}? [y/N] ", fg="yellow", nl=False, err=True)


def answer_of(line: str) -> PermissionResponse:
    """What the person has typed as an answer; everything but a yes is a no."""
    if line.strip().lower() in ("y", "yes"):
        return PermissionAllow()
    return PermissionDeny(message="the user said no")


def _what(request: PermissionRequest) -> str:
    return clean(request.title or request.description or request.name)


async def _line() -> str:
    """What is typed, empty at the end of input. A terminal gives whole lines."""
    await anyio.wait_readable(sys.stdin)
    return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")
