"""The checks: first where the event may stand, by its type's enclosure, then what its type asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeAlias

from greenroom.sessions import Event, EventType, Invariant, Violation
from greenroom.sessions.vocabulary import CORE_TYPES, OUTSIDE_WHEN_STRICT, Enclosure, JsonValue

from ._trace import FOLDS, LogTrace, fold, start

_Rule: TypeAlias = Callable[[LogTrace, Event, JsonValue], str | None]
_Row: TypeAlias = tuple[_Rule, _Rule | None, Callable[[LogTrace, Event, JsonValue], LogTrace] | None]


def session_log(*, enclosure: Literal["declared", "strict"] = "declared") -> Invariant:
    """The invariant of the log. `strict`: every type needs an open turn, except those that open one or keep books."""
    return Invariant("session-log", check, partial(start, strict=enclosure == "strict"), fold)


def check(trace: LogTrace, event: Event, data: JsonValue) -> LogTrace | Violation:
    """The next trace, or what is wrong with the event where it would stand."""
    place, rule, change = _TABLE.get(event.type) or _of_plugin(trace, event.type)
    wrong = place(trace, event, data)
    if wrong is None and rule is not None:
        wrong = rule(trace, event, data)
    if wrong is None and event.seq <= trace.seq:
        wrong = f"seq {event.seq} does not follow {trace.seq}"
    if wrong is not None:
        return Violation(f"{event.type}: {wrong}")
    return trace if change is None else change(trace, event, data)


def _of_plugin(trace: LogTrace, name: str) -> _Row:
    """The row of a type that a plugin registered: its enclosure is all that is known of it."""
    entry = trace.vocabulary.entries.get(name)
    return _PLACES[entry.kind.enclosure if entry is not None else "free"], None, None


def _anywhere(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del data
    if trace.strict and trace.turn is None and event.type not in OUTSIDE_WHEN_STRICT:
        return "stands outside a turn, which enclosure = 'strict' refuses"
    return None


def _bracket(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    """What opens or closes a turn is judged by its own rule."""
    del trace, event, data
    return None


def _in_turn(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if trace.turn is None:
        return "stands outside a turn"
    named = getattr(data, "turn", trace.turn)
    return None if named == trace.turn else f"names turn {named}, open is {trace.turn}"


def _in_named_step(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    if data.step == trace.step and data.turn == trace.turn:
        return None
    return _in_step(trace, event, data)


def _in_step(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    if event.type == "tool/result" and event.surface != "append":
        return None if trace.turn is not None else "stands outside a turn"  # a rewrite names its original's place
    wrong = _in_turn(trace, event, data)
    if wrong is not None:
        return wrong
    if trace.step is None:
        return f"stands outside a step of turn {trace.turn}"
    named = getattr(data, "step", trace.step)
    return None if named == trace.step else f"names step {named}, open is {trace.step}"


def _turn_start(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if trace.turn is not None:
        return f"turn {trace.turn} is still open"
    return None if data.turn == trace.last_turn + 1 else f"turn {data.turn} follows turn {trace.last_turn}"


def _turn_end(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if data.turn != trace.turn:
        return f"turn {data.turn} is not open" + (f", turn {trace.turn} is" if trace.turn else "")
    if trace.step is not None:
        return f"step {trace.step} is still open"
    if trace.compacting:
        return "a compaction is still open"
    if data.reason.kind in ("error", "aborted"):
        waiting = sorted(id_ for id_, turn in trace.asked.items() if turn == data.turn)
        if waiting:
            return f"the questions {', '.join(waiting)} of this turn are not answered"
    return None


def _step_start(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if trace.step is not None:
        return f"step {trace.step} is still open"
    return None if data.step == trace.last_step + 1 else f"step {data.step} follows step {trace.last_step}"


def _step_end(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    return None if data.step == trace.step else f"step {data.step} is not open"


def _requests(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    for request in data.requests:
        if request.call_id in trace.calls or request.call_id in trace.closed:
            return f"the call {request.call_id} was requested before"
    return None


def _call(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if data.call_id in trace.closed:
        return f"the call {data.call_id} has a result already"
    known = trace.calls.get(data.call_id)
    if known is not None and known[1]:
        return f"the call {data.call_id} runs already"
    return None


def _update(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if data.call_id in trace.closed:
        return f"the call {data.call_id} has ended as {trace.closed[data.call_id]}"
    return None if data.call_id in trace.calls else f"there is no call {data.call_id} in this turn"


def _result(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    if event.surface != "append":
        return None
    if data.call_id in trace.closed:
        return f"the call {data.call_id} has ended as {trace.closed[data.call_id]}"
    call = trace.calls.get(data.call_id)
    if call is None:
        return f"there is no unanswered call {data.call_id} in this turn"
    step, _started = call
    if trace.reveals_steps and step != data.step:
        return f"the call {data.call_id} is one of step {step}"
    return None


def _settled(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if data.call_id in trace.calls:
        return f"the call {data.call_id} has no result yet"
    status = trace.closed.get(data.call_id, "unknown")
    return None if status == "unknown" else f"the call {data.call_id} has ended as {status}"


def _asked(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    if data.request.id in trace.asked:
        return f"the question {data.request.id} is open already"
    if data.turn is not None and data.turn != trace.turn:
        return f"the question names turn {data.turn}, which is not open"
    return None


def _answered(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del event
    return None if data.request_id in trace.asked else f"there is no open question {data.request_id}"


def _spliced(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    return None if event.seq < trace.seed_length else trace.inbox.misfit(data)


def _compaction(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del data
    if event.type == "compaction/start":
        return "a compaction is open already" if trace.compacting else None
    return None if trace.compacting else "no compaction is open"


def _recast(trace: LogTrace, event: Event, data: JsonValue) -> str | None:
    del trace
    return None if data.keep_before <= event.seq else f"keep_before {data.keep_before} is in the future"


_RULES: Final[dict[str, _Rule]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "assistant/message": _requests,
    "tool/call": _call,
    "tool/update": _update,
    "tool/result": _result,
    "tool/settled": _settled,
    "permission/asked": _asked,
    "permission/answered": _answered,
    "inbox/spliced": _spliced,
    "compaction/start": _compaction,
    "compaction/end": _compaction,
    "session/recast": _recast,
}

_PLACES: Final[dict[Enclosure, _Rule]] = {
    "opens": _bracket,
    "closes": _bracket,
    "turn": _in_turn,
    "step": _in_step,
    "free": _anywhere,
}


def _row(kind: EventType) -> _Row:
    place = _PLACES[kind.enclosure]
    if place is _in_step and "step" in kind.model.__annotations__:
        place = _in_named_step  # the same, faster where nothing is wrong
    return place, _RULES.get(kind.name), FOLDS.get(kind.name)


_TABLE: Final[dict[str, _Row]] = {kind.name: _row(kind) for kind in CORE_TYPES}
