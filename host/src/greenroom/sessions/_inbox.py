"""The inbox as the log tells it: two lists of pending messages, changed by splices only."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from greenroom.sessions._errors import EventRefused
from greenroom.sessions.vocabulary import InboxSpliced, Message, Target


class InboxState(Struct, frozen=True):
    """Pending input: what opens the next turn, and what joins the next step."""

    next_turn: tuple[Message, ...] = ()
    next_step: tuple[Message, ...] = ()

    def list_of(self, target: Target) -> tuple[Message, ...]:
        """One of the two lists."""
        return self.next_turn if target == "next-turn" else self.next_step

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all pending messages; unique over both lists."""
        return frozenset(message.id for message in (*self.next_turn, *self.next_step))

    def spliced(self, splice: InboxSpliced) -> InboxState:
        """The inbox after the splice. Raises EventRefused if it does not fit: a wrong place, an id twice."""
        wrong = self.misfit(splice)
        if wrong:
            raise EventRefused(f"inbox/spliced: {wrong}")
        return self.forced(splice)

    def misfit(self, splice: InboxSpliced) -> str | None:
        """What is wrong with the splice, None if it fits."""
        pending = self.list_of(splice.target)
        if splice.start > len(pending) or splice.start + splice.removed > len(pending):
            return f"{splice.start}+{splice.removed} is outside the {splice.target} list of {len(pending)}"
        if not splice.removed and not splice.inserted:
            return "a splice removes or inserts something"
        if splice.outcome is not None and not splice.removed:
            return "only removed messages have an outcome"
        leaving = {message.id for message in self.removed(splice)}
        staying = self.ids - leaving
        arriving = [message.id for message in splice.inserted]
        twice = sorted(staying.intersection(arriving)) or sorted({one for one in arriving if arriving.count(one) > 1})
        return f"the ids {', '.join(twice)} are pending already" if twice else None

    def removed(self, splice: InboxSpliced) -> Sequence[Message]:
        """The messages that the splice takes out."""
        return self.list_of(splice.target)[splice.start : splice.start + splice.removed]

    def forced(self, splice: InboxSpliced) -> InboxState:
        """The inbox after the splice, without looking whether it fits (an old log is taken as it is)."""
        pending = self.list_of(splice.target)
        after = (*pending[: splice.start], *splice.inserted, *pending[splice.start + splice.removed :])
        return InboxState(after, self.next_step) if splice.target == "next-turn" else InboxState(self.next_turn, after)
