"""Fixtures and reports that every test shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import pytest

# Examples are derived from the test itself, so a red run is red again; a shared, loaded
# machine must not turn a slow example into a failure.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100, database=None)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak",
        action="store_true",
        default=os.environ.get("GREENROOM_SOAK") == "1",
        help="run the full counts of kills, examples and schedules instead of a tenth (or GREENROOM_SOAK=1)",
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("soak" if config.getoption("--soak") else "ci")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many workers again as there are cores: a third of the time is spent waiting for other processes."""
    return (os.cpu_count() or 1) * 3 // 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """Let a report travel from a worker although what was captured has lone surrogates, which UTF-8 cannot say."""
    report = yield
    if isinstance(report, pytest.TestReport):
        report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(autouse=True)
def _record_behaviours(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> None:
    """Write the behaviours that a test claims into the JUnit report."""
    ids = [i for mark in request.node.iter_markers("behaviour") for i in mark.args]
    if ids:
        record_property("behaviour", " ".join(ids))


@pytest.fixture(autouse=True)
def user_folders(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give each test its own data and settings folders, also in the processes that it starts.

    Nothing of the user's is read or written: `GREENROOM_HOME` is `<folder>/data`,
    `GREENROOM_CONFIG_DIR` is `<folder>/config`, every other `GREENROOM_*` is unset.
    """
    for name in list(os.environ):
        if name.startswith("GREENROOM_"):
            monkeypatch.delenv(name)
    # Every process that a test starts would compile three hundred modules anew.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("GREENROOM_HOME", str(folder / "data"))
    monkeypatch.setenv("GREENROOM_CONFIG_DIR", str(folder / "config"))
    return folder


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run a test that is marked `anyio` on both event loops."""
    backend: str = request.param
    return backend


@pytest.fixture
def soak_count(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """Give how often to do something that is done `full` times in a soak run, else a tenth of it."""
    soak = request.config.getoption("--soak") or request.node.get_closest_marker("soak") is not None
    return lambda full: full if soak else max(1, full // 10)
