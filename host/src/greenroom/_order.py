"""The order of a hook's implementations: a stable topological sort.

Declared `before` / `after` / `requires` first, then the order of the settings,
then the plugin's id. It is a function of the set of implementations and of the
settings alone, so loading, unloading and reloading never shuffle it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from greenroom.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from greenroom._impl import Impl


def in_order(impls: Iterable[Impl], configured: Sequence[str] = ()) -> tuple[Impl, ...]:
    """Return the implementations in calling order.

    Args:
        impls: of one hook; several of one plugin (scoped ones) keep their order.
        configured: ids or short names, from the settings; the first goes first.

    Raises:
        PluginError: the declared constraints contradict each other; names the cycle.
    """
    given = list(impls)
    sorter = TopologicalSorter(_predecessors(given))
    try:
        sorter.prepare()
    except CycleError as error:
        raise _cycle([given[index] for index in error.args[1]]) from None
    rank = {name: place for place, name in reversed(list(enumerate(configured)))}

    def key(index: int) -> tuple[int, str, int]:
        impl = given[index]
        place = min(rank.get(impl.plugin, len(rank)), rank.get(impl.short, len(rank)))
        return place, impl.plugin, index

    ready: list[tuple[int, str, int]] = []
    ordered: list[Impl] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, key(index))
        index = heapq.heappop(ready)[-1]
        ordered.append(given[index])
        sorter.done(index)
    return tuple(ordered)


def reasons(impl: Impl, configured: Sequence[str] = ()) -> tuple[str, ...]:
    """Return why an implementation stands where it stands, for `hooks explain`."""
    options = impl.options
    said = [
        f"{word} {', '.join(names)}"
        for word, names in (("before", options.before), ("after", options.after), ("requires", options.requires))
        if names
    ]
    for name in (impl.plugin, impl.short):
        if name in configured:
            said.append(f"settings place {list(configured).index(name) + 1}")
            break
    return (*said, f"id {impl.plugin}")


def _predecessors(impls: Sequence[Impl]) -> dict[int, set[int]]:
    """Map each index to the indices that must come earlier."""
    by_name: dict[str, set[int]] = defaultdict(set)
    for index, impl in enumerate(impls):
        by_name[impl.plugin].add(index)
        by_name[impl.short].add(index)
    found: dict[int, set[int]] = {index: set() for index in range(len(impls))}
    for index, impl in enumerate(impls):
        for name in impl.options.before:
            for other in by_name[name] - {index}:
                found[other].add(index)
        for name in (*impl.options.after, *impl.options.requires):
            found[index] |= by_name[name] - {index}
    return found


def _cycle(loop: Sequence[Impl]) -> PluginError:
    names = " before ".join(impl.plugin for impl in loop)
    return PluginError(
        f"hook {loop[0].spec.name}: the order of its implementations is a cycle: {names}",
        hint="remove one of the before/after/requires of these plugins, or deny one of them",
        plugin=loop[0].plugin,
    )
