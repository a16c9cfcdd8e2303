"""Follows live agents, marks those that want attention, and tells whoever can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from greenroom.agents import Agent, AgentRecord, AttentionReason, ClientReport, Failed, Initializing, Notification
from greenroom.sessions.vocabulary import TurnEnd

from ._attention import Rest, Seen, concerns_people, edge, marked
from ._attention_plan import plan
from ._attention_text import told

if TYPE_CHECKING:
    from ._context import Context


class Clients:
    """Who is there to be told; see `greenroom.agents.Presence`."""

    def __init__(self) -> None:
        self._reports: dict[str, ClientReport | None] = {}

    def enter(self, client_id: str) -> None:
        """See `Presence.enter`."""
        self._reports.setdefault(client_id, None)

    def heartbeat(self, client_id: str, report: ClientReport) -> None:
        """See `Presence.heartbeat`."""
        self._reports[client_id] = report

    def leave(self, client_id: str) -> None:
        """See `Presence.leave`."""
        self._reports.pop(client_id, None)

    @property
    def reports(self) -> dict[str, ClientReport | None]:
        """What each client has reported last, in the order in which they came."""
        return dict(self._reports)


class AttentionWatch:
    """The attention of one host's live agents.

    Attributes:
        clients: who is there to be told.
    """

    def __init__(self, context: Context) -> None:
        self.clients: Final = Clients()
        self._context: Final = context
        self._seen: dict[str, Seen] = {}
        context.moved.append(lambda agent, _before, _after: self.look(agent))
        context.asked.append(lambda agent, _before, _after: self.look(agent))

    def look(self, agent: Agent) -> None:
        """See what has become of an agent; its record says already what it does."""
        record = self._context.book.get(agent.id)
        if record is None or _leaves(agent):
            return
        before, after = self._seen.get(agent.id, Seen()), _seen(agent)
        if before == after:
            return
        self._seen[agent.id] = after
        if agent.owner is not None or not concerns_people(record):
            return
        follows = edge(before, after, record.unread)
        mark, now = follows.unread, self._context.clock()
        if mark is not None:
            self._context.book.stage(agent.id, lambda known: marked(known, mark, now))
        if follows.reason is not None:
            self._tell(agent, record, follows.reason, now)

    def gone(self, agent: Agent) -> None:
        """It is live no longer."""
        self._seen.pop(agent.id, None)

    def _tell(self, agent: Agent, record: AgentRecord, reason: AttentionReason, now: int) -> None:
        hook = self._context.host.hooks.attention
        if not hook.wanted:
            return
        clients = self.clients.reports
        whom = plan(list(clients.values()), agent.id, reason, now)
        if whom.seen:
            return
        last = agent.session.state.last_reason
        if reason == "error":
            record = msgspec.structs.replace(record, last_error=_error(agent, last) or record.last_error)
        title, body = told(record, reason, events=agent.session.tail, questions=agent.questions.values())
        client = list(clients)[whom.client] if whom.client is not None else None
        hook(agent, reason, Notification(reason=reason, title=title, body=body, client=client, push=whom.push))


def _seen(agent: Agent) -> Seen:
    return Seen(_rest(agent), len(agent.questions))


def _rest(agent: Agent) -> Rest:
    """How the agent is. One whose provider has not told yet what it uses is judged by its turns."""
    if agent.status == "running":
        return "running"
    state = agent.state
    if isinstance(state, Initializing):
        last = agent.session.state.last_reason
        return "error" if last is not None and last.reason.kind == "error" and _ours(agent, last) else "idle"
    return "error" if isinstance(state, Failed) else "idle"


def _ours(agent: Agent, last: TurnEnd) -> bool:
    """Whether the turn was opened since the agent is live."""
    return agent.session.state.turn_start >= agent.session.state.first_live_seq and last.turn > 0


def _leaves(agent: Agent) -> bool:
    """Whether what happens to the agent is its end: that concerns whoever asked for it."""
    last = agent.session.state.last_reason
    closed = last is not None and last.reason.kind == "aborted" and last.reason.cause == "disposed"
    return agent.gone or (closed and agent.status == "idle")


def _error(agent: Agent, last: TurnEnd | None) -> str | None:
    state = agent.state
    if isinstance(state, Failed):
        return state.last_error
    return last.reason.message if last is not None else None
