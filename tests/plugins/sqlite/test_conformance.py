"""The store conformance class on both stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom.sessions import Medium, MemoryStore
from greenroom_sqlite import SqliteStore
from greenroom_testing import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _media(self) -> None:
        self.media: dict[Path, Medium] = {}

    def open_store(self, place: Path) -> MemoryStore:
        return MemoryStore(self.media.setdefault(place, Medium()))

    async def kill(self, store: MemoryStore) -> None:
        store.kill()


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _kill(self, kill_store) -> None:
        self.kill = kill_store

    def open_store(self, place: Path) -> SqliteStore:
        return SqliteStore(place / "greenroom.db", window=60, barrier="normal")
