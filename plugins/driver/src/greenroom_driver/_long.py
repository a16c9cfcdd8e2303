"""Long texts: what an event may not hold goes to the session's store, or is cut where only a view is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from greenroom.providers import ToolDetail
from greenroom.sessions.vocabulary import Blob, LongText

SHORT: Final = 64 * 1024
"""Bytes of a text in an event (section 12 of the architecture)."""

PutBlob = Callable[[bytes], Blob]


def text_of(value: object, put_blob: PutBlob) -> LongText | None:
    """A text as the log has it: itself, the JSON of what is no text, or a blob when it is long."""
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) * 4 <= SHORT:
        return text
    data = text.encode("utf-8", "replace")
    return text if len(data) <= SHORT else put_blob(data)


def cut_detail(detail: ToolDetail) -> ToolDetail:
    """The detail with each of its texts cut to what an event may hold; the whole output stands in the result."""
    for name in detail.__struct_fields__:
        text = getattr(detail, name)
        if type(text) is str and len(text) > SHORT // 4:
            break
    else:
        return detail  # by far the usual case
    long = {
        name: text[: SHORT // 4] + f"\n[{len(text) - SHORT // 4} more characters]"
        for name in detail.__struct_fields__
        if isinstance(text := getattr(detail, name), str) and len(text) > SHORT // 4
    }
    return msgspec.structs.replace(detail, **long)
