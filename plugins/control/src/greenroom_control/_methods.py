"""The methods of the protocol, but those of `agents` and `permissions`: reading and driving."""

from __future__ import annotations

import os
from contextlib import aclosing
from typing import Final, Literal

import anyio
import anyio.lowlevel
from msgspec import Struct

from greenroom import __version__
from greenroom.agents import (
    Agent,
    Cause,
    ClientReport,
    Presence,
    TurnStream,
    follow_log,
    message_of,
)
from greenroom.sessions import Message, event_to_json
from greenroom.sessions.vocabulary import Reason, Target
from greenroom.timeline import DEFAULT_LIMIT, Cursor, Direction, Page, View

from ._call import Call, Method
from ._views import AgentView, ChangeView, CursorParam, agent_view
from ._wire import PROTOCOL, encode

MAX_ROWS: Final = 1_000
"""Rows of a page over the endpoint: what is asked for beyond it comes with the next page."""
EVENTS: Final = 500
"""Events that are read at a time for a client that follows the log."""
PAUSE: Final = 256
"""Updates after which other tasks get their turn: about a millisecond."""


class Hello(Struct, frozen=True, forbid_unknown_fields=True):
    protocol: int
    client: str | None = None


class Unsubscribe(Struct, frozen=True, forbid_unknown_fields=True):
    id: int | str


class ListAgents(Struct, frozen=True, forbid_unknown_fields=True):
    archived: bool = False
    internal: bool = False


