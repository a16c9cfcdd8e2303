"""The driver of greenroom's agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom import hookimpl

if TYPE_CHECKING:
    from greenroom import Host, Scope
    from greenroom_driver._coalescer import WINDOW, Coalescer
    from greenroom_driver._factory import DriverFactory

__all__ = ["WINDOW", "Coalescer", "DriverFactory", "activate", "agent_factory"]

greenroom_api = "1"

_HOME = {"WINDOW": "_coalescer", "Coalescer": "_coalescer", "DriverFactory": "_factory"}


@hookimpl
def agent_factory(host: Host) -> DriverFactory:
    """Drive the agents of the host."""
    from greenroom_driver._factory import DriverFactory

    return DriverFactory(host)


@hookimpl
def activate(scope: Scope) -> None:
    """Offer to write histories as logs, for imports."""
    from greenroom.agents import HistorySeeds
    from greenroom_driver._hydrate import Histories

    scope.provide(HistorySeeds, Histories(scope.host))


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562): the commands print their first line before that."""
    if name not in _HOME:
        raise AttributeError(f"module 'greenroom_driver' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"greenroom_driver.{_HOME[name]}"), name)
