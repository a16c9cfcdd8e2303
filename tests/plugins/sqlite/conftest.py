"""Stores on a file of the test's own."""

from __future__ import annotations

import pytest

from greenroom_sqlite import SqliteStore


@pytest.fixture
def kill_store():
    """Give what ends a store as a killed process does: nothing is flushed, nothing released, its lock is free."""

    async def kill(store: SqliteStore) -> None:
        for lease in store._leases.values():
            lease.channel.backlog.take()
            lease.channel.backlog.written()
            lease._over = True
        store._leases.clear()
        await store._writer.stop()
        store._file.close()
        store._liveness.let_go()

    return kill


@pytest.fixture
def path(tmp_path):
    return tmp_path / "greenroom.db"
