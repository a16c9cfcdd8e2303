"""The companion of sessions: checks each event against the rules of the log before it is committed."""

from __future__ import annotations

from ._checks import check, session_log
from ._plugin import SessionInvariants, Settings, plugin
from ._trace import LogTrace, OpenCall

__all__ = ["LogTrace", "OpenCall", "SessionInvariants", "Settings", "check", "plugin", "session_log"]
