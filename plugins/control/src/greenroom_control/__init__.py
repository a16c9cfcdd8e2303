"""The local endpoint of a host, and the client that talks to one."""

from __future__ import annotations

from ._client import Remote
from ._control import Control
from ._plugin import ControlPlugin, plugin
from ._wire import PROTOCOL

__all__ = ["PROTOCOL", "Control", "ControlPlugin", "Remote", "plugin"]
