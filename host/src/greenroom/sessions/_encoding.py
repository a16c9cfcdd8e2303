"""Encode a payload once, and prove that the bytes say the same as the object.

The bytes are decoded with the type's own decoder; if the result equals what was
given, nothing was lost or coerced (a NaN would have become null, bytes a string, a
set a list). Only when they differ the object is walked to say why, or to accept a
difference that loses nothing (a tuple where JSON has lists, a mapping for a model).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from pydantic import BaseModel

from greenroom.sessions._errors import EventRefused
from greenroom.sessions.vocabulary import EventType, JsonValue

MAX_EVENT_BYTES: Final = 1024 * 1024
"""An event's payload; longer texts and images go into blobs first."""
MAX_DEPTH: Final = 200
"""Nesting of a payload: far above any real one, far below what overflows a decoder's stack."""
MAX_TEXT_BYTES: Final = 64 * 1024
"""What producers leave in a field; longer texts go into a blob."""

_encode: Final = msgspec.json.Encoder().encode
_plain: Final = msgspec.json.Decoder().decode


class Entry:
    """A registered type, prepared for the hot path: how its payload becomes bytes, and back."""

    __slots__ = ("check", "decode", "encode", "ignorable", "kind", "name", "pieces", "surface")

    def __init__(self, kind: EventType, check: Callable[[JsonValue], None] | None = None) -> None:
        self.kind = kind
        self.name = kind.name
        self.surface = kind.surface
        self.pieces = kind.name == "assistant/message"  # only its final piece is model-visible
        self.ignorable = kind.ignorable
        self.check = check
        self.encode: Callable[[JsonValue], bytes]
        self.decode: Callable[[bytes], JsonValue]
        model = kind.model
        if issubclass(model, BaseModel):
            self.encode = _encode_pydantic
            self.decode = model.__pydantic_validator__.validate_json
        else:
            self.encode = _encode
            self.decode = msgspec.json.Decoder(model).decode

    def freeze(self, payload: JsonValue) -> tuple[bytes, JsonValue]:
        """The payload's bytes and what they decode to. Raises EventRefused; the payload is read once."""
        try:
            raw = self.encode(payload)
            if len(raw) > 2 * MAX_DEPTH:
                _check_size(self.name, raw)
            data = self.decode(raw)
            if data != payload:
                _explain(self, payload, raw, data)
        except RecursionError:
            raise EventRefused(f"{self.name}: nested more than {MAX_DEPTH} levels deep, or in a cycle") from None
        except UnicodeEncodeError as error:
            raise EventRefused(f"{self.name}: a text holds a lone surrogate at {error.start}") from None
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise EventRefused(f"{self.name}: {error}") from error
        if self.check is not None:
            self.check(data)
        return raw, data

    def validate(self, raw: bytes) -> JsonValue:
        """What stored or imported bytes decode to. Raises EventRefused."""
        try:
            _check_size(self.name, raw)
            return self.decode(raw)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise EventRefused(f"{self.name}: {error}") from error


def _encode_pydantic(payload: JsonValue) -> bytes:
    if not isinstance(payload, BaseModel):
        return _encode(payload)
    raw = payload.__pydantic_serializer__.to_json(payload)
    _plain(raw)  # a model may be configured to write NaN and Infinity, which is no JSON
    return raw


def _check_size(name: str, raw: bytes) -> None:
    if len(raw) > MAX_EVENT_BYTES:
        raise EventRefused(
            f"{name}: {len(raw):,} bytes, the limit is {MAX_EVENT_BYTES:,}",
            hint="put long texts and images into a blob of the store first",
        )
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and depth_of(_plain(raw)) > MAX_DEPTH:
        raise EventRefused(f"{name}: nested more than {MAX_DEPTH} levels deep")


def depth_of(value: JsonValue) -> int:
    """How deep lists and objects are nested in a decoded value, without using the call stack."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, (list, dict)):
            deepest = max(deepest, depth)
            stack.extend((child, depth + 1) for child in (item.values() if isinstance(item, dict) else item))
    return deepest


def _explain(entry: Entry, payload: JsonValue, raw: bytes, data: JsonValue) -> None:
    """The bytes decode to something else than was given: refuse what JSON cannot say, accept the rest."""
    refuse_lossy(entry.name, payload)
    if type(payload) is not entry.kind.model and isinstance(data, msgspec.Struct):
        refuse_unknown(entry.name, _plain(raw), data)


def refuse_lossy(name: str, payload: JsonValue) -> None:
    """Raise EventRefused if anything in the payload has no JSON of its own; the message says where it stands."""
    stack: list[tuple[str, JsonValue]] = [("", payload)]
    while stack:
        path, item = stack.pop()
        if item is None or isinstance(item, (bool, str)):
            continue
        if isinstance(item, (int, float)):
            if not math.isfinite(item):
                raise EventRefused(f"{name}: {path or 'the payload'} is {item}, JSON has finite numbers only")
        elif isinstance(item, Mapping):
            stack.extend((f"{path}.{_key(name, path, key)}", child) for key, child in item.items())
        elif isinstance(item, (list, tuple)):
            stack.extend((f"{path}[{index}]", child) for index, child in enumerate(item))
        elif isinstance(item, msgspec.Struct):
            stack.extend((f"{path}.{field}", getattr(item, field)) for field in item.__struct_fields__)
        elif isinstance(item, BaseModel):
            stack.extend((f"{path}.{field}", getattr(item, field)) for field in type(item).model_fields)
        else:
            raise EventRefused(f"{name}: {path or 'the payload'} is a {type(item).__name__}, which is no JSON")


def _key(name: str, path: str, key: JsonValue) -> str:
    if not isinstance(key, str):
        raise EventRefused(f"{name}: {path or 'the payload'} has the key {key!r}, keys are strings")
    return key


def refuse_unknown(name: str, given: JsonValue, known: JsonValue) -> None:
    """Raise EventRefused for a field that the model does not have: decoders skip it, the log must not."""
    stack: list[tuple[str, JsonValue, JsonValue]] = [("", given, known)]
    while stack:
        path, left, right = stack.pop()
        if isinstance(right, msgspec.Struct) and isinstance(left, dict):
            fields = dict(zip(right.__struct_encode_fields__, right.__struct_fields__, strict=True))
            for key, value in left.items():
                if key in fields:
                    stack.append((f"{path}.{key}", value, getattr(right, fields[key])))
                elif key != right.__struct_config__.tag_field:
                    raise EventRefused(f"{name}: unknown field {path}.{key}", hint=f"known: {', '.join(fields)}")
        elif isinstance(right, (list, tuple)) and isinstance(left, list):
            stack.extend((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(left, right, strict=False)))
