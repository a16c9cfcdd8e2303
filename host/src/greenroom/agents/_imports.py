"""What a driver makes of a provider's history: the beginning of a log, or what is missing in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from greenroom.providers import ProviderEvent
from greenroom.sessions import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydrated:
    """What became of a replay.

    Attributes:
        found: items in the provider's history: messages, thoughts, tool calls, lists, notices.
        known: how many of them stood in the log already.
        added: how many were added.
        completed: how many of the known ones were told their end: a late result, an acknowledgement, a lost rest.
        refused: events of the replay that the log does not take; they are in the diagnostics.
    """

    found: int = 0
    known: int = 0
    added: int = 0
    completed: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A history as the beginning of a log.

    Attributes:
        events: balanced turns, numbered from 0, with the id of the native conversation in front.
        blobs: the long texts that they refer to.
        first_prompt: what was asked first, None if nothing was.
        refused: events of the history that no log takes.
    """

    events: Sequence[Event] = ()
    blobs: Sequence[bytes] = ()
    first_prompt: str | None = None
    refused: int = 0


class HistorySeeds(Protocol):
    """Writes histories as logs; `host.service(HistorySeeds)`, offered by the plugin that drives agents."""

    async def seed(self, provider: str, native_id: str, history: Sequence[ProviderEvent]) -> Seed:
        """The history of a native conversation as a seed. Lets others work in between; cancelled: nothing happened.

        Raises:
            GreenroomError: it cannot be written as a log at all.
        """
        ...
