"""The tool calls of a session: one start, one end, and a late end for those that were closed without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from greenroom.providers import ToolDetail, ToolFinished, ToolProgress, ToolStarted, UnknownDetail
from greenroom.sessions.vocabulary import Status, ToolCall, ToolResult, ToolSettled, ToolUpdate

from ._dated import Log
from ._long import SHORT, bounded, cut_detail, text_of

Normalize = Callable[[str, object, object], ToolDetail | None]
"""Makes a detail of a tool's name, input and output, or nothing."""

REMEMBERED: Final = 1000
"""Calls that were closed as unknown and may still be settled; an older one's late result is not logged."""

Event = ToolStarted | ToolProgress | ToolFinished


class Calls:
    """The open calls of the open step, and those that wait for a late result."""

    def __init__(self, session: Log, normalize: Normalize) -> None:
        self._session = session
        self._normalize = normalize
        self._open: dict[str, ToolDetail] = {}
        self._ended: set[str] = set()
        self._unknown: dict[str, ToolDetail] = {}
        self._at = (0, 0)

    @property
    def any_open(self) -> bool:
        """Whether a call of the open step runs."""
        return bool(self._open)

    def enter(self, turn: int, step: int) -> None:
        """A step begins; ids are unique within a turn."""
        if turn != self._at[0]:
            self._ended.clear()
        self._at = (turn, step)

    def write(self, event: Event) -> None:
        """Log what a call does. A terminal status is sticky: whatever comes after it is dropped."""
        call = event.call_id
        if not call or call in self._ended:
            return
        terminal = type(event) is ToolFinished or event.status != "running"
        if call in self._unknown and terminal:
            self._settle(event, _status(event))
            return
        detail = self._detail(event, self._open.get(call))
        if call not in self._open:
            turn, step = self._at
            given = bounded(event.input, self._session.put_blob)
            self._session.append("tool/call", ToolCall(turn, step, call, event.name or "tool", given, detail))
            self._open[call] = detail
            if not terminal:
                return
        self._open[call] = detail
        if terminal:
            self._finish(call, _status(event), detail, event.error, event.output)
        else:
            self._session.append("tool/update", ToolUpdate(call, detail))

    def settle(self, event: Event) -> bool:
        """Log the late result of a call that was closed as unknown; whether there was one."""
        if event.call_id not in self._unknown or not (isinstance(event, ToolFinished) or event.status != "running"):
            return False
        self._settle(event, _status(event))
        return True

    def recall(self, call: str, detail: ToolDetail) -> None:
        """A call was closed as unknown before there was this object."""
        self._unknown[call] = detail

    def forget(self, call: str) -> None:
        """Its late result was logged by somebody else."""
        self._unknown.pop(call, None)

    def close(self) -> None:
        """Close every open call as unknown: the step closes."""
        for call, detail in list(self._open.items()):
            self._finish(call, "unknown", detail, None, None)
            self._unknown[call] = detail
            self._ended.discard(call)
        while len(self._unknown) > REMEMBERED:
            del self._unknown[next(iter(self._unknown))]

    def _finish(self, call: str, status: Status, detail: ToolDetail, error: str | None, output: object) -> None:
        turn, step = self._at
        told = error or "the tool failed" if status == "failed" else None
        result = ToolResult(turn, step, call, status, detail, told, text_of(output, self._session.put_blob))
        self._session.append("tool/result", result, surface="append")
        del self._open[call]
        self._ended.add(call)

    def _settle(self, event: Event, status: Status) -> None:
        detail = self._detail(event, self._unknown.pop(event.call_id))
        told = event.error or "the tool failed" if status == "failed" else None
        output = text_of(event.output, self._session.put_blob)
        self._session.append("tool/settled", ToolSettled(event.call_id, status, detail, told, output))

    def _detail(self, event: Event, before: ToolDetail | None) -> ToolDetail:
        """What is known now: the provider's detail, the normalised one, the one before, or the bare values."""
        known = event.detail
        if known is None and (before is None or event.input is not None or event.output is not None):
            known = self._normalize(event.name, event.input, event.output)
        if known is not None:
            return cut_detail(known)
        if before is not None and not isinstance(before, UnknownDetail):
            return before
        bare = UnknownDetail(event.input, event.output)
        return bare if len(msgspec.json.encode(bare)) <= SHORT else UnknownDetail(None, None)


def _status(event: Event) -> Status:
    """A terminal status; an end that claims to run still tells nothing."""
    return event.status if event.status != "running" else "unknown"
