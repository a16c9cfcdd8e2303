"""Notifications about background work, in each of their carriers, as one synthetic tool call.

They come as `system/task_notification`, as a user message with an XML envelope, and as a queue operation in histories.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from greenroom.providers import JsonObject, TextDetail, ToolFinished, ToolStarted

from ._wire import Frame, text_at

NAME = "task_notification"
_TAG = re.compile(r"<(task-id|status|summary|output-file|result)>(.*?)</\1>", re.DOTALL)
_FAILED = frozenset({"failed", "error"})
_CANCELED = frozenset({"canceled", "cancelled", "stopped", "killed"})


@dataclass(frozen=True, slots=True)
class Notification:
    """Background work ended, or said something."""

    call_id: str
    status: Literal["completed", "failed", "canceled"]
    summary: str
    task_id: str | None
    output_file: str | None

    def events(self, turn_id: str | None, *, from_history: bool = False) -> list[ToolStarted | ToolFinished]:
        """The notification as a tool call that begins and ends at once."""
        given: JsonObject = {"task_id": self.task_id, "status": self.status, "output_file": self.output_file}
        detail = TextDetail(self.summary, icon="wrench")
        error = self.summary if self.status == "failed" else None
        return [
            ToolStarted(
                call_id=self.call_id,
                name=NAME,
                input=given,
                detail=detail,
                turn_id=turn_id,
                from_history=from_history,
            ),
            ToolFinished(
                call_id=self.call_id,
                name=NAME,
                input=given,
                detail=detail,
                status=self.status,
                error=error,
                turn_id=turn_id,
                from_history=from_history,
            ),
        ]


def from_frame(frame: Frame) -> Notification:
    """Read a `system/task_notification`."""
    task, summary = text_at(frame, "task_id"), text_at(frame, "summary")
    return _notification(text_at(frame, "uuid"), task, text_at(frame, "status"), summary, text_at(frame, "output_file"))


def from_text(text: str | None, message_id: str | None) -> Notification | None:
    """Read the envelope in a user text; None if it holds none."""
    if text is None or "<task-notification>" not in text:
        return None
    tags = {found[1]: found[2].strip() for found in _TAG.finditer(text)}
    if not tags.keys() & {"task-id", "status", "summary"}:
        return None
    ident = message_id or tags.get("task-id") or hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]
    return _notification(ident, tags.get("task-id"), tags.get("status"), tags.get("summary"), tags.get("output-file"))


def _notification(
    ident: str | None, task: str | None, status: str | None, summary: str | None, output_file: str | None
) -> Notification:
    word = (status or "").lower()
    meaning: Literal["completed", "failed", "canceled"] = "completed"
    if word in _FAILED:
        meaning = "failed"
    elif word in _CANCELED:
        meaning = "canceled"
    call = f"{NAME}_{ident or task or 'unknown'}"
    return Notification(call, meaning, summary or "Background task", task, output_file or None)
