"""A provider that replays scripts and recordings; see `ProviderSpec` `replay`."""

from __future__ import annotations

from greenroom_replay._plugin import ReplayProvider, ReplaySettings, plugin_settings, providers

__all__ = ["ReplayProvider", "ReplaySettings", "plugin_settings", "providers"]

greenroom_api = "1"
