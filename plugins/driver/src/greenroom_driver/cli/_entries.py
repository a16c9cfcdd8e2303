"""`greenroom log --projected`: a session as entries, from a cursor on."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from typing import Final

import click
import msgspec

from greenroom.cli import CliState, fail
from greenroom.sessions.vocabulary import JsonValue
from greenroom.timeline import DEFAULT_LIMIT, Cursor, Entry, Page, TimelineService

from ._run import LAST, newest
from ._transcript import Transcript, summarise

_TEXTS: Final = {"assistant/message": "text", "assistant/reasoning": "reasoning"}


def cursor_of(text: str) -> Cursor:
    """The cursor in `EPOCH:SEQ`, -1 standing before everything. Raises ValueError."""
    epoch, _, seq = text.rpartition(":")
    if not epoch or not seq.removeprefix("-").isdecimal() or int(seq) < -1:
        raise ValueError(f"{text!r} is no cursor: it is written EPOCH:SEQ, as the last line of a page says")
    return Cursor(epoch, int(seq))


async def print_entries(state: CliState, session_id: str, after: Cursor | None, limit: int, as_json: bool) -> None:  # noqa: FBT001 - an option
    """Print the last `limit` entries, or the first ones behind the cursor; all of them if it is 0 or less.

    Raises what the timeline raises.
    """
    async with state.host() as host:
        timeline = host.service(TimelineService)
        if timeline is None:
            fail("no plugin folds sessions into entries", hint="pip install greenroom-timeline")
        session = await newest(host) if session_id == LAST else session_id
        transcript = Transcript(echo_prompts=True)
        async for page in _pages(timeline, session, after, limit):
            if as_json:
                sys.stdout.write(msgspec.json.encode(page).decode() + "\n")
                continue
            for entry in page.entries:
                _show(transcript, entry)
            transcript.finish()
        sys.stdout.flush()
        if not as_json:
            click.secho(f"cursor {page.end.epoch}:{page.end.seq}", dim=True, err=True)


async def _pages(timeline: TimelineService, session: str, after: Cursor | None, limit: int) -> AsyncIterator[Page]:
    left = limit
    if after is None and limit > 0:
        yield await timeline.fetch(session, limit=limit, view="projected")
        return
    while True:
        size = DEFAULT_LIMIT if limit <= 0 else min(left, DEFAULT_LIMIT)
        page = await timeline.fetch(session, cursor=after, direction="after", limit=size, view="projected")
        if page.reset:
            why = "the session was started over since then" if page.stale_cursor else "what followed it is not kept"
            click.secho(f"the cursor means nothing now ({why}): this is the end as it is", fg="yellow", err=True)
        elif after is not None and after.seq >= page.window.next:
            fail(
                f"the cursor {after.epoch}:{after.seq} lies past the end of session {session}",
                hint=f"the end is {page.end.epoch}:{page.end.seq}",
            )
        yield page
        left -= len(page.entries)
        if not page.has_newer or (limit > 0 and left <= 0):
            return
        after = page.end


def _show(transcript: Transcript, entry: Entry) -> None:
    if entry.type in _TEXTS:
        transcript.piece(_TEXTS[entry.type], _words(entry.data["text"]))
        transcript.finish()
    elif entry.type == "tool/call":
        call = entry.data
        what = f"{call.get('name', call['call_id'])} {summarise(call['detail'])}".strip()
        transcript.call(call["status"], what, call.get("error"), call.get("output"))
    else:
        transcript.show_row(entry.type, entry.item)


def _words(text: JsonValue) -> str:
    """A text; what lies in a blob as its size."""
    if isinstance(text, Mapping):
        return f"[{text.get('bytes', '?')} bytes]"
    return text if isinstance(text, str) else "".join(map(_words, text))
