"""A pytest plugin for authors of greenroom plugins: fixtures and conformance classes."""

from __future__ import annotations

from greenroom_testing._conformance import Footprint, PluginConformance
from greenroom_testing._fixtures import TmpPlugin, host, tmp_plugin
from greenroom_testing._store_conformance import StoreConformance
from greenroom_testing._store_samples import sample_header, sample_log

__all__ = [
    "Footprint",
    "PluginConformance",
    "StoreConformance",
    "TmpPlugin",
    "host",
    "sample_header",
    "sample_log",
    "tmp_plugin",
]
