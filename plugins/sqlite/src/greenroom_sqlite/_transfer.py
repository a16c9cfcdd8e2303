"""Sessions as lines of JSON, and copies of their beginnings. Works on any store."""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator

import anyio
import msgspec

from greenroom.errors import GreenroomError
from greenroom.sessions import (
    PAGE,
    Event,
    EventRefused,
    Header,
    SessionLease,
    SessionStore,
    UnreadableSession,
    Vocabulary,
    event_from_json,
    event_to_json,
    fork_seed,
    header_from_json,
    header_to_json,
)

_CORE = Vocabulary()
_SHA = b'"sha256":"'
_SHA_LENGTH = 64


class _BlobLine(msgspec.Struct, frozen=True):
    """A blob as one JSON object; it stands in front of the first event that refers to it."""

    blob: str
    data: str


async def events_of(store: SessionStore, session_id: str) -> AsyncIterator[Event]:
    """The events of a session, page by page. Raises SessionDamaged where the damage is reached."""
    seq = 0
    while page := await store.read_from(session_id, seq, limit=PAGE):
        for event in page:
            yield event
        seq = page[-1].seq + 1


async def export_lines(store: SessionStore, session_id: str) -> AsyncIterator[bytes]:
    """The header, then each event behind the blobs that it is the first to name; without line ends."""
    yield header_to_json(await store.header(session_id))
    told: set[str] = set()
    async for event in events_of(store, session_id):
        for sha256 in _blobs_in(event):
            if sha256 not in told:
                told.add(sha256)
                data = base64.b64encode(await store.read_blob(session_id, sha256)).decode()
                yield msgspec.json.encode(_BlobLine(sha256, data))
        yield event_to_json(event)


def _blobs_in(event: Event) -> Iterator[str]:
    """The names of the blobs that an event refers to. A text that looks like one is none, if the store has none."""
    at = event.raw.find(_SHA)
    while at >= 0:
        name = event.raw[at + len(_SHA) : at + len(_SHA) + _SHA_LENGTH]
        if len(name) == _SHA_LENGTH and not name.translate(None, b"0123456789abcdef"):
            yield name.decode()
        at = event.raw.find(_SHA, at + 1)


async def import_lines(store: SessionStore, lines: Iterable[bytes], *, session_id: str | None = None) -> Header:
    """Make a session of exported lines, under its own id or the given one. What failed leaves nothing.

    Raises SessionExists, EventRefused or SessionDamaged naming the line, UnreadableSession.
    """
    numbered = enumerate(lines, 1)
    header = header_from_json(next(numbered, (1, b""))[1].strip(), place="line 1")
    if session_id is not None:
        header = msgspec.structs.replace(header, id=session_id)
    lease = await store.create(header)
    try:
        for number, line in numbered:
            if line.strip():
                _import_line(lease, number, line.strip())
                await lease.room()
        if not lease.next_seq:
            raise EventRefused("there is no event behind the header")
    except BaseException:
        with anyio.CancelScope(shield=True):
            await discard(store, lease)
        raise
    await lease.release()
    return header


def _import_line(lease: SessionLease, number: int, line: bytes) -> None:
    try:
        if line.startswith(b'{"blob"'):
            blob = msgspec.json.decode(line, type=_BlobLine)
            if lease.put_blob(base64.b64decode(blob.data, validate=True)).sha256 != blob.blob:
                raise EventRefused("the bytes of the blob do not match its name")
        else:
            event = event_from_json(line)
            entry = _CORE.entries.get(event.type)
            if entry is not None:  # another type's shape is its plugin's, which need not be here
                entry.validate(event.raw)
            lease.append((event,))
    except (msgspec.DecodeError, binascii.Error, EventRefused) as error:
        raise EventRefused(f"line {number}: {error}", session_id=lease.header.id) from error


async def fork(
    store: SessionStore, session_id: str, boundary: int | None = None, *, child_id: str | None = None
) -> Header:
    """Make a session that begins with another's events up to `boundary` (None: all); it must lie outside a turn.

    Raises ForkRefused, SessionExists, SessionNotFound, SessionDamaged.
    """
    parent = await store.header(session_id)
    seed = await fork_seed(store, session_id, boundary)
    now = time.time_ns() // 1_000_000
    header = msgspec.structs.replace(
        parent,
        id=child_id or str(uuid.uuid4()),
        epoch=str(uuid.uuid4()),
        created_at=now,
        parent_session=session_id,
        seed_length=len(seed),
        origin="fork",
    )
    lease = await store.create(header)
    try:
        for sha256 in dict.fromkeys(name for event in seed for name in _blobs_in(event)):
            lease.put_blob(await store.read_blob(session_id, sha256))
            await lease.room()
        for at in range(0, len(seed), PAGE):
            lease.append(seed[at : at + PAGE])
            await lease.room()
        lease.append((Event(len(seed), now, "session/seed-end", b"{}"),))
    except BaseException:
        with anyio.CancelScope(shield=True):
            await discard(store, lease)
        raise
    await lease.release()
    return header


async def discard(store: SessionStore, lease: SessionLease) -> None:
    """Give up a session that was begun; what was written of it goes too."""
    try:
        await lease.release()
        if lease.next_seq:
            await store.delete(lease.header.id)
    except GreenroomError as error:
        raise UnreadableSession(
            f"session {lease.header.id} was begun and could not be removed: {error.args[0]}",
            session_id=lease.header.id,
            hint=f"`greenroom sessions delete {lease.header.id}`",
        ) from error
