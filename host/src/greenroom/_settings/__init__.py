"""The settings of a host: layers of tables, each value with its origin, checked before anything uses it."""

from __future__ import annotations

from greenroom._settings.layers import Origin
from greenroom._settings.model import PluginSection, validate_plugin
from greenroom._settings.rules import HOST_KEYS
from greenroom._settings.settings import (
    NO_PLUGINS_OPTION,
    RESERVED_NAMES,
    HostPluginSettings,
    LoadEntry,
    Settings,
    load_settings,
)

__all__ = [
    "HOST_KEYS",
    "NO_PLUGINS_OPTION",
    "RESERVED_NAMES",
    "HostPluginSettings",
    "LoadEntry",
    "Origin",
    "PluginSection",
    "Settings",
    "load_settings",
    "validate_plugin",
]
