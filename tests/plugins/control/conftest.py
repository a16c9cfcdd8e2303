"""Sockets and the store: asyncio only."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rig import Place, wire


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "data")


@pytest.fixture
async def host(anyio_backend, place):
    """A host that serves its data directory, without a keeper of agents."""
    async with place.host() as live:
        await live.control.serve()
        yield live


@pytest.fixture
async def client(host):
    """A client that has said hello."""
    async with wire(host.control.endpoint) as connected:
        yield connected
