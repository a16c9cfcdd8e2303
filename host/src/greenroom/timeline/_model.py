"""The values of the timeline: frozen, so a reader cannot change what the next one gets."""

from __future__ import annotations

from functools import cached_property
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from greenroom.sessions.vocabulary import JsonObject

View: TypeAlias = Literal["canonical", "projected"]
"""Every row as it is, or rows folded into entries: a message, a tool call with everything that became of it."""

Direction: TypeAlias = Literal["tail", "after", "before"]

MAX_CHILD_ITEMS: Final = 50
"""Items of a sub-agent that its parent's call shows; all of them stand in the log."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class Cursor(Struct, frozen=True, gc=False):
    """The last log event that a client has seen, row or patch, on the line that `epoch` names.

    `seq` -1 stands before everything. A cursor of another epoch means nothing on this line.
    """

    epoch: str
    seq: int


class Row(Struct, frozen=True, omit_defaults=True, gc=False):
    """One row, in the order of the log; `seq` is the log's, so rows are increasing but not dense.

    `type` is the event's, `item` its payload as JSON with the row's patches applied, `time` in
    milliseconds since the epoch. `patched` is the seq of the last patch that is in `item`: a client
    that gets a patch which is not newer has it already.
    """

    seq: int
    time: int
    type: str
    item: Raw
    patched: int | None = None

    @property
    def data(self) -> JsonObject:
        """The item, decoded anew."""
        fields: JsonObject = _decode(self.item)
        return fields


class Entry(Struct, frozen=True, omit_defaults=True, gc=False):
    """One entry of the projected view: all the rows of a message, of a tool call, or a single row.

    Attributes:
        seq, end: its first and its last row; entries are in the order of their first rows.
        time: of its first row.
        type: `tool/call` for a call whichever of its rows came first, else the type of its rows.
        item: what its rows say together, as JSON, with patches applied.
        source_ranges: its rows, as ranges of seqs (both included); a range holds no row of another entry.
        merged: whether it stands for more than one row.
        patched: see Row.
    """

    seq: int
    end: int
    time: int
    type: str
    item: Raw
    source_ranges: tuple[tuple[int, int], ...]
    merged: bool = False
    patched: int | None = None

    @property
    def data(self) -> JsonObject:
        """The item, decoded anew."""
        fields: JsonObject = _decode(self.item)
        return fields


class Patch(Struct, frozen=True, gc=False):
    """A later event that says more about the row `update`; `apply_patch` tells how it changes the item."""

    seq: int
    update: int
    patch: Raw

    @property
    def data(self) -> JsonObject:
        """The patch, decoded anew."""
        fields: JsonObject = _decode(self.patch)
        return fields


class Window(Struct, frozen=True, gc=False):
    """What the whole line holds: its first and last row (None when empty), and the seq of the next event."""

    min: int | None
    max: int | None
    next: int


class Page(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer of `fetch`.

    Attributes:
        epoch: of the line.
        window: of the whole line.
        rows: of the canonical view; entries: of the projected one. One of them is empty.
        patches: those above the cursor of rows that the client has already.
        end: where the page ends; go on with `after` it.
        start: where it begins; go on with `before` it. None for a page without rows.
        has_older, has_newer: whether there are rows on either side.
        stale_cursor: the cursor was of another epoch.
        gap: rows behind the cursor are no longer kept.
        reset: forget everything; this page is the end of the line as it is now.
    """

    epoch: str
    window: Window
    end: Cursor
    start: Cursor | None = None
    rows: tuple[Row, ...] = ()
    entries: tuple[Entry, ...] = ()
    patches: tuple[Patch, ...] = ()
    has_older: bool = False
    has_newer: bool = False
    stale_cursor: bool = False
    gap: bool = False
    reset: bool = False


class _Wire(Struct, frozen=True, dict=True, tag_field="kind"):
    """Base of what a subscription gives: shared by all readers, encoded once."""

    @cached_property
    def wire(self) -> bytes:
        """The update as one JSON object; made when the first reader asks, the same bytes for all."""
        return _encode(self)


class Snapshot(_Wire, frozen=True, dict=True, tag="snapshot"):
    """What the log holds above the reader's cursor; several follow each other when it is much."""

    page: Page


class RowAdded(_Wire, frozen=True, dict=True, tag="row"):
    """A new row. `prev` is the seq of the row or patch before it: if the reader's cursor differs, it missed one."""

    row: Row
    prev: int


class Patched(_Wire, frozen=True, dict=True, tag="patch"):
    """A new patch; `prev` as for rows."""

    patch: Patch
    prev: int


class Recast(_Wire, frozen=True, dict=True, tag="recast"):
    """The line starts over under a new epoch, shown up to `keep_before` as it was; a snapshot follows."""

    seq: int
    epoch: str
    reason: Literal["rewind", "rehydrate", "repair"]
    keep_before: int


class Lagged(_Wire, frozen=True, dict=True, tag="lagged"):
    """The reader was too slow for what is kept in memory. Nothing is lost: snapshots from its cursor follow."""

    cursor: Cursor


Update: TypeAlias = Snapshot | RowAdded | Patched | Recast | Lagged
