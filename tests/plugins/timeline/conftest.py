"""Worlds with small memories, so that a short log shows every border."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from greenroom_timeline._sizes import Sizes


def _load():
    spec = importlib.util.spec_from_file_location("timeline_lines", Path(__file__).parent / "lines.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["timeline_lines"] = module
    spec.loader.exec_module(module)
    return module


_load()

SMALL = Sizes(keep=6, keep_bytes=1 << 20, inbox=9, enough=4, chunk=5, large_chunk=11, entries=5)


@pytest.fixture
def small():
    """Bounds that a log of a dozen events exceeds."""
    return SMALL


@pytest.fixture
def world(anyio_backend):
    from timeline_lines import World

    return World()


@pytest.fixture
def small_world(anyio_backend):
    from timeline_lines import World

    return World(SMALL)
