"""What hook calls and scopes cost.

    uv run python bench/hooks.py

Goals: asking whether anybody wants a hook takes at most three bare calls; ten plain
observers, with their outcomes recorded, take at most what pluggy's own call takes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import anyio
import pluggy
from _bench import Bench

from greenroom._hooks import Hooks, hookimpl
from greenroom._kinds import Kind
from greenroom._scope import Scope
from greenroom._staging import Owner
from greenroom.hookspecs import hookspec

SCOPES = 2_000


class Specs:
    """The hooks that are measured."""

    @staticmethod
    @hookspec(Kind.OBSERVE)
    def seen(session: object, event: object) -> None:
        """Hear of an event."""

    @staticmethod
    @hookspec(Kind.OBSERVE, subject="session")
    def seen_by(session: object, event: object) -> None:
        """Hear of an event of an agent."""

    @staticmethod
    @hookspec(Kind.DECIDE)
    def allowed(session: object, event: object) -> None:
        """Decide."""


def hooks_with(count: int, hook: str) -> Any:
    """Return hooks with `count` plain implementations of one of them."""
    hooks = Hooks(specs=[Specs])
    for number in range(count):

        def implementation(session: object, event: object) -> None:
            pass

        plugin = SimpleNamespace(**{hook: hookimpl(hook=hook)(implementation)})
        hooks.publish(hooks.check(plugin, Owner(f"bench:p{number}", f"p{number}", "bench 1")))
    return hooks


def pluggy_with(count: int) -> Any:
    """Return pluggy's own hook with `count` implementations."""
    spec, mark = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

    class PluggySpecs:
        @staticmethod
        @spec
        def seen(session: object, event: object) -> None:
            """Hear of an event."""

    manager = pluggy.PluginManager("bench")
    manager.add_hookspecs(PluggySpecs)
    for _ in range(count):

        class Plugin:
            @mark
            def seen(self, session: object, event: object) -> None:
                pass

        manager.register(Plugin())
    return manager.hook


class Subject:
    """Something with a scope, as a session is."""

    scope = Scope("agent", mock.Mock())


def calls(bench: Bench) -> None:
    """Measure hook calls."""
    nobody = hooks_with(0, "seen")

    def guarded() -> None:
        if nobody.seen.wanted:
            nobody.seen(1, 2)

    bench.measure("if hooks.x.wanted: nobody", guarded, calls=3)
    for count in (1, 10):
        theirs, ours = pluggy_with(count), hooks_with(count, "seen")
        limit = bench.measure(f"pluggy's call, {count} plain", lambda hook=theirs: hook.seen(session=1, event=2))
        seconds = _measured(bench, f"observe, {count} plain", lambda hook=ours: hook.seen(1, 2))
        bench.add(f"observe, {count} plain", seconds, goal=limit, goal_text="pluggy's call")
    about, subject = hooks_with(10, "seen_by"), Subject()
    bench.measure("observe about an agent, 10 plain", lambda: about.seen_by(subject, 2))


def _measured(bench: Bench, name: str, call: Any) -> float:
    seconds = bench.measure(name, call)
    bench.rows.pop()
    return seconds


async def awaited(bench: Bench) -> None:
    """Measure what needs a loop."""
    decided = hooks_with(10, "allowed")
    start = anyio.current_time()
    for _ in range(SCOPES):
        await decided.allowed(1, 2)
    bench.add("decide, 10 plain (asyncio)", (anyio.current_time() - start) / SCOPES)
    async with anyio.create_task_group() as tasks:
        ground = mock.Mock(tasks=tasks)
        start = anyio.current_time()
        for _ in range(SCOPES):
            scope = Scope("agent", ground)
            for _ in range(5):
                scope.undo(_nothing)
            await scope.open()
            await scope.aclose()
        bench.add("scope with 5 effects: open and close (asyncio)", (anyio.current_time() - start) / SCOPES)


def _nothing() -> None:
    """Undo nothing."""


if __name__ == "__main__":
    rows = Bench()
    calls(rows)
    anyio.run(awaited, rows)
    rows.report()
