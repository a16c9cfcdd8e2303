"""Long texts: what an event may not hold goes to the session's store, or is cut where only a view is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, astuple, replace

from greenroom.providers import TodoItem, ToolDetail
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
    for text in astuple(detail):
        if type(text) is str and len(text) > SHORT // 4:
            break
    else:
        return detail  # by far the usual case
    long = {
        name: text[: SHORT // 4] + f"\n[{len(text) - SHORT // 4} more characters]"
        for name, text in asdict(detail).items()
        if isinstance(text, str) and len(text) > SHORT // 4
    }
    return replace(detail, **long)


def bounded(value: Any, put_blob: PutBlob) -> Any:  # noqa: ANN401 - any JSON, like the input of a tool
    """Any JSON with its long texts moved to blobs; if it is long all the same, one blob of the whole."""
    if isinstance(value, str):
        return _reference(value, put_blob) if len(value) > SHORT // 4 else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    data = msgspec.json.encode(value)
    if len(data) <= SHORT:
        return value
    moved = _moved(value, put_blob)
    return moved if len(msgspec.json.encode(moved)) <= SHORT else msgspec.to_builtins(put_blob(data))


def _moved(value: Any, put_blob: PutBlob) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _moved(inner, put_blob) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_moved(inner, put_blob) for inner in value]
    return _reference(value, put_blob) if isinstance(value, str) and len(value) > SHORT // 16 else value


def _reference(text: str, put_blob: PutBlob) -> Any:  # noqa: ANN401 - JSON
    return msgspec.to_builtins(put_blob(text.encode("utf-8", "replace")))


def cut_items(items: Sequence[TodoItem]) -> tuple[TodoItem, ...]:
    """The list with texts as short as an event of it needs; there is no more of it anywhere else."""
    items = tuple(items)
    if len(msgspec.json.encode(items)) <= SHORT:
        return items
    kept = items[: SHORT // 256]
    each = SHORT // (8 * max(len(kept), 1))
    return tuple(replace(item, text=item.text[:each]) for item in kept)
