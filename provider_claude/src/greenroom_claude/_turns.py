"""Which turn runs: ours, one that the agent started by itself, or one of its own inside ours.

Newer versions name the prompts of a turn (`command_lifecycle`, `user_message_uuids`); with older ones the prompt that
waits is taken for the one that runs, until the echo says so. A turn without a prompt is the agent's own; it opens
with its first output, because `system/init` alone proves nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from greenroom.providers import (
    Compaction,
    Notice,
    ProviderEvent,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

from ._state import State, Turn
from ._usage import turn_usage
from ._wire import Frame, object_at, text_at, texts_at

_ABORTS = ("aborted", "abort_error", "request was aborted", "interrupted by user")


def begin(state: State, prompt: str) -> list[ProviderEvent]:
    """The agent takes up the prompt with this uuid: as a turn, or as part of the turn that runs."""
    if prompt in state.past_prompts:
        return []
    turn = state.turn
    events: list[ProviderEvent] = []
    if turn is not None and prompt not in turn.prompts:
        if turn.ours or state.sent.get(prompt, True):
            turn.prompts.add(prompt)
            return []
        events = close(state, TurnCompleted(turn_id=turn.id))  # from here on the agent works for us
        turn = state.turn
    if turn is None:
        turn = state.turn = Turn(prompt, ours=True, prompts={prompt})
        state.announced = state.interrupting = False
    return [*events, *_start(state, turn)]


def init(state: State, frame: Frame) -> list[ProviderEvent]:
    """A `system/init`: a turn is about to run, for the prompts that the frame names."""
    prompts = texts_at(frame, "user_message_uuids")
    turn = state.turn
    if prompts:
        state.names_prompts = True
        events = [event for prompt in prompts for event in begin(state, prompt)]
        if state.turn is not None and state.turn.prompts.intersection(prompts):
            state.turn.begun = True
        return events
    waiting = next((prompt for prompt, steer in state.sent.items() if not steer), None)
    if turn is None and not state.names_prompts and waiting is not None:
        return begin(state, waiting)  # a guess, until the agent echoes the prompt
    if turn is not None and turn.ours and not turn.begun and state.names_prompts:
        state.outer, state.turn, state.announced = turn, None, True
    else:
        state.announced = turn is None
    return []


def echoed(state: State, prompt: str) -> None:
    """The agent echoed our prompt: it has begun, or joined the turn that runs."""
    if prompt in state.past_prompts:
        return
    steer = state.sent.pop(prompt, None)
    turn = state.turn
    if turn is not None:
        turn.begun = turn.begun or (not steer and prompt in turn.prompts)
        turn.prompts.add(prompt)


def output(state: State) -> list[ProviderEvent]:
    """The main model says something: a turn runs, the agent's own if nothing else does."""
    if state.turn is not None:
        return []
    state.autonomous += 1
    state.announced = False
    state.turn = Turn(f"auto-{state.autonomous}", ours=False, begun=True)
    return _start(state, state.turn)


def _start(state: State, turn: Turn) -> list[ProviderEvent]:
    if turn.started:
        return []
    turn.started = True
    held, state.held = state.held, []
    return [TurnStarted(turn_id=turn.id), *(replace(event, turn_id=turn.id) for event in held)]


def step(state: State, message_id: str) -> bool:
    """Whether the model answer `message_id` begins a new step of the open turn."""
    turn = state.turn
    if turn is None or turn.message == message_id:
        return False
    first, turn.message = turn.message is None, message_id
    return not first


def finish(state: State, frame: Frame) -> list[ProviderEvent]:
    """A `result`: the end of a turn, not of the work."""
    ident = text_at(frame, "uuid")
    if ident is not None and ident == state.last_result:
        return []
    state.last_result = ident
    events = _settle(state, frame)
    turn = state.turn
    if turn is None:
        return events + _orphan(state, frame)
    events += _start(state, turn)
    events += close(state, _end(state, turn, frame))
    return events


