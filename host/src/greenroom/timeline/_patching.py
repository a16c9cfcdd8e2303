"""How a patch changes an item: the same function for the service and for clients."""

from __future__ import annotations

from greenroom.sessions.vocabulary import JsonObject, JsonValue
from greenroom.timeline._model import MAX_CHILD_ITEMS


def apply_patch(item: JsonObject, patch: JsonObject) -> JsonObject:
    """The item with the patch applied; neither argument is changed.

    `detail` is merged field by field. `children` holds the sub-agents of a call by id: null
    removes one, `items` are appended (the last 50 stay, `dropped` counts the others), other
    fields are sticky. Everything else is replaced.
    """
    merged = {**item, **patch}
    if "detail" in item and "detail" in patch:
        merged["detail"] = merge_detail(item["detail"], patch["detail"])
    if "children" in patch:
        children = dict(item.get("children") or {})
        for child, change in patch["children"].items():
            if change is None:
                children.pop(child, None)
            else:
                children[child] = _merge_child(children.get(child) or {}, change)
        merged["children"] = children
    return merged


def merge_detail(known: JsonValue, later: JsonValue) -> JsonValue:
    """Two details of one tool call: fields merge one by one, and `unknown` never replaces what is known.

    Of another known type, the later one holds. Absent and null fields erase nothing.
    """
    if not isinstance(known, dict) or not isinstance(later, dict):
        return later if known is None or isinstance(later, dict) else known
    if known.get("type") != later.get("type"):
        return known if later.get("type") == "unknown" else later
    if None in later.values():
        later = {name: value for name, value in later.items() if value is not None}
    return {**known, **later}


def _merge_child(child: JsonObject, change: JsonObject) -> JsonObject:
    merged = {**child, **change}
    if "items" in change:
        items = [*child.get("items", ()), *change["items"]]
        over = len(items) - MAX_CHILD_ITEMS
        merged["items"] = items[max(over, 0) :]
        if over > 0:
            merged["dropped"] = child.get("dropped", 0) + over
    return merged
