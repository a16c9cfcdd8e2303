"""What a provider has yet to be told: context that was logged while nothing ran."""

from __future__ import annotations

from greenroom.sessions import Message, Session, SessionStore


async def unhanded_messages(session: Session, store: SessionStore) -> list[Message]:
    """The context that was logged in turns of its own since the provider last accepted a turn.

    Reads from the last acceptance on, so that a long log costs no more than a short one.
    """
    start = 0
    if session.lease is not None:  # it was resumed; a new one has nothing but its seed
        last = await store.read_from(session.id, types=["turn/accepted"], limit=1, newest=True)
        start = last[0].seq if last else 0
    waiting: list[Message] = []
    injected = False
    for event in await session.events(start, types=["turn/start", "turn/accepted", "context/message"]):
        if event.type == "turn/start":
            injected = event.data.trigger.kind == "injection"
        elif event.type == "turn/accepted":
            waiting.clear()
        elif injected:
            waiting.append(event.data.message)
    return waiting