def _settle(state: State, frame: Frame) -> list[ProviderEvent]:
    """Make the turn that `frame` ends the open one, or leave none open if it ends one that is past."""
    named = {*texts_at(frame, "user_message_uuids"), text_at(frame, "user_message_uuid")} - {None}
    foreign = text_at(object_at(frame, "origin"), "kind") is not None
    turn, outer = state.turn, state.outer
    if turn is None:
        return output(state) if state.announced and not named else []
    if named and outer is not None and named & outer.prompts:
        return close(state, TurnCompleted(turn_id=turn.id))  # the inner one ended without a word
    if named and turn.ours and not named & turn.prompts:
        state.turn, state.outer = None, turn  # a stale result: the open turn goes on
    elif turn.ours and not named and not turn.begun and foreign:
        state.outer, state.turn = turn, None  # what ran was the agent's own
        return output(state)
    return []


def _orphan(state: State, frame: Frame) -> list[ProviderEvent]:
    """A result of no open turn: of one that is past, or an error from before the first."""
    if state.outer is not None:
        state.turn, state.outer = state.outer, None
        return []
    errors = texts_at(frame, "errors")
    if frame.get("is_error") is not True or not errors:
        return []
    error = "\n".join(errors)
    if any(not steer for steer in state.sent.values()):
        state.sent.clear()
        return [TurnFailed(error=error, code=text_at(frame, "subtype"))]
    return [Notice(level="error", message=error, code=text_at(frame, "subtype"))]


def _end(state: State, turn: Turn, frame: Frame) -> TurnCompleted | TurnFailed | TurnCanceled:
    usage = turn_usage(state, frame)
    subtype = text_at(frame, "subtype") or "error"
    errors = texts_at(frame, "errors")
    failed = frame.get("is_error") is True or subtype.startswith("error")
    if not failed:
        cut = text_at(frame, "stop_reason") == "max_tokens"
        return TurnCompleted(turn_id=turn.id, usage=usage, max_tokens=cut)
    if subtype == "error_during_execution" and _was_aborted(state, turn, frame, errors):
        return TurnCanceled(turn_id=turn.id, reason="interrupted", usage=usage)
    text, code = state.api_error or (None, None)
    error = text_at(frame, "result") or "\n".join(errors) or text or subtype
    status = frame.get("api_error_status")
    code = code or text_at(frame, "api_error_type") or (str(status) if isinstance(status, int) else subtype)
    return TurnFailed(turn_id=turn.id, error=error, code=code, usage=usage)


def _was_aborted(state: State, turn: Turn, frame: Frame, errors: list[str]) -> bool:
    said = " ".join((text_at(frame, "terminal_reason") or "", *errors)).lower()
    return turn.aborted or state.interrupting or any(word in said for word in _ABORTS)


def close(state: State, terminal: TurnCompleted | TurnFailed | TurnCanceled) -> list[ProviderEvent]:
    """End the open turn with `terminal`; before it, what is still open inside is closed."""
    events: list[ProviderEvent] = list(end_compaction(state))
    events += state.close_calls("unknown" if isinstance(terminal, TurnCompleted) else "canceled")
    if state.api_error and isinstance(terminal, TurnCompleted):
        events.append(Notice(level="error", message=state.api_error[0], code=state.api_error[1]))
    if state.turn is not None:
        state.forget_prompts(state.turn.prompts)
    state.turn, state.outer = state.outer, None
    state.message = state.api_error = None
    state.interrupting = False
    return [*events, terminal]


def end_compaction(state: State, summary: str | None = None) -> list[ProviderEvent]:
    """Write the end of a compaction that is known or overdue; nothing if none is open."""
    boundary, state.boundary = state.boundary, None
    if boundary is None and not state.compacting:
        return []
    state.compacting = False
    if boundary is None:
        return [Compaction(phase="end", error="it did not finish", turn_id=state.turn_id)]
    return [
        Compaction(
            phase="end",
            trigger=boundary.trigger,
            tokens_before=boundary.tokens_before,
            tokens_after=boundary.tokens_after,
            summary=summary,
            turn_id=state.turn_id,
        )
    ]
