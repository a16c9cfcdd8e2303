"""The driver of greenroom's agents."""

from __future__ import annotations

from greenroom_driver._coalescer import WINDOW, Coalescer
from greenroom_driver._factory import DriverFactory, agent_factory

__all__ = ["WINDOW", "Coalescer", "DriverFactory", "agent_factory"]

greenroom_api = "1"
