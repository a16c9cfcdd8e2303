"""The version of the host, read by the build and by `greenroom --version`."""

from __future__ import annotations

__version__ = "0.1.0"

API_VERSION = "1"  # what a plugin states its range against: `greenroom_api`
