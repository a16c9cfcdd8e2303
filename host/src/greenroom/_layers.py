"""Registries in layers: one layer per scope, the nearest wins.

Tools, sections, variables, services: whatever has a name and an owner. A name is
unique in its layer; a nearer layer shadows a farther one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from greenroom.errors import NameTaken

if TYPE_CHECKING:
    from greenroom._effect import Effect
    from greenroom._scope import Scope

T = TypeVar("T")

Notify = Callable[["Entry[T]"], None]


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: equal values of two owners are two entries
class Entry(Generic[T]):
    """One registered value; `name` is None for an anonymous one."""

    name: str | None
    value: T
    scope: Scope


class Layers(Generic[T]):
    """Values in layers of scopes, each removed with the scope that added it.

    Args:
        what: the noun for error texts ("tool", "section").
        added, removed: told of each change after it happened. If `added` raises,
            the addition is taken back.
    """

    def __init__(
        self,
        what: str,
        added: Notify[T] = lambda _entry: None,
        removed: Notify[T] = lambda _entry: None,
    ) -> None:
        self._what = what
        self._added = added
        self._removed = removed
        self._layers: dict[Scope, dict[object, Entry[T]]] = {}

    def add(self, scope: Scope, value: T, *, name: str | None = None, by: Scope | None = None) -> Effect:
        """Add to the layer of `scope`; the returned effect takes it away again.

        Args:
            scope: whose layer; who sees the value: this scope and its descendants.
            value: anything; anonymous values may be equal and stay independent.
            name: unique in the layer.
            by: the scope that owns the addition, `scope` itself by default. It
                leaves with whichever of the two goes first.

        Raises:
            NameTaken: the layer has the name; the text names both owners.
            ScopeClosed: one of the scopes has begun to stop.
        """
        owner = by or scope
        entry = Entry(name, value, owner)
        key: object = name if name is not None else entry
        existing = self._layers.get(scope, {}).get(key)
        if existing is not None:
            raise NameTaken(
                f"the {self._what} {name!r} of {owner.label} is already added to {scope.label}"
                f" by {existing.scope.label}",
                hint="rename one of the two, or deny one of the plugins in [plugins] deny",
                plugin=owner.plugin,
            )
        label = f"{self._what} {name}" if name is not None else self._what
        effect = owner.undo(lambda: self._remove(scope, key, entry), label=label)
        if owner is not scope:
            try:
                effect.also(scope)
            except BaseException:
                effect.forget()
                raise
        self._layers.setdefault(scope, {})[key] = entry
        try:
            self._added(entry)
        except BaseException:
            effect.forget()
            self._drop(scope, key, entry)
            raise
        return effect

    def layer(self, scope: Scope) -> tuple[Entry[T], ...]:
        """Return what one scope's own layer holds, in the order of addition; makes no layer."""
        return tuple(self._layers.get(scope, {}).values())

    def visible(self, scope: Scope) -> tuple[Entry[T], ...]:
        """Return what a scope sees: the root's first, the nearest entry of each name in the first one's place."""
        merged: dict[object, Entry[T]] = {}
        for layer in reversed(tuple(scope.chain())):
            merged.update(self._layers.get(layer, {}))
        return tuple(merged.values())

    def find(self, scope: Scope, name: str) -> Entry[T] | None:
        """Return the nearest entry of a name, or None."""
        for layer in scope.chain():
            found = self._layers.get(layer, {}).get(name)
            if found is not None:
                return found
        return None

    def __iter__(self) -> Iterator[Scope]:
        """Iterate over the scopes that have a layer."""
        return iter(tuple(self._layers))

    def _remove(self, scope: Scope, key: object, entry: Entry[T]) -> None:
        if self._drop(scope, key, entry):
            self._removed(entry)

    def _drop(self, scope: Scope, key: object, entry: Entry[T]) -> bool:
        layer = self._layers.get(scope)
        if layer is None or layer.get(key) is not entry:
            return False
        del layer[key]
        if not layer:
            del self._layers[scope]
        return True
