"""What plugins offer each other: objects behind protocols of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from greenroom._layers import Layers

if TYPE_CHECKING:
    from greenroom._effect import Effect
    from greenroom._scope import Scope

T = TypeVar("T")


class Services:
    """One object for each protocol, offered by one plugin of the host."""

    def __init__(self, root: Scope) -> None:
        self._root = root
        self._layers: Layers[object] = Layers("service")

    def provide(self, scope: Scope, protocol: type[object], service: object) -> Effect:
        """Offer a service until `scope` ends.

        Raises:
            NameTaken: another plugin offers it; names both.
        """
        return self._layers.add(self._root, service, name=_name(protocol), by=scope)

    def find(self, protocol: type[T]) -> T | None:
        """Return the service, or None while nobody offers it."""
        entry = self._layers.find(self._root, _name(protocol))
        return cast("T | None", entry.value) if entry is not None else None


def _name(protocol: type[object]) -> str:
    return f"{protocol.__module__}.{protocol.__qualname__}"
