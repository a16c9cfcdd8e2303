"""The one object that front ends see: `AgentDirectory`, put together from the parts of this package.

Where each part plugs in. Each is one class, made once for each host with the `Context`; it knows no facade:

| method of AgentDirectory | part |
|---|---|
| list, find, subscribe, update, mark_read, mark_unread | here, `_records`, `_feed`, `_attention` |
| respond | here: the agent checks the answer |
| create, open, close, reload, archive, unarchive, detach, delete | `ways.Ways(context)`, the same names and arguments |
| importable, import_native, rewind | `history.History(context, ways)`, the same names and arguments |

`Context` gives a part the host, the plugin's scope (background work), `owner` (whose scope agents end with), the book
of records, and `moved` and `asked` (append a listener for changes of state and of open questions of live agents).

The record of an agent is made when it is announced (`_watch`), whoever created it, and follows its log from then on:
state, settings, runtime, usage, native handle, title, labels, last error, completion. A way in that wants more in it
calls `book.change(agent.id, ...)` once `host.agents.create` has returned. `create` and `open` of the facade return when
the agent is initialized and its record is stored. `Ways.boot()` is called when the host has started and the records are
reconciled: there archive cascades are finished that a crash has cut short.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import (
    Agent,
    AgentChange,
    AgentClosed,
    AgentError,
    AgentOptions,
    AgentRecord,
    AgentSnapshot,
    AgentSpec,
    AnsweredBy,
    Cascade,
    Importable,
    Purpose,
    Setup,
)
from greenroom.errors import GreenroomError
from greenroom.providers import PermissionResponse, ProviderError
from greenroom.sessions import check_id
from greenroom.sessions.vocabulary import AgentConfig

from . import _attention as attention
from ._boot import complete, driven_elsewhere, reconcile
from ._facts import changed
from ._feed import Feed
from ._row import UnreadableRecord
from ._watch import Watch
from .ways import delete_session

if TYPE_CHECKING:
    from ._context import Context
    from ._history import History
    from .ways import Ways

LAST: Final = "last"
"""The agent that was changed last, wherever an id is taken."""


class Directory:
    """See `AgentDirectory`.

    Attributes:
        watch: keeps the records of live agents; the plugin's hooks call it.
        feed: the subscribers.
    """

    def __init__(self, context: Context, ways: Ways, history: History) -> None:
        self._context: Final = context
        self._book: Final = context.book
        self._ways: Final = ways
        self._history: Final = history
        self.feed: Final = Feed(context)
        self.watch: Final = Watch(context, self.feed)
        self._ready: Final = anyio.Event()
        """What was stored before this host has been looked through: every session has a record."""
        self._book.observe(self.feed.changed)

    # life of the plugin

    async def boot(self) -> None:
        """Once the host has started: put right what a crash has left, and begin with agents that are live already.

        What fails is reported: a damaged store must not keep the host from working on what is whole.
        """
        await self._context.host.started.wait()
        try:
            try:
                for agent in self._context.host.agents.list():
                    await self.watch.adopt(agent)
                await reconcile(self._context)
            finally:
                self._ready.set()
            await self._ways.boot()
        except GreenroomError as error:
            self._context.report("boot_incomplete", str(error))

    # reading

    async def list(self, *, archived: bool = False, internal: bool = False) -> Sequence[AgentSnapshot]:
        """See `AgentDirectory.list`."""
        await self._ready.wait()
        records = await self._book.list()
        shown = [one for one in records if (archived or one.archived_at is None) and (internal or not one.internal)]
        elsewhere = {one.id for one in shown if await driven_elsewhere(self._context, one)}
        known = frozenset(self._context.host.providers)
        return [self._context.snapshot(one, elsewhere=one.id in elsewhere, providers=known) for one in shown]

    async def find(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.find`."""
        record = await self._find(agent_id)
        return self._context.snapshot(record, elsewhere=await driven_elsewhere(self._context, record))

    async def _find(self, agent_id: str) -> AgentRecord:
        known = await self._book.read(agent_id) if agent_id != LAST else None
        if known is not None:
            return known
        await self._ready.wait()
        if agent_id != LAST:
            await complete(self._context)  # it may have been made by another process
        records = await self._book.list()
        if agent_id == LAST:
            found = [record for record in records if record.archived_at is None and not record.internal]
        else:
            native = [record for record in records if record.native is not None and record.native.native_id == agent_id]
            found = [record for record in records if record.id == agent_id] or native
        if not found:
            raise self._book.not_found(agent_id, [record.id for record in records])
        return found[0]

    @asynccontextmanager
    async def subscribe(self, agent_id: str | None = None) -> AsyncIterator[AsyncIterator[AgentChange]]:
        """See `AgentDirectory.subscribe`."""
        if agent_id is not None:
            agent_id = (await self.find(check_id(agent_id))).record.id
            shown = [agent_id]
        else:
            await self._ready.wait()
            shown = [record.id for record in await self._book.list() if not record.internal]

        def current() -> Sequence[AgentSnapshot]:
            records = (self._book.get(id_) for id_ in shown)
            return [self._context.snapshot(record) for record in records if record is not None]

        async with self.feed.subscribe(agent_id, current) as changes:
            yield changes

    async def importable(
        self, *, provider: str | None = None, cwd: Path | None = None, query: str | None = None, limit: int = 200
    ) -> Importable:
        """See `AgentDirectory.importable`."""
        return await self._history.importable(provider=provider, cwd=cwd, query=query, limit=limit)

    # ways in

    async def create(
        self, spec: AgentSpec, *, setup: Setup | None = None, environment: Mapping[str, str] | None = None
    ) -> Agent:
        """See `AgentDirectory.create`."""
        agent = await self._ways.create(spec, setup=setup, environment=environment)
        try:
            return await self._stored(agent)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):  # bounded by the stop ladder of the provider
                await self._ways.delete(agent.id)
            raise

    async def open(
        self, agent_id: str, options: AgentOptions | None = None, *, purpose: Purpose = "interactive"
    ) -> Agent:
        """See `AgentDirectory.open`."""
        record = await self._find(agent_id)
        return await self._stored(await self._ways.open(record.id, options, purpose=purpose))

    async def import_native(self, provider: str | None, native_id: str, *, cwd: Path | None = None) -> Agent:
        """See `AgentDirectory.import_native`."""
        return await self._stored(await self._history.import_native(provider, native_id, cwd=cwd))

    async def _stored(self, agent: Agent) -> Agent:
        """Wait until the agent is initialized and its record says so on disk."""
        await agent.initialized()
        self.watch.look(agent)
        await self._book.flush(agent.id)
        return agent

    # ways out

    async def close(self, agent_id: str) -> None:
        """See `AgentDirectory.close`."""
        await self._ways.close((await self._find(agent_id)).id)

    async def archive(self, agent_id: str) -> Cascade:
        """See `AgentDirectory.archive`."""
        return await self._ways.archive((await self._find(agent_id)).id)

    async def unarchive(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.unarchive`."""
        return await self._ways.unarchive((await self._find(agent_id)).id)

    async def detach(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.detach`."""
        return await self._ways.detach((await self._find(agent_id)).id)

    async def delete(self, agent_id: str) -> Cascade:
        """See `AgentDirectory.delete`; also removes an agent whose record is damaged, which then counts as nobody's."""
        try:
            record = await self._find(agent_id)
        except UnreadableRecord as error:
            if error.newer:
                raise
            await delete_session(self._context.host.sessions.store, agent_id)
            await self._book.remove(agent_id)
            return Cascade(results={agent_id: None})
        return await self._ways.delete(record.id)

    # changing

    async def reload(self, agent_id: str, *, rehydrate: bool = False) -> Agent:
        """See `AgentDirectory.reload`."""
        return await self._stored(await self._ways.reload((await self._find(agent_id)).id, rehydrate=rehydrate))

    async def rewind(self, agent_id: str, message_id: str) -> None:
        """See `AgentDirectory.rewind`."""
        await self._history.rewind((await self._find(agent_id)).id, message_id)

    async def update(
        self, agent_id: str, *, title: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> AgentSnapshot:
        """See `AgentDirectory.update`."""
        record = await self._find(agent_id)
        agent = self._context.live(record.id)
        if agent is not None and agent.session.live:
            # Through the log, which the record follows: whoever reads the session learns of it too.
            agent.session.append("agent/config", AgentConfig(title=title, labels=dict(labels or {}) or None))
            await self._book.flush(record.id)
        else:
            await self._book.change(record.id, lambda known: renamed(known, title, labels or {}))
        return await self.find(record.id)

    async def mark_read(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.mark_read`."""
        return self._context.snapshot(await self._book.change((await self._find(agent_id)).id, attention.read))

    async def mark_unread(self, agent_id: str) -> AgentSnapshot:
        """See `AgentDirectory.mark_unread`."""
        now = self._context.clock()
        agent_id = (await self._find(agent_id)).id
        return self._context.snapshot(await self._book.change(agent_id, lambda record: attention.unread(record, now)))

    async def respond(
        self, agent_id: str, request_id: str, response: PermissionResponse, *, by: AnsweredBy = "user"
    ) -> None:
        """See `AgentDirectory.respond`."""
        record = await self._find(agent_id)
        agent = self._context.live(record.id)
        if agent is None:
            raise AgentClosed(f"agent {record.id} is not live here, so nothing waits for an answer")
        try:
            await agent.respond(request_id, response, by=by)
        except ProviderError as error:
            raise AgentError(str(error.args[0]), hint=error.hint) from error


def renamed(record: AgentRecord, title: str | None, labels: Mapping[str, str | None]) -> AgentRecord:
    """The record with a new title, and labels merged (None removes one)."""
    kept = {name: value for name, value in {**record.labels, **labels}.items() if value is not None}
    return changed(record, title=title if title is not None else record.title, labels=kept)
