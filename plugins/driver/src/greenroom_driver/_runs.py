"""Who owns what the provider says: the run that we started, one that it started by itself, or nobody.

Sans-IO: a provider event or a conclusion of ours goes in, a list of effects comes out, in the order of the log. What
is held stays here and comes out when the hold ends. Table 4 of the lifecycles, and section 7 of the architecture:

- a foreground run settles on a terminal that names exactly its turn, an autonomous one also on a terminal without a
  name; runs are numbered, and a terminal of a settled run is stale, however old;
- while our turn is open, a provider turn that is not ours becomes steps of ours: its end ends a step and no turn;
- questions are never held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from greenroom.providers import (
    TERMINAL,
    Compaction,
    Idle,
    MessageDone,
    PermissionRequested,
    ProviderEvent,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCanceled,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UserEcho,
)

from ._lifecycle import RUN, RunMove, RunState, Walker

Terminal = TurnCompleted | TurnFailed | TurnCanceled

_OUTPUT: Final = (TextDelta, ReasoningDelta, ToolStarted)
"""What opens an autonomous turn although the provider announced none: output of the main model."""
_PLAIN: Final = frozenset({TextDelta, ReasoningDelta, ToolStarted, ToolProgress, ToolFinished, MessageDone})
"""What says nothing about runs: inside the run whose turn it names, it is only logged."""


class Hold(StrEnum):
    """Why the provider's events wait."""

    START = "start"
    STEER = "steer"
    STOPPING = "stopping"
    MAINTENANCE = "maintenance"


class Run:
    """One turn of the provider, ours or its own.

    Attributes:
        number: counts the runs of the agent.
        kind: whose turn it is.
        provider_turn: the provider's id of it, None while it is not known.
        announced: whether a `turn_started` opened it; one that output opened also ends at a sign of rest.
        compacts: it is one compaction and ends with it.
        terminal: what ended it.
    """

    __slots__ = ("announced", "compacts", "kind", "number", "provider_turn", "terminal", "walker")

    def __init__(
        self, number: int, kind: Literal["foreground", "autonomous"], *, provider_turn: str | None, announced: bool
    ) -> None:
        self.number = number
        self.kind = kind
        self.provider_turn = provider_turn
        self.announced = announced
        self.compacts = False
        self.terminal: Terminal | None = None
        first = RunState.STARTING if kind == "foreground" else RunState.ACTIVE
        self.walker: Final = Walker[RunState, RunMove](RUN, first, f"run {number}")

    @property
    def state(self) -> RunState:
        """Where it stands."""
        return self.walker.state


class OpenTurn(Struct, frozen=True, gc=False):
    """Open a turn for a run that the provider began."""

    run: Run
    trigger: Literal["autonomous", "compaction"]


class Accepted(Struct, frozen=True, gc=False):
    """The provider has taken our turn under this id."""

    run: Run
    provider_turn: str


class Write(Struct, frozen=True, gc=False):
    """Log an event: in the open turn, for the foreign turn `foreign` if there is one."""

    event: ProviderEvent
    foreign: str | None = None


class Ask(Struct, frozen=True, gc=False):
    """A question; it stands in the open turn, if there is one."""

    event: PermissionRequested


class EndForeign(Struct, frozen=True, gc=False):
    """A foreign turn inside ours is over: its step ends."""

    provider_turn: str


class Finish(Struct, frozen=True, gc=False):
    """A completing terminal: ask `turn_stopping`, then `conclude`."""

    run: Run
    terminal: Terminal


class Settle(Struct, frozen=True, gc=False):
    """End the turn of a run."""

    run: Run
    terminal: Terminal


class Stale(Struct, frozen=True, gc=False):
    """An event of a run that is over, or of none; `why` is for the diagnostics."""

    event: ProviderEvent
    why: str


Effect = OpenTurn | Accepted | Write | Ask | EndForeign | Finish | Settle | Stale


