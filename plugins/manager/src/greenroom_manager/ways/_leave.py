"""The ways out of one agent: close, archive, delete; and the ways back: unarchive, detach."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from greenroom.agents import PARENT_LABEL, AgentError, AgentRecord, AgentSnapshot
from greenroom.providers import Capability, Handle, Provider
from greenroom.sessions.vocabulary import AgentConfig

from ._create import delete_session
from ._family import parent_of

if TYPE_CHECKING:
    from ._holdings import Holdings
    from ._marks import Marks
    from ._offers import Offers

NATIVE_WAIT: Final = 30.0
"""Seconds for a provider to archive or restore its own side of a conversation."""


class Leaving:
    """What is done to one agent when it leaves or comes back. Everything runs in the agent's lane."""

    def __init__(self, holdings: Holdings, offers: Offers, marks: Marks) -> None:
        self._holdings: Final = holdings
        self._offers: Final = offers
        self._marks: Final = marks

    async def close(self, agent_id: str) -> None:
        """End it. Raises as `Holdings.end`."""
        await self._holdings.lanes.run(agent_id, "close", partial(self._holdings.end, agent_id))

    async def archive(self, agent_id: str, belongs: Callable[[], bool]) -> bool:
        """Mark it, end it, archive the provider's side; False if it did not belong to the family any more.

        The last look at whether it does and the mark are one step, so a detach comes before or after.
        """
        return await self._holdings.lanes.run(agent_id, None, partial(self._archive, agent_id, belongs))

    async def _archive(self, agent_id: str, belongs: Callable[[], bool]) -> bool:
        book = self._holdings.context.book
        if await book.read(agent_id) is None or not belongs():
            return False
        self._holdings.check(agent_id)
        live = self._holdings.live(agent_id) is not None
        marked = await book.change(agent_id, lambda record: _archived(record, book.now(), live=live, when=belongs))
        if marked.archived_at is None:
            return False
        await self._holdings.end(agent_id)
        record = book.get(agent_id) or marked
        try:
            await self._mirror(record, lambda provider, handle: provider.archive_native(handle))
        except Exception as error:  # noqa: BLE001 - the provider's code; ours is archived, whatever it says
            self._holdings.context.failed("not_archived_natively", error, agent_id)
        return True

    async def delete(self, agent_id: str, belongs: Callable[[], bool]) -> bool:
        """End it, remove its session and its record; False as `archive`."""
        return await self._holdings.lanes.run(agent_id, None, partial(self._delete, agent_id, belongs))

    async def _delete(self, agent_id: str, belongs: Callable[[], bool]) -> bool:
        context = self._holdings.context
        if await context.book.read(agent_id) is None or not belongs():
            return False
        await self._holdings.end(agent_id)
        if not belongs():
            return False
        await delete_session(context.host.sessions.store, agent_id)
        await context.book.remove(agent_id)
        return True

    async def unarchive(self, agent_id: str) -> AgentSnapshot:
        """Restore the provider's side, then ours; concurrent calls restore once."""
        return await self._holdings.lanes.run(agent_id, "unarchive", partial(self._unarchive, agent_id))

    async def _unarchive(self, agent_id: str) -> AgentSnapshot:
        context = self._holdings.context
        record = await context.book.find(agent_id)
        if record.archived_at is not None:
            if record.native is not None:
                self._offers.need(record.provider)
            await self._mirror(record, lambda provider, handle: provider.unarchive_native(handle))
            await self._marks.strike("archive", agent_id)
            record = await context.book.change(agent_id, _restored)
        return context.snapshot(record)

    async def detach(self, agent_id: str) -> AgentSnapshot:
        """Remove the label of the parent; at once, whatever waits in the agent's lane."""
        context = self._holdings.context
        agent = context.live(agent_id)
        if agent is not None and agent.session.live and PARENT_LABEL in (await context.book.find(agent_id)).labels:
            # Through the log, which the record follows: whoever reads the session learns of it too.
            agent.session.append("agent/config", AgentConfig(labels={PARENT_LABEL: None}))
            await context.book.flush(agent_id)
        return context.snapshot(await context.book.change(agent_id, _detached))

    async def _mirror(self, record: AgentRecord, do: Callable[[Provider, Handle], Awaitable[None]]) -> None:
        spec = self._offers.find(record.provider)
        if record.native is None or spec is None or Capability.ARCHIVE not in spec.capabilities:
            return
        try:
            with anyio.fail_after(NATIVE_WAIT):
                await do(spec.load(), record.native)
        except TimeoutError as error:
            raise AgentError(f"the provider {spec.id} has not answered within {NATIVE_WAIT:g} s") from error


def _archived(record: AgentRecord, now: int, *, live: bool, when: Callable[[], bool]) -> AgentRecord:
    """Marked, with nothing to be looked at, and nothing that runs."""
    if not when():
        return record
    settled = "closed" if live else "idle" if record.state in ("running", "initializing") else record.state
    return msgspec.structs.replace(record, archived_at=record.archived_at or now, unread=None, state=settled)


def _restored(record: AgentRecord) -> AgentRecord:
    return msgspec.structs.replace(record, archived_at=None)


def _detached(record: AgentRecord) -> AgentRecord:
    if parent_of(record) is None:
        return record
    labels = {name: value for name, value in record.labels.items() if name != PARENT_LABEL}
    return msgspec.structs.replace(record, labels=labels)
