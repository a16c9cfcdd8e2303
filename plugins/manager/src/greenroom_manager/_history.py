"""Conversations that began elsewhere: listing and importing them; and taking one back to before a message."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from greenroom.agents import (
    Agent,
    AgentError,
    AgentExists,
    AgentOptions,
    AgentSpec,
    HistorySeeds,
    Importable,
    ProviderCatalogue,
    Seed,
)
from greenroom.errors import GreenroomError
from greenroom.providers import (
    LISTED,
    Capability,
    Handle,
    NativeSession,
    Provider,
    ProviderError,
    ProviderEvent,
    ProviderSpec,
)
from greenroom.sessions import SessionExists

from ._boot import complete
from ._context import text_of

if TYPE_CHECKING:
    from ._context import Context

LIST_WAIT: Final = 90.0
"""Seconds for a provider to list its conversations; a home with many thousands of them takes a minute."""
SEARCHED: Final = 10_000
"""Conversations of a provider that a search looks through: what is filtered afterwards has to be asked for before."""
TITLE: Final = 80
"""Characters of a title that is made of a prompt: one line of a terminal."""
_NAMESPACE: Final = uuid.UUID("6a9d0f6e-6f0b-5b0c-9a53-4b1f3f0f6c55")
"""Of the ids of imported agents; random, and never changed."""


class Openers(Protocol):
    """The ways in that history uses."""

    async def create(self, spec: AgentSpec) -> Agent:
        """See `AgentDirectory.create`."""
        ...

    async def open(self, agent_id: str) -> Agent:
        """See `AgentDirectory.open`."""
        ...


def imported_id(provider: str, native_id: str) -> str:
    """The id of the agent that takes a native conversation over: always the same, so that only one ever can."""
    return str(uuid.uuid5(_NAMESPACE, f"{provider}\n{native_id}"))


def title_of(prompt: str | None) -> str | None:
    """A title made of the first prompt: its words on one line, None if it has none."""
    line = " ".join((prompt or "").split())
    return (line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…") or None


class History:
    """See `AgentDirectory`, whose part it is: `importable`, `import_native`, `rewind`."""

    def __init__(self, context: Context, ways: Openers) -> None:
        self._context: Final = context
        self._ways: Final = ways
        self._importing: Final[set[str]] = set()

    # listing

    async def importable(
        self, *, provider: str | None = None, cwd: Path | None = None, query: str | None = None, limit: int = LISTED
    ) -> Importable:
        """See `AgentDirectory.importable`.

        The providers are asked side by side; one that fails or takes too long has an error, the others are listed.

        Raises:
            AgentError: no provider of that name can list conversations.
        """
        specs = self._listing(provider)
        known = await self._known()
        asked = SEARCHED if query else max(limit, 0) + len(known)
        found: list[tuple[str, NativeSession]] = []
        errors: dict[str, str] = {}

        async def ask(spec: ProviderSpec) -> None:
            try:
                with anyio.fail_after(LIST_WAIT):
                    sessions = await spec.load().list_native(cwd=cwd, limit=asked)
            except TimeoutError:
                errors[spec.id] = f"it did not list its conversations within {LIST_WAIT:g} s"
            except Exception as error:  # noqa: BLE001 - a plugin's code; the other providers are listed all the same
                errors[spec.id] = text_of(error)
            else:
                found.extend((spec.id, session) for session in sessions)

        async with anyio.create_task_group() as tasks:
            for spec in specs.values():
                tasks.start_soon(ask, spec)
        found.sort(key=lambda item: list(specs).index(item[0]))
        once = {(self._family(name), session.handle.native_id): (name, session) for name, session in reversed(found)}
        fresh = [item for key, item in once.items() if key not in known and _matches(item[1], cwd, query)]
        fresh.sort(key=lambda item: item[1].updated_at or 0, reverse=True)
        return Importable(sessions=fresh[: max(limit, 0)], errors=errors)

    async def locate(self, native_id: str, *, provider: str | None = None) -> tuple[str, NativeSession] | None:
        """The provider that has a native conversation, and what it says of it; None if none has.

        Raises:
            AgentError: as `importable`.
        """
        for spec in self._listing(provider).values():
            try:
                with anyio.fail_after(LIST_WAIT):
                    found = await spec.load().native(Handle(native_id=native_id))
            except (TimeoutError, GreenroomError) as error:
                self._context.report("native_not_looked_up", f"{spec.id}: {text_of(error)}")
                continue
            if found is not None:
                return spec.id, found
        return None

    # taking over

    async def import_native(self, provider: str | None, native_id: str, *, cwd: Path | None = None) -> Agent:
        """See `AgentDirectory.import_native`. Cancelled: given up, nothing is left."""
        if provider is None:
            found = await self.locate(native_id)
            if found is None:
                names = ", ".join(self._listing(None)) or "none"
                raise ProviderError(f"no provider has a conversation {native_id}", hint=f"asked: {names}")
            provider, cwd = found[0], cwd or found[1].cwd
        spec = self._listing(provider)[provider]
        agent_id = imported_id(self._family(provider), native_id)
        await self._refuse_known(provider, native_id)
        with self._one_import(agent_id, native_id):
            loaded, handle = spec.load(), Handle(native_id=native_id)
            if cwd is None:
                native = await loaded.native(handle)
                if native is None:
                    raise ProviderError(f"the provider {provider} has no conversation {native_id}")
                cwd = native.cwd
            seed = await self._seed(provider, native_id, await _read(loaded, handle))
            wanted = AgentSpec(
                id=agent_id,
                cwd=cwd,
                options=AgentOptions(provider=provider),
                title=title_of(seed.first_prompt),
                origin="import",
                seed=seed.events,
                blobs=seed.blobs,
                source="import",
            )
            try:
                return await self._ways.create(wanted)
            except SessionExists as error:
                raise _imported(native_id, agent_id) from error

    async def _seed(self, provider: str, native_id: str, history: Sequence[ProviderEvent]) -> Seed:
        writer = self._context.host.service(HistorySeeds)
        if writer is None:
            raise AgentError("no plugin writes histories as logs", hint="pip install greenroom-driver")
        seed = await writer.seed(provider, native_id, history)
        if not any(event.type == "turn/start" for event in seed.events):
            raise ProviderError(f"the conversation {native_id} of provider {provider} holds nothing to import")
        return seed

    @contextmanager
    def _one_import(self, agent_id: str, native_id: str) -> Iterator[None]:
        """One at a time here; another process is kept away by the store, since the id is the same there."""
        if agent_id in self._importing:
            raise _imported(native_id, agent_id)
        self._importing.add(agent_id)
        try:
            yield
        finally:
            self._importing.discard(agent_id)

    async def _refuse_known(self, provider: str, native_id: str) -> None:
        known = (await self._known()).get((self._family(provider), native_id))
        if known is not None:
            raise _imported(native_id, known)

    async def _known(self) -> Mapping[tuple[str, str], str]:
        """The native conversations that agents have, whoever drives them: (family, native id) -> agent."""
        context = self._context
        records = await context.book.list()
        if await complete(context):
            records = await context.book.list()
        known = {
            (self._family(record.provider), record.native.native_id): record.id
            for record in records
            if record.native is not None
        }
        for agent in context.host.agents.list():
            native, record = agent.session.state.native_id, context.book.get(agent.id)
            if native is not None and record is not None:
                known[self._family(record.provider), native] = agent.id
        return known

    def _listing(self, provider: str | None) -> dict[str, ProviderSpec]:
        """The enabled providers that can list conversations, derived ones too; only one if it is named."""
        catalogue = self._context.host.service(ProviderCatalogue)
        off = catalogue.disabled if catalogue is not None else ()
        able = {
            name: spec
            for name, spec in self._specs().items()
            if name not in off and Capability.LIST in spec.capabilities
        }
        if provider is None:
            return able
        if provider not in able:
            names = ", ".join(able) or "none"
            raise AgentError(f"the provider {provider!r} lists no conversations here", hint=f"those that do: {names}")
        return {provider: able[provider]}

    def _specs(self) -> Mapping[str, ProviderSpec]:
        catalogue = self._context.host.service(ProviderCatalogue)
        return catalogue.specs if catalogue is not None else self._context.host.providers

    def _family(self, provider: str) -> str:
        """The first of the providers with the same language: one that extends another shares what it keeps."""
        specs = self._specs()
        spec = specs.get(provider)
        if spec is None or spec.translator is None:
            return provider
        return next(name for name, other in specs.items() if other.translator is spec.translator)

    # going back

    async def rewind(self, agent_id: str, message_id: str) -> None:
        """See `AgentDirectory.rewind`; an agent that is not live is opened for it and stays live."""
        agent = self._context.live(agent_id) or await self._ways.open(agent_id)
        await agent.revert(message_id)


def _matches(session: NativeSession, cwd: Path | None, query: str | None) -> bool:
    if cwd is not None and session.cwd != cwd:
        return False
    told = (session.title, session.first_prompt, str(session.cwd), session.handle.native_id)
    words = (query or "").casefold().split()
    text = "\n".join(part for part in told if part).casefold()
    return all(word in text for word in words)


async def _read(provider: Provider, handle: Handle) -> Sequence[ProviderEvent]:
    try:
        return await provider.import_native(handle)
    except GreenroomError:
        raise
    except Exception as error:  # a plugin's code; mapped once, at this border
        raise ProviderError(f"the conversation {handle.native_id} cannot be read: {error}") from error


def _imported(native_id: str, agent_id: str) -> AgentExists:
    return AgentExists(f"the conversation {native_id} is agent {agent_id} already", hint=f"greenroom attach {agent_id}")
