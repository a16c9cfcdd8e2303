"""A pytest plugin for authors of greenroom plugins: fixtures and conformance classes."""
from __future__ import annotations

from greenroom_testing._conformance import Footprint, PluginConformance
from greenroom_testing._fixtures import TmpPlugin, host, tmp_plugin

__all__ = ["Footprint", "PluginConformance", "TmpPlugin", "host", "tmp_plugin"]
