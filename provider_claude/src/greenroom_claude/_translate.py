"""From stream-json to provider events, without I/O.

The shell feeds every frame that it reads, and tells every frame that it writes; both answer with events. A frame that
nobody here knows, or that is not what it should be, becomes a `raw` event and never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView

from greenroom.providers import (
    Compaction,
    Json,
    JsonObject,
    PermissionResponse,
    ProviderError,
    ProviderEvent,
    Raw,
    TurnFailed,
    TurnStarted,
)

from . import _control, _stream, _system, _turns, _user
from ._state import State
from ._wire import Frame, object_at, text_at

Handler = Callable[[State, Frame], list[ProviderEvent]]

FRAMES: dict[str, Handler] = {
    "stream_event": _stream.stream_event,
    "assistant": _stream.assistant,
    "user": _user.user,
    "system": _system.system,
    "result": _turns.finish,
    "control_request": _control.control_request,
    "control_response": _control.control_response,
    "control_cancel_request": _control.control_cancel,
    "command_lifecycle": _system.command_lifecycle,
    "rate_limit_event": _system.rate_limit,
    "conversation_reset": _system.conversation_reset,
    "auth_status": _system.auth_status,
    **dict.fromkeys(
        ("active_goal", "keep_alive", "prompt_suggestion", "tool_progress", "tool_use_summary", "transcript_mirror"),
        _system.silent,
    ),
}
"""Type of a frame to what reads it."""

_AFTER_BOUNDARY = frozenset({"stream_event", "assistant", "result"})
_MALFORMED = (TypeError, KeyError, AttributeError, ValueError, IndexError, OverflowError, RecursionError)


class Translator:
    """The meaning of one process's frames. Not safe for use from two tasks at once."""

    def __init__(self, native_id: str | None = None) -> None:
        """Start with nothing known but, for a resumed session, its id."""
        self._state = State(native_id=native_id)

    def feed(self, frame: Json) -> list[ProviderEvent]:
        """The events that a frame from the agent means. Never raises."""
        state = self._state
        before = state.turn
        try:
            kind = frame["type"]
            handler = FRAMES.get(kind)
            if handler is None:
                return [Raw(kind=str(kind), payload=frame, turn_id=state.turn_id)]
            if state.boundary is not None and kind in _AFTER_BOUNDARY:
                return [*_turns.end_compaction(state), *handler(state, frame)]
            return handler(state, frame)
        except _MALFORMED as error:
            kind = f"malformed/{type(error).__name__}"
            raw = Raw(kind=kind, payload=frame, turn_id=state.turn_id)
            begun = state.turn is not None and state.turn is not before and state.turn.started
            return [TurnStarted(turn_id=state.turn_id), raw] if begun else [raw]

    received = feed  # the name of this method at the seam of providers

    def sent(self, frame: JsonObject, *, steer: bool = False) -> list[ProviderEvent]:
        """Note a frame that goes to the agent, and what it means. `steer`: the message should join the open turn."""
        state, kind = self._state, frame.get("type")
        prompt = text_at(frame, "uuid")
        if kind == "user" and prompt:
            state.sent[prompt] = steer
        elif kind == "control_response":
            return _control.answered(state, object_at(frame, "response"))
        elif kind == "control_request" and text_at(object_at(frame, "request"), "subtype") == "interrupt":
            state.interrupting = state.turn is not None
        return []

    def answer(self, request_id: str, response: PermissionResponse) -> JsonObject:
        """The frame that answers an open question. The question closes when the frame is told to `sent`.

        Raises:
            MalformedAnswer: the answer does not fit; the question stays open.
            ProviderError: no such question is open.
        """
        if request_id not in self._state.questions:
            raise ProviderError(f"no question {request_id!r} is open")
        question, request = self._state.questions[request_id]
        body = _control.answer_body(question, request, response)
        answer = {"subtype": "success", "request_id": request_id, "response": body}
        return {"type": "control_response", "response": answer}

    def closed(self, error: str, *, code: str = "process_exited", diagnostic: str | None = None) -> list[ProviderEvent]:
        """The process is gone: questions are withdrawn, and every turn that waits for an end fails with `error`."""
        state = self._state
        events: list[ProviderEvent] = []
        for ident in list(state.questions):
            events += _control.control_cancel(state, {"request_id": ident})
        while state.turn is not None or state.outer is not None:
            if state.turn is None:
                state.turn, state.outer = state.outer, None
                continue
            failed = TurnFailed(turn_id=state.turn_id, error=error, code=code, diagnostic=diagnostic)
            events += _turns.close(state, failed)
        if state.compacting:
            state.compacting = False
            events.append(Compaction(phase="end", error=error))
        return events

    @property
    def background(self) -> tuple[JsonObject, ...]:
        """The work that goes on after a turn: the agent's own rows, each with `task_id` and `description`."""
        return tuple(self._state.background)

    @property
    def native_id(self) -> str | None:
        """The agent's session id, as far as it is known."""
        return self._state.native_id

    @property
    def model(self) -> str | None:
        """The model, in the agent's own words, as far as it is known."""
        return self._state.model

    @property
    def context_max(self) -> int | None:
        """Tokens that the model's context can hold, as far as it is known."""
        return self._state.context_max

    @property
    def questions(self) -> KeysView[str]:
        """The ids of the questions that wait for an answer."""
        return self._state.questions.keys()

    @property
    def mode(self) -> str | None:
        """The permission mode, as far as it is known."""
        return self._state.mode

    @property
    def open_turn(self) -> str | None:
        """The id of the turn that runs, where it is known."""
        return self._state.turn_id
