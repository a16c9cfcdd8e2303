"""The end of a log: what an owner inspects before it goes on, and how what is torn is cut off."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenroom.sessions import Event, SessionDamaged

from ._file import is_damage
from ._rows import (
    MAX_SLOT,
    SELECT,
    SLOT_BITS,
    Decoder,
    Folded,
    Row,
    Span,
    first_id,
    fold,
    is_indexed,
    lost_name,
    sum_spans,
    type_crc,
)
from ._schema import DATABASE_ERRORS
from ._state import State

_BATCH: Final = 512
"""Rows fetched at once: bounds memory, and lets the interpreter drop them before its collector looks."""


def type_names(connection: sqlite3.Connection) -> dict[int, str]:
    """Code -> name of every type in the file whose name is whole."""
    rows = connection.execute("SELECT code, name, crc FROM types").fetchall()
    return {code: name for code, name, crc in rows if isinstance(name, str) and type_crc(code, name) == crc}


def decoder_for(connection: sqlite3.Connection, state: State) -> Decoder:
    """What turns the rows of the session into events."""
    return Decoder(state.number, state.id, type_names(connection))


def rows_between(connection: sqlite3.Connection, number: int, start: int, stop: int) -> list[Row]:
    """The rows with `start <= seq < stop`, in order; all at once, as an unfinished cursor would pin its snapshot."""
    first = first_id(number)
    return connection.execute(
        f"{SELECT} WHERE id BETWEEN ? AND ? ORDER BY id", (first + start, first + stop - 1)
    ).fetchall()


def last_slot(connection: sqlite3.Connection, number: int) -> int:
    """The last slot of the session that holds something; 0 for its header only, or for nothing."""
    last = connection.execute("SELECT MAX(id) FROM events WHERE id < ?", ((number + 1) << SLOT_BITS,)).fetchone()[0]
    return last & MAX_SLOT if last is not None and last >> SLOT_BITS == number else 0


def stream(
    connection: sqlite3.Connection, state: State, start: int = 0, stop: int | None = None
) -> Iterator[Sequence[Event]]:
    """The events in batches, dense from `start` to the tail or `stop`. Raises SessionDamaged at the first damage.

    Everything before the damage was yielded then.
    """
    decoder, stop = decoder_for(connection, state), state.next_seq if stop is None else stop
    while start < stop:
        upto = min(start + _BATCH, stop)
        try:
            events = decoder.events(rows_between(connection, state.number, start, upto), range(start, upto))
        except SessionDamaged as error:
            seq = error.seq if error.seq is not None else start
            if seq > start:
                yield decoder.events(rows_between(connection, state.number, start, seq), range(start, seq))
            raise
        except DATABASE_ERRORS as error:
            if not is_damage(error):
                raise
            yield from _row_by_row(connection, state, decoder, start, upto)
            raise decoder.damaged(start, f"stands on a damaged page: {error}") from error
        if events:
            yield events
        start += len(events)
        if start < upto:
            raise decoder.damaged(start, "is missing")


def _row_by_row(
    connection: sqlite3.Connection, state: State, decoder: Decoder, start: int, stop: int
) -> Iterator[Sequence[Event]]:
    """What can be read in front of a damaged page. Raises SessionDamaged at the first event that cannot."""
    for seq in range(start, stop):
        try:
            events = decoder.events(rows_between(connection, state.number, seq, seq + 1), (seq,))
        except DATABASE_ERRORS as error:
            raise decoder.damaged(seq, f"stands on a damaged page: {error}") from error
        if not events:
            raise decoder.damaged(seq, "is missing")
        yield events


def index_entries(connection: sqlite3.Connection, state: State, codes: Mapping[int, str]) -> list[Folded]:
    """What the partial index holds of the session for the types, in the order of the log."""
    first = first_id(state.number)
    span = (first, first + max(state.next_seq - 1, 0))
    found: list[Folded] = []
    for code in codes:
        query = "SELECT id FROM events INDEXED BY folded WHERE flags >= 8 AND type = ? AND id BETWEEN ? AND ?"
        found.extend((key - first, code) for (key,) in connection.execute(query, (code, *span)))
    found.sort()
    return found


def indexed_codes(connection: sqlite3.Connection, state: State) -> dict[int, str]:
    """Code -> name of the indexed types that occur in the session. Raises SessionDamaged if a name is lost."""
    names = type_names(connection)
    codes = {code >> 1 for code in state.types}
    if not codes <= names.keys():
        raise lost_name(state.id)
    return {code: names[code] for code in codes if is_indexed(names[code])}


def key_rows(connection: sqlite3.Connection, number: int) -> list[Span]:
    """The session's rows in the table of keys."""
    return connection.execute("SELECT key, first, last FROM keys WHERE session = ?", (number,)).fetchall()


def index_matches(state: State, entries: Sequence[Folded]) -> bool:
    """Whether the entries are those that the session's row counted."""
    try:
        return len(entries) == state.folded and fold(0, entries) == state.folded_crc
    except (TypeError, struct.error):  # a damaged entry can be anything
        return False


