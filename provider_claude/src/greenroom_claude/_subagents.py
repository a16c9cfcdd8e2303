"""Sub-agents: what the frames with a parent tell, folded into the call that started them.

A frame of a sub-agent names that call in `parent_tool_use_id`; its text never reaches the main conversation. The child
gets a line of its own (`subagent` events); while the call runs, its detail shows the last actions as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from greenroom.providers import (
    JsonObject,
    ProviderEvent,
    ReasoningDelta,
    SubAgent,
    SubAgentAction,
    SubAgentDetail,
    SubAgentItem,
    TextDelta,
    ToolFinished,
    ToolStarted,
    UserEcho,
)

from ._wire import (
    TOOL_BLOCKS,
    Frame,
    content_blocks,
    is_result,
    object_at,
    one_line,
    result_text,
    text_at,
)

ACTIONS = 200
"""Actions of a sub-agent that its parent's call shows; the last ones are kept."""
SUMMARY = 160
"""Characters of one line of the log."""
AGENT_TASKS = frozenset({"local_agent", "remote_agent", "in_process_teammate"})
_TELLING = ("command", "file_path", "path", "pattern", "query", "url", "description", "prompt", "skill")
_STATUS: dict[str, Literal["completed", "failed", "canceled"]] = {
    "completed": "completed",
    "failed": "failed",
    "error": "failed",
    "killed": "canceled",
    "stopped": "canceled",
    "canceled": "canceled",
    "cancelled": "canceled",
}


def summary(given: JsonObject) -> str | None:
    """One line that says what a call is about."""
    text = text_at(given, *_TELLING)
    return one_line(text, SUMMARY) if text else None


@dataclass(slots=True)
class Child:
    """A sub-agent, by the call that started it."""

    call_id: str
    id: str
    description: str | None = None
    kind: str | None = None
    actions: dict[str, SubAgentAction] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    count: int = 0
    done: bool = False

    def act(self, key: str, tool: str, given: JsonObject) -> None:
        """Note a tool call; a second note of the same call replaces the first."""
        known = self.actions.get(key)
        index = known.index if known else self.count
        self.count += known is None
        self.actions[key] = SubAgentAction(index, tool, summary(given))
        self.names[key] = tool
        while len(self.actions) > ACTIONS:
            oldest = next(iter(self.actions))
            del self.actions[oldest]
            self.names.pop(oldest, None)

    def detail(self) -> SubAgentDetail:
        """What the call that started the child shows."""
        actions = tuple(self.actions.values())
        log = "\n".join(f"[{action.tool}] {action.summary or ''}".rstrip() for action in actions)
        return SubAgentDetail(self.description, agent_type=self.kind, child_id=self.id, log=log, actions=actions)


class SubAgents:
    """The sub-agents of a conversation."""

    def __init__(self) -> None:
        self.by_call: dict[str, Child] = {}
        self.by_task: dict[str, Child] = {}

    def started(self, frame: Frame) -> list[ProviderEvent]:
        """Read `task_started` of an agent task."""
        task, call = text_at(frame, "task_id"), text_at(frame, "tool_use_id")
        if task is None or call is None:
            return []
        child = self._child(call, task, frame)
        self.by_task[task] = child
        background = frame.get("is_backgrounded")
        event = SubAgent(
            action="upsert",
            child_id=child.id,
            call_id=call,
            title=child.description,
            agent_type=child.kind,
            prompt=text_at(frame, "prompt"),
            background=background if isinstance(background, bool) else None,
            status="running",
        )
        return [event]

    def status(self, frame: Frame) -> list[ProviderEvent]:
        """Read a change of a task's status; only a terminal status of a known, running child is news."""
        child = self.by_task.get(text_at(frame, "task_id") or "")
        word = _STATUS.get(text_at(object_at(frame, "patch"), "status") or text_at(frame, "status") or "")
        if child is None or word is None or child.done:
            return []
        child.done = True
        return [SubAgent(action="upsert", child_id=child.id, call_id=child.call_id, status=word)]

    def items(self, frame: Frame) -> list[ProviderEvent]:
        """Read an `assistant` or `user` frame of a sub-agent."""
        call = text_at(frame, "parent_tool_use_id") or ""
        child = self.by_call.get(call) or self._child(call, text_at(frame, "agent_id") or call, frame)
        message = object_at(frame, "message")
        events: list[ProviderEvent] = []
        for block in content_blocks(message):
            item = self._item(child, frame, message, block)
            if item is not None:
                events.append(SubAgent(action="item", child_id=child.id, call_id=call, item=item))
        return events

    def _child(self, call: str, ident: str, frame: Frame) -> Child:
        child = self.by_call.get(call)
        if child is None:
            child = self.by_call[call] = Child(call, ident)
        child.description = child.description or text_at(frame, "description", "task_description")
        child.kind = child.kind or text_at(frame, "subagent_type")
        return child

    def _item(self, child: Child, frame: Frame, message: JsonObject, block: JsonObject) -> SubAgentItem | None:
        kind = block.get("type")
        text = text_at(block, "text", "thinking")
        if is_result(block):
            return _finished(child, frame, block)
        if kind in TOOL_BLOCKS:
            call, name = text_at(block, "id"), text_at(block, "name")
            if not call or not name:
                return None
            given = object_at(block, "input")
            child.act(call, name, given)
            return ToolStarted(call_id=call, name=name, input=given)
        if kind == "text" and text and frame.get("type") == "user":
            return UserEcho(text=text, provider_message_id=text_at(frame, "uuid") or "")
        if kind == "text" and text:
            return TextDelta(text=text, message_id=text_at(message, "id"))
        if kind == "thinking" and text:
            return ReasoningDelta(text=text, message_id=text_at(message, "id"))
        return None


def _finished(child: Child, frame: Frame, block: JsonObject) -> ToolFinished | None:
    call = text_at(block, "tool_use_id")
    if not call:
        return None
    text = result_text(block.get("content"))
    failed = block.get("is_error") is True
    return ToolFinished(
        call_id=call,
        name=child.names.get(call, "tool"),
        output=text,
        raw=frame.get("tool_use_result"),
        status="failed" if failed else "completed",
        error=(text or "the tool failed") if failed else None,
    )
