"""`greenroom log`: a session as it is stored, and as it goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import anyio
import click

from greenroom import Host
from greenroom.cli import CliState
from greenroom.errors import GreenroomError
from greenroom.sessions import Event, event_to_json

from ._remote import owner_of
from ._run import LAST, newest
from ._transcript import Transcript

PAGE: Final = 500
POLL: Final = 0.2
"""Seconds between two looks at a session of a process that cannot be asked: its store commits at most that often."""


async def print_log(state: CliState, session_id: str, follow: bool, as_json: bool) -> None:  # noqa: FBT001 - two options
    """Print the events of a session, and with `follow` those that come. Raises what the store raises."""
    async with state.host() as host:
        session = await newest(host) if session_id == LAST else session_id
        log = _Log(host, session, as_json=as_json)
        await log.print_stored()
        while follow:
            with suppress(GreenroomError):  # nobody who could tell more than the store does, or not any more
                await log.print_told()
            await log.print_stored()
            await anyio.sleep(POLL)


class _Log:
    """Prints the events of one session, each once."""

    def __init__(self, host: Host, session_id: str, *, as_json: bool) -> None:
        self._host = host
        self._session = session_id
        self._as_json = as_json
        self._transcript = Transcript(echo_prompts=True)
        self._seq = 0

    async def print_stored(self) -> None:
        """What the store holds and was not printed yet."""
        store = self._host.sessions.store
        while events := await store.read_from(self._session, self._seq, limit=PAGE):
            self._print(events)

    async def print_told(self) -> None:
        """What the owner says while it has the session; at once if nobody else has it."""
        async with owner_of(self._host, self._session) as owner:
            if owner is None:
                return
            try:
                async with owner.events(self._seq) as events:
                    async for event in events:
                        self._print([event])
            finally:
                await self._forget_lost()

    async def _forget_lost(self) -> None:
        """Go back to what is stored: a host that was killed has said more than it stored, and that is gone."""
        with anyio.CancelScope(shield=True):
            entry = await self._host.sessions.store.entry(self._session)
        if entry.next_seq < self._seq and (entry.owner is None or not entry.owner.alive):
            lost, self._seq = self._seq - entry.next_seq, entry.next_seq
            click.secho(f"\nthe host is gone, and the last {lost} events with it", fg="yellow", err=True)

    def _print(self, events: Iterable[Event]) -> None:
        for event in events:
            self._seq = event.seq + 1
            if self._as_json:
                sys.stdout.write(event_to_json(event).decode() + "\n")
            else:
                self._transcript.show(event)
        sys.stdout.flush()
