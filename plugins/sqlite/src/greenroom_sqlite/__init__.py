"""Keeps sessions in one SQLite file: durable, checked, owned by one process at a time."""

from __future__ import annotations

from ._store import WINDOW_SECONDS, SqliteStore

__all__ = ["WINDOW_SECONDS", "SqliteStore"]
