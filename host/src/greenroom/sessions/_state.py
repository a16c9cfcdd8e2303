"""What a session knows of itself, folded from its events: position, epoch, configuration, pending things."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from greenroom.sessions._event import Event, Header
from greenroom.sessions._inbox import InboxState
from greenroom.sessions.vocabulary import (
    AgentConfig,
    InboxSpliced,
    JsonValue,
    PermissionAnswered,
    PermissionAsked,
    ProviderSessionId,
    RequestContext,
    RequestHeader,
    SeedEnd,
    SessionRecast,
    StepEnd,
    StepStart,
    TurnEnd,
    TurnStart,
)


@dataclass(slots=True)
class SessionState:
    """The folded view; read it, do not change it.

    Attributes:
        last_turn: number of the last turn that was opened, 0 for none.
        open_turn, open_step: numbers of the open ones, or None.
        last_step: number of the last step of the last turn, 0 for none.
        turn_start: seq of the last `turn/start`, -1 for none.
        last_reason: how the last closed turn ended.
        epoch: names the current line of the timeline; `keep_before` cuts the older ones.
        first_live_seq: seq of the first event that was neither inherited nor restored.
        header, context, config: the latest request header, model and merged configuration.
        native_id: the provider's id of the conversation.
        inbox: pending input; a fork does not inherit its parent's.
        asked: open questions by id.
        inbox_at_turn: pending input when the last turn was opened.
    """

    seed_length: int
    epoch: str
    forked: bool = False
    last_turn: int = 0
    open_turn: int | None = None
    open_step: int | None = None
    last_step: int = 0
    turn_start: int = -1
    last_reason: TurnEnd | None = None
    keep_before: int = 0
    first_live_seq: int = 0
    header: RequestHeader | None = None
    context: RequestContext | None = None
    config: AgentConfig = AgentConfig()  # noqa: RUF009 - frozen, so it may be shared
    native_id: str | None = None
    inbox: InboxState = InboxState()  # noqa: RUF009 - frozen, so it may be shared
    asked: dict[str, PermissionAsked] = field(default_factory=dict)
    inbox_at_turn: InboxState = InboxState()  # noqa: RUF009 - frozen, so it may be shared

    @classmethod
    def of(cls, header: Header) -> SessionState:
        """The state before the first event."""
        return cls(header.seed_length or 0, header.epoch, header.origin == "fork")

    def apply(self, event: Event, data: JsonValue) -> None:
        """Take in one event with its decoded payload; types that fold nothing change nothing."""
        fold = FOLDS.get(event.type)
        if fold is not None:
            fold(self, event.seq, data)

    def next_turn(self) -> int:
        """The number that the next turn must have."""
        return self.last_turn + 1


_VOIDS_QUESTIONS: Final = ("error", "aborted", "interrupted")
"""Ends of a turn after which nobody waits for an answer to the questions that name it."""


def _turn_start(state: SessionState, seq: int, data: TurnStart) -> None:
    state.last_turn = state.open_turn = data.turn
    state.open_step, state.last_step, state.turn_start = None, 0, seq
    state.inbox_at_turn = state.inbox


def _turn_end(state: SessionState, seq: int, data: TurnEnd) -> None:  # noqa: ARG001 - folds share a signature
    state.open_turn = state.open_step = None
    state.last_reason = data
    if state.asked and data.reason.kind in _VOIDS_QUESTIONS:
        state.asked = {id_: asked for id_, asked in state.asked.items() if asked.turn != data.turn}


def _step_start(state: SessionState, seq: int, data: StepStart) -> None:  # noqa: ARG001 - folds share a signature
    state.open_step = state.last_step = data.step


def _step_end(state: SessionState, seq: int, data: StepEnd) -> None:  # noqa: ARG001 - folds share a signature
    state.open_step = None


def _header(state: SessionState, seq: int, data: RequestHeader) -> None:  # noqa: ARG001 - folds share a signature
    state.header = data


def _context(state: SessionState, seq: int, data: RequestContext) -> None:  # noqa: ARG001 - folds share a signature
    state.context = data


def _native(state: SessionState, seq: int, data: ProviderSessionId) -> None:  # noqa: ARG001 - folds share a signature
    state.native_id = data.native_id


def _config(state: SessionState, seq: int, data: AgentConfig) -> None:  # noqa: ARG001 - folds share a signature
    state.config = merge_config(state.config, data)


def same_request(old: RequestHeader | None, new: RequestHeader) -> bool:
    """Whether the two hand the model the same, whatever they were written for; the order of tools counts."""
    return old is not None and msgspec.structs.replace(old, reason=new.reason) == new


def merge_config(old: AgentConfig, new: AgentConfig) -> AgentConfig:
    """The configuration after a change: what is absent stays, a label or feature that is None goes."""
    changed = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
    for name in ("features", "labels"):
        if name in changed:
            merged = {**(getattr(old, name) or {}), **changed[name]}
            changed[name] = {key: value for key, value in merged.items() if value is not None} or None
    return msgspec.structs.replace(old, **changed)


def _spliced(state: SessionState, seq: int, data: InboxSpliced) -> None:
    if seq >= state.seed_length:
        state.inbox = state.inbox.forced(data)


def _asked(state: SessionState, seq: int, data: PermissionAsked) -> None:  # noqa: ARG001 - folds share a signature
    state.asked = {**state.asked, data.request.id: data}


def _answered(state: SessionState, seq: int, data: PermissionAnswered) -> None:  # noqa: ARG001 - folds share a signature
    state.asked = {id_: asked for id_, asked in state.asked.items() if id_ != data.request_id}


def _recast(state: SessionState, seq: int, data: SessionRecast) -> None:
    state.keep_before = data.keep_before
    if seq >= state.seed_length:
        state.epoch = data.epoch


def _seed_end(state: SessionState, seq: int, data: SeedEnd) -> None:  # noqa: ARG001 - folds share a signature
    state.first_live_seq = seq
    if state.forked and seq <= state.seed_length:
        state.native_id, state.asked = None, {}  # the parent's conversation and its questions stay the parent's


FOLDS: Final[Mapping[str, Callable[[SessionState, int, JsonValue], None]]] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step_start,
    "step/end": _step_end,
    "request/header": _header,
    "request/context": _context,
    "provider/session": _native,
    "agent/config": _config,
    "inbox/spliced": _spliced,
    "permission/asked": _asked,
    "permission/answered": _answered,
    "session/recast": _recast,
    "session/seed-end": _seed_end,
}
"""What each type changes; `step/*` matters only inside the open turn, the others are the folded types."""
