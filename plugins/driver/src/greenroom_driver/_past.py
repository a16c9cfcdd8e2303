"""Our log and a provider's history as items that can be compared: see `_reconcile`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from greenroom import providers as p
from greenroom.sessions import Event
from greenroom.sessions import vocabulary as v

from ._long import SHORT, cut_items
from ._reconcile import Item, Kind

LOGGED: Final = (
    "turn/start", "turn/end", "user/message", "steering/message", "user/acknowledged", "assistant/message",
    "assistant/reasoning", "tool/call", "tool/result", "tool/settled", "todo/write", "compaction/start", "notice",
    "subagent/upserted", "subagent/removed", "session/recast",
)  # fmt: skip
"""The types that tell what our log holds of a conversation."""

_MINTED: Final = re.compile(r"\d+\.\d+\.\d+")
"""Ids that the log gives to messages of which the provider tells none."""
_BOOKKEEPING: Final = frozenset({
    p.SessionStarted, p.Idle, p.UsageUpdated, p.ConfigChanged, p.PermissionRequested, p.PermissionResolved,
})  # fmt: skip
"""What changes no conversation; a replay says nothing about the present."""
_DELTAS: Final = frozenset({p.TextDelta, p.ReasoningDelta})
_TERMINAL: Final = frozenset(p.TERMINAL)


@dataclass(slots=True)
class _Draft:
    """An item that is still being read. `ref`: what our log, or the provider, calls it."""

    kind: Kind
    turn: int
    ref: str = ""
    parts: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    named: bool = False
    whole: bool = True

    def item(self) -> Item:
        return Item(self.kind, "".join(self.parts), self.turn, frozenset(self.ids), self.named, self.whole)


@dataclass(frozen=True, slots=True)
class Logged:
    """What our log shows.

    Attributes:
        items: in order; `refs`: the id of each in the log.
        unfinished: turns that recovery closed.
        details: of the calls, by id.
        children: the sub-agents that are known, with their last status.
    """

    items: Sequence[Item] = ()
    refs: Sequence[str] = ()
    unfinished: frozenset[int] = frozenset()
    details: Mapping[str, p.ToolDetail] = field(default_factory=dict)
    children: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a history: its turn there, and the item that it tells of."""

    event: p.ProviderEvent
    turn: int
    item: int | None = None


def read_log(events: Iterable[Event]) -> Logged:
    """Read the events of `LOGGED`; what a recast hides is not there, what was said about the rest is."""
    return _LogReader(list(events)).read()


def read_history(events: Iterable[p.ProviderEvent]) -> tuple[Sequence[Item], Sequence[Told]]:
    """Read a replay: turns begin where it says so, else with a prompt."""
    reader = _HistoryReader()
    for event in events:
        if type(event) not in _BOOKKEEPING:
            reader.take(event)
    return reader.read()


def said(text: object) -> str:
    """A text for comparison; a long one by its hash, as the log may only have that."""
    if isinstance(text, v.Blob):
        return f"sha256:{text.sha256}"
    data = str(text).encode("utf-8", "replace")
    return str(text) if len(data) <= SHORT else f"sha256:{hashlib.sha256(data).hexdigest()}"


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