class Runs:
    """The runs of one agent.

    Args:
        mint: makes an id for a turn that the provider began without one.
        known: whether a user message that the provider repeats is one of ours; another one was typed elsewhere and
            waits for the turn that it opens.
        stopping: whether somebody wants to be asked before a completed turn closes.
    """

    def __init__(
        self,
        mint: Callable[[], str],
        *,
        known: Callable[[UserEcho], bool] = lambda echo: echo.repeats is not None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._mint = mint
        self._known = known
        self._stopping = stopping
        self._count = 0
        self._over: dict[str, int] = {}
        self.holds: Final[set[Hold]] = set()
        """Why events are held; empty, they are judged as they come."""
        self._held: deque[ProviderEvent] = deque()
        self._foreign: str | None = None
        self._left: tuple[str, Terminal] | None = None
        self._echoes: list[UserEcho] = []
        self.active: Run | None = None
        """The run that owns the open turn, None when nothing runs."""

    def number_of(self, provider_turn: str) -> int | None:
        """The number of a settled run by the provider's id of its turn."""
        return self._over.get(provider_turn)

    # what we do

    def begin(self) -> Run:
        """Begin a foreground run: the provider is asked next, and what it says is held until it accepts."""
        assert self.active is None, "one foreground run at a time; the driver refuses a second one"  # noqa: S101 - ours
        self.active = self._new("foreground", None, announced=True)
        self.holds.add(Hold.START)
        return self.active

    def accept(self, run: Run, provider_turn: str) -> list[Effect]:
        """The provider has accepted the turn of a run."""
        if run.state is not RunState.STARTING:
            self._over[provider_turn] = run.number  # it was settled meanwhile: what still comes of it is stale
            return []
        run.walker.fire(RunMove.ACCEPT)
        run.provider_turn = provider_turn
        effects: list[Effect] = [Accepted(run, provider_turn)]
        if self._foreign == provider_turn:
            self._foreign = None
        if self._left is not None and self._left[0] == provider_turn:
            # It was taken for a foreign turn while the receipt was on its way, and it is over already.
            effects += self._settle(run, self._left[1])
        return effects + self.release(Hold.START)

    def refuse(self, run: Run, error: TurnFailed) -> list[Effect]:
        """The provider has refused the turn of a run; nothing was started."""
        if run.state is not RunState.STARTING:
            return []
        run.walker.fire(RunMove.REFUSE)
        return self._closed(run, error) + self.release(Hold.START)

    def settle(self, run: Run, terminal: Terminal) -> list[Effect]:
        """End a run by proof other than its terminal: an acknowledged interrupt, the exit of the process."""
        if run.state is RunState.SETTLED:
            return []
        return self._settle(run, terminal) + self.release(Hold.START) + self.release(Hold.STOPPING)

    def conclude(self, run: Run) -> list[Effect]:
        """`turn_stopping` has let the turn of a run close."""
        if run.state is not RunState.STOPPING or run.terminal is None:
            return []
        return self._settle(run, run.terminal) + self.release(Hold.STOPPING)

    def hold(self, why: Hold) -> None:
        """Hold the provider's events from now on."""
        self.holds.add(why)

    def release(self, why: Hold) -> list[Effect]:
        """End a hold; when it was the last one, judge what was held."""
        if why not in self.holds:
            return []
        self.holds.discard(why)
        return self._drain()

    # what the provider says

    def feed(self, event: ProviderEvent) -> list[Effect]:
        """Judge an event, or hold it."""
        if type(event) is PermissionRequested:
            return [Ask(event)]
        if self.holds:
            return self._hold_event(event)
        return self._judge(event)

    def _hold_event(self, event: ProviderEvent) -> list[Effect]:
        """Hold; while only the receipt is missing, a second turn proves that the first was not ours."""
        turn = getattr(event, "turn_id", None)
        effects: list[Effect] = []
        if self.holds == {Hold.START} and turn is not None and turn not in self._over:
            first = next((t for held in self._held if (t := getattr(held, "turn_id", None)) is not None), None)
            if first is not None and first != turn:
                while self._held:
                    effects += self._judge(self._held.popleft())
        self._held.append(event)
        return effects

    def _drain(self) -> list[Effect]:
        effects: list[Effect] = []
        while self._held and not self.holds:
            effects += self._judge(self._held.popleft())
        return effects

    def _judge(self, event: ProviderEvent) -> list[Effect]:
        turn: str | None = getattr(event, "turn_id", None)
        run = self.active
        if run is not None and turn is not None and run.provider_turn == turn and type(event) in _PLAIN:
            if self._foreign is None:
                return [Write(event)]
            return [*self._leave_foreign(), Write(event)]
        if turn is not None and turn in self._over:
            return [Stale(event, "its turn is over")]
        if isinstance(event, UserEcho) and not self._known(event):
            self._echoes.append(event)
            return []
        if run is None:
            return self._judge_at_rest(event, turn)
        if run.kind == "foreground":
            return self._judge_foreground(run, event, turn)
        return self._judge_autonomous(run, event, turn)

    def _judge_foreground(self, run: Run, event: ProviderEvent, turn: str | None) -> list[Effect]:
        ours = turn is not None and turn == run.provider_turn
        if isinstance(event, TERMINAL):
            return self._end(run, event) if ours else self._end_foreign(event, turn)
        if isinstance(event, TurnStarted):
            return [] if ours else self._enter_foreign(turn)
        if isinstance(event, Idle):
            return []
        if ours:
            return [*self._leave_foreign(), Write(event)]
        if turn is not None:
            return [*self._enter_foreign(turn), Write(event, turn)]
        return [Write(event, self._foreign)]

    def _judge_autonomous(self, run: Run, event: ProviderEvent, turn: str | None) -> list[Effect]:
        mine = turn is None or run.provider_turn in (None, turn)
        rest = TurnCompleted(turn_id=run.provider_turn)
        if isinstance(event, TERMINAL):
            return [*self._leave_foreign(), *self._end(run, event)] if mine else self._end_foreign(event, turn)
        if not run.announced and isinstance(event, (TurnStarted, Idle)):
            return self._settle(run, rest) + self._judge(event)
        if isinstance(event, TurnStarted):
            return [] if mine else self._enter_foreign(turn)
        if run.compacts and isinstance(event, Compaction) and event.phase == "end":
            return [Write(event), *self._settle(run, rest)]
        if not mine:
            return [*self._enter_foreign(turn), Write(event, turn)]
        run.provider_turn = run.provider_turn or turn
        return [Write(event, self._foreign if turn is None else None)]

    def _judge_at_rest(self, event: ProviderEvent, turn: str | None) -> list[Effect]:
        if isinstance(event, TurnStarted):
            run = self._open(turn or self._mint(), announced=True)
            return [OpenTurn(run, "autonomous"), *self._take_echoes(None)]
        if isinstance(event, _OUTPUT):
            run = self._open(turn, announced=False)
            return [OpenTurn(run, "autonomous"), Write(event)]
        if isinstance(event, TERMINAL):  # of a turn that nobody saw begin, and nothing competes with it
            run = self._open(turn, announced=True)
            return [OpenTurn(run, "autonomous"), *self._settle(run, event)]
        if isinstance(event, Compaction) and event.phase == "start":
            run = self._open(turn, announced=False)
            run.compacts = True
            return [OpenTurn(run, "compaction"), Write(event)]
        return [Write(event)]

    # foreign turns, and what was typed elsewhere

    def _enter_foreign(self, turn: str | None) -> list[Effect]:
        if turn is not None and turn == self._foreign:
            return []
        effects = self._leave_foreign()
        self._foreign = turn or self._mint()
        return effects + self._take_echoes(self._foreign)

    def _leave_foreign(self, terminal: Terminal | None = None) -> list[Effect]:
        if self._foreign is None:
            return []
        left, self._foreign = self._foreign, None
        self._count += 1
        self._over[left] = self._count
        self._left = (left, terminal or TurnCompleted(turn_id=left))
        return [EndForeign(left)]

    def _end_foreign(self, event: Terminal, turn: str | None) -> list[Effect]:
        if self._foreign is None or turn not in (None, self._foreign):
            return [Stale(event, "no run has this turn")]
        return self._leave_foreign(event)

    def _take_echoes(self, foreign: str | None) -> list[Effect]:
        echoes, self._echoes = self._echoes, []
        return [Write(echo, foreign) for echo in echoes]

    # ends

    def _end(self, run: Run, terminal: Terminal) -> list[Effect]:
        asked = isinstance(terminal, TurnCompleted) and run.kind == "foreground" and self._stopping()
        if not asked:
            return self._settle(run, terminal)
        run.walker.fire(RunMove.FINISH)
        run.terminal = terminal
        self.holds.add(Hold.STOPPING)
        return [Finish(run, terminal)]

    def _settle(self, run: Run, terminal: Terminal) -> list[Effect]:
        run.walker.fire(RunMove.SETTLE)
        return self._closed(run, terminal)

    def _closed(self, run: Run, terminal: Terminal) -> list[Effect]:
        run.terminal = terminal
        if run.provider_turn is not None:
            self._over[run.provider_turn] = run.number
        effects = self._leave_foreign()
        self.active = None
        return [*effects, Settle(run, terminal)]

    def _open(self, provider_turn: str | None, *, announced: bool) -> Run:
        self.active = self._new("autonomous", provider_turn, announced=announced)
        return self.active

    def _new(self, kind: Literal["foreground", "autonomous"], provider_turn: str | None, *, announced: bool) -> Run:
        self._count += 1
        return Run(self._count, kind, provider_turn=provider_turn, announced=announced)
