"""What the main model writes: the stream of its blocks, and the whole blocks that follow."""

from __future__ import annotations

from collections.abc import Callable

from greenroom.providers import (
    JsonObject,
    MessageDone,
    Notice,
    PartialObject,
    ProviderEvent,
    Raw,
    ReasoningDelta,
    StepBoundary,
    TextDelta,
    ToolProgress,
    ToolStarted,
)

from . import _turns
from ._state import Block, Call, Message, State
from ._usage import request_usage
from ._wire import SILENT_BLOCKS, TOOL_BLOCKS, Frame, content_blocks, int_at, is_result, object_at, text_at

StreamHandler = Callable[[State, Frame, JsonObject], list[ProviderEvent]]
_SILENT_DELTAS = frozenset({"signature_delta", "citations_delta", "compaction_delta"})


def stream_event(state: State, frame: Frame) -> list[ProviderEvent]:
    """An event of the model's own stream. Only the main conversation has them."""
    if frame.get("parent_tool_use_id") is not None:
        return []
    event = frame["event"]
    handler = STREAM.get(event["type"])
    if handler is None:
        return [Raw(kind=f"stream_event/{event['type']}", payload=frame, turn_id=state.turn_id)]
    return handler(state, frame, event)


def _message(state: State, ident: str | None) -> tuple[Message, list[ProviderEvent]]:
    """The answer `ident` (one is minted without), which becomes the one that is written, and what that begins."""
    events = _turns.output(state)
    current = state.message
    if current is None or (ident is not None and ident != current.id):
        ident = ident or state.mint("message")
        current = state.message = state.messages.get(ident) or state.remember(Message(ident))
    if _turns.step(state, current.id):
        events.append(StepBoundary(turn_id=state.turn_id))
    return current, events


def _message_start(state: State, _: Frame, event: JsonObject) -> list[ProviderEvent]:
    start = object_at(event, "message")
    state.message = None
    events = _message(state, text_at(start, "id"))[1]
    return events + request_usage(state, start.get("usage"), starts=True)


def _message_delta(state: State, _: Frame, event: JsonObject) -> list[ProviderEvent]:
    return request_usage(state, event.get("usage"), starts=False) if state.turn else []


def _message_stop(state: State, frame: Frame, _: JsonObject) -> list[ProviderEvent]:
    message, state.message = state.message, None
    abandoned = object_at(frame, "abandoned_blocks")
    if message is None or not abandoned:
        return []
    first = int_at(abandoned, "from_block_index") or 0
    events: list[ProviderEvent] = []
    for index, block in message.blocks.items():
        if index >= first and block.parts and not block.whole:
            block.whole = True
            reasoning = block.kind == "thinking"
            events.append(
                MessageDone(message_id=block.id, reasoning=reasoning, interrupted=True, turn_id=state.turn_id)
            )
    return events


def _block_start(state: State, frame: Frame, event: JsonObject) -> list[ProviderEvent]:
    content = object_at(event, "content_block")
    kind = text_at(content, "type") or ""
    message, events = _message(state, text_at(frame, "api_message_id"))
    index = event["index"]
    block = message.blocks[index] = Block(kind, message.block_id(index))
    text = text_at(content, "text", "thinking")
    if kind in TOOL_BLOCKS:
        call, name = text_at(content, "id"), text_at(content, "name")
        if call and name:
            block.call, block.input = call, PartialObject()
            return events + start_call(state, call, name, object_at(content, "input"))
    elif text:
        events.append(_piece(state, block, text))
    return events


def _block_delta(state: State, frame: Frame, event: JsonObject) -> list[ProviderEvent]:
    delta = event["delta"]
    kind = delta["type"]
    message = state.message
    ident = frame.get("api_message_id")
    events: list[ProviderEvent] = []
    if message is None or state.turn is None or (ident is not None and ident != message.id):
        if isinstance(ident, str) and ident in state.messages and state.turn is None:
            return []  # the tail of an answer whose turn is over
        message, events = _message(state, ident if isinstance(ident, str) else None)
    index = event.get("index", 0)
    block = message.blocks.get(index)
    if block is None:
        block = message.blocks[index] = Block(kind.removesuffix("_delta"), message.block_id(index))
    if kind in {"text_delta", "thinking_delta"}:
        text = delta[kind[:-6]]
        if text:
            events.append(_piece(state, block, text))
    elif kind == "input_json_delta":
        events += _grow(state, block, delta["partial_json"])
    elif kind not in _SILENT_DELTAS:
        events.append(Raw(kind=f"delta/{kind}", payload=frame, turn_id=state.turn_id))
    return events


def _piece(state: State, block: Block, text: str) -> ProviderEvent:
    if not isinstance(text, str):
        raise TypeError("a piece of text is no string")
    block.parts.append(text)
    if block.kind == "thinking":
        return ReasoningDelta(text=text, message_id=block.id, turn_id=state.turn_id)
    return TextDelta(text=text, message_id=block.id, turn_id=state.turn_id)


