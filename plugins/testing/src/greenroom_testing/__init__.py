"""A pytest plugin for authors of greenroom plugins: fixtures and conformance classes."""

from __future__ import annotations

from greenroom_testing._conformance import Footprint, PluginConformance
from greenroom_testing._fixtures import TmpPlugin, host, tmp_plugin
from greenroom_testing._provider_conformance import ProviderConformance, RecordingLink
from greenroom_testing._scripted import (
    EVERYTHING,
    ScriptedPlugin,
    ScriptedProvider,
    ScriptedSession,
    accept,
    acknowledge,
    answer,
    hang,
    stop,
)
from greenroom_testing._store_conformance import StoreConformance
from greenroom_testing._store_samples import sample_header, sample_log

__all__ = [
    "EVERYTHING",
    "Footprint",
    "PluginConformance",
    "ProviderConformance",
    "RecordingLink",
    "ScriptedPlugin",
    "ScriptedProvider",
    "ScriptedSession",
    "StoreConformance",
    "TmpPlugin",
    "accept",
    "acknowledge",
    "answer",
    "hang",
    "host",
    "sample_header",
    "sample_log",
    "stop",
    "tmp_plugin",
]
