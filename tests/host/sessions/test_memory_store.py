"""The store in memory does what every store must do."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenroom.sessions import Medium, MemoryStore, SessionStore
from greenroom_testing import StoreConformance


class TestMemoryStore(StoreConformance):
    """Two stores on one medium are two processes on one file."""

    @pytest.fixture(autouse=True)
    def media(self):
        self.places: dict[Path, Medium] = {}

    def open_store(self, place: Path) -> SessionStore:
        return MemoryStore(self.places.setdefault(place, Medium()))

    async def kill(self, store: MemoryStore) -> None:
        store.kill()
