"""Frames as the agent writes them, in short."""

from __future__ import annotations

from typing import Any

from claude_recordings import processes, translate

from greenroom import providers as p
from greenroom_claude import Translator


def events_of(name: str) -> list[p.ProviderEvent]:
    """The events of a recording of one process."""
    (conversation,) = processes(name)
    return translate(conversation)


def of(kind: Any, events: list[p.ProviderEvent]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def text(events: list[p.ProviderEvent]) -> str:
    """All text that a client was shown as the answer."""
    return "".join(event.text for event in of(p.TextDelta, events))


def stream(kind: str, **more: Any) -> dict[str, Any]:
    """A `stream_event`."""
    return {"type": "stream_event", "event": {"type": kind, **more}, "parent_tool_use_id": None, "uuid": "frame"}


def delta(said: str, index: int = 0) -> dict[str, Any]:
    """A piece of text."""
    return stream("content_block_delta", index=index, delta={"type": "text_delta", "text": said})


def start(ident: str | None = "m1", **usage: int) -> dict[str, Any]:
    """The start of a model answer."""
    return stream("message_start", message={**({"id": ident} if ident else {}), "usage": usage})


def whole(said: str, ident: str | None = "m1", **more: Any) -> dict[str, Any]:
    """A finished block of text."""
    return blocks({"type": "text", "text": said}, ident=ident, **more)


def blocks(*content: dict[str, Any], ident: str | None = "m1", **more: Any) -> dict[str, Any]:
    """A frame with finished blocks."""
    message = {"role": "assistant", "content": list(content), **({"id": ident} if ident else {})}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, "uuid": "w", **more}


def tool(name: str, given: dict[str, Any], ident: str = "t1") -> dict[str, Any]:
    """A tool call as a block."""
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def returned(content: Any, ident: str | None = "t1", raw: Any = None, **more: Any) -> dict[str, Any]:
    """A `user` frame with a result."""
    block = {"type": "tool_result", "content": content, **({"tool_use_id": ident} if ident else {}), **more}
    message = {"role": "user", "content": [block]}
    return {"type": "user", "message": message, "uuid": "u", "parent_tool_use_id": None, "tool_use_result": raw}


def system(subtype: str, **more: Any) -> dict[str, Any]:
    """A `system` frame."""
    return {"type": "system", "subtype": subtype, **more}


def asks(name: str, given: dict[str, Any], ident: str = "q1", **more: Any) -> dict[str, Any]:
    """A `can_use_tool` request."""
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": "t1", **more}
    return {"type": "control_request", "request_id": ident, "request": request}


def begun(ident: str) -> dict[str, Any]:
    """The agent takes up a prompt."""
    return {"type": "command_lifecycle", "command_uuid": ident, "state": "started"}


def result(ident: str | None = None, **more: Any) -> dict[str, Any]:
    """The end of a turn."""
    named = {"user_message_uuids": [ident]} if ident else {}
    own = f"r-{ident}-{len(more)}"
    return {"type": "result", "subtype": "success", "is_error": False, "uuid": own, **named, **more}


def prompt(ident: str, said: str = "hi") -> dict[str, Any]:
    """A user message."""
    return {"type": "user", "message": {"role": "user", "content": said}, "uuid": ident, "parent_tool_use_id": None}


def feed(*frames: dict[str, Any], translator: Translator | None = None) -> list[p.ProviderEvent]:
    """The events of some frames."""
    translator = translator or Translator()
    return [event for frame in frames for event in translator.feed(frame)]
