"""Decoding of what command-line agents write: fast when it is clean, forgiving when it is not."""

from __future__ import annotations

import json
import re

import msgspec

from ._details import Json

_LONE = re.compile(r"[\ud800-\udfff]")
_decode = msgspec.json.Decoder().decode


def replace_surrogates(value: Json) -> Json:
    """`value` with every lone surrogate in its strings and keys replaced by U+FFFD.

    Agents cut strings inside emoji; such a half can be neither encoded nor stored.
    """
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    return value


def decode_wire(data: bytes | str) -> Json:
    """The JSON value in `data`. Bytes that are not UTF-8 and lone surrogates become U+FFFD.

    The strict decoder comes first; what it refuses goes to the standard library, which knows lone surrogates and
    the words NaN and Infinity.

    Raises:
        ValueError: neither of the two can read it (nesting that exhausts the stack included).
    """
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = data.decode("utf-8", errors="replace") if isinstance(data, bytes) else data
    try:
        return replace_surrogates(json.loads(text))
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error
