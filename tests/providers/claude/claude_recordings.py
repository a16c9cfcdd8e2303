"""The recorded conversations, and what must hold of the events that they mean."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from greenroom import providers as p
from greenroom_claude import Translator

DATA = Path(__file__).parents[2] / "data" / "recordings"
VERSIONS = ("claude", "claude-2.1.197")
TERMINAL = p.TERMINAL


def names() -> list[str]:
    """Every recording, as `folder/name`."""
    return [f"{folder}/{path.stem}" for folder in VERSIONS for path in sorted((DATA / folder).glob("*.jsonl"))]


def rows(name: str) -> list[tuple[str, Any]]:
    """Direction and message of each line of a recording that crossed the pipe."""
    lines = (json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines())
    return [(line["dir"], line["msg"]) for line in lines if line["dir"] in {"in", "out"}]


def processes(name: str) -> Iterator[list[tuple[str, Any]]]:
    """The conversation by process: a second `initialize` is a second one."""
    part: list[tuple[str, Any]] = []
    for direction, frame in rows(name):
        starts = (
            direction == "in"
            and isinstance(frame, dict)
            and (frame.get("request") or {}).get("subtype") == "initialize"
        )
        if starts and part:
            yield part
            part = []
        part.append((direction, frame))
    yield part


def translate(conversation: Iterable[tuple[str, Any]], *, close: bool = True) -> list[p.ProviderEvent]:
    """All events of one process, its end included."""
    translator = Translator()
    events: list[p.ProviderEvent] = []
    for direction, frame in conversation:
        events += translator.feed(frame) if direction == "out" else _sent(translator, frame)
    return events + (translator.closed("the process ended") if close else [])


def _sent(translator: Translator, frame: Any) -> list[p.ProviderEvent]:
    return translator.sent(frame) if isinstance(frame, dict) else []


def check(events: list[p.ProviderEvent]) -> None:
    """Every turn that starts ends once, nothing else ends, calls and results pair up, and every event is valid."""
    open_turns: list[str | None] = []
    ended: set[str] = set()
    calls: set[str] = set()
    questions: set[str] = set()
    compacting = False
    for event in events:
        assert p.decode_event(p.encode_event(event)) == event
        if isinstance(event, p.TurnStarted):
            assert event.turn_id not in ended
            open_turns.append(event.turn_id)
        elif isinstance(event, TERMINAL):
            taken_back = isinstance(event, p.TurnCanceled) and event.reason == "taken back"  # it never began
            assert event.turn_id in open_turns or event.turn_id is None or taken_back, event
            if event.turn_id in open_turns:
                open_turns.remove(event.turn_id)
                ended.add(event.turn_id or "")
        elif isinstance(event, p.ToolStarted):
            assert event.call_id not in calls
            calls.add(event.call_id)
        elif isinstance(event, p.ToolFinished):
            assert (event.error is not None) == (event.status == "failed")
            assert event.status != "running"
            calls.discard(event.call_id)
        elif isinstance(event, p.PermissionRequested):
            questions.add(event.request.id)
        elif isinstance(event, p.PermissionResolved):
            questions.remove(event.request_id)
        elif isinstance(event, p.Compaction):
            assert compacting == (event.phase == "end")
            compacting = event.phase == "start"
    assert not open_turns
    assert not calls
    assert not questions
    assert not compacting
