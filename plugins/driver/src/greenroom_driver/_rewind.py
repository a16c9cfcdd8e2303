"""Going back to before one of our messages: in the provider's conversation, and in our line.

A provider may keep the cut only with its next prompt, and the process may die before that. So the cut is read from our
log whenever a conversation is opened, and made again until a turn has been completed behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.agents import AgentBusy, AgentError
from greenroom.providers import Capability, Unsupported

if TYPE_CHECKING:
    from greenroom.sessions import Session

    from ._driver import AgentDriver


async def rewind(driver: AgentDriver, message_id: str) -> None:
    """Cut the conversation in front of the turn that a message opened.

    Cancelled while the provider is asked: our line is whole, and the provider's session may have to be opened again.

    Raises:
        AgentBusy: the agent is not at rest.
        AgentError: there is no such message on this line, it opened no turn, or it was never acknowledged.
        Unsupported: the provider cannot go back.
        ProviderError: it would not.
    """
    session = driver.session
    if driver.activity is not None:
        raise AgentBusy(f"agent {driver.agent.id} is not at rest", hint="wait for its turn to end, or cancel it")
    if not driver.connection.can(Capability.REVERT):
        raise Unsupported(f"the provider {driver.connection.spec.id} cannot go back to before a message")

    async def go() -> None:
        start, provider_message_id = await _target(session, message_id)
        live = await driver.connection.ensure()
        await live.revert(provider_message_id)
        session.recast("rewind", start)  # no await in between: a cancellation cannot part the two
        await session.flush()

    await driver.run_maintenance(go)


async def pending_cut(session: Session) -> str | None:
    """The provider's id of the message in front of which the line was cut, while the provider may have forgotten it."""
    recasts = [e for e in await session.events(0, types=["session/recast"]) if e.data.reason != "repair"]
    if not recasts or recasts[-1].data.reason != "rewind":
        return None
    cut = recasts[-1]
    for event in await session.events(cut.seq, types=["turn/end"]):
        if event.data.reason.kind in ("completed", "max_tokens"):
            return None
    facts = await session.events(cut.data.keep_before, cut.seq, types=["user/message", "user/acknowledged"])
    opened = [event.data.message.id for event in facts if event.type == "user/message"]
    known = {e.data.message_id: e.data.provider_message_id for e in facts if e.type == "user/acknowledged"}
    return next((known[message] for message in opened if message in known), None)


async def _target(session: Session, message_id: str) -> tuple[int, str]:
    """The seq of the `turn/start` in front of which to cut, and the provider's id of the message."""
    types = ["turn/start", "user/message", "steering/message", "user/acknowledged", "session/recast"]
    start, joined = 0, False
    found: int | None = None
    acknowledged: str | None = None
    for event in await session.events(0, types=types):
        data = event.data
        if event.type == "turn/start":
            start = event.seq
        elif event.type == "session/recast":
            if found is not None and found >= data.keep_before:
                found, acknowledged = None, None
        elif event.type == "user/acknowledged":
            if data.message_id == message_id:
                acknowledged = data.provider_message_id
        elif data.message.id == message_id:
            joined = event.type == "steering/message"
            found = None if joined else start
    if found is None:
        why = "joined a running turn; go back to the one that opened it" if joined else "is not on this line"
        raise AgentError(f"the message {message_id!r} {why}")
    if acknowledged is None:
        raise AgentError(f"the provider has not acknowledged the message {message_id!r}")
    return found, acknowledged
