"""What the driver keeps of the turn and of the activity that is going on."""

from __future__ import annotations

from typing import Final, Literal

import anyio

from greenroom.agents import Canceled, Cause, Pending
from greenroom.providers import OutOfBand, TurnCanceled, TurnCompleted
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import Reason, UserSource

from ._runs import Run, Terminal

EXITED: Final = "provider_exited"
"""The code of a session that ended by itself; its exit proves that nothing runs any more."""


class Turn:
    """A turn of ours, from its opening to its end.

    Attributes:
        messages: what it claimed, then what `pre_step` made of it.
        context: those of them that were logged as context.
        command: the prompt is a command of the provider that starts no turn there.
        reason: why it ends, if that is decided before or beside its terminal.
        handed: the provider was asked for it, so only proof can end it.
        scope: everything before that; `call`: asking the provider; `border`: hooks between steps and at the end.
        accepted: the provider has it, or it is over. over: it is finishing or over. ended: its end is logged.
    """

    __slots__ = (
        "accepted",
        "border",
        "call",
        "command",
        "context",
        "ended",
        "handed",
        "messages",
        "number",
        "over",
        "reason",
        "run",
        "scope",
    )

    def __init__(self, number: int, run: Run, messages: tuple[Message, ...], command: OutOfBand | None) -> None:
        self.number = number
        self.run = run
        self.messages = messages
        self.context: list[Message] = []
        self.command = command
        self.reason: Reason | None = None
        self.handed = False
        self.scope = anyio.CancelScope()
        self.call = anyio.CancelScope()
        self.border: anyio.CancelScope | None = None
        self.accepted = anyio.Event()
        self.over = anyio.Event()
        self.ended = anyio.Event()

    def at_border(self) -> anyio.CancelScope:
        """A fresh scope for what is done between two steps, or before the turn closes."""
        self.border = anyio.CancelScope()
        return self.border


class Activity:
    """What makes an agent be not idle: a drain of the inbox, a turn of the provider's own, or maintenance.

    Attributes:
        cause: why it is cancelled; the first one counts.
        latch: waking input came that this activity will not take: look again when it is over.
        replacing: id of the message that replaces what runs.
        turn: the turn of ours, if one is open.
        reason: how the last turn ended.
        scope: the task of a maintenance.
        done: it is over, and what follows it has begun.
        cancels: who waits to hear what a cancel achieved.
        interrupting: an interrupt is on its way.
    """

    __slots__ = ("cancels", "cause", "done", "interrupting", "kind", "latch", "reason", "replacing", "scope", "turn")

    def __init__(self, kind: Literal["work", "maintenance"]) -> None:
        self.kind = kind
        self.cause: Cause | None = None
        self.latch = False
        self.replacing: str | None = None
        self.turn: Turn | None = None
        self.reason: Reason | None = None
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.cancels: list[Pending[Canceled]] = []
        self.interrupting = False

    def settle_cancels(self) -> None:
        """Whoever cancelled hears that it is done."""
        waiting, self.cancels = self.cancels, []
        for outcome in waiting:
            outcome.resolve(Canceled.SETTLED)


def reason_of(terminal: Terminal, cause: Cause | None) -> Reason:
    """Why a turn ended, by its terminal; a cancel that was asked for names its cause."""
    if isinstance(terminal, TurnCompleted):
        return Reason("max_tokens" if terminal.max_tokens else "completed")
    if isinstance(terminal, TurnCanceled) or (cause is not None and terminal.code == EXITED):
        return aborted(cause or Cause("provider", getattr(terminal, "reason", None)))
    diagnostic = terminal.diagnostic if terminal.diagnostic != terminal.error else None
    return Reason("error", message=terminal.error, code=terminal.code or "provider_error", diagnostic=diagnostic)


def aborted(cause: Cause | None) -> Reason:
    """The reason of a turn that was cancelled."""
    told = cause or Cause("user")
    needs = told.reason or "unknown" if told.kind in {"hook", "provider"} else told.reason
    return Reason("aborted", cause=told.kind, reason=needs)


def kind_of(message: Message, *, prompt: bool) -> Literal["user", "context"]:
    """As what a message enters a turn: what a person said, and whatever opens the turn, is a user message."""
    return "user" if prompt or isinstance(message.source, UserSource) else "context"
