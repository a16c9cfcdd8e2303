"""One mailbox and one pump per agent: everything that enters the log passes here, in one order.

The provider's events and our own conclusions stand in one queue. The pump drains it in batches, merges, judges, and
lets the writer append; it awaits nothing but the store's back-pressure. `flush` does the same work at once, for those
who must know what the provider has said before they go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

import anyio
import anyio.lowlevel

from greenroom.errors import GreenroomError
from greenroom.providers import PermissionRequested, PermissionResolved, ProviderEvent, ToolFinished, ToolProgress
from greenroom.sessions import EventRefused, Session

from ._coalescer import Coalescer
from ._runs import Accepted, Ask, Effect, EndForeign, Finish, OpenTurn, Run, Runs, Settle, Stale, Terminal, Write
from ._write import Writer

BATCH: Final = 512
"""Events that the pump takes before others get their turn: about a millisecond of work."""
ROOM_EVENTS: Final = 10_000
ROOM_BYTES: Final = 16 * 1024 * 1024
"""Above either of these a reader waits between two frames (section 3 of the architecture)."""
EARLY_EVENTS: Final = 1_000
"""The same before the agent is published, when nobody takes anything out yet."""


class Command:
    """A conclusion of ours; it stands behind everything that the provider has said before."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run


class Handler(Protocol):
    """What the pump tells the driver, in the order of the log."""

    def opened(self, trigger: str) -> None: ...
    def accepted(self, run: Run, provider_turn: str) -> None: ...
    def asked(self, event: PermissionRequested) -> None: ...
    def resolved(self, event: PermissionResolved) -> None: ...
    def finished(self, run: Run) -> None: ...
    def settled(self, run: Run, terminal: Terminal) -> None: ...
    def refused(self, error: EventRefused) -> None:
        """Something the provider said could not be logged."""

    def stalled(self, error: GreenroomError) -> None:
        """The store takes nothing any more."""

    def stray(self, text: str) -> None:
        """Something had no place in the log."""


