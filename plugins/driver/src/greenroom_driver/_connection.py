"""The provider session of an agent: opened, opened again when it was lost, closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import AgentError, AgentOptions
from greenroom.providers import (
    Capability,
    Handle,
    OpenRequest,
    Provider,
    ProviderError,
    ProviderSession,
    ProviderSpec,
    StaleSession,
    TurnRequest,
)

from ._link import Link
from ._rewind import pending_cut

if TYPE_CHECKING:
    from greenroom.sessions import Session


class Connection:
    """At most one provider session at a time.

    Args:
        make_link: makes the link of a session that is about to be opened.
    """

    def __init__(
        self, session: Session, spec: ProviderSpec, options: AgentOptions, make_link: Callable[[], Link]
    ) -> None:
        self.spec: Final = spec
        self._session = session
        self._options = options
        self._chosen = options  # until they stand in the log, which they do once a session is open
        self._make_link = make_link
        self._provider: Provider | None = None
        self._live: ProviderSession | None = None
        self._link: Link | None = None
        self._lost: ProviderSession | None = None
        self._opening = anyio.Lock()

    @property
    def live(self) -> ProviderSession | None:
        """The provider session, or None while there is none."""
        return self._live

    def can(self, capability: Capability) -> bool:
        """Whether the provider names a capability."""
        return capability in self.spec.capabilities

    def need(self) -> ProviderSession:
        """The provider session.

        Raises:
            ProviderError: there is none.
        """
        if self._live is None:
            raise ProviderError(f"the session of provider {self.spec.id} is not open")
        return self._live

    async def ensure(self) -> ProviderSession:
        """The provider session; one that was lost is opened again on its conversation.

        Raises: what `Provider.open` raises.
        """
        if self._live is not None and not self._opening.locked():
            return self._live
        async with self._opening:
            if self._live is None:
                await self._bury()
                self._live = await self._open()
            return self._live

    async def start(self, request: TurnRequest) -> str:
        """Begin a turn; a conversation that has gone stale is opened again, once."""
        live = await self.ensure()
        try:
            return await live.start_turn(request)
        except StaleSession:
            await self.reopen()
            return await self.need().start_turn(request)

    async def reopen(self) -> None:
        """Close the session and open it again on its conversation."""
        async with self._opening:
            await self._close()
            self._live = await self._open()

    def lose(self, link: Link) -> bool:
        """The session behind a link has ended by itself; whether it was the present one."""
        if link is not self._link:
            return False
        self._live, self._lost = None, self._live
        return True

    async def aclose(self) -> None:
        """Close the session, if there is one. Raises what its stop ladder raises; it stays then."""
        async with self._opening:
            await self._close()

    async def _open(self) -> ProviderSession:
        if self._provider is None:
            self._provider = self.spec.load()
        self._link = link = self._make_link()
        request = self._request()
        try:
            live = await self._provider.open(request, link)
            if request.handle is not None and self.can(Capability.REVERT):
                await self._cut_again(live)
        except BaseException:
            link.close()
            self._link = None
            raise
        self._chosen = AgentOptions()
        return live

    async def _cut_again(self, live: ProviderSession) -> None:
        """A rewind that the provider may have forgotten; it must not bring back what our line does not show."""
        cut = await pending_cut(self._session)
        if cut is None:
            return
        try:
            await live.revert(cut)
        except BaseException:
            await live.aclose()  # runs to its end also when cancelled
            raise

    def _request(self) -> OpenRequest:
        config, header, chosen = self._session.state.config, self._session.header, self._chosen
        native = self._session.state.native_id
        resumes = native is not None and self.can(Capability.RESUME)
        return OpenRequest(
            session_id=self._session.id,
            cwd=Path(header.cwd) if header.cwd is not None else Path.cwd(),
            model=chosen.model or config.model,
            mode=chosen.mode or config.mode,
            thinking=chosen.thinking or config.thinking,
            features={**(config.features or {}), **chosen.features},
            max_output_tokens=self._options.max_output_tokens,
            handle=Handle(native_id=native) if resumes and native is not None else None,
        )

    async def _close(self) -> None:
        await self._bury()
        if self._live is None:
            return
        await self._live.aclose()
        self._live = None
        await self._retire()

    async def _bury(self) -> None:
        """Close what was lost: its process is gone, its pipes and tasks may not be."""
        if self._lost is not None:
            await self._lost.aclose()
            self._lost = None
            await self._retire()

    async def _retire(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
            await link.disown()


def choose_provider(specs: dict[str, ProviderSpec], session: Session, options: AgentOptions) -> ProviderSpec:
    """The provider of an agent: the one asked for, else the session's, else the only one there is.

    Raises:
        AgentError: there is no such provider, or none or several to choose from.
    """
    context = session.state.context
    wanted = options.provider or session.header.provider or (context.provider if context is not None else None)
    known = ", ".join(specs) or "none"
    if wanted is not None:
        if wanted not in specs:
            raise AgentError(f"there is no provider {wanted!r}", hint=f"installed: {known}")
        return specs[wanted]
    if len(specs) != 1:
        raise AgentError("which provider is to run this agent?", hint=f"installed: {known}")
    return next(iter(specs.values()))
