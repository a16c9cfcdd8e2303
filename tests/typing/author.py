"""What the author of a plugin writes, judged by the type checkers; never run."""

from __future__ import annotations

from typing import Protocol, assert_type

from greenroom import Host, Scope, hookimpl


class Translations(Protocol):
    """A service that one plugin offers and another uses."""

    def translate(self, text: str) -> str:
        """Translate a text."""
        ...


class English:
    """A service."""

    def translate(self, text: str) -> str:
        """Leave it as it is."""
        return text


@hookimpl
async def activate(scope: Scope) -> None:
    """Add things of every sort."""
    scope.provide(Translations, English())
    scope.undo(lambda: None, label="nothing")
    scope.spawn(work, 3, name="work")


async def work(times: int) -> None:
    """Do background work."""


def use(host: Host) -> None:
    """Use what another plugin may offer."""
    service = host.service(Translations)
    assert_type(service, Translations | None)
    if service is not None:
        assert_type(service.translate("text"), str)
