"""The surface: which events the model sees, in which order, after replacements.

A node is the seq of a model-visible event. `append` adds one at the end, `replace`
puts one in the place of a positional range. Only the list of nodes is kept, not what
was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, overload

from greenroom.sessions._errors import EventRefused, HistoryNotLoaded
from greenroom.sessions._event import Event, Replace
from greenroom.sessions.vocabulary import CORE_TYPES, AssistantMessage, JsonValue, ToolResult

Lookup: TypeAlias = Callable[[int], Event | None]
"""An earlier event by seq, or None when it is not at hand."""

_VISIBLE: Final = {kind.name: kind.surface for kind in CORE_TYPES}
_KEPT_BY_REWRITE: Final = tuple(name for name in ToolResult.__struct_fields__ if name != "output")


def require_marker(name: str, data: JsonValue, surface: JsonValue, sources: JsonValue, *, visible: bool) -> None:
    """Raise EventRefused unless exactly the model-visible events carry a well-formed surface operation.

    A piece of an assistant message that is not its last one is not model-visible yet.
    """
    if visible and name == "assistant/message":
        visible = isinstance(data, AssistantMessage) and data.final
    if visible and surface is None:
        raise EventRefused(f"{name}: a model-visible event needs surface='append' or a Replace")
    if not visible and (surface is not None or sources is not None):
        raise EventRefused(f"{name}: is not model-visible, so it carries no surface and no sources")
    if surface is not None and surface != "append":
        _require_replace(name, surface)


def _require_replace(name: str, surface: JsonValue) -> None:
    if not isinstance(surface, Replace):
        raise EventRefused(f"{name}: surface is 'append' or a Replace, not {surface!r}")
    ends: JsonValue = surface.replace
    if type(ends) is not tuple or len(ends) != 2 or any(type(end) is not int for end in ends):  # noqa: PLR2004 - a pair
        raise EventRefused(f"{name}: a Replace names two seqs, not {ends!r}")


def require_sources(name: str, seq: int, sources: JsonValue) -> tuple[int, ...]:
    """The sources as a tuple. Raises EventRefused unless they are earlier seqs, each once, ascending.

    Only an assistant message may say that it stands for nothing.
    """
    if not isinstance(sources, (tuple, list)):
        raise EventRefused(f"{name}: sources is a list of seqs, not a {type(sources).__name__}")
    if not sources and name != "assistant/message":
        raise EventRefused(f"{name}: sources may be absent, but not empty")
    previous = -1
    for source in sources:
        if type(source) is not int or not previous < source < seq:
            raise EventRefused(f"{name}: {source!r} in sources is not a seq before {seq}, ascending, each once")
        previous = source
    return tuple(sources)


class SurfaceFold:
    """The nodes, kept up to date event by event; `complete` is False while the log's beginning is unknown.

    Attributes:
        generation: changes with every replacement and cut, so that a cache knows when to rebuild.
        replacements: how many replacements were seen.
    """

    __slots__ = ("_last_replace", "_nodes", "complete", "generation", "replacements")

    def __init__(self, *, complete: bool = True) -> None:
        self._nodes: list[int] = []
        self._last_replace = -1
        self.complete: bool = complete
        self.generation: int = 0
        self.replacements: int = 0

    @property
    def nodes(self) -> Sequence[int]:
        """The live list; not to be changed."""
        return self._nodes

    def span(self, event: Event, lookup: Lookup) -> tuple[int, int]:
        """Where a replacement goes, as positions (first, behind last). Changes nothing.

        Raises EventRefused for a range that is not on the surface, for sources that do
        not name every replaced node, and for a rewritten tool result that changes more
        than its output; HistoryNotLoaded if the range may lie before what is known.
        """
        surface = event.surface
        if not isinstance(surface, Replace):
            raise TypeError("only a Replace has a span")
        first, last = (self._position(event, seq) for seq in surface.replace)
        if first > last:
            raise EventRefused(f"{event.type}: the replaced range {surface.replace} is reversed on the surface")
        nodes = self._nodes[first : last + 1]
        missing = set(nodes).difference(event.sources or ())
        if missing:
            raise EventRefused(f"{event.type}: sources do not name the replaced {sorted(missing)}")
        if event.type == "tool/result":
            _require_rewrite(event, nodes, lookup)
        return first, last + 1

    def _position(self, event: Event, seq: int) -> int:
        try:
            return self._nodes.index(seq)
        except ValueError:
            if not self.complete and (not self._nodes or seq < self._nodes[0]):
                raise HistoryNotLoaded(
                    f"{event.type}: {seq} may be on the part of the surface that is not loaded",
                    hint="await session.load_history() first",
                ) from None
            raise EventRefused(f"{event.type}: {seq} is not on the surface") from None

    def covered(self, surface: Replace) -> tuple[int, ...]:
        """The nodes in a range, ascending; empty if the range is not there (`span` says why)."""
        try:
            first, last = (self._nodes.index(seq) for seq in surface.replace)
        except ValueError:
            return ()
        return tuple(sorted(self._nodes[first : last + 1]))

    def commit(self, seq: int, span: tuple[int, int] | None) -> list[int]:
        """Put the node where it belongs (span None: at the end) and return those that left. Cannot fail."""
        if span is None:
            self._nodes.append(seq)
            return []
        first, behind = span
        gone = self._nodes[first:behind]
        self._nodes[first:behind] = [seq]
        self._last_replace = seq
        self.generation += 1
        self.replacements += 1
        return gone

    def cut(self, keep_before: int) -> None:
        """Go back to the surface as it was before seq `keep_before`; incomplete if a replacement stands behind it."""
        self.generation += 1
        if self._last_replace >= keep_before:
            self._nodes, self.complete, self._last_replace = [], False, -1
        else:
            self._nodes = [seq for seq in self._nodes if seq < keep_before]

    def adopt(self, other: SurfaceFold, behind: int) -> None:
        """Know the log's beginning from now on: the nodes of `other`, then the own ones from seq `behind` on."""
        self._nodes = [*other.nodes, *(seq for seq in self._nodes if seq >= behind)]
        self._last_replace = max(self._last_replace, other._last_replace)
        self.complete = other.complete
        self.replacements = max(self.replacements, other.replacements)
        self.generation += 1

    def apply(self, event: Event, lookup: Lookup) -> list[int]:
        """Check and commit one model-visible event; the nodes that left."""
        return self.commit(event.seq, self.span(event, lookup) if isinstance(event.surface, Replace) else None)


