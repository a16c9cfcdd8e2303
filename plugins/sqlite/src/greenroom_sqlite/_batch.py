"""What a lease has queued, and how one batch of it is written."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from greenroom.sessions import Event, Extras, RecordConflict, SessionFenced

from ._records import write_record
from ._rows import INSERT_KEY, Encoder, first_id, fold, header_crc, insert, key_spans, sum_spans
from ._state import State

MAX_BYTES: Final = 16 << 20
"""The bounded batch, so that a full disk cannot take the memory too.

A store that works takes any one batch on top of less than that: the replay of a history is one transaction. A store
that is stalled takes nothing beyond it.
"""

_PART: Final = 4096
"""Events that are made into rows at a time."""

EVENT_OVERHEAD: Final = 200
"""Bytes that an event takes beside its payload, roughly."""


@dataclass(slots=True)
class Batch:
    """Things to be written in one transaction, in this order: blobs, events, extras."""

    events: list[Event] = field(default_factory=list)
    blobs: list[tuple[str, bytes]] = field(default_factory=list)
    extras: list[Extras] = field(default_factory=list)
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.events or self.blobs or self.extras)

    def absorb(self, later: Batch) -> None:
        """Take what was queued behind it."""
        self.events.extend(later.events)
        self.blobs.extend(later.blobs)
        self.extras.extend(later.extras)
        self.size += later.size


class Backlog:
    """The queue between the loop, which adds, and the writer's thread, which takes; the lock is held for moments.

    What is taken stays readable, and is offered again, until it was written.

    Attributes:
        size: about how many bytes of memory it takes.
        signalled: the writer knows that there is something to take.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue, self._flight = Batch(), Batch()
        self.signalled = False
        self.size = 0

    def add(self, events: Sequence[Event], extras: Extras | None, size: int) -> bool:
        """Queue a batch; true if the writer has to be told."""
        with self._lock:
            queue = self._queue
            queue.events.extend(events)
            queue.size += size
            self.size += size
            if extras is not None:
                queue.extras.append(extras)
            if self.signalled:
                return False
            self.signalled = True
            return True

    def add_blob(self, sha256: str, data: bytes) -> bool:
        """Queue a blob; true if the writer has to be told."""
        with self._lock:
            self._queue.blobs.append((sha256, data))
            self._queue.size += len(data)
            self.size += len(data)
            first, self.signalled = not self.signalled, True
            return first

    def take(self) -> Batch:
        """Everything that is not written, for the writer."""
        with self._lock:
            self.signalled = False
            if self._queue:
                self._flight.absorb(self._queue)
                self._queue = Batch()
            return self._flight

    def written(self) -> None:
        """What was taken is in the file."""
        with self._lock:
            self.size -= self._flight.size
            self._flight = Batch()

    def unwritten(self) -> Batch:
        """A copy of everything that is not written, for readers."""
        with self._lock:
            found = Batch()
            found.absorb(self._flight)
            found.absorb(self._queue)
            return found

    def __bool__(self) -> bool:
        return bool(self._queue or self._flight)


@dataclass(slots=True)
class Sink:
    """Where a lease writes: the state of its session, and what its rows are made with."""

    row: State
    encoder: Encoder

    def write(self, connection: sqlite3.Connection, batch: Batch) -> tuple[State, list[RecordConflict]]:
        """Write a batch in the caller's transaction; the new state, and the records that were not at their revision.

        Raises SessionFenced, with nothing written, if the lease or the tail moved.
        """
        state = self.row
        self._compare(connection)
        for sha256, data in batch.blobs:
            connection.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?, ?)", (sha256, state.number, data))
        if batch.events:
            state = self._write_events(connection, batch.events)
        return state, _write_extras(connection, batch.extras)

    def _compare(self, connection: sqlite3.Connection) -> None:
        number, token, tail = self.row.number, self.row.token, self.row.next_seq
        found = connection.execute("SELECT token, next_seq FROM sessions WHERE number = ?", (number,)).fetchone()
        if found != (token, tail):
            why = "is gone" if found is None else "has another owner" if found[0] != token else "has another tail"
            raise SessionFenced(
                f"session {self.row.id} {why} by now; nothing was written",
                session_id=self.row.id,
                hint="resume it to go on",
            )

    def _write_events(self, connection: sqlite3.Connection, events: list[Event]) -> State:
        """In parts, so that a fork of a long log is not in memory three times over; in one transaction all the same."""
        state = self.row
        if state.next_seq == 0:
            insert(connection, header_row(state))
        for at in range(0, len(events), _PART):
            state = self._write_part(connection, state, events[at : at + _PART])
        state.save(connection)
        return state

    def _write_part(self, connection: sqlite3.Connection, state: State, events: list[Event]) -> State:
        flat, folded = self.encoder.rows(events)
        insert(connection, flat)
        spans = key_spans(events)
        connection.executemany(INSERT_KEY, [(state.number, *span) for span in spans])
        return msgspec.structs.replace(
            state,
            next_seq=state.next_seq + len(events),
            updated_at=events[-1].time,
            folded=state.folded + len(folded),
            folded_crc=fold(state.folded_crc, folded),
            keys=state.keys + len(spans),
            keys_crc=sum_spans(state.keys_crc, spans),
            types=state.types | self.encoder.types(events),
        )


def header_row(state: State) -> list[object]:
    """The copy of the header in front of the events, which outlives the table of sessions."""
    return [first_id(state.number) - 1, None, None, 0, header_crc(state.id, state.header), state.header, None]


def _write_extras(connection: sqlite3.Connection, extras: list[Extras]) -> list[RecordConflict]:
    conflicts: list[RecordConflict] = []
    for extra in extras:
        connection.executemany("DELETE FROM mail WHERE id = ?", [(mail,) for mail in extra.consumed_mail])
        for write in extra.records:
            try:
                write_record(connection, write)
            except RecordConflict as conflict:
                conflicts.append(conflict)
    return conflicts
