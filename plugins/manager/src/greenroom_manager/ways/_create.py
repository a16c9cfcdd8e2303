"""The way in that begins a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import msgspec

from greenroom.agents import (
    PARENT_LABEL,
    Abort,
    Agent,
    AgentArchived,
    AgentRecord,
    AgentSpec,
    CreationAborted,
    Setup,
)
from greenroom.errors import GreenroomError
from greenroom.sessions import SessionExists, SessionNotFound, SessionStore, check_id

from ._checks import check_cwd, check_environment, clean_options, settings_of

if TYPE_CHECKING:
    from ._holdings import Holdings
    from ._offers import Offers


class Creating:
    """Creates agents.

    Attributes:
        making: what is being created, by id, with the id of its parent: a cascade has to find it too.
        leaving: the agents that a cascade is about to archive or delete; they get no new children.
    """

    def __init__(self, holdings: Holdings, offers: Offers) -> None:
        self._holdings: Final = holdings
        self._offers: Final = offers
        self.making: Final[dict[str, str | None]] = {}
        self.leaving: Final[dict[str, int]] = {}

    async def create(
        self, spec: AgentSpec, *, setup: Setup | None = None, environment: Mapping[str, str] | None = None
    ) -> Agent:
        """See `AgentDirectory.create`."""
        context = self._holdings.context
        agent_id = check_id(spec.id if spec.id is not None else context.host.sessions.ports.new_id())
        spec = replace(spec, id=agent_id, options=clean_options(spec.options))
        spec = replace(spec, options=replace(spec.options, environment=check_environment(environment or {})))
        abort, made = Abort(), list[Agent]()
        with self._being_made(agent_id, spec.labels.get(PARENT_LABEL)):
            try:
                return await self._holdings.lanes.run(
                    agent_id, None, partial(self._make, agent_id, spec, setup, abort, made)
                )
            except anyio.get_cancelled_exc_class():
                abort.abort("the caller has stopped waiting")
                with anyio.CancelScope(shield=True):
                    await self._take_back(agent_id, made)
                raise

    @contextmanager
    def _being_made(self, agent_id: str, parent: str | None) -> Iterator[None]:
        """Let cascades of the parent find the child from here on.

        Raises:
            AgentArchived: the parent is archived or about to leave, so nothing new may work for it.
        """
        known = self._holdings.context.book.get(parent) if parent is not None else None
        if parent in self.leaving or (known is not None and known.archived_at is not None):
            raise AgentArchived(f"agent {parent} is archived: nothing new may work for it", hint="unarchive it first")
        if agent_id in self.making:  # two of one id: the pipeline decides, the first is the one that is looked for
            yield
            return
        self.making[agent_id] = parent
        try:
            yield
        finally:
            del self.making[agent_id]

    async def _make(
        self, agent_id: str, spec: AgentSpec, setup: Setup | None, abort: Abort, made: list[Agent]
    ) -> Agent:
        holdings, context = self._holdings, self._holdings.context
        _check(abort)
        cwd = await check_cwd(spec.cwd)
        provider = await self._offers.admit(spec.options.provider)
        spec = replace(spec, cwd=cwd, options=replace(spec.options, provider=provider.id))
        if await context.book.read(agent_id) is not None:
            raise SessionExists(f"agent {agent_id} exists", session_id=agent_id, hint="open it instead")
        _check(abort)
        try:
            handle = await context.host.agents.create(spec, owner=context.owner, setup=setup, cancel=abort)
        except SessionExists:
            raise  # it is somebody's, and so is its record
        except BaseException:
            with anyio.CancelScope(shield=True):
                await context.book.remove(agent_id)  # the record of one that was announced and then refused
            raise
        made.append(holdings.keep(handle))
        try:
            await context.book.change(handle.agent.id, partial(_kept, spec=spec, had_setup=setup is not None))
            with anyio.CancelScope() as waiting:
                abort.listen(lambda _reason: waiting.cancel())
                await handle.agent.initialized()
            _check(abort)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._forget(handle.agent)
            raise
        return handle.agent

    async def _take_back(self, agent_id: str, made: list[Agent]) -> None:
        """Wait until the creation has given up; what it made in the same moment goes again."""

        async def job() -> None:
            if made and self._holdings.live(agent_id) is made[0]:
                await self._forget(made[0])

        try:
            await self._holdings.lanes.run(agent_id, None, job)
        except GreenroomError as error:
            self._holdings.context.report("creation_not_taken_back", str(error), agent_id=agent_id)

    async def _forget(self, agent: Agent) -> None:
        context = self._holdings.context
        await self._holdings.end(agent.id)
        await delete_session(context.host.sessions.store, agent.id)
        await context.book.remove(agent.id)


async def delete_session(store: SessionStore, session_id: str) -> None:
    """Remove a session and all that belongs to it; nothing if there is none. Raises SessionOwned while it is held."""
    with suppress(SessionNotFound):
        await store.delete(session_id)


def _check(abort: Abort) -> None:
    if abort.aborted:
        raise CreationAborted(f"the creation was given up: {abort.reason}")


def _kept(record: AgentRecord, *, spec: AgentSpec, had_setup: bool) -> AgentRecord:
    return msgspec.structs.replace(
        record, settings=settings_of(spec.options), environment=dict(spec.options.environment), had_setup=had_setup
    )
