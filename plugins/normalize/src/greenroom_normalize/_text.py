"""Text hygiene: what a terminal would hide must not reach a log or a client, and nothing is longer than its limit."""

from __future__ import annotations

import re
import unicodedata

from greenroom.providers import Json

# ECMA-48: CSI (parameters, intermediates, final byte), OSC/DCS/SOS/PM/APC up to their terminator, two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
_JOINERS = "\u200d\ufe0e\ufe0f"  # they belong to the character before them
DIFF_LIMIT = 12_000
"""Characters of a diff that are kept (the limit that clients of such systems have settled on)."""


def clean_text(text: str) -> str:
    """`text` as it would stand on paper: no escape sequences, no control characters but tab and line feed.

    A carriage return in front of more text overwrites the line, as in a progress bar: the last state of the line stays.
    """
    if text.isprintable():
        return text
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    text = _OVERWRITTEN.sub("", text).replace("\r", "")
    return _CONTROL.sub("", text)


def truncate(text: str, limit: int) -> str:
    """`text` in at most `limit` characters; what is missing is named by a marker at the end.

    The cut stands between two characters as a reader sees them, never in front of a combining mark or a joiner.

    Raises:
        ValueError: `limit` has no room for the marker.
    """
    if len(text) <= limit:
        return text
    room = limit - len(_marker(len(text)))
    if room < 0:
        raise ValueError(f"a limit of {limit} characters has no room for the marker")
    cut = room
    while cut and (unicodedata.combining(text[cut]) or text[cut] in _JOINERS or text[cut - 1] == "\u200d"):
        cut -= 1
    return text[:cut] + _marker(len(text) - cut)


def _marker(count: int) -> str:
    return f"\n… [{count} more characters]"


def flatten(value: Json) -> str | None:
    """The text in the result of a tool: a string, a list of parts, or an object that holds one under a usual key.

    Equal values give equal texts. Pictures become a placeholder. None when there is no text in it.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        parts = [part for part in map(flatten, value) if part is not None]
        return "\n".join(parts) if parts else None
    if isinstance(value, dict):
        return _flatten_object(value)
    return None


_TEXT_KEYS = ("text", "output", "aggregatedOutput", "aggregated_output", "content", "contentItems", "result", "message")


def _flatten_object(value: dict[str, Json]) -> str | None:
    if value.get("type") in {"image", "inputImage", "input_image"}:
        return "[image]"
    if "stdout" in value or "stderr" in value:
        streams = (flatten(value.get(name)) for name in ("stdout", "stderr"))
        return "\n".join(stream for stream in streams if stream)
    for key in _TEXT_KEYS:
        text = flatten(value.get(key))
        if text is not None:
            return text
    return None
