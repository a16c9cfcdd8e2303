"""Take over the beginning of a log that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterable

from greenroom.sessions._errors import EventRefused, SessionError
from greenroom.sessions._event import Event
from greenroom.sessions._state import SessionState
from greenroom.sessions._surface import SurfaceFold, check_surface
from greenroom.sessions._vocabulary import Vocabulary
from greenroom.sessions.vocabulary import JsonValue


def adopt_seed(
    seed: Iterable[Event], vocabulary: Vocabulary, state: SessionState, surface: SurfaceFold
) -> tuple[Event, ...]:
    """Check every event and fold it. The seed is read once; what was checked is what is kept.

    Raises SessionError whose message begins with `seed[<index>]`.
    """
    events: list[Event] = []
    visible: dict[int, Event] = {}
    for index, event in enumerate(seed):
        try:
            data = _checked(event, index, vocabulary)
            if event.surface is not None:
                surface.apply(event, visible.get)
                visible[index] = event
            state.apply(event, data)
            if event.type == "session/recast" and data.reason != "repair":
                _cut(surface, visible, data.keep_before)
        except SessionError as error:
            error.args = (f"seed[{index}]: {error.args[0]}",)
            raise
        except (ValueError, TypeError, AttributeError) as error:
            raise EventRefused(f"seed[{index}]: {error}") from error
        events.append(event)
    return tuple(events)


def _checked(event: JsonValue, index: int, vocabulary: Vocabulary) -> JsonValue:
    if type(event) is not Event:
        raise EventRefused(f"an event is an Event, not a {type(event).__name__}")
    parts: JsonValue = event  # Structs do not check what they are constructed with
    if type(parts.seq) is not int or parts.seq != index:
        raise EventRefused(f"its seq is {parts.seq!r}")
    if type(parts.time) is not int or parts.time < 0:
        raise EventRefused(f"its time is {parts.time!r}, not milliseconds since the epoch")
    if type(parts.ignorable) is not bool or type(parts.type) is not str or type(parts.raw) is not bytes:
        raise EventRefused("its type, payload or mark is of a wrong kind")
    entry = vocabulary.entries.get(event.type)
    if entry is None:
        vocabulary.check_readable({event.type: event.ignorable}, "of the seed")
        return event.data
    data = entry.validate(event.raw)
    check_surface(event, data, visible=entry.surface)
    return data


def _cut(surface: SurfaceFold, visible: dict[int, Event], keep_before: int) -> None:
    """Rewind while the whole log is at hand: go back to the surface of that time, whatever replaced it since."""
    from greenroom.sessions._surface import refold

    for seq in [seq for seq in visible if seq >= keep_before]:
        del visible[seq]
    surface.cut(keep_before)
    surface.adopt(refold(visible.values()), keep_before)
