"""Pending input: two lists that are a projection of durable splice events.

The event comes first, the lists move when it has been committed: an observer of the session sees the lists as they
were and can find what was removed by its coordinates. Only then are the messages announced, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from greenroom.errors import GreenroomError
from greenroom.sessions import Event, Message
from greenroom.sessions.vocabulary import InboxSpliced, Target

SPLICED: Final = "inbox/spliced"

Fate: TypeAlias = Literal["inserted", "claimed", "discarded"]
"""What happened to one message; the hooks `agent_inbox_*` are named after it."""

Tell: TypeAlias = Callable[[Fate, Message, int | None], None]
"""Announces a message's fate; the number is the turn that claimed it, or None."""


class InboxError(GreenroomError):
    """Raised when a splice is impossible, or a stored one is: an inbox is never repaired silently."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a turn took: context and steering first, then at a turn's border one prompt."""

    context: tuple[Message, ...]
    prompt: Message | None

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of them, in the order in which they enter."""
        return self.context if self.prompt is None else (*self.context, self.prompt)


class Inbox:
    """The pending input of one agent.

    Args:
        append: commits a splice to the session; what it raises reaches the caller and nothing has changed then.
        tell: announces the fate of each message after the commit.
        like: an inbox whose pending messages this one begins with.
    """

    def __init__(self, append: Callable[[InboxSpliced], object], tell: Tell, *, like: Inbox | None = None) -> None:
        self._append = append
        self._tell = tell
        self._lists: dict[Target, list[Message]] = {
            "next-turn": list(like.next_turn) if like is not None else [],
            "next-step": list(like.next_step) if like is not None else [],
        }

    @property
    def next_turn(self) -> tuple[Message, ...]:
        """The messages that open a turn each, the next one first."""
        return tuple(self._lists["next-turn"])

    @property
    def next_step(self) -> tuple[Message, ...]:
        """The messages that join the next step, in order of arrival."""
        return tuple(self._lists["next-step"])

    def __len__(self) -> int:
        return sum(map(len, self._lists.values()))

    def __contains__(self, message_id: object) -> bool:
        return any(message.id == message_id for messages in self._lists.values() for message in messages)

    def restore(self, events: Iterable[Event]) -> None:
        """Fold the splices of a stored log, from behind an inherited seed on. Announces nothing.

        Raises:
            InboxError: a stored splice does not fit.
        """
        for event in events:
            if event.type != SPLICED:
                continue
            splice = event.data
            try:
                self._check(splice.target, splice.start, splice.removed, splice.inserted)
            except InboxError as error:
                raise InboxError(f"invalid inbox splice at seq {event.seq}: {error}") from error
            self._move(splice)

    def add(self, target: Target, message: Message) -> None:
        """Put a message at the end of a list.

        Raises:
            InboxError: its id is pending already.
            EventRefused: it is no valid message; nothing has changed.
        """
        self.splice(target, len(self._lists[target]), 0, (message,))

    def splice(
        self,
        target: Target,
        start: int,
        removed: int = 0,
        inserted: Sequence[Message] = (),
        *,
        outcome: Literal["canceled"] | None = None,
    ) -> tuple[Message, ...]:
        """Remove `removed` messages at `start` and put others in their place; return the removed ones.

        A negative `start` counts from the end and everything is cut to the list's bounds. Nothing is logged when
        nothing changes.
        """
        size = len(self._lists[target])
        start = max(0, size + start) if start < 0 else min(start, size)
        removed = max(0, min(removed, size - start))
        if not removed and not inserted:
            return ()
        self._check(target, start, removed, inserted)
        splice = InboxSpliced(target, start, removed, tuple(inserted), outcome)
        self._append(splice)
        gone = self._move(splice)
        if outcome == "canceled":
            for message in gone:
                self._tell("discarded", message, None)
        for message in splice.inserted:
            self._tell("inserted", message, None)
        return gone

    def replace(self, message_id: str, message: Message) -> bool:
        """Put another message in the place of a pending one, in one splice. False if it is not pending."""
        place = self._find(message_id)
        if place is None:
            return False
        self.splice(*place, 1, (message,), outcome="canceled")
        return True

    def remove(self, message_id: str) -> bool:
        """Cancel a pending message. False if it is not pending."""
        place = self._find(message_id)
        if place is None:
            return False
        self.splice(*place, 1, outcome="canceled")
        return True

    def clear(self) -> int:
        """Cancel everything, next-step first; return how many there were."""
        targets: tuple[Target, Target] = ("next-step", "next-turn")
        return sum(len(self.splice(target, 0, len(self._lists[target]), outcome="canceled")) for target in targets)

    def claim(self, turn: int | None, *, boundary: bool) -> Claim:
        """Take all of next-step and, at a turn's border, one of next-turn, for `turn`."""
        context = self.splice("next-step", 0, len(self._lists["next-step"]))
        prompt = self.splice("next-turn", 0, 1) if boundary else ()
        for message in (*context, *prompt):
            self._tell("claimed", message, turn)
        return Claim(context, prompt[0] if prompt else None)

    def take(self, message_id: str, turn: int | None) -> Message | None:
        """Take one message by its id, for instance one that joined a running turn; None if it is not pending."""
        place = self._find(message_id)
        if place is None:
            return None
        [message] = self.splice(*place, 1)
        self._tell("claimed", message, turn)
        return message

    def _find(self, message_id: str) -> tuple[Target, int] | None:
        for target, messages in self._lists.items():
            for place, message in enumerate(messages):
                if message.id == message_id:
                    return target, place
        return None

    def _check(self, target: Target, start: int, removed: int, inserted: Sequence[Message]) -> None:
        messages = self._lists[target]
        if start + removed > len(messages):
            raise InboxError(f"{target} has {len(messages)} messages, not {start} + {removed}")
        staying = {message.id for messages in self._lists.values() for message in messages}
        staying.difference_update(message.id for message in messages[start : start + removed])
        for message in inserted:
            if message.id in staying:
                raise InboxError(f"message {message.id!r} is pending already")
            staying.add(message.id)

    def _move(self, splice: InboxSpliced) -> tuple[Message, ...]:
        messages = self._lists[splice.target]
        stop = splice.start + splice.removed
        gone = tuple(messages[splice.start : stop])
        messages[splice.start : stop] = splice.inserted
        return gone
