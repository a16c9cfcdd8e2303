"""The commands of the driver: `run`, `log`, `attach`, `providers`."""

from __future__ import annotations

from greenroom_driver.cli._commands import attach, log, providers, run

__all__ = ["attach", "log", "providers", "run"]
