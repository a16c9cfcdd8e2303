"""The way in that continues a session."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from greenroom.agents import Agent, AgentArchived, AgentHandle, AgentOptions, AgentRecord, AgentSpec, Purpose
from greenroom.providers import Capability, ProviderSpec
from greenroom.sessions import Event, SessionNotFound
from greenroom.sessions.vocabulary import ProviderSessionId

from ._checks import check_cwd, options_of

if TYPE_CHECKING:
    from ._holdings import Holdings
    from ._offers import Offers


class Opening:
    """Opens agents."""

    def __init__(self, holdings: Holdings, offers: Offers) -> None:
        self._holdings: Final = holdings
        self._offers: Final = offers

    async def open(
        self, agent_id: str, options: AgentOptions | None = None, *, purpose: Purpose = "interactive"
    ) -> Agent:
        """See `AgentDirectory.open`."""
        holdings = self._holdings
        live = holdings.live(agent_id)
        if live is not None and not holdings.lanes.busy(agent_id):
            _check_purpose(await holdings.context.book.find(agent_id), purpose)
            if not holdings.lanes.busy(agent_id):  # nothing has begun meanwhile
                return live
        # Who brings options of its own shares with nobody: they are to hold, if it is this call that opens.
        kind = ("open", purpose) if options is None else None
        return await holdings.lanes.run(agent_id, kind, partial(self.now, agent_id, options, purpose))

    async def now(self, agent_id: str, options: AgentOptions | None, purpose: Purpose) -> Agent:
        """Open it; to be called in the agent's lane. Raises as `AgentDirectory.open`."""
        holdings, context = self._holdings, self._holdings.context
        record = await context.book.find(agent_id)
        _check_purpose(record, purpose)
        live = holdings.live(agent_id)
        if live is not None:
            return live
        chosen = options_of(record, options)
        spec = self._offers.need(chosen.provider or record.provider)
        try:
            handle = await context.host.agents.resume(agent_id, chosen, owner=context.owner, internal=record.internal)
        except SessionNotFound:
            handle = await self._anew(record, options)
        agent = holdings.keep(handle)
        await self._hydrate(agent, spec)
        return agent

    async def _anew(self, record: AgentRecord, options: AgentOptions | None) -> AgentHandle:
        """Begin the session again of which only the record is left: a session without an event is not kept."""
        context = self._holdings.context
        cwd = await check_cwd(Path(record.cwd)) if record.cwd is not None else None
        spec = AgentSpec(
            id=record.id,
            cwd=cwd,
            options=options_of(record, options, fresh=True),
            title=record.title,
            labels=record.labels,
            internal=record.internal,
            seed=_seed(record, context.clock()),
        )
        return await context.host.agents.create(spec, owner=context.owner)

    async def _hydrate(self, agent: Agent, spec: ProviderSpec) -> None:
        """Let the provider's history fill what the log lacks; a failure is reported and changes nothing."""
        if Capability.HISTORY not in spec.capabilities or agent.session.state.native_id is None:
            return
        try:
            await agent.hydrate()
        except Exception as error:  # noqa: BLE001 - the provider's code; the agent is open without it
            self._holdings.context.failed("not_hydrated", error, agent.id)


def _check_purpose(record: AgentRecord, purpose: Purpose) -> None:
    if purpose == "interactive" and record.archived_at is not None:
        raise AgentArchived(f"agent {record.id} is archived", hint=f"greenroom agents unarchive {record.id}")


def _seed(record: AgentRecord, now: int) -> list[Event] | None:
    """A log that knows the provider's conversation, if the record does."""
    if record.native is None:
        return None
    revealed = ProviderSessionId(record.native.native_id)
    return [Event(0, now, "provider/session", msgspec.json.encode(revealed))]
