"""A session as a person reads it: who said what, what was run, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from greenroom.sessions import Event, Header
from greenroom.sessions import vocabulary as v

_DETAIL_FIELDS: Final = ("command", "path", "query", "url", "description", "label")
_OUTPUT_FIELDS: Final = ("output", "diff", "content", "result", "text", "log")
_OUTPUT_LINES: Final = 12
"""Lines of a tool's output; `--json` has all of them."""


class Transcript:
    """Turns events into lines, in order. Pieces of one message become one text."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._speaker = ""
        self._message: str | None = None

    def lines(self, event: Event) -> Iterator[str]:
        """What is to be printed now that this event has come; control characters are shown as such."""
        try:
            data = event.data
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield from self.finish()
            yield _clean(f"[{event.seq}: {event.type} cannot be read]")
            return
        if isinstance(data, (v.AssistantMessage, v.AssistantReasoning)):
            yield from self._piece(data)
            return
        show = _SHOWN.get(event.type)
        if show is not None:
            found = list(show(data))
            yield from self.finish()
            yield from (_clean(line) for line in found)

    def _piece(self, data: v.AssistantMessage | v.AssistantReasoning) -> Iterator[str]:
        speaker = "assistant" if isinstance(data, v.AssistantMessage) else "thinking"
        if speaker != self._speaker or data.message_id != self._message:
            yield from self.finish()
        self._speaker, self._message = speaker, data.message_id
        self._said.append(_text(data.text))
        if data.final:
            yield from self.finish()

    def finish(self) -> Iterator[str]:
        """What is left when nothing more comes."""
        if text := "".join(self._said).strip():
            yield _clean(f"{self._speaker}: {text}")
        self._said, self._speaker, self._message = [], "", None


def heading(header: Header, count: int) -> Iterator[str]:
    """Who, where and when."""
    yield f"session {header.id} ({count} events)"
    yield f"created {moment(header.created_at)}"
    for name in ("provider", "cwd", "parent_session", "origin"):
        if (value := getattr(header, name)) is not None:
            yield _clean(f"{name.replace('_', ' ')} {value}")


def moment(milliseconds: int) -> str:
    """A time as the user's clock shows it."""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(" ", timespec="seconds")


def _text(text: v.LongText) -> str:
    return text if isinstance(text, str) else f"[{text.bytes} bytes]"


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def _indent(text: str) -> str:
    rows = text.rstrip().splitlines()
    more = [f"... {len(rows) - _OUTPUT_LINES} more lines"] if len(rows) > _OUTPUT_LINES else []
    return "\n".join(f"    {row}" for row in [*rows[:_OUTPUT_LINES], *more])


def _message(who: str) -> Callable[[v.UserMessage], Iterator[str]]:
    def show(data: v.UserMessage) -> Iterator[str]:
        source = data.message.source
        name = who if isinstance(source, v.UserSource) else f"{who} ({type(source).__name__[:-6].lower()})"
        yield f"{name}: " + "\n".join(_block(block) for block in data.message.content)

    return show


def _block(block: v.Content) -> str:
    if isinstance(block, v.Text):
        return _text(block.text)
    if isinstance(block, v.Image):
        return f"[image {block.media_type}]"
    return f"[{block.kind} {block.title}]"


def _turn_start(data: v.TurnStart) -> Iterator[str]:
    yield f"\n-- turn {data.turn} ({data.trigger.kind})"


def _turn_end(data: v.TurnEnd) -> Iterator[str]:
    reason = data.reason
    if reason.kind != "completed":
        words = (reason.kind, reason.cause, reason.by, reason.reason, reason.code, reason.message)
        yield f"-- turn {data.turn} ended: " + " ".join(word for word in words if word)


def _tool_call(data: v.ToolCall) -> Iterator[str]:
    yield f"tool: {data.name} {_first(data.detail, _DETAIL_FIELDS)}".rstrip()


def _tool_result(data: v.ToolResult | v.ToolSettled) -> Iterator[str]:
    output = _text(data.output) if data.output else _first(data.detail, _OUTPUT_FIELDS)
    yield f"  {data.status}" + (f": {data.error}" if data.error else "")
    if output.strip():
        yield _indent(output)


def _first(detail: v.ToolDetail, names: tuple[str, ...]) -> str:
    found = (getattr(detail, name, None) for name in names)
    return next((value for value in found if isinstance(value, str) and value), "")


def _todo(data: v.TodoWrite) -> Iterator[str]:
    marks = {"completed": "x", "in_progress": "~", "pending": " "}
    yield "todo:\n" + "\n".join(f"  [{marks[item.status]}] {item.text}" for item in data.items)


def _permission(data: v.PermissionAsked) -> Iterator[str]:
    yield f"asked: {data.request.title or data.request.name}"


def _answer(data: v.PermissionAnswered) -> Iterator[str]:
    yield f"answered: {'allow' if isinstance(data.response, v.PermissionAllow) else 'deny'} (by {data.by})"


def _notice(data: v.Notice) -> Iterator[str]:
    yield f"{data.level}: {data.message}"


def _recast(data: v.SessionRecast) -> Iterator[str]:
    yield f"-- the timeline starts anew ({data.reason}); events from {data.keep_before} on are not shown to clients"


_SHOWN: Final[dict[str, Callable[..., Iterator[str]]]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "user/message": _message("user"),
    "context/message": _message("context"),
    "steering/message": _message("user"),
    "tool/call": _tool_call,
    "tool/result": _tool_result,
    "tool/settled": _tool_result,
    "todo/write": _todo,
    "permission/asked": _permission,
    "permission/answered": _answer,
    "notice": _notice,
    "session/recast": _recast,
}
