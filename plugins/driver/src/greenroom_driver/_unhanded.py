"""What a provider has yet to be told: context that was logged while it did not listen."""

from __future__ import annotations

from greenroom.sessions import Message, Session, SessionStore


async def unhanded_messages(session: Session, store: SessionStore) -> list[Message]:
    """The context that was logged since the provider last accepted a turn: nobody has handed it over.

    What stands before an acceptance went along with it. A summary that replaced something came from the provider.
    Reads from the last acceptance on, so that a long log costs no more than a short one.
    """
    start = 0
    if session.lease is not None:  # it was resumed; a new one has nothing but its seed
        last = await store.read_from(session.id, types=["turn/accepted"], limit=1, newest=True)
        start = last[0].seq if last else 0
    waiting: list[Message] = []
    for event in await session.events(start, types=["turn/accepted", "context/message"]):
        if event.type == "turn/accepted":
            waiting.clear()
        elif event.surface == "append":
            waiting.append(event.data.message)
    return waiting
