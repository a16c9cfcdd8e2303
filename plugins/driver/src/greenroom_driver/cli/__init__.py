"""The commands of the driver: `run`, `log`, `providers`."""

from __future__ import annotations

from greenroom_driver.cli._commands import log, providers, run

__all__ = ["log", "providers", "run"]
