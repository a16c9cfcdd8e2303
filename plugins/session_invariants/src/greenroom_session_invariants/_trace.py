"""What the checks remember of a session: everything that is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from greenroom.sessions import Event, Header, InboxState, Vocabulary
from greenroom.sessions.vocabulary import JsonValue

OpenCall: TypeAlias = tuple[int, bool]
"""A tool request or call without a result: the step it belongs to, and whether it was started."""


class LogTrace(Struct, frozen=True):
    """The open turn and step, unanswered calls and questions, the inbox; immutable.

    `seq` is that of the last event that changed the trace. `closed` are the calls of
    the open turn that have a result, with their status.
    """

    vocabulary: Vocabulary
    strict: bool
    seed_length: int
    seq: int = -1
    turn: int | None = None
    last_turn: int = 0
    step: int | None = None
    last_step: int = 0
    reveals_steps: bool = False
    compacting: bool = False
    calls: dict[str, OpenCall] = {}
    closed: dict[str, str] = {}
    inbox: InboxState = InboxState()
    asked: dict[str, int | None] = {}


def start(header: Header, vocabulary: Vocabulary, *, strict: bool) -> LogTrace:
    """The trace of a session without events."""
    return LogTrace(vocabulary, strict, header.seed_length or 0)


def fold(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    """The trace after the event, whether it was allowed or not."""
    change = FOLDS.get(event.type)
    return change(trace, event, data) if change is not None else trace


def _turn_start(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    return replace(
        trace, seq=event.seq, turn=data.turn, last_turn=data.turn, step=None, last_step=0,
        compacting=False, calls={}, closed={},
    )  # fmt: skip


def _turn_end(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    asked = trace.asked
    if asked and data.reason.kind == "interrupted":
        asked = {id_: turn for id_, turn in asked.items() if turn != data.turn}
    return replace(trace, seq=event.seq, turn=None, step=None, compacting=False, calls={}, closed={}, asked=asked)


def _step_start(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    return replace(trace, seq=event.seq, step=data.step, last_step=data.step)


def _step_end(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    del data
    return replace(trace, seq=event.seq, step=None)


def _header(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    return replace(trace, seq=event.seq, reveals_steps=data.reveals_steps)


def _assistant(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    if not data.requests:
        return trace
    requested = {request.call_id: (data.step, False) for request in data.requests}
    return replace(trace, seq=event.seq, calls={**trace.calls, **requested})


def _call(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    return replace(trace, seq=event.seq, calls={**trace.calls, data.call_id: (data.step, True)})


def _result(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    if event.surface != "append":
        return trace
    calls = {id_: call for id_, call in trace.calls.items() if id_ != data.call_id}
    return replace(trace, seq=event.seq, calls=calls, closed={**trace.closed, data.call_id: data.status})


def _settled(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    if data.call_id not in trace.closed:
        return trace
    return replace(trace, seq=event.seq, closed={**trace.closed, data.call_id: data.status})


def _asked(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    return replace(trace, seq=event.seq, asked={**trace.asked, data.request.id: data.turn})


def _answered(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    asked = {id_: turn for id_, turn in trace.asked.items() if id_ != data.request_id}
    return replace(trace, seq=event.seq, asked=asked)


def _spliced(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    if event.seq < trace.seed_length:
        return trace
    return replace(trace, seq=event.seq, inbox=trace.inbox.forced(data))


def _compaction(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace:
    del data
    return replace(trace, seq=event.seq, compacting=event.type == "compaction/start")


FOLDS: Final[dict[str, Callable[[LogTrace, Event, JsonValue], LogTrace]]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "request/header": _header,
    "assistant/message": _assistant,
    "tool/call": _call,
    "tool/result": _result,
    "tool/settled": _settled,
    "permission/asked": _asked,
    "permission/answered": _answered,
    "inbox/spliced": _spliced,
    "compaction/start": _compaction,
    "compaction/end": _compaction,
}
