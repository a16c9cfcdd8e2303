"""The shapes of stream-json, and readers that trust none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from greenroom.providers import Json, JsonObject

Frame = JsonObject
"""One line of the protocol, decoded."""

RESULT_SUFFIX = "tool_result"
"""All result blocks end like this: `tool_result`, `web_search_tool_result`, `bash_code_execution_tool_result`, …"""
TOOL_BLOCKS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
SILENT_BLOCKS = frozenset({"redacted_thinking", "image", "document", "fallback"})
INTERRUPTED = "[Request interrupted by user"
"""How the text begins with which the agent notes an interruption in its own history."""
PLACEHOLDERS = ("No response requested.", "(no content)")
_TAGGED = re.compile(
    r"^<(local-command-(?:stdout|stderr|caveat)|command-(?:name|message|args))>(.*?)(?:</\1>|$)", re.DOTALL
)
_REMINDER = re.compile(r"<system-reminder>.*</system-reminder>", re.DOTALL)
_TOOL_ERROR = re.compile(r"^<tool_use_error>(.*)</tool_use_error>$", re.DOTALL)


def text_at(frame: Json, *keys: str) -> str | None:
    """The first string under one of `keys`; None if `frame` is no object or has none."""
    if isinstance(frame, dict):
        for key in keys:
            value = frame.get(key)
            if isinstance(value, str):
                return value
    return None


def int_at(frame: Json, *keys: str) -> int | None:
    """The first whole number (no bool) under one of `keys`."""
    if isinstance(frame, dict):
        for key in keys:
            value = frame.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def object_at(frame: Json, *keys: str) -> JsonObject:
    """The first object under one of `keys`, else an empty one."""
    if isinstance(frame, dict):
        for key in keys:
            value = frame.get(key)
            if isinstance(value, dict):
                return value
    return {}


def objects_at(frame: Json, key: str) -> list[JsonObject]:
    """The objects in the list under `key`."""
    value = frame.get(key) if isinstance(frame, dict) else None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_at(frame: Json, key: str) -> list[str]:
    """The strings in the list under `key`."""
    value = frame.get(key) if isinstance(frame, dict) else None
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def session_id(frame: Json) -> str | None:
    """The native session id of a frame, a history row or a handle, under each of its spellings."""
    return text_at(frame, "session_id", "sessionId", "native_id") or text_at(object_at(frame, "session"), "id")


def content_blocks(message: Json) -> Iterator[JsonObject]:
    """The blocks of a message; a plain string counts as one block of text."""
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    elif isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))


def is_result(block: JsonObject) -> bool:
    """Whether a block is the result of a tool call."""
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith(RESULT_SUFFIX)


def user_text(message: Json) -> str | None:
    """The text of a user message: trimmed, several blocks joined by a blank line; None when there is none.

    What the agent reminds its model of stands in blocks of its own, and nobody typed it.
    """
    texts = [(text_at(block, "text") or "").strip() for block in content_blocks(message) if block.get("type") == "text"]
    return "\n\n".join(text for text in texts if text and not _REMINDER.fullmatch(text)) or None


def is_noise(text: str) -> bool:
    """Whether a user text was never typed by anybody: marks of interruption, placeholders, local-command wrappers."""
    return text.startswith(INTERRUPTED) or text in PLACEHOLDERS or _TAGGED.match(text) is not None


def local_output(text: str) -> str | None:
    """What a local command printed, taken out of its wrapper; None if `text` is no such wrapper."""
    found = _TAGGED.match(text)
    return found[2].strip() if found and found[1].startswith("local-command") else None


def result_text(content: Json) -> str | None:
    """What the model sees of a result: a string, or its parts joined by line feeds; pictures as a placeholder."""
    if isinstance(content, str):
        found = _TOOL_ERROR.match(content)
        return found[1] if found else content
    if isinstance(content, dict):
        return text_at(content, "text", "content", "error_code", "stdout")
    if not isinstance(content, list):
        return None
    parts = (_part_text(block) for block in content)
    return "\n".join(part for part in parts if part is not None) or None


def _part_text(block: Json) -> str | None:
    if isinstance(block, dict) and block.get("type") == "image":
        return "[image]"
    return block if isinstance(block, str) else text_at(block, "text", "title", "url")


def one_line(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