class Heartbeat(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["terminal", "web", "desktop", "mobile"]
    active_at: int
    visible: bool = True
    focus: str | None = None


class StateSubscribe(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str | None = None


class Fetch(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    cursor: CursorParam | None = None
    direction: Direction = "tail"
    limit: float = DEFAULT_LIMIT
    view: View = "canonical"


class Subscribe(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    cursor: CursorParam | None = None


class Events(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    seq: int | None = None


class Send(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    text: str | None = None
    message: Message | None = None
    target: Target = "next-turn"
    wake: bool = True
    wait: bool = False


class Steer(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    text: str | None = None
    message: Message | None = None
    otherwise: Literal["queue", "replace"] = "queue"


class Cancel(Struct, frozen=True, forbid_unknown_fields=True):
    agent: str
    reason: str | None = None
    keep_inbox: bool = False


async def _hello(call: Call[Hello]) -> dict[str, object]:
    where = call.host.data_directory
    return {
        "protocol": PROTOCOL,
        "greenroom": __version__,
        "pid": os.getpid(),
        "serving": call.desk.serving,
        "data_directory": str(where) if where is not None else None,
        "sessions": [session.id for session in call.host.sessions.list()],
    }


async def _unsubscribe(call: Call[Unsubscribe]) -> dict[str, bool]:
    return {"ended": call.stop(call.params.id)}


async def _heartbeat(call: Call[Heartbeat]) -> dict[str, object]:
    presence, said = call.host.service(Presence), call.params
    if presence is not None:
        report = ClientReport(kind=said.kind, active_at=said.active_at, visible=said.visible, focus=said.focus)
        presence.heartbeat(call.client, report)
    return {}


async def list_agents(call: Call[ListAgents]) -> dict[str, list[AgentView]]:
    """All agents."""
    found = await call.desk.snapshots(archived=call.params.archived, internal=call.params.internal)
    return {"agents": [agent_view(snapshot) for snapshot in found]}


async def _state(call: Call[StateSubscribe]) -> None:
    desk, wanted = call.desk, call.params.agent
    agent_id = await desk.name(wanted) if wanted is not None else None
    async with desk.keeper().subscribe(agent_id) as changes:
        call.opened({"agent": agent_id})
        async for change in changes:
            if desk.serving or desk.owns(change.agent_id) or change.agent_id == agent_id:
                shown = agent_view(change.snapshot) if change.snapshot is not None else None
                await call.update(encode(ChangeView(change.agent_id, shown)))


def _cursor(given: CursorParam | None) -> Cursor | None:
    return Cursor(given.epoch, given.seq) if given is not None else None


async def _fetch(call: Call[Fetch]) -> dict[str, Page]:
    asked = call.params
    session_id = await call.desk.readable(asked.agent)
    limit = asked.limit if 1 <= asked.limit <= MAX_ROWS else MAX_ROWS
    page = await call.desk.timeline().fetch(
        session_id, cursor=_cursor(asked.cursor), direction=asked.direction, limit=limit, view=asked.view
    )
    return {"page": page}


async def _subscribe(call: Call[Subscribe]) -> None:
    session_id = await call.desk.readable(call.params.agent)
    async with call.desk.timeline().subscribe(session_id, _cursor(call.params.cursor)) as updates:
        call.opened({"agent": session_id})
        said = 0
        async for update in updates:
            await call.update(update.wire)
            said += 1
            if not said % PAUSE:
                await anyio.lowlevel.checkpoint()


async def _events(call: Call[Events]) -> None:
    session_id = await call.desk.readable(call.params.agent)
    session = call.host.sessions.get(session_id)
    agent = call.host.agents.get(session_id)
    if session is None or agent is None:
        length = (await call.host.sessions.store.entry(session_id)).next_seq
        call.opened({"agent": session_id, "next": length})
        await _stored(call, session_id, length)
    else:
        call.opened({"agent": session_id, "next": len(session)})
        await _live(call, agent)


async def _stored(call: Call[Events], session_id: str, length: int) -> None:
    seq = length if call.params.seq is None else call.params.seq
    while events := await call.host.sessions.store.read_from(session_id, seq, limit=EVENTS):
        for event in events:
            await call.update(event_to_json(event))
        seq = events[-1].seq + 1


async def _live(call: Call[Events], agent: Agent) -> None:
    """Follow the log until the agent has left."""
    seq = len(agent.session) if call.params.seq is None else max(call.params.seq, 0)
    async with aclosing(follow_log(agent, seq)) as pages:
        async for events in pages:
            for event in events:
                await call.update(event_to_json(event))
            await anyio.lowlevel.checkpoint()


def _message(text: str | None, message: Message | None) -> Message | None:
    if message is not None and text is not None:
        raise ValueError("give a text or a message, not both")
    given = text if text is not None else message
    return message_of(given) if given is not None else None


async def _send(call: Call[Send]) -> dict[str, object]:
    asked = call.params
    agent = await call.desk.open(asked.agent)
    message = _message(asked.text, asked.message)
    if message is None:
        waiting = agent.inbox.next_turn
        if not waiting:
            return {"message": None}
        message = waiting[-1]
    reader = TurnStream(agent, message)
    if message.id in agent.inbox:
        agent.wake()
    else:
        agent.send(message, asked.target, wake=asked.wake)
    if not asked.wait:
        return {"message": message.id}
    return {"message": message.id, **await _until_over(call, agent, reader, message.id)}


async def _until_over(call: Call[Send], agent: Agent, reader: TurnStream, message_id: str) -> dict[str, object]:
    """Wait until the turn that takes the message is over, or the agent rests without having taken it."""
    async with anyio.create_task_group() as tasks:

        async def rests() -> None:
            await agent.when_idle()
            if message_id in agent.inbox:
                tasks.cancel_scope.cancel()

        tasks.start_soon(rests)
        async for _event in reader:
            if reader.turn is not None:
                call.progress("turn", turn=reader.turn)
                break
        async for _event in reader:
            pass
        tasks.cancel_scope.cancel()
    await agent.flush()
    result = reader.result
    reason: Reason | None = result.reason if result is not None else None
    return {
        "turn": result.turn if result is not None else None,
        "reason": reason,
        "usage": result.usage if result is not None else None,
        "seq": len(agent.session) - 1,
    }


async def _steer(call: Call[Steer]) -> dict[str, object]:
    asked = call.params
    agent = await call.desk.open(asked.agent)
    message = _message(asked.text, asked.message)
    if message is None:
        raise ValueError("there is neither a text nor a message")
    outcome = agent.steer(message, otherwise=asked.otherwise)
    return {"message": message.id, "outcome": await outcome}


async def _cancel(call: Call[Cancel]) -> dict[str, object]:
    asked = call.params
    agent = call.host.agents.get(asked.agent)
    if agent is None:
        agent = call.host.agents.get(await call.desk.name(asked.agent))
    if agent is None:
        return {"outcome": "not_running"}
    return {"outcome": await agent.cancel(Cause("user", asked.reason), keep_inbox=asked.keep_inbox)}


METHODS: Final = (
    Method("hello", Hello, "call", _hello),
    Method("heartbeat", Heartbeat, "call", _heartbeat),
    Method("unsubscribe", Unsubscribe, "call", _unsubscribe),
    Method("list", ListAgents, "call", list_agents),
    Method("state.subscribe", StateSubscribe, "stream", _state),
    Method("fetch", Fetch, "call", _fetch),
    Method("subscribe", Subscribe, "stream", _subscribe),
    Method("events", Events, "stream", _events),
    Method("send", Send, "call", _send),
    Method("steer", Steer, "call", _steer),
    Method("cancel", Cancel, "call", _cancel),
)