class Pump:
    """The mailbox of an agent and what is done with it."""

    def __init__(self, *, session: Session, runs: Runs, writer: Writer, coalescer: Coalescer, handler: Handler) -> None:
        self.runs: Final = runs
        self.writer: Final = writer
        self._session = session
        self._coalescer = coalescer
        self._handler = handler
        self._box: deque[ProviderEvent | Command] = deque()
        self._later: deque[Callable[[], None]] = deque()
        self._asleep = False
        self._news = anyio.Event()
        self._space = anyio.Event()
        self._weighed = self._weight = 0
        self._running = self._closed = False
        self._depth = 0

    # in

    def emit(self, event: ProviderEvent) -> None:
        """Queue an event of the provider."""
        self._box.append(event)
        if self._asleep:
            self._asleep = False
            self._news.set()

    def post(self, run: Callable[[], None]) -> None:
        """Queue a conclusion."""
        self._box.append(Command(run))
        if self._asleep:
            self._asleep = False
            self._news.set()

    def later(self, call: Callable[[], None]) -> None:
        """Call it once what is being drained is drained; at once if nothing is."""
        if self._depth:
            self._later.append(call)
        else:
            call()

    async def room(self) -> None:
        """Wait while too much is queued."""
        limit = ROOM_EVENTS if self._running else EARLY_EVENTS
        while not self._closed and (len(self._box) > limit or self._heavy()):
            self._space = anyio.Event()
            await self._space.wait()

    def _heavy(self) -> bool:
        """Whether the queue holds too many bytes; each event is weighed once."""
        fresh = len(self._box) - self._weighed
        self._weight += sum(map(_weight, islice(reversed(self._box), max(fresh, 0))))
        self._weighed = len(self._box)
        return self._weight > ROOM_BYTES

    # out

    @property
    def draining(self) -> bool:
        """Whether something is being taken out or carried out right now, by a caller of ours."""
        return self._depth > 0

    def flush(self) -> None:
        """Log everything that was queued, and what the window holds. Inside a drain it does nothing."""
        if self._depth:
            return
        while self._box:
            self._drain(len(self._box))
        self.settle_window()

    def settle_window(self) -> None:
        """Log what the window holds."""
        ready = self._coalescer.flush()
        if ready:
            self.apply(self._judged(ready))

    def switch(self, provider: str) -> None:
        """Another provider's events follow."""
        self.apply(self._judged(self._coalescer.switch(provider)))

    async def run(self) -> None:
        """Take out what comes, until `close`."""
        self._running = True
        while True:
            while self._box:
                self._drain(BATCH)
                await self._back_pressure()
            due = self._coalescer.due()
            if due:
                self.apply(self._judged(due))
            if self._closed:
                return
            await self._sleep()

    def close(self) -> None:
        """Take out what is queued; nothing that comes later counts."""
        self.flush()
        self._closed = True
        self._space.set()
        self._news.set()

    async def _sleep(self) -> None:
        if self._box:
            return
        self._news = anyio.Event()
        self._asleep = True
        deadline = self._coalescer.deadline
        if deadline is None:
            await self._news.wait()
        else:
            with anyio.CancelScope(deadline=deadline):
                await self._news.wait()
        self._asleep = False

    async def _back_pressure(self) -> None:
        try:
            await self._session.room()
        except GreenroomError as error:
            self._handler.stalled(error)
        if self._box:
            await anyio.lowlevel.checkpoint()

    def _drain(self, limit: int) -> None:
        self._depth += 1
        box, push, runs, holds = self._box, self._coalescer.push, self.runs, self.runs.holds
        try:
            for _ in range(min(limit, len(box))):
                item = box.popleft()
                if type(item) is Command:
                    self.settle_window()
                    self._contained(item.run)
                elif holds:
                    self.apply(runs.feed(item))  # type: ignore[arg-type]  # not a command
                else:
                    ready = push(item)  # type: ignore[arg-type]  # not a command
                    if ready is None:
                        ready = [*self._coalescer.flush(), item]  # type: ignore[list-item]  # not a command
                    if ready:
                        self.apply(runs.feed(ready[0]) if len(ready) == 1 else self._judged(ready))
        finally:
            self._depth -= 1
            self._weighed = min(self._weighed, len(box))
            if not box:
                self._weight = 0
            self._space.set()
            self._call_later()

    def _contained(self, step: Callable[[], None]) -> None:
        try:
            step()
        except EventRefused as error:
            self._handler.refused(error)
        except GreenroomError as error:
            self._handler.stalled(error)

    def _call_later(self) -> None:
        while self._later and not self._depth:
            self._later.popleft()()

    def _judged(self, events: Sequence[ProviderEvent]) -> list[Effect]:
        feed = self.runs.feed
        effects: list[Effect] = []
        for event in events:
            effects += feed(event)
        return effects

    def apply(self, effects: Sequence[Effect]) -> None:
        """Carry out effects in order. What the log refuses is reported and stops nothing."""
        self._depth += 1
        do = self._do
        for place, effect in enumerate(effects, 1):
            following = effects[place] if place < len(effects) else None
            try:
                do(effect, following)
            except EventRefused as error:
                self._handler.refused(error)
            except GreenroomError as error:
                self._handler.stalled(error)
        self._depth -= 1
        if self._later:
            self._call_later()

    def _do(self, effect: Effect, following: Effect | None) -> None:
        # By exact type: `isinstance` against a Struct costs five times as much where the answer is no.
        kind = type(effect)
        handler = self._handler
        if kind is Write:
            event: ProviderEvent = effect.event  # type: ignore[union-attr]  # its kind says so; the same below
            if type(event) is PermissionResolved:
                handler.resolved(event)
            else:
                after = following.event if type(following) is Write else following
                self.writer.event(event, effect.foreign, after)  # type: ignore[union-attr]  # a Write
        elif isinstance(effect, Settle):
            handler.settled(effect.run, effect.terminal)
        elif isinstance(effect, OpenTurn):
            handler.opened(effect.trigger)
        elif isinstance(effect, Accepted):
            handler.accepted(effect.run, effect.provider_turn)
        elif isinstance(effect, Ask):
            handler.asked(effect.event)
        elif isinstance(effect, EndForeign):
            self.writer.end_foreign_step()
        elif isinstance(effect, Finish):
            handler.finished(effect.run)
        elif isinstance(effect, Stale) and not self._settles(effect):
            handler.stray(f"{type(effect.event).__name__}: {effect.why}")

    def _settles(self, stale: Stale) -> bool:
        event = stale.event
        return isinstance(event, (ToolProgress, ToolFinished)) and self.writer.settle_call(event)


def _weight(item: ProviderEvent | Command) -> int:
    """About how many bytes an item holds."""
    for name in ("text", "output", "raw"):
        value = getattr(item, name, None)
        if value is not None:
            return len(value) if isinstance(value, str) else len(repr(value))
    return 100
