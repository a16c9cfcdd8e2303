"""What closes a turn that nobody will finish: events in, closers out, no I/O.

The order is that of our own cancel: final pieces of open messages, tool results in
the order of the log, the step's end, a compaction's end, claimed input back to the
inbox, the turn's end. The same events give the same closers, so that a crash during
a recovery is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from greenroom.providers._details import ToolDetail, UnknownDetail
from greenroom.sessions._event import Event, Surface
from greenroom.sessions._state import SessionState
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    AssistantReasoning,
    CompactionEnd,
    InboxSpliced,
    JsonValue,
    Message,
    Reason,
    StepEnd,
    Target,
    ToolResult,
    TurnEnd,
)

NOT_STARTED: Final = "This tool call was not started: the run ended first. It had no effect and may be tried again."
UNKNOWN: Final = (
    "The outcome of this tool call is unknown: the run ended before its result was recorded. It may have had "
    "effects. Try it again only if that is harmless, otherwise look first or ask."
)
LOST: Final = "the run ended during the compaction"

INTERRUPTED: Final = Reason("interrupted")
"""Written only by recovery."""


@dataclass(frozen=True, slots=True)
class Closer:
    """An event that is to be appended."""

    type: str
    data: JsonValue
    surface: Surface | None = None
    sources: tuple[int, ...] | None = None


@dataclass(slots=True)
class _Call:
    """A request or call that has no result yet; `seq` is the call's, None if it was never started."""

    detail: ToolDetail
    seq: int | None = None


@dataclass(slots=True)
class _OpenTurn:
    """What is unfinished in the events of an open turn."""

    turn: int
    step: int | None = None
    provider_turn: str | None = None
    pieces: dict[tuple[str, str | None], None] = field(default_factory=dict)  # an ordered set
    calls: dict[str, _Call] = field(default_factory=dict)
    compaction: str | None = None
    entered: set[str] = field(default_factory=set)
    claimed: dict[Target, list[Message]] = field(default_factory=dict)


def closers(events: Sequence[Event], state: SessionState, *, reason: Reason = INTERRUPTED) -> list[Closer]:
    """What closes the open turn, in order; [] if none is open.

    `events` are those from the open turn's start to the end of the log, `state` is
    folded from the whole log.
    """
    if state.open_turn is None:
        return []
    found = _scan(events, state)
    return [*_finals(found), *_results(found), *_brackets(found), *_returned(found, state), _end(found, reason)]


def _end(found: _OpenTurn, reason: Reason) -> Closer:
    return Closer("turn/end", TurnEnd(found.turn, reason))


def _scan(events: Sequence[Event], state: SessionState) -> _OpenTurn:
    found = _OpenTurn(state.open_turn or 0)
    inbox = state.inbox_at_turn
    for event in events:
        if event.type == "inbox/spliced":
            splice = event.data
            if splice.outcome is None:
                for message in inbox.removed(splice):
                    found.claimed.setdefault(splice.target, []).append(message)
            inbox = inbox.forced(splice)
        elif event.type in ("user/message", "context/message", "steering/message"):
            found.entered.add(event.data.message.id)
        elif event.type == "step/start":
            found.step, found.provider_turn = event.data.step, event.data.provider_turn
            found.pieces, found.calls = {}, {}
        elif event.type == "step/end":
            found.step, found.pieces, found.calls = None, {}, {}
        elif event.type in ("compaction/start", "compaction/end"):
            found.compaction = event.data.trigger if event.type == "compaction/start" else None
        else:
            _scan_step(event, found)
    return found


def _scan_step(event: Event, found: _OpenTurn) -> None:
    if event.type in ("assistant/message", "assistant/reasoning"):
        piece = event.data
        if piece.final:
            found.pieces.pop((event.type, piece.message_id), None)
            for request in getattr(piece, "requests", ()):
                found.calls.setdefault(request.call_id, _Call(UnknownDetail(request.input)))
        else:
            found.pieces.setdefault((event.type, piece.message_id))
    elif event.type == "tool/call":
        call = found.calls.setdefault(event.data.call_id, _Call(event.data.detail))
        call.detail, call.seq = event.data.detail, event.seq
    elif event.type == "tool/update":
        if event.data.call_id in found.calls:
            found.calls[event.data.call_id].detail = event.data.detail
    elif event.type == "tool/result" and event.surface == "append":
        found.calls.pop(event.data.call_id, None)


def _finals(found: _OpenTurn) -> Iterator[Closer]:
    if found.step is None:
        return
    for type_name, message_id in found.pieces:
        if type_name == "assistant/message":
            last = AssistantMessage(found.turn, found.step, "", message_id, final=True, interrupted=True)
            yield Closer(type_name, last, "append")
        else:
            thought = AssistantReasoning(found.turn, found.step, "", message_id, final=True, interrupted=True)
            yield Closer(type_name, thought)


def _results(found: _OpenTurn) -> Iterator[Closer]:
    if found.step is None:
        return
    for call_id, call in found.calls.items():
        if call.seq is None:
            result = ToolResult(found.turn, found.step, call_id, "canceled", call.detail, output=NOT_STARTED)
            yield Closer("tool/result", result, "append")
        else:
            result = ToolResult(found.turn, found.step, call_id, "unknown", call.detail, output=UNKNOWN)
            yield Closer("tool/result", result, "append", (call.seq,))


def _brackets(found: _OpenTurn) -> Iterator[Closer]:
    if found.step is not None:
        yield Closer("step/end", StepEnd(found.turn, found.step, found.provider_turn))
    if found.compaction is not None:
        yield Closer("compaction/end", CompactionEnd(found.compaction, error=LOST))


def _returned(found: _OpenTurn, state: SessionState) -> Iterator[Closer]:
    """Claimed messages that never entered the turn go back to the head of their list."""
    known = found.entered | state.inbox.ids
    targets: tuple[Target, ...] = ("next-step", "next-turn")
    for target in targets:
        back = tuple(message for message in found.claimed.get(target, ()) if message.id not in known)
        if back:
            yield Closer("inbox/spliced", InboxSpliced(target, 0, inserted=back))
