"""`greenroom serve`: a host without a face."""

from __future__ import annotations

import os
import signal
from typing import Final

import anyio
import click

from greenroom import Host
from greenroom.agents import AgentDirectory, HostClient
from greenroom.cli import CliState, fail
from greenroom_control._control import Control

INTERRUPTED: Final = 130
"""Exit status after a second Ctrl-C, as a shell has it: 128 + SIGINT."""


async def serve_here(state: CliState) -> int:
    """Serve until a signal comes; return the exit status.

    Raises:
        GreenroomError: another host serves the data directory, or the endpoint cannot be made.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            stop = anyio.Event()

            async def listen() -> None:
                async for _signal in signals:
                    if stop.is_set():
                        os._exit(INTERRUPTED)
                    stop.set()

            tasks.start_soon(listen)
            async with state.host() as host:
                control = host.service(HostClient)
                if not isinstance(control, Control):
                    fail("the plugin control is not active in this host", hint="greenroom plugins list   says why")
                address = await control.serve()
                _tell(host, address)
                await stop.wait()
                live = len(host.agents.list())
                what = f"closing {live} agents; " if live else ""
                click.secho(f"\n{what}once more to leave at once", dim=True, err=True)
            tasks.cancel_scope.cancel()
    return 0


def _tell(host: Host, address: str) -> None:
    """Say what is served, where, and what is missing."""
    active = [record for record in host.plugins() if record.state == "active"]
    providers = ", ".join(host.providers) or "none"
    click.echo(f"serving {host.data_directory} at {address} (process {os.getpid()})")
    click.echo(f"{len(active)} plugins, providers: {providers}; Ctrl-C ends it")
    if host.service(AgentDirectory) is None:
        click.secho("no plugin keeps agents: pip install greenroom-manager", fg="yellow", err=True)
    for warning in host.warnings:
        click.secho(f"warning: {warning}", fg="yellow", err=True)
