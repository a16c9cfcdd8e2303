"""However a history grows between two refreshes, the log ends with what one refresh of the whole would have given."""

from __future__ import annotations

import random

import pytest

from greenroom.providers import (
    MessageDone,
    Notice,
    ReasoningDelta,
    SubAgent,
    TextDelta,
    Todo,
    TodoItem,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UserEcho,
)

pytestmark = pytest.mark.anyio
WORDS = ("yes", "go on", "ok", "a longer text that is said", "x" * 20_000)
SKIPPED = {"seq", "turn", "step", "message_id"}


def history(rng: random.Random, *, ids: bool) -> list[list]:
    """Turns of a history, each a list of events."""
    turns = []
    for number in range(rng.randint(1, 6)):
        name = f"t{number}" if ids else None
        events = [TurnStarted(turn_id=name)] if ids else []
        prompt = rng.choice(WORDS)
        events.append(UserEcho(text=prompt, provider_message_id=f"u{number}" if ids else "", turn_id=name))
        for place in range(rng.randint(0, 5)):
            events += piece(rng, number, place, name, ids=ids)
        failed = rng.random() < 0.2
        end = TurnFailed(turn_id=name, error="no credit") if failed else TurnCompleted(turn_id=name)
        turns.append([*events, end])
    return turns


def piece(rng: random.Random, number: int, place: int, name: str | None, *, ids: bool) -> list:
    """Something that happens in a turn."""
    ident = f"m{number}.{place}x" if ids else None
    call = f"c{number}.{place}"
    said = rng.choice(WORDS)
    done = [MessageDone(message_id=ident, reasoning=True)] if ident is not None else []
    kinds = {
        "text": [MessageDone(message_id=ident, text=said)] if ids else [TextDelta(text=said)],
        "thought": [ReasoningDelta(text=said, message_id=ident), *done],
        "call": [ToolStarted(call_id=call, name="Bash"), ToolFinished(call_id=call, name="Bash", output=said)],
        "child": [
            ToolStarted(call_id=call, name="Task"),
            SubAgent(action="upsert", child_id=f"k{call}", call_id=call, title="child"),
            SubAgent(action="item", child_id=f"k{call}", item=TextDelta(text=said)),
            SubAgent(action="upsert", child_id=f"k{call}", status="completed"),
            ToolFinished(call_id=call, name="Task"),
        ],
        "todo": [Todo(items=(TodoItem(said[:50]),))],
        "notice": [Notice(message=said)],
    }  # fmt: skip
    return kinds[rng.choice(list(kinds))]


def shown(events) -> list:
    """What a reader sees, without the numbers that differ."""
    rows = []
    for event in events:
        kind = event.type
        if kind.startswith(("user/message", "assistant/", "tool/", "todo/", "notice", "subagent/", "turn/end")):
            data = event.data
            told = {name: getattr(data, name) for name in data.__struct_fields__ if name not in SKIPPED}
            if kind == "user/message":
                told = {"content": data.message.content}
            if not (kind.startswith("assistant/") and not data.text):
                rows.append((kind, str(told)))
    return rows


async def fresh(rig) -> list:
    """The rows of a new agent that was hydrated once."""
    await rig.create()
    await rig.agent.hydrate()
    return shown(await rig.agent.session.events())


@pytest.mark.parametrize("ids", [True, False], ids=["ids", "no ids"])
async def test_a_history_that_grows_is_taken_over_piece_by_piece_as_at_once(rig, soak_count, ids):
    for seed in range(soak_count(300)):
        rng = random.Random(f"{seed} {ids}")
        turns = history(rng, ids=ids)
        await rig.create()
        for stop in sorted(rng.sample(range(len(turns) + 1), k=min(2, len(turns)))) + [len(turns)] * 2:
            rig.provider.past = [event for turn in turns[:stop] for event in turn]
            await rig.agent.hydrate()
        grown = shown(await rig.agent.session.events())
        assert grown == await fresh(rig), seed
        await rig.handle.dispose()
