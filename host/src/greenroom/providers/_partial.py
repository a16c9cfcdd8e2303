"""Reading a JSON object while it is still being written, without ever showing half a value."""

from __future__ import annotations

import re

from ._details import JsonObject
from ._wire import decode_wire

_STRUCTURE = re.compile(r'["{}\[\],:]')
_IN_STRING = re.compile(r'["\\]')


class PartialObject:
    """An object that arrives in pieces; `fields` holds those of its fields whose value is complete.

    A string without its closing quote, a number at the end of the buffer and a nested value that is still open are
    withheld. Each piece is scanned once, so a value of megabytes in small pieces stays linear.
    """

    def __init__(self) -> None:
        self.fields: JsonObject = {}
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._has_colon = False  # the open field has its key: what follows is the value
        self._taken = False  # the value of the open field is in `fields` already
        self._dead = False  # not an object, or not JSON: nothing more will come of it
        self._pieces: list[str] = []  # the text of the open field

    def feed(self, text: str) -> bool:
        """Read the next piece. True if a field was completed by it."""
        before = len(self.fields)
        start = position = 0
        if not self._depth and not self._dead:
            start = position = self._open(text)
        while not self._dead and self._depth and position < len(text):
            if self._in_string:
                position = self._string(text, start, position)
                continue
            found = _STRUCTURE.search(text, position)
            if found is None:
                break
            position = found.end()
            start = self._mark(found.group(), text, start, position)
        if self._depth and not self._dead:
            self._pieces.append(text[start:])
        return len(self.fields) > before

    def _open(self, text: str) -> int:
        stripped = text.lstrip()
        if not stripped:
            return len(text)
        if stripped[0] != "{":
            self._dead = True
        self._depth = 1
        return len(text) - len(stripped) + 1

    def _string(self, text: str, start: int, position: int) -> int:
        if self._escaped:
            self._escaped = False
            return position + 1
        found = _IN_STRING.search(text, position)
        if found is None:
            return len(text)
        if found.group() == "\\":
            self._escaped = True
            return found.end()
        self._in_string = False
        if self._depth == 1 and self._has_colon:
            self._take(text[start : found.end()])
        return found.end()

    def _mark(self, mark: str, text: str, start: int, position: int) -> int:
        """Move over a structural character that ends at `position`; the new start of the open field."""
        if mark == '"':
            self._in_string = True
        elif mark in "{[":
            self._depth += 1
        elif mark == ":":
            self._has_colon = self._has_colon or self._depth == 1
        elif mark in "}]":
            self._depth -= 1
            if self._depth == 1:
                self._take(text[start:position])
            elif self._depth == 0:
                self._take(text[start : position - 1])
                self._dead = True
        elif self._depth == 1:
            self._take(text[start : position - 1])
            self._pieces.clear()
            self._has_colon = self._taken = False
            return position
        return start

    def _take(self, tail: str) -> None:
        if self._taken or not self._has_colon:
            return
        self._taken = True
        try:
            field = decode_wire("{" + "".join(self._pieces) + tail + "}")
        except ValueError:
            self._dead = True
            return
        self.fields.update(field)


def complete_fields(text: str) -> JsonObject | None:
    """The complete fields of the object that `text` begins with; None if it is no object."""
    if not text.lstrip().startswith("{"):
        return None
    partial = PartialObject()
    partial.feed(text)
    return partial.fields
