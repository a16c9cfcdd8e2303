"""Folds rows into entries: events in, entries out, no input or output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from greenroom.sessions import Event
from greenroom.sessions.vocabulary import JsonObject, JsonValue
from greenroom.timeline import Entry, apply_patch, merge_detail

from ._events import BORDERS, PATCHABLE, Roles, raw, row_key
from ._facts import Fact, Facts
from ._line import Ranges

PatchesOf: TypeAlias = Mapping[int, Sequence[Fact]]
"""Row -> what is said about it, in order."""


class _Piece(msgspec.Struct, gc=False):
    turn: int
    step: int
    text: JsonValue
    message_id: str | None = None
    final: bool = False
    interrupted: bool = False
    requests: JsonValue = None


_piece: Final = msgspec.json.Decoder(_Piece).decode
_plain: Final = msgspec.json.Decoder().decode


class Single:
    """An entry of one row, and what every entry has: where it stands.

    Attributes:
        seq, end, last: first and last row; the ordinal of the last row among all rows.
        made: the finished entry, None when a row or patch came since.
        segment: which stretch between two borders it belongs to.
    """

    __slots__ = ("end", "event", "last", "made", "ranges", "segment", "seq")

    def __init__(self, event: Event, ordinal: int) -> None:
        self.event = event
        self.segment = 0
        self.seq = self.end = event.seq
        self.last = ordinal
        self.ranges = [(event.seq, event.seq)]
        self.made: Entry | None = None

    def join(self, event: Event, ordinal: int) -> None:
        """Take in the place of one more row: the last range grows if no other row stands between."""
        seq = event.seq
        if ordinal == self.last + 1:
            self.ranges[-1] = (self.ranges[-1][0], seq)
        else:
            self.ranges.append((seq, seq))
        self.end, self.last, self.made = seq, ordinal, None

    @property
    def patched_row(self) -> int | None:
        """The row that patches of the entry name."""
        return self.seq

    def item(self) -> tuple[str, Raw]:
        """The type, and what the rows say together."""
        return self.event.type, Raw(self.event.raw)

    def entry(self, patches: PatchesOf) -> Entry:
        """The finished entry."""
        if self.made is None:
            kind, item = self.item()
            facts = patches.get(self.patched_row) if patches and self.patched_row is not None else None
            if facts:
                fields: JsonObject = _plain(item)
                for fact in facts:
                    fields = apply_patch(fields, fact.fields)
                item = raw(fields)
            seen = facts[-1].seq if facts else None
            time, merged = self.event.time, self.end != self.seq
            self.made = Entry(self.seq, self.end, time, kind, item, tuple(self.ranges), merged, seen)
        return self.made


SingleT = TypeVar("SingleT", bound=Single)


class _Text(Single):
    """The pieces of one message, or of one stretch of reasoning."""

    __slots__ = ("first", "id", "pieces", "tail")

    def __init__(self, event: Event, ordinal: int, piece: _Piece) -> None:
        super().__init__(event, ordinal)
        self.first = self.tail = piece
        self.id = piece.message_id
        self.pieces = [piece.text]

    def add(self, event: Event, ordinal: int, piece: _Piece) -> None:
        self.join(event, ordinal)
        self.pieces.append(piece.text)
        self.id = self.id or piece.message_id
        self.tail = piece

    def continues(self, event: Event, piece: _Piece) -> bool:
        """Whether the next row is one more piece, although it need not say so by its id."""
        return (
            self.event.type == event.type
            and not self.tail.final
            and self.first.step == piece.step
            and (self.id is None or piece.message_id is None or self.id == piece.message_id)
        )

    @property
    def patched_row(self) -> int | None:
        return None

    def item(self) -> tuple[str, Raw]:
        if self.end == self.seq:
            return super().item()
        pieces, tail = self.pieces, self.tail
        whole = all(type(text) is str for text in pieces)
        fields: JsonObject = {
            "turn": self.first.turn,
            "step": self.first.step,
            "text": "".join(pieces) if whole else pieces,
        }
        if self.id is not None:
            fields["message_id"] = self.id
        if tail.final:
            fields["final"] = True
        if tail.interrupted:
            fields["interrupted"] = True
        if tail.requests is not None:
            fields["requests"] = tail.requests
        return self.event.type, raw(fields)


class _Tool(Single):
    """A tool call with its updates and its result, whichever of them came first: one state, however many updates."""

    __slots__ = ("call", "closed", "fields")

    def __init__(self, event: Event, ordinal: int, fields: JsonObject) -> None:
        super().__init__(event, ordinal)
        self.fields: JsonObject = {"status": "running", **fields}
        self.call = event.seq if event.type == "tool/call" else None
        self.closed = event.type == "tool/result"

    def add(self, event: Event, ordinal: int, fields: JsonObject) -> None:
        self.join(event, ordinal)
        if self.call is None and event.type == "tool/call":
            self.call = event.seq
        if self.closed:
            return  # a terminal status is final, and so is what came with it
        known = self.fields
        detail = merge_detail(known["detail"], fields.get("detail"))
        self.fields = {**known, **fields, "detail": detail}
        self.closed = event.type == "tool/result"

    @property
    def patched_row(self) -> int | None:
        return self.call

    def item(self) -> tuple[str, Raw]:
        return "tool/call", raw(self.fields)


class Projector:
    """Folds the rows of a line, fed in order from a border on; entries never reach over a border.

    Attributes:
        entries: in the order of their first rows, unfinished.
    """

    def __init__(self) -> None:
        self.entries: list[Single] = []
        self._texts: dict[tuple[str, str], _Text] = {}
        self._calls: dict[str, _Tool] = {}
        self._last: Single | None = None
        self._rows = self._segment = 0

    def border(self) -> None:
        """No later row joins an entry that is there."""
        self._texts, self._calls, self._last = {}, {}, None
        self._segment += 1

    def row(self, event: Event) -> Single:
        """Take in the next row; the entry that it became part of."""
        kind = event.type
        self._rows += 1
        if kind in ("assistant/message", "assistant/reasoning"):
            self._last = self._text(event)
        elif kind in ("tool/call", "tool/update", "tool/result"):
            self._last = self._tool(event)
        else:
            self._last = self._add(Single(event, self._rows))
        return self._last

    def _add(self, entry: SingleT) -> SingleT:
        entry.segment = self._segment
        self.entries.append(entry)
        return entry

    def _text(self, event: Event) -> Single:
        piece = _piece(event.raw)
        last, name = self._last, piece.message_id
        found = self._texts.get((event.type, name)) if name is not None else None
        if found is None and type(last) is _Text and last.continues(event, piece):
            found = last
        if found is None:
            found = self._add(_Text(event, self._rows, piece))
        else:
            found.add(event, self._rows, piece)
        if name is not None:
            self._texts[event.type, name] = found
        return found

    def _tool(self, event: Event) -> Single:
        fields: JsonObject = _plain(event.raw)
        call_id = fields["call_id"]
        found = self._calls.get(call_id)
        if found is None:
            found = self._calls[call_id] = self._add(_Tool(event, self._rows, fields))
        else:
            found.add(event, self._rows, fields)
        return found


def fold(events: Iterable[Event], roles: Roles) -> list[Single]:
    """The entries of a stretch of a line that begins at a border, unfinished."""
    projector = Projector()
    for event in events:
        if event.type in BORDERS:
            projector.border()
        elif roles.part(event) == "row":
            projector.row(event)
    return projector.entries


def project(events: Iterable[Event], roles: Roles) -> list[Entry]:
    """The projected view of a whole log: each patch is for the latest row of its key, or for none if that is hidden."""
    log = list(events)
    ranges, part = Ranges(), roles.part
    for event in log:
        if event.type == "session/recast":
            ranges.recast(event.seq, event.data.keep_before)
    whole = not ranges.hides(-1)
    projector, facts = Projector(), Facts()
    targets: dict[str, int] = {}
    patches: dict[int, list[Fact]] = {}
    for event in log:
        role = part(event)
        if role == "row":
            if event.type in PATCHABLE:
                targets[str(row_key(event.type, event.raw))] = event.seq
            if whole or ranges.shows(event.seq):
                projector.row(event)
        elif role == "patch":
            fact = facts.add(event)
            row = targets.get(fact.key) if fact is not None else None
            if fact is not None and row is not None and ranges.shows(row):
                patches.setdefault(row, []).append(fact)
        elif event.type in BORDERS:
            projector.border()
    return [entry.entry(patches) for entry in projector.entries]
