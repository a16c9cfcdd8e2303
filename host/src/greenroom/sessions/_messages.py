"""What the model sees: each model-visible event as a message, and the messages of a whole log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from greenroom.sessions._event import Event
from greenroom.sessions._surface import refold
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    Content,
    LongText,
    Message,
    Role,
    Source,
    Status,
    Text,
    ToolRequest,
    ToolResult,
)


class ModelMessage(Struct, frozen=True, omit_defaults=True):
    """One message as a model gets it; it says nothing of where it stands in the log.

    `requests` are the calls an assistant message asks for; `call_id` and `status` belong to a tool's answer.
    """

    role: Role
    content: tuple[Content, ...]
    id: str | None = None
    source: Source | None = None
    requests: tuple[ToolRequest, ...] = ()
    call_id: str | None = None
    status: Status | None = None


class _WithMessage(Struct):
    message: Message


_with_message: Final = msgspec.json.Decoder(_WithMessage).decode


class Projector:
    """Turns model-visible events into messages, in the order of the log.

    The pieces of an assistant message come before its final one; they are kept only
    until it arrives or its step is over.
    """

    __slots__ = ("_at", "_pieces")

    def __init__(self) -> None:
        self._at = (0, 0)
        self._pieces: dict[str | None, list[LongText]] = {}

    def feed(self, event: Event) -> ModelMessage | None:
        """The message of the event, None for a piece and for what says nothing."""
        if event.type == "assistant/message":
            return self._assistant(event)
        if event.type == "tool/result":
            return _answer(event)
        return _input(event) if event.surface is not None else None

    def reset(self) -> None:
        """Forget pieces whose final one will not come: the line was recast."""
        self._pieces.clear()

    def _assistant(self, event: Event) -> ModelMessage | None:
        data: AssistantMessage = event.data
        if (data.turn, data.step) != self._at:
            self._at = (data.turn, data.step)
            self._pieces.clear()
        if not data.final:
            self._pieces.setdefault(data.message_id, []).append(data.text)
            return None
        content = _joined([*self._pieces.pop(data.message_id, ()), data.text])
        if not content and not data.requests:
            return None
        return ModelMessage("assistant", content, data.message_id, requests=data.requests)


def _input(event: Event) -> ModelMessage:
    message = _with_message(event.raw).message
    return ModelMessage("user", message.content, message.id, message.source)


def _answer(event: Event) -> ModelMessage:
    data: ToolResult = event.data
    said = data.output if data.output is not None else data.error
    content = (Text(said),) if said is not None else ()
    return ModelMessage("tool", content, call_id=data.call_id, status=data.status)


def _joined(pieces: list[LongText]) -> tuple[Text, ...]:
    """Adjacent strings become one block; a text that stands in a blob stays a block of its own."""
    blocks: list[LongText] = []
    for piece in pieces:
        if isinstance(piece, str) and blocks and isinstance(blocks[-1], str):
            blocks[-1] += piece
        elif piece != "":
            blocks.append(piece)
    return tuple(Text(block) for block in blocks)


class FoldedLog(NamedTuple):
    """What a log leaves of its model-visible events: those that stand, their messages, and open pieces."""

    operations: list[Event]
    messages: dict[int, ModelMessage | None]
    projector: Projector


def fold_log(events: Iterable[Event]) -> FoldedLog:
    """Fold a log. Only model-visible types, pieces and recasts matter, so the others may be missing."""
    operations: list[Event] = []
    messages: dict[int, ModelMessage | None] = {}
    projector = Projector()
    for event in events:
        if event.type == "session/recast":
            if event.data.reason != "repair":
                operations = [earlier for earlier in operations if earlier.seq < event.data.keep_before]
                projector.reset()
            continue
        message = projector.feed(event)
        if event.surface is not None:
            operations.append(event)
            messages[event.seq] = message
    return FoldedLog(operations, messages, projector)


def derive_messages(events: Iterable[Event]) -> list[ModelMessage]:
    """The messages of a whole log, computed from nothing but its events.

    What `Session.derive_messages` keeps up to date step by step. Raises EventRefused
    where the surface does not fold.
    """
    log = fold_log(events)
    return [message for seq in refold(log.operations).nodes if (message := log.messages[seq]) is not None]
