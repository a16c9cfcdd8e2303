"""Keeps sessions in one SQLite file: durable, checked, owned by one process at a time."""

from __future__ import annotations

from ._plugin import StoreSettings, plugin_settings, session_store
from ._rebuild import FileReport, Rescued, repair_file
from ._store import WINDOW_SECONDS, SqliteStore

__all__ = [
    "WINDOW_SECONDS",
    "FileReport",
    "Rescued",
    "SqliteStore",
    "StoreSettings",
    "plugin_settings",
    "repair_file",
    "session_store",
]
