"""What clients show of a session: rows, patches, entries and cursors, and the service that gives them."""

from __future__ import annotations

from greenroom.timeline._model import (
    MAX_CHILD_ITEMS,
    Cursor,
    Direction,
    Entry,
    Lagged,
    Page,
    Patch,
    Patched,
    Recast,
    Row,
    RowAdded,
    Snapshot,
    Update,
    View,
    Window,
)
from greenroom.timeline._patching import apply_patch, merge_detail
from greenroom.timeline._service import DEFAULT_LIMIT, TimelineService, Updates

__all__ = [
    "DEFAULT_LIMIT",
    "MAX_CHILD_ITEMS",
    "Cursor",
    "Direction",
    "Entry",
    "Lagged",
    "Page",
    "Patch",
    "Patched",
    "Recast",
    "Row",
    "RowAdded",
    "Snapshot",
    "TimelineService",
    "Update",
    "Updates",
    "View",
    "Window",
    "apply_patch",
    "merge_detail",
]
