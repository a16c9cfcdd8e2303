"""The local endpoint of a host, and the client that talks to one."""

from __future__ import annotations

from ._plugin import ControlPlugin, plugin

__all__ = ["ControlPlugin", "plugin"]
