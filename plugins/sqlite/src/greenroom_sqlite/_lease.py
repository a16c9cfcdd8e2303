"""The right to write one session of the file."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final

from greenroom.sessions import (
    Barrier,
    Event,
    EventRefused,
    Extras,
    Header,
    Mail,
    ProviderProcess,
    SessionFenced,
    SessionNotLive,
    StoreStalled,
)
from greenroom.sessions.vocabulary import Blob

from ._batch import EVENT_OVERHEAD, MAX_BYTES, Sink
from ._file import StoreFile
from ._ownership import give_back, note_process
from ._reader import read_mail
from ._rows import Encoder
from ._state import State
from ._writer import Channel, Writer

HURRY_BYTES: Final = 1 << 20
"""More than this does not wait for the window."""

ROOM_BYTES: Final = 4 << 20
"""More than this makes a producer wait that asks for room."""


class SqliteLease:
    """See SessionLease. `append` and `put_blob` only queue; the writer's thread does the rest."""

    def __init__(
        self,
        file: StoreFile,
        writer: Writer,
        state: State,
        *,
        barrier: Barrier,
        taken_over: bool,
        torn: int,
        forget: Callable[[SqliteLease], None],
    ) -> None:
        self._file, self._writer, self._forget = file, writer, forget
        self._barrier: Barrier = barrier
        self.channel = Channel(Sink(state, Encoder(state.number, state.id, writer.codes)))
        self._backlog = self.channel.backlog
        self._next_seq = state.next_seq
        self._header, self._token = state.read_header(), state.token
        self._taken_over, self._torn = taken_over, torn
        self._over = self._hurried = False
        self._consumed: set[int] = set()

    @property
    def header(self) -> Header:
        """The session's header."""
        return self._header

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._token

    @property
    def marker(self) -> str:
        """`<session id>:<token>`, for the environment of what the owner starts."""
        return f"{self._header.id}:{self._token}"

    @property
    def next_seq(self) -> int:
        """The seq that the next event must have."""
        return self._next_seq

    @property
    def taken_over(self) -> bool:
        """Whether events may have been shown that are not in the log."""
        return self._taken_over

    @property
    def torn(self) -> int:
        """How many damaged events were dropped when the lease was taken."""
        return self._torn

    def append(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        """See SessionLease.append. After the lease was fenced it raises SessionFenced."""
        backlog, seq, size = self._backlog, self._next_seq, 0
        if self._over or self.channel.fenced is not None:
            self._refuse()
        for event in events:
            if event.seq != seq:
                raise EventRefused(f"{event.type}: seq {event.seq} where {seq} is next", session_id=self._header.id)
            seq += 1
            size += len(event.raw) + EVENT_OVERHEAD
        if extras is not None:
            size += sum(len(write.value or b"") for write in extras.records)
        elif not size:
            return
        queued = backlog.size + size
        if queued > HURRY_BYTES:
            self._hurry(size)
        if backlog.add(events, extras, size):
            self._hurried = False
            self._writer.admit(self.channel)
        self._next_seq = seq
        if extras is not None:
            self._consumed.update(extras.consumed_mail)

    def _hurry(self, size: int) -> None:
        """Do not wait for the window with so much. Raises StoreStalled if it is too much."""
        self._require_space(size)
        if not self._hurried:
            self._hurried = True
            self._writer.hurry()

    def put_blob(self, data: bytes) -> Blob:
        """See SessionLease.put_blob."""
        if self._over or self.channel.fenced is not None:
            self._refuse()
        self._require_space(len(data))
        digest = hashlib.sha256(data).hexdigest()
        if self._backlog.add_blob(digest, bytes(data)):
            self._writer.admit(self.channel)
        return Blob(digest, len(data))

    def _refuse(self) -> None:
        if self.channel.fenced is not None:
            raise self.channel.fenced
        raise SessionNotLive(f"the lease of session {self._header.id} was released", session_id=self._header.id)

    def _require_space(self, size: int) -> None:
        why, queued = self.channel.failed, self._backlog.size
        if queued < MAX_BYTES and (why is None or queued + size <= MAX_BYTES):
            return
        raise StoreStalled(
            f"session {self._header.id} has {queued >> 20} MiB that are not written, {MAX_BYTES >> 20} may wait: "
            + (str(why.args[0]) if why else "the disk is slower than the producer"),
            hint=why.hint if why else "await room() between batches",
        )

    async def flush(self, barrier: Barrier | None = None) -> None:
        """See SessionLease.flush."""
        await self._writer.flush(self.channel, full=(barrier or self._barrier) == "full")

    async def room(self) -> None:
        """See SessionLease.room. It does not wait for a disk that is stalled: `append` says when that is too much."""
        while self._backlog.size > ROOM_BYTES and self.channel.failed is None and self.channel.fenced is None:
            await self._writer.flush(self.channel, full=False, once=True)

    async def set_process(self, process: ProviderProcess | None) -> None:
        """See SessionLease.set_process."""

        def note(connection: sqlite3.Connection) -> None:
            sink = self.channel.sink
            sink.row = note_process(connection, sink.row, process)

        await self._writer.call(note)

    async def mail(self) -> Sequence[Mail]:
        """See SessionLease.mail."""
        number = self.channel.sink.row.number
        found = await self._file.read_async(lambda connection: read_mail(connection, number))
        return [mail for mail in found if mail.id not in self._consumed]

    async def release(self) -> None:
        """See SessionLease.release. A lease that was fenced is over by that; the error is raised once."""
        if self._over:
            return
        try:
            await self.flush()
            await self._writer.call(lambda connection: give_back(connection, self.channel.sink.row))
        except SessionFenced:
            self.end()
            raise
        self.end()

    def end(self) -> None:
        """Nothing can be written any more; what is queued is gone."""
        if not self._over:
            self._over = True
            self._forget(self)
