"""The command of the endpoint: `serve`. The work is done in a module that is imported when it runs."""

from __future__ import annotations

import sys

import click

from greenroom.cli import CliState

__all__ = ["serve"]


@click.command(epilog="Example: greenroom serve")
@click.pass_obj
def serve(state: CliState) -> None:
    """Serve this data directory: keep agents alive that other commands start, follow and answer.

    Runs in the foreground until Ctrl-C or SIGTERM; agents are closed then, their sessions stay. A second Ctrl-C
    leaves at once.
    """
    import anyio

    from greenroom_control.cli._serve import serve_here

    sys.exit(anyio.run(serve_here, state))