def by_seq(connection: sqlite3.Connection, state: State, seqs: Sequence[int]) -> list[Event]:
    """The events at these seqs, each checked. Raises SessionDamaged."""
    first, decoder, found = first_id(state.number), decoder_for(connection, state), list[Event]()
    for at in range(0, len(seqs), _BATCH):
        wanted = seqs[at : at + _BATCH]
        places = ", ".join("?" * len(wanted))
        query = f"{SELECT} WHERE id IN ({places}) ORDER BY id"
        rows = connection.execute(query, [first + seq for seq in wanted]).fetchall()
        events = decoder.events(rows, wanted)
        if len(events) < len(wanted):
            missing = min(set(wanted) - {event.seq for event in events})
            raise decoder.damaged(missing, "is missing")
        found.extend(events)
    return found


@dataclass(frozen=True, slots=True)
class Tail:
    """How many events are whole, of how many that should be there."""

    whole: int
    expected: int

    @property
    def torn(self) -> int:
        """How many have to go."""
        return self.expected - self.whole


def inspect(connection: sqlite3.Connection, state: State) -> Tail:
    """Look at what a resume reads: the folded events, and everything behind the last end of a turn.

    The cost does not depend on the length of the log, unless something is wrong. Raises SessionDamaged for
    damage that a later end of a turn shows to be no torn tail.
    """
    codes = indexed_codes(connection, state)
    try:
        entries = index_entries(connection, state, codes)
        if index_matches(state, entries):
            events = by_seq(connection, state, [seq for seq, _ in entries])
            ends = [event.seq for event in events if event.type == "turn/end"]
            return _behind(connection, state, ends[-1] + 1 if ends else 0)
    except (SessionDamaged, *DATABASE_ERRORS) as error:
        if not is_damage(error):
            raise
    return _whole(connection, state)


def _behind(connection: sqlite3.Connection, state: State, start: int) -> Tail:
    try:
        for events in stream(connection, state, start):
            start += len(events)
    except SessionDamaged as error:
        return Tail(error.seq if error.seq is not None else start, state.next_seq)
    return Tail(start, state.next_seq)


_TORN_FOLDED: Final = 2
"""How many folded events a torn tail may hold (an end of a turn, a splice). More is no tail: `repair` is asked."""


def _whole(connection: sqlite3.Connection, state: State) -> Tail:
    """Look at everything, as the short way found something wrong. Raises SessionDamaged unless only a tail is torn."""
    folded = 0
    try:
        for events in stream(connection, state):
            folded += sum(is_indexed(event.type) for event in events)
    except SessionDamaged as error:
        torn = error.seq is not None and state.folded - folded <= _TORN_FOLDED
        if error.seq is None or not torn or _ends_a_turn(connection, state, error.seq):
            raise
        return Tail(error.seq, state.next_seq)
    raise SessionDamaged(
        f"the index of session {state.id} does not match its events",
        session_id=state.id,
        hint=f"`greenroom sessions repair {state.id}` builds it anew",
    )


def _ends_a_turn(connection: sqlite3.Connection, state: State, seq: int) -> bool:
    """Whether a whole `turn/end` stands behind the seq: then the damage is inside what was committed."""
    decoder = decoder_for(connection, state)
    for at in range(seq + 1, state.next_seq):
        try:
            found = decoder.events(rows_between(connection, state.number, at, at + 1), (at,))
        except (SessionDamaged, *DATABASE_ERRORS):
            continue
        if found and found[0].type == "turn/end":
            return True
    return False


def cut(connection: sqlite3.Connection, state: State, whole: int) -> None:
    """Drop the events from `whole` on, in the caller's transaction, and derive the rest of the row from what stays.

    Only `save` or `restore` of the state is left to do.
    """
    first = first_id(state.number)
    connection.execute("DELETE FROM events WHERE id BETWEEN ? AND ?", (first + whole, first_id(state.number + 1) - 2))
    connection.execute("DELETE FROM keys WHERE session = ? AND first >= ?", (state.number, whole))
    connection.execute("UPDATE keys SET last = ? WHERE session = ? AND last >= ?", (whole - 1, state.number, whole))
    state.next_seq = whole
    state.cuts += 1
    derive(connection, state)


def derive(connection: sqlite3.Connection, state: State) -> None:
    """Set what the state says of types, index, keys and time from what the tables hold."""
    span = (first_id(state.number), first_id(state.number) + max(state.next_seq - 1, 0))
    rows = connection.execute(
        "SELECT type, MIN(flags & 1) FROM events WHERE id BETWEEN ? AND ? GROUP BY type", span
    ).fetchall()
    state.types = frozenset(code << 1 | flag for code, low in rows for flag in ({0, 1} if not low else {0}))
    entries = index_entries(connection, state, indexed_codes(connection, state))
    state.folded, state.folded_crc = len(entries), fold(0, entries)
    spans = key_rows(connection, state.number)
    state.keys, state.keys_crc = len(spans), sum_spans(0, spans)
    last = connection.execute("SELECT time FROM events WHERE id = ?", (span[1],)).fetchone()
    state.updated_at = last[0] if last else 0