class SurfaceView(Sequence[int]):
    """The seqs that the model sees, in its order: one live, read-only object per session."""

    __slots__ = ("_fold",)

    def __init__(self, fold: SurfaceFold) -> None:
        self._fold = fold

    @property
    def replacements(self) -> int:
        """How many replacements were seen."""
        return self._fold.replacements

    @property
    def complete(self) -> bool:
        """Whether the log's beginning is known; `Session.load_history` makes it so."""
        return self._fold.complete

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._fold.nodes[index]

    def __len__(self) -> int:
        return len(self._fold.nodes)


def _require_rewrite(event: Event, nodes: Sequence[int], lookup: Lookup) -> None:
    if len(nodes) != 1:
        raise EventRefused(f"{event.type}: a rewritten result replaces exactly one result, not {len(nodes)} nodes")
    target = lookup(nodes[0])
    if target is None:
        raise HistoryNotLoaded(
            f"{event.type}: the result {nodes[0]} is not in memory", hint="await session.load_history() first"
        )
    if target.type != "tool/result":
        raise EventRefused(f"{event.type}: {nodes[0]} is a {target.type}, a rewrite replaces a result")
    old, new = target.data, event.data
    changed = [name for name in _KEPT_BY_REWRITE if getattr(old, name) != getattr(new, name)]
    if changed:
        raise EventRefused(f"{event.type}: a rewrite may change the output only, not {', '.join(changed)}")


def check_surface(event: Event, data: JsonValue, *, visible: bool) -> None:
    """Raise EventRefused if the event's marker or sources are not what its type wants."""
    require_marker(event.type, data, event.surface, event.sources, visible=visible)
    if event.sources is not None:
        require_sources(event.type, event.seq, event.sources)


def fold_surface(events: Iterable[Event]) -> SurfaceFold:
    """The surface of a log, or of a window of it that begins anywhere, computed from its events alone.

    Raises EventRefused naming the event where markers, sources, ranges or the seqs
    themselves do not fit, HistoryNotLoaded for a replacement that crosses the head of
    the window.
    """
    seen: dict[int, Event] = {}
    operations: list[Event] = []
    fold, expected = SurfaceFold(), None
    for event in events:
        if expected is None:
            fold.complete = event.seq == 0
        elif event.seq != expected:
            raise EventRefused(f"the log goes from seq {expected - 1} to {event.seq}")
        expected = event.seq + 1
        if event.type in _VISIBLE:
            check_surface(event, event.data, visible=_VISIBLE[event.type])
        if event.surface is not None:
            fold.apply(event, seen.get)
            operations.append(event)
            seen[event.seq] = event
        elif event.type == "session/recast" and event.data.reason != "repair":
            operations = [earlier for earlier in operations if earlier.seq < event.data.keep_before]
            fold = refold(operations, complete=fold.complete)
    return fold


def refold(operations: Iterable[Event], *, complete: bool = True) -> SurfaceFold:
    """The surface that these model-visible events make, known to fit each other."""
    seen: dict[int, Event] = {}
    fold = SurfaceFold(complete=complete)
    for event in operations:
        fold.apply(event, seen.get)
        seen[event.seq] = event
    return fold
