"""What it costs to compare a provider's history with the log, and to write one as the beginning of a log.

    uv run python bench/history.py [TURNS]

Each turn has a prompt, a thought, a call and an answer. Figures are for the whole history.
"""

from __future__ import annotations

import sys
import time

import anyio
from _bench import Bench

import greenroom_driver
from greenroom import Host, load_settings
from greenroom.agents import AgentOptions, AgentSpec, HistorySeeds
from greenroom.providers import (
    MessageDone,
    ProviderEvent,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UserEcho,
)
from greenroom_driver._past import read_history
from greenroom_driver._reconcile import Item, reconcile
from greenroom_testing import ScriptedPlugin, ScriptedProvider


def history(turns: int) -> list[ProviderEvent]:
    """A conversation of so many turns."""
    events: list[ProviderEvent] = []
    for n in range(turns):
        name = f"t{n}"
        events += [
            TurnStarted(turn_id=name),
            UserEcho(text=f"prompt {n}", provider_message_id=f"u{n}", turn_id=name),
            MessageDone(message_id=f"r{n}", text="a thought " * 10, reasoning=True, turn_id=name),
            ToolStarted(call_id=f"c{n}", name="Bash", input={"command": "ls"}, turn_id=name),
            ToolFinished(call_id=f"c{n}", name="Bash", input={"command": "ls"}, output="x " * 50, turn_id=name),
            MessageDone(message_id=f"m{n}", text=f"answer {n} " * 10, turn_id=name),
            TurnCompleted(turn_id=name),
        ]
    return events


def nameless(items: list[Item]) -> list[Item]:
    """The same without ids."""
    return [Item(item.kind, item.content, item.turn) for item in items]


async def main() -> None:
    """Measure and print."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 2_500
    bench, past = Bench(), history(turns)
    items = list(read_history(past)[0])
    count = f"{len(items):,} items"
    bench.measure(f"compare {count} by id, all known", lambda: reconcile(items, items))
    bench.measure(f"compare {count} by content, all known", lambda: reconcile(nameless(items), nameless(items)))
    half = items[: len(items) // 2]
    bench.measure(f"compare {count} by content, half known", lambda: reconcile(nameless(half), nameless(items)))
    provider = ScriptedProvider()
    plugins = {"driver": greenroom_driver, "scripted": ScriptedPlugin(provider)}
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        writer = host.service(HistorySeeds)
        assert writer is not None
        start = time.perf_counter()
        seed = await writer.seed("scripted", "native", past)
        bench.add(f"write them as {len(seed.events):,} events of a seed", time.perf_counter() - start)
        spec = AgentSpec(options=AgentOptions(provider="scripted"), seed=seed.events)
        start = time.perf_counter()
        handle = await host.agents.create(spec, owner=host.scope)
        bench.add("make an agent of the seed", time.perf_counter() - start)
        provider.past = past
        start = time.perf_counter()
        done = await handle.agent.hydrate()
        assert done.added == 0
        bench.add("hydrate it: nothing is missing", time.perf_counter() - start)
    bench.report()


if __name__ == "__main__":
    anyio.run(main)
