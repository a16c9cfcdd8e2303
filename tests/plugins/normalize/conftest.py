"""Recorded calls as fixtures."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def recorded() -> ModuleType:
    """The reader of recorded calls."""
    spec = importlib.util.spec_from_file_location("recorded_calls", Path(__file__).parent / "calls.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
