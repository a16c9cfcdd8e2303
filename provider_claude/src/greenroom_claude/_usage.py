"""Numbers: tokens, cost, and how full the context is.

The context is what the *last request* carried: its input with everything cached, plus what it wrote. The totals of a
`result` add up the requests of a turn, so they are a fallback only (a proxy may stream no numbers).
"""

from __future__ import annotations

import math

from greenroom.providers import Json, ProviderEvent, Usage, UsageUpdated, finite_usage

from ._state import State
from ._wire import Frame, int_at, object_at

_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _input(usage: Json) -> int:
    return sum(int_at(usage, key) or 0 for key in _INPUT)


def request_usage(state: State, usage: Json, *, starts: bool) -> list[ProviderEvent]:
    """The numbers of the running request: at its start, and at its end with what it wrote."""
    stated = _input(usage)
    if starts or stated:  # an end may come without a start, and without the input
        state.request_input = stated
    used = state.request_input + (0 if starts else int_at(usage, "output_tokens") or 0)
    if not used:
        return []
    if state.turn:
        state.turn.metered = True
    return _context(state, used)


def stated_usage(state: State, frame: Frame) -> list[ProviderEvent]:
    """A `task_progress` of the main conversation: the agent's own count beats ours from then on."""
    used = int_at(object_at(frame, "usage"), "total_tokens")
    if used is None:
        return []
    state.context_forced = False
    events = _context(state, used)
    state.context_forced = True
    return events


def _context(state: State, used: int) -> list[ProviderEvent]:
    if state.context_forced:
        return []
    state.context_used = used
    usage = Usage(context_used=used, context_max=state.context_max)
    return [UsageUpdated(usage=usage, turn_id=state.turn_id)]


def turn_usage(state: State, frame: Frame) -> Usage | None:
    """The numbers of a finished turn. A number that is not finite drops all of them."""
    usage = object_at(frame, "usage")
    windows = [int_at(model, "contextWindow") for model in object_at(frame, "modelUsage").values()]
    state.context_max = max((window for window in windows if window), default=state.context_max)
    if not (state.turn and state.turn.metered) and not state.context_forced:
        state.context_used = (_input(usage) + (int_at(usage, "output_tokens") or 0)) or state.context_used
    said = finite_usage(
        Usage(
            input_tokens=int_at(usage, "input_tokens"),
            cached_input_tokens=int_at(usage, "cache_read_input_tokens"),
            cache_write_tokens=int_at(usage, "cache_creation_input_tokens"),
            output_tokens=int_at(usage, "output_tokens"),
            reasoning_tokens=int_at(object_at(usage, "output_tokens_details"), "thinking_tokens"),
            total_cost_usd=_cost(frame),
            context_max=state.context_max,
            context_used=state.context_used,
        )
    )
    return None if said == Usage() else said


def _cost(frame: Frame) -> float | None:
    value = frame.get("total_cost_usd")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an int beyond every cost
        return math.inf
