"""What clients show of a session: pages, cursors, folded entries and subscriptions."""

from __future__ import annotations

from ._plugin import TimelinePlugin, plugin
from ._service import Timeline

__all__ = ["Timeline", "TimelinePlugin", "plugin"]
