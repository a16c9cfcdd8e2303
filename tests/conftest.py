"""Fixtures and reports that every test shares."""

import pytest


@pytest.fixture(autouse=True)
def _record_behaviours(request: pytest.FixtureRequest, record_property) -> None:
    """Write the behaviours that a test claims into the JUnit report."""
    ids = [i for mark in request.node.iter_markers("behaviour") for i in mark.args]
    if ids:
        record_property("behaviour", " ".join(ids))
