"""The commands of the manager: `agents` and `permissions`."""

from __future__ import annotations

from greenroom_manager.cli._agents import agents
from greenroom_manager.cli._permissions import permissions

__all__ = ["agents", "permissions"]