class _LogReader:
    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._hidden = [(e.data.keep_before, e.seq) for e in events if e.type == "session/recast"]
        self._drafts: list[_Draft] = []
        self._by_ref: dict[tuple[str, str], _Draft] = {}
        self._turn = 0
        self._unfinished: set[int] = set()
        self._details: dict[str, p.ToolDetail] = {}
        self._children: dict[str, str | None] = {}

    def read(self) -> Logged:
        methods: Mapping[str, Callable[[Any], object]] = {
            "user/message": self._user,
            "steering/message": self._user,
            "assistant/message": lambda data: self._piece("text", data),
            "assistant/reasoning": lambda data: self._piece("reasoning", data),
            "tool/call": self._call,
            "tool/result": self._result,
            "todo/write": lambda data: self._add("todo", _json(data.items)),
            "compaction/start": lambda data: self._add("compaction", ""),  # noqa: ARG005 - its bracket is all it says
            "notice": lambda data: self._add("notice", f"{data.level} {data.message}"),
        }
        for event in self._events:
            data = event.data
            method = methods.get(event.type)
            if method is None:
                self._fact(event.type, data)
            elif not any(keep <= event.seq < recast for keep, recast in self._hidden):
                method(data)
        drafts = self._drafts
        for draft in drafts:  # what was interrupted on purpose has no rest
            draft.whole = draft.whole or (draft.kind in ("text", "reasoning") and draft.turn not in self._unfinished)
        refs = [draft.ref for draft in drafts]
        unfinished = frozenset(self._unfinished)
        return Logged([draft.item() for draft in drafts], refs, unfinished, self._details, self._children)

    def _fact(self, kind: str, data: Any) -> None:  # noqa: ANN401 - the payloads of several types
        if kind == "turn/start":
            self._turn = data.turn
        elif kind == "turn/end" and data.reason.kind == "interrupted":
            self._unfinished.add(data.turn)
        elif kind == "user/acknowledged":
            self._acknowledged(data)
        elif kind == "tool/settled":
            self._result(data)
        elif kind == "subagent/upserted":
            self._children[data.child_id] = data.status or self._children.get(data.child_id)
        elif kind == "subagent/removed":
            self._children.pop(data.child_id, None)

    def _add(self, kind: Kind, content: str, ref: str = "", **fields: Any) -> _Draft:  # noqa: ANN401 - of the draft
        draft = _Draft(kind, self._turn, ref, [content], **fields)
        self._drafts.append(draft)
        self._by_ref[kind, ref] = draft
        return draft

    def _user(self, data: v.UserMessage | v.SteeringMessage) -> None:
        text = "\n".join(said(block.text) for block in data.message.content if isinstance(block, v.Text))
        self._add("user", text, data.message.id, ids={data.message.id}, whole=False)

    def _acknowledged(self, data: v.UserAcknowledged) -> None:
        draft = self._by_ref.get(("user", data.message_id))
        if draft is not None:
            draft.ids.add(data.provider_message_id)
            draft.named = draft.whole = True

    def _piece(self, kind: Kind, data: v.AssistantMessage | v.AssistantReasoning) -> None:
        ref = data.message_id or f"{self._turn}:{len(self._drafts)}"
        draft = self._by_ref.get((kind, ref))
        if draft is None:
            named = data.message_id is not None and _MINTED.fullmatch(ref) is None
            draft = self._add(kind, "", ref, ids={ref} if named else set(), named=named)
        draft.parts.append(said(data.text) if isinstance(data.text, v.Blob) else data.text)
        draft.whole = not data.interrupted

    def _call(self, data: v.ToolCall) -> None:
        self._add("tool", data.name, data.call_id, ids={data.call_id}, named=True, whole=False)
        self._details[data.call_id] = data.detail

    def _result(self, data: v.ToolResult | v.ToolSettled) -> None:
        draft = self._by_ref.get(("tool", data.call_id))
        if draft is not None:
            draft.whole = draft.whole or data.status != "unknown"
            self._details[data.call_id] = data.detail


