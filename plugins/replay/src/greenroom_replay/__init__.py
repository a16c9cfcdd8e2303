"""A provider that replays scripts and recordings."""

from __future__ import annotations

greenroom_api = "1"
