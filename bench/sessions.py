"""What a session's log costs: append, checks, observers, messages, recovery.

    uv run python bench/sessions.py

Goals are those of a quiet machine on which a bare call takes 28 ns, so they are stated in
bare calls: 2.0 us for a text, 3.0 us for a tool call, 2.8 and 3.8 us with the companion and
ten observers. The payload's construction is part of the figure. The lease does nothing;
what a store costs is measured with the store.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from _bench import Bench

from greenroom.providers import ShellDetail
from greenroom.sessions import (
    Event,
    Extras,
    Header,
    Invariants,
    MemoryStore,
    Replace,
    Session,
    Vocabulary,
    closers,
    derive_messages,
)
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    ContextMessage,
    Message,
    Reason,
    StepEnd,
    StepStart,
    Text,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
)
from greenroom_session_invariants import session_log

BARE = 28e-9
TEXT = "hello world " * 4
HEADER = Header(id="bench", epoch="e", created_at=0)
CALLS_A_TURN = 40
ROUNDS = 150


class NoLease:
    """Takes everything and does nothing."""

    def append(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        """Forget them."""


def look(event: Event) -> None:
    """Observe and do nothing."""


def open_step(*, companion: bool = False, observers: int = 0) -> Session:
    """A session with an open step."""
    vocabulary, invariants = Vocabulary(), Invariants()
    if companion:
        invariants.register("session-invariants", [session_log()])
    session = Session(HEADER, vocabulary, validators=[invariants.validator(HEADER, vocabulary)] if companion else [])
    session.connect(MemoryStore(), NoLease())
    for _ in range(observers):
        session.observe(look)
    session.append("turn/start", TurnStart(1, Trigger("message")))
    session.append("step/start", StepStart(1, 1))
    return session


def text(session: Session) -> Callable[[], object]:
    """A piece of an answer."""
    append = session.append
    return lambda: append("assistant/message", AssistantMessage(1, 1, TEXT, "msg_1"))


def tools(**more: object) -> float:
    """Seconds of one tool call; its result is appended outside the measured time, so that calls pair up."""
    best, wanted = float("inf"), {"command": "ls -la /tmp", "description": "list"}
    for _ in range(ROUNDS):
        append = open_step(**more).append  # type: ignore[arg-type]  # the keywords of open_step
        taken = 0.0
        for number in range(CALLS_A_TURN):
            name = f"toolu_{number:04}"
            start = time.perf_counter()
            append("tool/call", ToolCall(1, 1, name, "Bash", dict(wanted), ShellDetail("ls -la /tmp", "/workspace")))
            taken += time.perf_counter() - start
            result = ToolResult(1, 1, name, "completed", ShellDetail("ls -la /tmp", "/workspace"))
            append("tool/result", result, surface="append")
        best = min(best, taken / CALLS_A_TURN)
    return best


def conversation(turns: int) -> Session:
    """A session of whole turns, all of it in memory."""
    session = Session(HEADER, Vocabulary())
    for turn in range(1, turns + 1):
        session.append("turn/start", TurnStart(turn, Trigger("message")))
        message = Message(f"u{turn}", (Text(TEXT),), UserSource())
        session.append("user/message", UserMessage(message), surface="append")
        session.append("step/start", StepStart(turn, 1))
        session.append("assistant/message", AssistantMessage(turn, 1, TEXT, f"m{turn}", final=True), surface="append")
        session.append("step/end", StepEnd(turn, 1))
        session.append("turn/end", TurnEnd(turn, Reason("completed")))
    return session


def replaced(session: Session) -> Callable[[], object]:
    """Replace one node and derive all messages anew."""
    session.append("turn/start", TurnStart(session.state.next_turn(), Trigger("compaction")))
    numbers = itertools.count()

    def act() -> None:
        first = session.surface[0]
        message = Message(f"c{next(numbers)}", (Text("sum"),), UserSource())
        session.append("context/message", ContextMessage(message), surface=Replace((first, first)))
        session.derive_messages()

    return act


def main() -> None:
    """Print the figures."""
    bench = Bench()
    full = {"companion": True, "observers": 10}
    bench.measure("append a text", text(open_step()), calls=2.0e-6 / BARE)
    bench.measure("  with companion", text(open_step(companion=True)))
    bench.measure("  with companion and 10 observers", text(open_step(**full)), calls=2.8e-6 / BARE)
    for name, more, goal in (("append a tool call", {}, 3.0), ("  with companion and 10 observers", full, 3.8)):
        bench.add(
            name, tools(**more), goal=goal * 1e-6 / BARE * bench.bare, goal_text=f"{goal * 1e-6 / BARE:.0f} bare calls"
        )

    talk = conversation(2_000)
    events = talk.tail
    talk.derive_messages()
    bench.measure("messages of 12,000 events, nothing new", talk.derive_messages)
    bench.measure("  after a replacement", replaced(talk))
    bench.measure("  from scratch", lambda: derive_messages(events))
    bench.measure("  as a seed, checked and folded", lambda: Session(HEADER, Vocabulary(), seed=events))

    broken = open_step()
    for number in range(100):
        broken.append("tool/call", ToolCall(1, 1, f"t{number}", "Bash", {}, ShellDetail("ls")))
    unfinished = broken.tail
    bench.measure("closers of 100 open calls", lambda: closers(unfinished, broken.state))
    bench.report()


if __name__ == "__main__":
    main()
