"""Keeps the agents of a host: records, the ways in and out, catalogue, permissions, attention, history."""

from __future__ import annotations

from ._plugin import ManagerPlugin, plugin

__all__ = ["ManagerPlugin", "plugin"]
