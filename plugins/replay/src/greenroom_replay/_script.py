"""What is replayed: turns of timed provider events, and the neutral format they are written in by hand.

A script is JSON lines (see the README): a head `{"script": 1, …}`, then `{"turn": "title"}` in front of the lines of
each turn, and those are provider events with two more fields: `after`, the seconds to wait before it, and `if`
(`allow` or `deny`): play it only if the latest question was answered so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import msgspec

from greenroom.providers import (
    TERMINAL,
    Json,
    JsonObject,
    PermissionAllow,
    PermissionRequested,
    PermissionResolved,
    PermissionResponse,
    ProviderError,
    ProviderEvent,
    TurnCompleted,
    TurnStarted,
    UserEcho,
    decode_event,
    decode_wire,
)
from greenroom.providers import SessionStarted as Started

Answer = Literal["allow", "deny"]
FORMAT: Final = 1
"""Raised when an older player would misread a script."""
_OURS: Final = (Started, TurnStarted, UserEcho)
"""What the player says by itself, about the conversation that is really going on."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event and when it is due.

    Attributes:
        after: seconds since the step before.
        when: play it only if the latest question was answered so.
        waits: it is a question, and the next step waits for its answer.
        recorded: how it was answered when this was recorded; what follows fits that answer only.
    """

    event: ProviderEvent
    after: float = 0.0
    when: Answer | None = None
    waits: bool = False
    recorded: Answer | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """Turns to play in order, and again from the first one.

    Attributes:
        title: for a person.
        model: the name of the model that is heard, None when it is not known.
        turns: at least one, each ending with its terminal event.
    """

    title: str
    model: str | None
    turns: tuple[tuple[Step, ...], ...]


def answer_of(response: PermissionResponse) -> Answer:
    """Which of the two a response is."""
    return "allow" if isinstance(response, PermissionAllow) else "deny"


def finish_turn(steps: Sequence[Step], ending: ProviderEvent) -> tuple[Step, ...]:
    """Make a turn playable: questions know whether to wait, and the last step is a terminal (`ending` if none is).

    A question waits unless the provider withdrew it. What the player says by itself is left out.
    """
    answers = {s.event.request_id: s.event for s in steps if isinstance(s.event, PermissionResolved)}
    turn: list[Step] = []
    for step in steps:
        event = step.event
        if isinstance(event, PermissionRequested):
            answer = answers.get(event.request.id)
            recorded = answer_of(answer.response) if answer is not None and answer.by == "user" else None
            turn.append(replace(step, waits=answer is None or answer.by == "user", recorded=recorded))
        elif not isinstance(event, _OURS) and not (isinstance(event, PermissionResolved) and event.by == "user"):
            turn.append(step)
        if isinstance(event, TERMINAL) and step.when is None:
            return tuple(turn)
    return (*turn, Step(ending))


def parse_script(lines: Iterable[str | bytes], name: str) -> Script:
    """The script in these lines; `name` is for messages.

    Raises:
        ProviderError: a line is none of a script; says which.
    """
    head: JsonObject = {}
    turns: list[list[Step]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = decode_wire(line)
            if not head:
                head = _head(entry)
            elif "turn" in entry:
                turns.append([])
            else:
                turns[-1].append(_step(entry))
        except (ValueError, TypeError, LookupError, msgspec.MsgspecError) as error:
            raise ProviderError(f"{name}, line {number}: {_said(error)}") from error
    if not turns:
        raise ProviderError(f"{name} has no turn", hint='a turn begins with {"turn": "its title"}')
    model = head.get("model")
    title = str(head.get("title") or Path(name).stem)
    return Script(title, model, tuple(finish_turn(turn, TurnCompleted()) for turn in turns))


def _head(entry: Json) -> JsonObject:
    if not isinstance(entry, dict) or entry.get("script") != FORMAT:
        raise ValueError(f'a script begins with {{"script": {FORMAT}}}')
    if not isinstance(entry.get("model"), str | None):
        raise TypeError("model is a text")
    return entry


def _step(entry: JsonObject) -> Step:
    after, when = entry.pop("after", 0), entry.pop("if", None)
    if isinstance(after, bool) or not isinstance(after, int | float) or not 0 <= after < float("inf"):
        raise ValueError(f"after is a number of seconds, not {after!r}")
    if when not in (None, "allow", "deny"):
        raise ValueError(f"if is allow or deny, not {when!r}")
    return Step(decode_event(entry), float(after), when)


def _said(error: Exception) -> str:
    if isinstance(error, LookupError):
        return "an event stands in front of the first turn"
    return str(error)
