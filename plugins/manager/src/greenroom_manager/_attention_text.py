"""What to tell, in plain words: from the last answer, the question, the error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from greenroom.agents import AgentRecord, AttentionReason
from greenroom.providers import PermissionRequest
from greenroom.sessions import Event

PREVIEW: Final = 220
"""Characters of a text that is told; what fits on a phone's lock screen."""
NAME: Final = 60
"""Characters of an agent's title in the title of a message."""

FINISHED: Final = "The work is done."
FAILED: Final = "The last turn failed."
ASKS: Final = "A question waits for an answer."

_FENCE = re.compile(r"^\s*(```|~~~).*$", re.MULTILINE)
_RULE = re.compile(r"^\s*([-*_]\s*){3,}$|^\s*\|?[\s:|-]+\|[\s:|-]*$", re.MULTILINE)
_PREFIX = re.compile(r"^\s*(?:#{1,6}\s+|>\s?|[-*+]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+)", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])|(?<!\w)_(?=\S)([^_]+?)(?<=\S)_(?!\w)")
_CODE = re.compile(r"`+([^`]+)`+")

_ROWS: Final = (
    *("user/message", "steering/message", "context/message", "assistant/reasoning"),
    *("tool/call", "todo/write", "notice", "compaction/start"),
)
"""Rows of the timeline that are no answer: they stand between one answer and the next."""


def told(
    record: AgentRecord, reason: AttentionReason, *, events: Sequence[Event], questions: Iterable[PermissionRequest]
) -> tuple[str, str]:
    """Title and text for a person.

    Args:
        events: the end of the log; how much of it does not matter as long as the last answer is in it.
        questions: the open ones, the latest last.
    """
    name = preview(record.title or "", NAME) or "Agent"
    if reason == "permission":
        asked = list(questions)
        return f"{name} asks", question_line(asked[-1]) if asked else ASKS
    if reason == "error":
        return f"{name} failed", preview(record.last_error or "") or FAILED
    return f"{name} finished", preview(plain(last_answer(events))) or FINISHED


def last_answer(events: Sequence[Event]) -> str:
    """The last answer of the model: its latest pieces that nothing else stands between; empty if it gave none."""
    pieces: list[tuple[str | None, str]] = []
    for event in reversed(events):
        if event.type == "assistant/message":
            text = event.data.text
            if isinstance(text, str):  # else it is so long that it stands elsewhere
                pieces.append((event.data.message_id, text))
        elif event.type in ("user/message", "turn/start") or (pieces and event.type in _ROWS):
            break
    said, last = "", None
    for message_id, text in reversed(pieces):
        said += text if not said or message_id == last else f"\n\n{text}"
        last = message_id
    return said


def plain(markdown: str) -> str:
    """The text without its markup; whitespace as it is."""
    text = _FENCE.sub("", markdown)
    text = _RULE.sub("", text)
    text = _PREFIX.sub("", text)
    text = _LINK.sub(r"\1", _IMAGE.sub(r"\1", text))
    text = _STRONG.sub(r"\2", _STRONG.sub(r"\2", text))
    text = _EMPHASIS.sub(lambda match: match.group(1) or match.group(2), text)
    return _CODE.sub(r"\1", text)


def preview(text: str, limit: int = PREVIEW) -> str:
    """The text in one line of at most `limit` characters; what is cut ends with an ellipsis."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def question_line(request: PermissionRequest) -> str:
    """What is asked, in a line: its title and what it is about."""
    about = next((text for text in (_subject(request), request.description) if text), "")
    parts = [part for part in (request.title or request.name, about) if part]
    return preview(plain(": ".join(dict.fromkeys(parts)))) or ASKS


def _subject(request: PermissionRequest) -> str | None:
    """The command, file or address that it is about, from its detail or its input."""
    given = request.input or {}
    for name in ("command", "path", "file_path", "query", "url"):
        value = getattr(request.detail, name, None) or given.get(name)
        if isinstance(value, str) and value:
            return value
    questions = given.get("questions")
    first = questions[0] if isinstance(questions, list) and questions else None
    text = first.get("question") if isinstance(first, dict) else None
    return text if isinstance(text, str) else None
