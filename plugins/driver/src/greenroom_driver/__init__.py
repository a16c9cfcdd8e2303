"""The driver of greenroom's agents."""

from __future__ import annotations

__all__: list[str] = []
