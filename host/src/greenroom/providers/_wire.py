"""Decoding of what command-line agents write: fast when it is clean, forgiving when it is not."""

from __future__ import annotations

import json
import math
import re

import msgspec

from ._details import Json

_LONE = re.compile(r"[\ud800-\udfff]")
_decode = msgspec.json.Decoder().decode


def storable(value: Json) -> Json:
    """`value` with every lone surrogate in its strings and keys replaced by U+FFFD, and non-finite numbers by None.

    Agents cut strings inside emoji; neither such a half nor a NaN can be encoded or stored.
    """
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def decode_wire(data: bytes | str) -> Json:
    """The JSON value in `data`. Bytes that are not UTF-8 and lone surrogates become U+FFFD, NaN and Infinity None.

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
        return storable(json.loads(text))
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error
