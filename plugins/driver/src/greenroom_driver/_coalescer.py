"""Fewer, larger events: pieces of streamed text and updates of tool calls that fall into one window become one.

Sans-IO. Provider events go in, provider events come out in the order of the log; when the window ends is a number that
the pump waits for. Text merges with the entry in front of it only, and only within one kind, turn and message; the
running states of a call fold into the place where the first one stood. A terminal state of a call is never held.

The window of 60 ms is the one of the daemon that this design starts from: short enough to look live, long enough that
a model at 200 tokens a second gives 16 rows instead of 200.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from greenroom.providers import (
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)

WINDOW: Final = 0.060
"""Seconds; see the module's docstring."""

PIECE_CHARS: Final = 16_000
"""A merged piece is let go at this many characters: at most 64 KiB of UTF-8, the limit of a text in an event."""

_Text = TextDelta | ReasoningDelta
_Call = ToolStarted | ToolProgress
NOTHING: Final[Sequence[ProviderEvent]] = ()


class _Piece:
    """Text that is being merged: the first event, whose shape is kept, and the texts."""

    __slots__ = ("first", "kind", "message_id", "parts", "size", "turn_id")

    def __init__(self, first: _Text) -> None:
        self.first = first
        self.kind = type(first)
        self.message_id = first.message_id
        self.turn_id = first.turn_id
        self.parts = [first.text]
        self.size = len(first.text)

    def event(self) -> ProviderEvent:
        if len(self.parts) == 1:
            return self.first
        return msgspec.structs.replace(self.first, text="".join(self.parts))


class Coalescer:
    """The window of one agent.

    Args:
        clock: seconds; only differences count.
        window: seconds.
        leading: the first event after a quiet window goes out at once, so that a person sees the answer begin.
    """

    def __init__(self, clock: Callable[[], float], *, window: float = WINDOW, leading: bool = True) -> None:
        self._clock = clock
        self._window = window
        self._leading = leading
        self._entries: list[_Piece | _Call] = []
        self._last: _Piece | None = None
        self._places: dict[tuple[str | None, str], int] = {}
        self._busy_until = float("-inf")
        self._provider: str | None = None
        self._held: Final[Mapping[type, Callable[[Any], Sequence[ProviderEvent]]]] = {
            TextDelta: self._push_text,
            ReasoningDelta: self._push_text,
            ToolStarted: self._push_call,
            ToolProgress: self._push_call,
            ToolFinished: self._push_call,
        }
        self.deadline: float | None = None
        """When the window ends and `due` has something to give, on the clock; None while nothing is held."""

    def push(self, event: ProviderEvent) -> Sequence[ProviderEvent] | None:
        """Take an event and return what is to be written now; None if the event is not of the kinds that are held.

        The caller of a refused event writes `flush()` before it.
        """
        take = self._held.get(type(event))
        return take(event) if take is not None else None

    def due(self) -> Sequence[ProviderEvent]:
        """Return what is held if its window has ended, and begin the next one."""
        if self.deadline is None or self._clock() < self.deadline:
            return NOTHING
        return self.flush()

    def switch(self, provider: str) -> Sequence[ProviderEvent]:
        """Say whose events follow; return what is held of another provider."""
        if provider == self._provider:
            return NOTHING
        self._provider = provider
        return self.flush()

    def flush(self) -> Sequence[ProviderEvent]:
        """Return what is held, whatever the time. What is pushed while the caller writes it is held anew."""
        if not self._entries:
            return NOTHING
        entries, self._entries = self._entries, []
        self._places.clear()
        self._last = None
        self.deadline = None
        self._busy_until = self._clock() + self._window
        return [entry.event() if type(entry) is _Piece else entry for entry in entries]  # type: ignore[misc]  # narrowed

    def _push_text(self, event: _Text) -> Sequence[ProviderEvent]:
        text = event.text
        if not text:
            return NOTHING
        last = self._last
        if (
            last is None
            or last.message_id != event.message_id
            or last.kind is not type(event)
            or last.turn_id != event.turn_id
        ):
            if self._leads():
                return (event,)
            self._last = last = _Piece(event)
            self._entries.append(last)
        else:
            last.parts.append(text)
            last.size += len(text)
        return self.flush() if last.size >= PIECE_CHARS else NOTHING

    def _push_call(self, event: ToolStarted | ToolProgress | ToolFinished) -> Sequence[ProviderEvent]:
        if type(event) is ToolFinished or event.status != "running":
            if not self._entries:
                return (event,)
            return [*self.flush(), event]
        running: _Call = event  # type: ignore[assignment]  # a terminal one has returned above
        key = event.turn_id, event.call_id
        place = self._places.get(key)
        if place is not None:
            self._entries[place] = _fold(self._entries[place], running)
        elif self._leads():
            return (event,)
        else:
            self._places[key] = len(self._entries)
            self._entries.append(running)
            self._last = None  # text behind a call is not text in front of it
        return NOTHING

    def _leads(self) -> bool:
        """Whether a new entry goes out at once; opens or joins the window."""
        if self._entries:
            return False
        now = self._clock()
        if not self._leading:
            self.deadline = now + self._window
        elif now >= self._busy_until:
            self._busy_until = now + self._window
            return True
        else:
            self.deadline = self._busy_until
        return False


def _fold(held: object, event: _Call) -> _Call:
    """The latest state of a call, at the place and with the kind of the first: a start stays a start."""
    if not isinstance(held, ToolStarted) or isinstance(event, ToolStarted):
        return event
    news = {name: getattr(event, name) for name in _NEWS}
    return msgspec.structs.replace(held, **{name: value for name, value in news.items() if value is not None})


_NEWS: Final = ("input", "output", "raw", "detail")
