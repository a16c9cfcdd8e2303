"""Todo lists of both families."""

from __future__ import annotations

from greenroom.providers import Json, TodoItem

from ._fields import list_at, text_at
from ._text import clean_text

_STATUS = {"in_progress": "in_progress", "inProgress": "in_progress", "completed": "completed", "complete": "completed"}


def todo_items(input: Json) -> tuple[TodoItem, ...] | None:
    """The whole list in the input of a todo or plan tool; None when it holds none.

    An item is an object with its text and a status, or a plain string; an unknown status counts as pending.
    """
    rows = list_at(("todos", "plan", "items", "newTodos", "tasks"), input)
    if rows is None:
        return None
    items = []
    for row in rows:
        text = row if isinstance(row, str) else text_at(("content", "step", "subject", "text"), row)
        if text:
            status = _STATUS.get(text_at(("status",), row) or "", "pending")
            items.append(TodoItem(clean_text(text), status))  # type: ignore[arg-type]  # the table holds the three words
    return tuple(items)


def todo_text(items: tuple[TodoItem, ...]) -> str:
    """The list as Markdown check boxes."""
    boxes = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}
    return "\n".join(f"- {boxes[item.status]} {item.text}" for item in items)