def _grow(state: State, block: Block, text: str) -> list[ProviderEvent]:
    call = state.calls.get(block.call or "")
    if call is None or block.call is None or block.input is None or not block.input.feed(text):
        return []
    call.input = {**call.input, **block.input.fields}
    return [ToolProgress(call_id=block.call, name=call.name, input=call.input, turn_id=state.turn_id)]


def _nothing(_: State, __: Frame, ___: JsonObject) -> list[ProviderEvent]:
    return []


STREAM: dict[str, StreamHandler] = {
    "message_start": _message_start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": _nothing,
    "message_delta": _message_delta,
    "message_stop": _message_stop,
    "ping": _nothing,
}
"""Type of a stream event to what reads it."""


def start_call(state: State, call: str, name: str, given: JsonObject) -> list[ProviderEvent]:
    """A call of the main conversation, or more of its input."""
    open_call = state.calls.get(call)
    if open_call is None:
        state.past_calls.pop(call, None)
        state.calls[call] = Call(name, given)
        return [ToolStarted(call_id=call, name=name, input=given, turn_id=state.turn_id)]
    if not given or given == open_call.input:
        return []
    open_call.input = given
    return [ToolProgress(call_id=call, name=name, input=given, turn_id=state.turn_id)]


def assistant(state: State, frame: Frame) -> list[ProviderEvent]:
    """A finished block (older versions: several) of an answer; what was streamed of it is not said twice."""
    if text_at(frame, "parent_tool_use_id"):
        return state.agents.items(frame) + _agent_progress(state, frame)
    body = frame["message"]
    model = text_at(body, "model")
    error = text_at(frame, "error")
    if model == "<synthetic>" and (error or frame.get("is_api_error_message") is True):
        text = "\n".join(text_at(block, "text") or "" for block in content_blocks(body))
        state.api_error = (text or "the request failed", error or "api_error")
        return []
    if model == "<synthetic>" and state.turn is None and not state.announced:
        text = "\n".join(text_at(block, "text") or "" for block in content_blocks(body))
        return [Notice(message=text)] if text else []
    ident = text_at(body, "id")
    known = state.messages.get(ident or "")
    if state.turn is None and known is not None:
        return []  # a copy of an answer whose turn is over
    message, events = _message(state, ident)
    first = int_at(frame, "block_index")
    for place, block in enumerate(content_blocks(body)):
        index = first + place if first is not None else max(message.blocks, default=-1) + 1
        events += _whole(state, message, block, index, aborted=frame.get("aborted") is True)
    return events


def _whole(state: State, message: Message, content: JsonObject, index: int, *, aborted: bool) -> list[ProviderEvent]:
    """A finished block, which has this index unless it was streamed."""
    kind = text_at(content, "type") or ""
    if is_result(content):
        from ._user import tool_result

        return tool_result(state, {}, content)
    if kind in TOOL_BLOCKS:
        call, name = text_at(content, "id"), text_at(content, "name")
        return start_call(state, call, name, object_at(content, "input")) if call and name else []
    if kind not in {"text", "thinking"}:
        known = kind in SILENT_BLOCKS
        return [] if known else [Raw(kind=f"block/{kind}", payload=content, turn_id=state.turn_id)]
    text = text_at(content, kind) or ""
    block = next((b for b in message.blocks.values() if b.kind == kind and not b.whole), None)
    if block is None:
        if any(b.kind == kind and b.parts == [text] for b in message.blocks.values()) or not text:
            return []
        block = message.blocks[index] = Block(kind, message.block_id(index))
    streamed = "".join(block.parts)
    block.whole, block.parts = True, [text]
    events: list[ProviderEvent] = []
    if text.startswith(streamed) and len(text) > len(streamed):
        delta = ReasoningDelta if kind == "thinking" else TextDelta
        events.append(delta(text=text[len(streamed) :], message_id=block.id, turn_id=state.turn_id))
    if text or streamed:
        reasoning = kind == "thinking"
        events.append(
            MessageDone(message_id=block.id, text=text, reasoning=reasoning, interrupted=aborted, turn_id=state.turn_id)
        )
    return events


def _agent_progress(state: State, frame: Frame) -> list[ProviderEvent]:
    """The call that started the sub-agent, while it runs: with what the sub-agent did last."""
    ident = text_at(frame, "parent_tool_use_id") or ""
    call, child = state.calls.get(ident), state.agents.by_call.get(ident)
    acts = any(block.get("type") in TOOL_BLOCKS for block in content_blocks(frame.get("message")))
    if call is None or child is None or not acts:
        return []
    detail = child.detail()
    return [ToolProgress(call_id=ident, name=call.name, input=call.input, detail=detail, turn_id=state.turn_id)]
