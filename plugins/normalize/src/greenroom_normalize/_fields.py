"""Reading fields under their many spellings, without trusting any type."""

from __future__ import annotations

from collections.abc import Iterator

from greenroom.providers import Json, JsonObject

PATH = ("path", "file_path", "filePath", "filename", "notebook_path")
OLD = ("old_string", "old_str", "oldString", "oldContent", "old_content", "old_text", "oldText", "old")
NEW = ("new_string", "new_str", "newString", "newContent", "new_content", "new_text", "newText", "new")
DIFF = ("patch", "diff", "unified_diff", "unifiedDiff")
CONTENT = ("content", "contents", "file_text", "fileText", "text", "data")


def as_object(value: Json) -> JsonObject:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text_at(keys: tuple[str, ...], *places: Json) -> str | None:
    """The first string under one of `keys`, looking in `places` in order. An empty string counts."""
    return next((value for value in _values(keys, places) if isinstance(value, str)), None)


def int_at(keys: tuple[str, ...], *places: Json) -> int | None:
    """The first whole number (no bool) under one of `keys`."""
    return next((v for v in _values(keys, places) if isinstance(v, int) and not isinstance(v, bool)), None)


def flag_at(keys: tuple[str, ...], *places: Json) -> bool | None:
    """The first bool under one of `keys`."""
    return next((value for value in _values(keys, places) if isinstance(value, bool)), None)


def list_at(keys: tuple[str, ...], *places: Json) -> list[Json] | None:
    """The first list under one of `keys`."""
    return next((value for value in _values(keys, places) if isinstance(value, list)), None)


def _values(keys: tuple[str, ...], places: tuple[Json, ...]) -> Iterator[Json]:
    for place in places:
        if isinstance(place, dict):
            yield from (place[key] for key in keys if key in place)
