"""The agent's todo list: written whole by one family of tools, item by item by another."""

from __future__ import annotations

from typing import Literal

from greenroom.providers import Json, JsonObject, ProviderEvent, Todo, TodoItem

from ._state import State
from ._wire import object_at, objects_at, text_at

_STATUS: dict[str, Literal["in_progress", "completed"]] = {"in_progress": "in_progress", "completed": "completed"}
NAMES = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList"})


def todo_event(state: State, name: str, given: JsonObject, result: Json) -> list[ProviderEvent]:
    """The whole list after a successful call of one of `NAMES`; nothing if it did not change."""
    before = dict(state.todos)
    if name == "TodoWrite":
        rows = objects_at(result, "newTodos") or objects_at(given, "todos")
        state.todos = {str(number): _item(row) for number, row in enumerate(rows)}
    elif name == "TaskList":
        rows = objects_at(result, "tasks")
        state.todos = {text_at(row, "id") or str(number): _item(row) for number, row in enumerate(rows)}
    elif name == "TaskCreate":
        task = object_at(result, "task")
        ident = text_at(task, "id")
        if ident:
            state.todos[ident] = _item({**given, **task})
    else:
        _update(state, given, result)
    return [Todo(items=tuple(state.todos.values()), turn_id=state.turn_id)] if state.todos != before else []


def _update(state: State, given: JsonObject, result: Json) -> None:
    ident = text_at(result, "taskId") or text_at(given, "taskId") or ""
    known = state.todos.get(ident)
    status = text_at(object_at(result, "statusChange"), "to") or text_at(given, "status")
    if status == "deleted":
        state.todos.pop(ident, None)
    elif known:
        row = {"subject": text_at(given, "subject") or known.text, "status": status or known.status}
        state.todos[ident] = _item(row)


def _item(row: JsonObject) -> TodoItem:
    text = text_at(row, "content", "subject", "text") or ""
    return TodoItem(text, _STATUS.get(text_at(row, "status") or "", "pending"))
