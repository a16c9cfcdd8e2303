"""The order of a hook's implementations: a stable topological sort.

Declared `before` / `after` / `requires` first, then the order of the settings,
then the plugin's id. It is a function of the set of implementations and of the
settings alone, so loading, unloading and reloading never shuffle it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from greenroom.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from greenroom._impl import Impl, Options


def in_order(impls: Iterable[Impl], configured: Sequence[str] = ()) -> tuple[Impl, ...]:
    """Return the implementations in calling order.

    Args:
        impls: of one hook; several of one plugin (scoped ones) keep their order.
        configured: ids or short names, from the settings; the first goes first.

    Raises:
        PluginError: the declared constraints contradict each other; names the cycle.
    """
    given = list(impls)
    successors = _edges(given)
    waiting = [0] * len(given)
    for following in successors.values():
        for after in following:
            waiting[after] += 1
    rank = {name: place for place, name in reversed(list(enumerate(configured)))}

    def key(index: int) -> tuple[int, str, int]:
        impl = given[index]
        place = min(rank.get(impl.plugin, len(rank)), rank.get(impl.short, len(rank)))
        return place, impl.plugin, index

    ready = [key(index) for index in range(len(given)) if not waiting[index]]
    heapq.heapify(ready)
    ordered: list[Impl] = []
    while ready:
        index = heapq.heappop(ready)[-1]
        ordered.append(given[index])
        for after in successors[index]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, key(after))
    if len(ordered) < len(given):
        raise _cycle(given, successors, waiting)
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


def _edges(impls: Sequence[Impl]) -> dict[int, list[int]]:
    """Map each index to the indices that must come later."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for index, impl in enumerate(impls):
        for name in {impl.plugin, impl.short}:
            by_name[name].append(index)
    edges: dict[int, set[int]] = defaultdict(set)
    for index, impl in enumerate(impls):
        options: Options = impl.options
        for name in options.before:
            edges[index].update(other for other in by_name[name] if other != index)
        for name in (*options.after, *options.requires):
            for other in by_name[name]:
                if other != index:
                    edges[other].add(index)
    return defaultdict(list, {index: sorted(after) for index, after in edges.items()})


def _cycle(impls: Sequence[Impl], successors: dict[int, list[int]], waiting: Sequence[int]) -> PluginError:
    """Return the error that shows one cycle among the implementations that never became ready."""
    stuck = {index for index, count in enumerate(waiting) if count}
    predecessors = {index: next(before for before in stuck if index in successors[before]) for index in stuck}
    seen: list[int] = []
    at = min(stuck)
    while at not in seen:
        seen.append(at)
        at = predecessors[at]
    loop = [*seen[seen.index(at) :], at]
    names = " before ".join(impls[index].plugin for index in reversed(loop))
    hook = impls[at].spec.name
    return PluginError(
        f"hook {hook}: the order of its implementations is a cycle: {names}",
        hint="remove one of the before/after/requires of these plugins, or deny one of them",
        plugin=impls[at].plugin,
    )
