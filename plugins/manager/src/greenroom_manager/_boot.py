"""What is put right when a host starts: nothing runs after a crash, and every stored session has a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.agents import AgentExists, AgentNotFound, AgentRecord
from greenroom.errors import GreenroomError
from greenroom.sessions import SessionEntry, SessionNotFound

from ._facts import changed, stored_record

if TYPE_CHECKING:
    from ._context import Context


def owned_elsewhere(context: Context, entry: SessionEntry) -> bool:
    """Whether another process that is alive drives the session."""
    return entry.owner is not None and entry.owner.alive and context.host.sessions.get(entry.id) is None


async def driven_elsewhere(context: Context, record: AgentRecord) -> bool:
    """Whether another process that is alive drives the agent; asks the store only if the record does not say no."""
    if record.state == "closed" or context.live(record.id) is not None:
        return False
    try:
        return owned_elsewhere(context, await context.host.sessions.store.entry(record.id))
    except SessionNotFound:
        return False


async def reconcile(context: Context) -> None:
    """Close the records of agents that nobody drives. What fails with one is reported and stops nothing."""
    for record in await context.book.list():
        nobody = context.live(record.id) is None and not await driven_elsewhere(context, record)
        if record.state != "closed" and nobody:
            await _close(context, record.id)
    for agent_id, why in context.book.unreadable.items():
        context.report("record_unreadable", why, agent_id=agent_id)
    await complete(context)


async def complete(context: Context) -> bool:
    """Give a record to each stored session that has none: it was made before there were records, or without them.

    Whether there were any, so that the book has to be looked at again.
    """
    found = False
    for entry in await context.host.sessions.store.list():
        known = context.book.get(entry.id) is not None or entry.id in context.book.unreadable
        if known or entry.error is not None or owned_elsewhere(context, entry) or context.live(entry.id) is not None:
            continue
        try:
            record = await stored_record(context.host.sessions.store, entry)
            if record is not None:
                found = True
                await context.book.insert(record, at=record.updated_at)
        except AgentExists:
            continue  # another process was quicker
        except GreenroomError as error:
            context.report("session_without_record", str(error), agent_id=entry.id)
    return found


async def _close(context: Context, agent_id: str) -> None:
    def closed(record: AgentRecord) -> AgentRecord:
        live = context.live(record.id) is not None  # it was resumed meanwhile
        return record if live else changed(record, state="closed")

    try:
        await context.book.change(agent_id, closed)
    except AgentNotFound:
        return
    except GreenroomError as error:
        context.report("record_not_written", str(error), agent_id=agent_id)