class _HistoryReader:
    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.told: list[Told] = []
        self._turn = -1
        self._open = self._announced = self._talked = False
        self._by_ref: dict[tuple[str, str], int] = {}
        self._anonymous: tuple[str, int] | None = None
        self._compaction: int | None = None
        self._call_of: dict[str, str] = {}
        self._methods: Mapping[type, Callable[[Any], int | None]] = {
            p.UserEcho: self._user,
            p.MessageDone: self._done,
            p.ToolStarted: self._call,
            p.ToolProgress: self._call,
            p.ToolFinished: self._call,
            p.Todo: lambda event: self._add("todo", _json(cut_items(event.items))),
            p.Notice: lambda event: self._add("notice", f"{event.level} {event.message[: SHORT // 4]}"),
            p.Compaction: self._compacted,
            p.SubAgent: self._child,
        }

    def take(self, event: p.ProviderEvent) -> None:
        """Read the next event."""
        kind = type(event)  # `isinstance` against a Struct costs five times as much where the answer is no
        if kind is p.TurnStarted:
            self._begin(announced=True)
        elif not self._open or (kind is p.UserEcho and self._talked and not self._announced):
            self._begin(announced=False)
        anonymous, self._anonymous = self._anonymous, None
        item = self._item(event, anonymous)
        self._talked = self._talked or item is not None
        self.told.append(Told(event, self._turn, item))
        if kind in _TERMINAL:
            self._open = False

    def read(self) -> tuple[Sequence[Item], Sequence[Told]]:
        """What was read. Messages without a word are no items: the log does not hold them either."""
        items = [draft.item() for draft in self.drafts]
        empty = [item.kind in ("text", "reasoning") and not item.content for item in items]
        place = dict(zip((i for i, nothing in enumerate(empty) if not nothing), range(len(items)), strict=False))
        told = [Told(t.event, t.turn, place.get(t.item) if t.item is not None else None) for t in self.told]
        return [items[i] for i in place], told

    def _begin(self, *, announced: bool) -> None:
        self._turn += 1
        self._open, self._announced, self._talked = True, announced, False
        self._compaction = None

    def _item(self, event: p.ProviderEvent, anonymous: tuple[str, int] | None) -> int | None:
        if type(event) in _DELTAS:
            delta: p.TextDelta | p.ReasoningDelta = event  # type: ignore[assignment]  # one of the set
            return self._delta(delta, anonymous)
        method = self._methods.get(type(event))
        return method(event) if method is not None else None

    def _add(self, kind: Kind, content: str, **fields: Any) -> int:  # noqa: ANN401 - of the draft
        self.drafts.append(_Draft(kind, self._turn, parts=[content], **fields))
        return len(self.drafts) - 1

    def _user(self, event: p.UserEcho) -> int:
        given = event.provider_message_id.strip()
        ids = {given, event.repeats or ""} - {""}
        return self._add("user", said(event.text), ids=ids, named=bool(given), whole=bool(given))

    def _delta(self, event: p.TextDelta | p.ReasoningDelta, anonymous: tuple[str, int] | None) -> int:
        kind: Kind = "text" if isinstance(event, p.TextDelta) else "reasoning"
        if event.message_id is not None:
            place = self._message(kind, event.message_id)
        elif anonymous is not None and anonymous[0] == kind:
            place = anonymous[1]
        else:
            place = self._add(kind, "")
        if event.message_id is None:
            self._anonymous = (kind, place)
        self.drafts[place].parts.append(event.text)
        return place

    def _done(self, event: p.MessageDone) -> int:
        place = self._message("reasoning" if event.reasoning else "text", event.message_id)
        if event.text is not None:
            self.drafts[place].parts = [event.text]
        return place

    def _message(self, kind: Kind, ident: str) -> int:
        if (kind, ident) not in self._by_ref:
            self._by_ref[kind, ident] = self._add(kind, "", ids={ident}, named=True)
        return self._by_ref[kind, ident]

    def _compacted(self, event: p.Compaction) -> int | None:
        if event.phase == "start":
            self._compaction = self._add("compaction", "")
        return self._compaction

    def _child(self, event: p.SubAgent) -> int | None:
        if event.call_id:
            self._call_of[event.child_id] = event.call_id
        return self._by_ref.get(("tool", self._call_of.get(event.child_id, "")))

    def _call(self, event: p.ToolStarted | p.ToolProgress | p.ToolFinished) -> int | None:
        if not event.call_id:
            return None
        known = self._by_ref.get(("tool", event.call_id))
        if known is None or self.drafts[known].turn != self._turn:
            named = {event.call_id}
            known = self._add("tool", event.name, ids=named, named=True, whole=False)
            self._by_ref["tool", event.call_id] = known
        if isinstance(event, p.ToolFinished) and event.status not in ("running", "unknown"):
            self.drafts[known].whole = True
        return known
