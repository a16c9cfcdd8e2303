"""`greenroom log`: a session as it is stored."""

from __future__ import annotations

import sys
from typing import Final

import anyio

from greenroom.cli import CliState
from greenroom.sessions import event_to_json

from ._run import LAST, newest
from ._transcript import Transcript

PAGE: Final = 500
POLL: Final = 0.2
"""Seconds between two looks at a session that another process writes: its store commits at most that often."""


async def print_log(state: CliState, session_id: str, follow: bool, as_json: bool) -> None:  # noqa: FBT001 - two options
    """Print the events of a session, and with `follow` those that come. Raises what the store raises."""
    async with state.host() as host:
        store = host.sessions.store
        session = await newest(host) if session_id == LAST else session_id
        transcript = Transcript(echo_prompts=True)
        seq = 0
        while True:
            events = await store.read_from(session, seq, limit=PAGE)
            for event in events:
                seq = event.seq + 1
                if as_json:
                    sys.stdout.write(event_to_json(event).decode() + "\n")
                else:
                    transcript.show(event)
            sys.stdout.flush()
            if len(events) < PAGE and not follow:
                return
            if not events:
                await anyio.sleep(POLL)
