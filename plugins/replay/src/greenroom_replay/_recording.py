"""From a recording of a provider's raw traffic to turns that can be played.

A recording is JSON lines `{"dir": …, "t": seconds since the start, "msg": …}`: `in` was written to the provider,
`out` was read from it, `err` is its stderr, `meta` says how it was started. The provider's own translator makes the
events; everything up to a terminal event is one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from greenroom.providers import (
    TERMINAL,
    ConfigChanged,
    JsonObject,
    ProviderError,
    ProviderEvent,
    ProviderSpec,
    Translator,
    TurnFailed,
    decode_wire,
)

from ._script import Script, Step, finish_turn

_CUT: Final = TurnFailed(error="the recording ends inside this turn", code="recording_ended")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a recording; `t` in seconds."""

    dir: str
    t: float
    msg: JsonObject


def parse_recording(
    lines: Iterable[str | bytes], name: str, providers: Mapping[str, ProviderSpec], provider: str | None = None
) -> Script:
    """The turns of a recording; `name` is for messages, `provider` says whose traffic it is if the file does not.

    Raises:
        ProviderError: a line is none of a recording, or no plugin here can translate it; names the provider.
    """
    read = [_line(line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    whose = provider or _whose(read, name)
    translate = _translator(whose, name, providers)
    turns: list[list[Step]] = [[]]
    model: str | None = None
    last: float | None = None
    for line in read:
        for event in _events(line, translate):
            if isinstance(event, ConfigChanged) and event.model is not None:
                model = event.model
            turns[-1].append(Step(event, max(0.0, line.t - last) if last is not None else 0.0))
            last = line.t
            if isinstance(event, TERMINAL):
                turns.append([])
                last = None  # how long the person took to write the next prompt is no part of the turn
    begun = [finish_turn(turn, _CUT) for turn in turns]
    whole = tuple(turn for turn in begun if len(turn) > 1 or turn[0].event is not _CUT)
    if not whole:
        raise ProviderError(f"{name} holds no turn of {whose}")
    return Script(PurePath(name).stem, model, whole)


def _line(text: str | bytes, where: str) -> Line:
    try:
        entry = decode_wire(text)
        message = entry["msg"]
        return Line(str(entry["dir"]), float(entry["t"]), message if isinstance(message, dict) else {"text": message})
    except (ValueError, TypeError, KeyError) as error:
        raise ProviderError(f"{where}: no line of a recording: {error!r}") from error


def _whose(lines: Iterable[Line], name: str) -> str:
    """The provider that the file names: the program that was started."""
    for line in lines:
        command = line.msg.get("argv")
        if line.dir == "meta" and isinstance(command, list) and command:
            return PurePath(str(command[0])).stem
    hint = 'say whose traffic it is: [plugins.replay] provider = "..."'
    raise ProviderError(f"{name} does not say which provider was recorded", hint=hint)


def _translator(whose: str, name: str, providers: Mapping[str, ProviderSpec]) -> Translator:
    spec = providers.get(whose)
    if spec is not None and spec.translator is not None:
        return spec.translator()
    known = ", ".join(other.id for other in providers.values() if other.translator is not None) or "none"
    raise ProviderError(
        f"{name} is a recording of {whose!r}, and no plugin here translates that provider",
        hint=f"install the plugin of {whose}; recordings can be played of: {known}",
    )


def _events(line: Line, translator: Translator) -> Iterable[ProviderEvent]:
    say: dict[str, Callable[[JsonObject], Iterable[ProviderEvent]]] = {
        "in": translator.sent,
        "out": translator.received,
    }
    return say[line.dir](line.msg) if line.dir in say else ()
