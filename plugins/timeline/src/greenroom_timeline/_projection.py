"""Folds rows into entries: events in, entries out, no input or output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from greenroom.sessions import Event
from greenroom.sessions.vocabulary import JsonObject, JsonValue
from greenroom.timeline import Entry, apply_patch, merge_detail

from ._events import BORDERS, MESSAGES, PATCH_TYPES, PATCHABLE, Roles, row_key
from ._facts import Fact, Facts
from ._line import Ranges

PatchesOf: TypeAlias = Mapping[int, Sequence[Fact]]
"""Row -> what is said about it, in order."""


class _Piece(msgspec.Struct, omit_defaults=True, gc=False):
    turn: int
    step: int
    text: JsonValue
    message_id: str | None = None
    final: bool = False
    interrupted: bool = False
    requests: JsonValue = None


_piece: Final = msgspec.json.Decoder(_Piece).decode
_plain: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Single:
    """An entry of one row, and what every entry has: where it stands.

    Attributes:
        seq, end: first and last row.
        ranges, since: the rows so far, as ranges; the last one is open and begins at `since`.
        made: the finished entry, None when a row or patch came since.
        segment: which stretch between two borders it belongs to.
    """

    __slots__ = ("end", "event", "made", "ranges", "segment", "seq", "since")

    def __init__(self, event: Event, segment: int) -> None:
        self.event = event
        self.segment = segment
        self.seq = self.end = self.since = event.seq
        self.ranges: tuple[tuple[int, int], ...] = ()
        self.made: Entry | None = None

    def resume(self, seq: int) -> None:
        """Begin a new range with the next row, as rows of other entries stand in front of it."""
        self.ranges = (*self.ranges, (self.since, self.end))
        self.since = seq

    @property
    def patched_row(self) -> int | None:
        """The row that patches of the entry name."""
        return self.seq

    def item(self) -> tuple[str, bytes]:
        """The type, and what the rows say together."""
        return self.event.type, self.event.raw

    def entry(self, patches: PatchesOf) -> Entry:
        """The finished entry."""
        if self.made is None:
            kind, item = self.item()
            facts = patches.get(self.patched_row) if patches and self.patched_row is not None else None
            if facts:
                fields: JsonObject = _plain(item)
                for fact in facts:
                    fields = apply_patch(fields, fact.fields)
                item = _encode(fields)
            seen = facts[-1].seq if facts else None
            ranges, merged = (*self.ranges, (self.since, self.end)), self.end != self.seq
            self.made = Entry(self.seq, self.end, self.event.time, kind, Raw(item), ranges, merged, seen)
        return self.made


class _Text(Single):
    """The pieces of one message, or of one stretch of reasoning."""

    __slots__ = ("id", "pieces")

    def __init__(self, event: Event, segment: int, name: str | None) -> None:
        super().__init__(event, segment)
        self.id = name
        self.pieces: list[_Piece] = []

    def continues(self, piece: _Piece) -> bool:
        """Whether the next row, of the same type, is one more piece, although it need not say so by its id."""
        return (
            not self.pieces[-1].final
            and self.pieces[0].step == piece.step
            and (self.id is None or piece.message_id is None or self.id == piece.message_id)
        )

    @property
    def patched_row(self) -> int | None:
        return None

    def item(self) -> tuple[str, bytes]:
        if self.end == self.seq:
            return super().item()
        first, last = self.pieces[0], self.pieces[-1]
        text = _joined([piece.text for piece in self.pieces])
        whole = _Piece(first.turn, first.step, text, self.id, last.final, last.interrupted, last.requests)
        return self.event.type, _encode(whole)


def _joined(texts: list[JsonValue]) -> JsonValue:
    try:
        return "".join(texts)
    except TypeError:
        return texts  # a long one lies in a blob


class _Tool(Single):
    """A tool call with its updates and its result, whichever of them came first: one state, however many updates."""

    __slots__ = ("call", "closed", "fields")

    def __init__(self, event: Event, segment: int, fields: JsonObject) -> None:
        super().__init__(event, segment)
        self.fields = fields
        fields.setdefault("status", "running")
        self.call = event.seq if event.type == "tool/call" else None
        self.closed = event.type == "tool/result"

    def add(self, event: Event, fields: JsonObject) -> None:
        """Take in what one more row says."""
        if self.call is None and event.type == "tool/call":
            self.call = event.seq
        if self.closed:
            return  # a terminal status is final, and so is what came with it
        detail = merge_detail(self.fields["detail"], fields.get("detail"))
        self.fields |= fields
        self.fields["detail"] = detail
        self.closed = event.type == "tool/result"

    @property
    def patched_row(self) -> int | None:
        return self.call

    def item(self) -> tuple[str, bytes]:
        return "tool/call", _encode(self.fields)


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
        self._segment = 0
        self._folded = {
            "assistant/message": self._text,
            "assistant/reasoning": self._text,
            "tool/call": self._tool,
            "tool/update": self._tool,
            "tool/result": self._tool,
        }

    def border(self) -> None:
        """No later row joins an entry that is there."""
        self._texts, self._calls, self._last = {}, {}, None
        self._segment += 1

    def taker(self, type_name: str) -> Callable[[Event], Single]:
        """What takes in the next row if it is of that type; it answers with the entry that the row became part of."""
        return self._folded.get(type_name, self._single)

    def _single(self, event: Event) -> Single:
        entry = self._last = Single(event, self._segment)
        self.entries.append(entry)
        return entry

    def _text(self, event: Event) -> Single:
        piece = _piece(event.raw)
        name, entry = piece.message_id, self._last
        if name is None or type(entry) is not _Text or entry.id != name or entry.event.type != event.type:
            entry = self._message(event, piece)  # else it is the next piece of the last one, as nearly always
        entry.pieces.append(piece)
        entry.end, entry.made = event.seq, None
        return entry

    def _message(self, event: Event, piece: _Piece) -> _Text:
        kind, name, last = event.type, piece.message_id, self._last
        found = self._texts.get((kind, name)) if name is not None else None
        if found is None and type(last) is _Text and last.event.type == kind and last.continues(piece):
            found = last
        if found is None:
            found = _Text(event, self._segment, name)
            self.entries.append(found)
        elif found is not last:
            found.resume(event.seq)
        if name is not None:
            found.id = name
            self._texts[kind, name] = found
        self._last = found
        return found

    def _tool(self, event: Event) -> Single:
        fields: JsonObject = _plain(event.raw)
        call_id = fields["call_id"]
        found = self._calls.get(call_id)
        if found is None:
            found = self._calls[call_id] = _Tool(event, self._segment, fields)
            self.entries.append(found)
        else:
            if found is not self._last:
                found.resume(event.seq)
            found.end, found.made = event.seq, None
            found.add(event, fields)
        self._last = found
        return found


def fold(events: Iterable[Event], roles: Roles) -> list[Single]:
    """The entries of a stretch of a line that begins at a border, unfinished."""
    projector = Projector()
    for event in events:
        if event.type in BORDERS:
            projector.border()
        elif roles.part(event) == "row":
            projector.taker(event.type)(event)
    return projector.entries


def project(events: Iterable[Event], roles: Roles) -> list[Entry]:
    """The projected view of a whole log: each patch is for the latest row of its key, or for none if that is hidden."""
    log = list(events)
    kinds = {event.type for event in log}
    ranges = Ranges()
    for event in log if "session/recast" in kinds else ():
        if event.type == "session/recast":
            ranges.recast(event.seq, event.data.keep_before)
    patches = _patches(log, kinds & PATCH_TYPES, ranges)
    if ranges.hides(-1):
        log = [event for event in log if event.type in BORDERS or ranges.shows(event.seq)]
    projector = Projector()
    entries: list[Entry] = []
    takers = {kind: projector.taker(kind) for kind in kinds if kind not in BORDERS and roles.may_show(kind)}
    for event in log:
        take = takers.get(event.type)
        if take is not None:
            if event.type != "turn/end" or roles.part(event) == "row":
                take(event)
        elif event.type in BORDERS:
            projector.border()
            entries += [entry.entry(patches) for entry in projector.entries]
            projector.entries.clear()  # nothing joins them any more, and what dies young costs the collector little
    return entries + [entry.entry(patches) for entry in projector.entries]


def _patches(log: Iterable[Event], kinds: AbstractSet[str], ranges: Ranges) -> PatchesOf:
    """What a log says about its rows in events of those types."""
    if not kinds:
        return {}
    spoken = MESSAGES if kinds == {"user/acknowledged"} else PATCHABLE
    facts, targets = Facts(), dict[str, int]()
    patches: dict[int, list[Fact]] = {}
    for event in log:
        if event.type in kinds:
            fact = facts.add(event) if event.type.startswith("subagent/") else facts.read(event)
            row = targets.get(fact.key) if fact is not None else None
            if fact is not None and row is not None and ranges.shows(row):
                patches.setdefault(row, []).append(fact)
        elif event.type in spoken:
            targets[str(row_key(event.type, event.raw))] = event.seq
    return patches
