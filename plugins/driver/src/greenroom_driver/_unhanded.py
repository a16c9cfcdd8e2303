"""What a provider has yet to be told: context that was logged while nothing ran."""

from __future__ import annotations

from greenroom.sessions import Message, Session


async def unhanded_messages(session: Session) -> list[Message]:
    """The context that was logged in turns of its own since the provider last accepted a turn."""
    events = await session.events(0, types=["turn/start", "turn/accepted", "context/message", "session/seed-end"])
    waiting: list[Message] = []
    injected = False
    for event in events:
        if event.type == "turn/start":
            injected = event.data.trigger.kind == "injection"
        elif event.type == "turn/accepted":
            waiting.clear()
        elif event.type == "context/message" and injected:
            waiting.append(event.data.message)
    return waiting
