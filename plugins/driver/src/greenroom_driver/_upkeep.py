"""What is done to a provider session beside its turns: configure, refresh, reopen, revert, hydrate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from greenroom.agents import AgentBusy, AgentError, Canceled, CancelRefused, Cause
from greenroom.providers import TERMINAL, Capability, ProviderEvent, TurnCompleted, UserEcho
from greenroom.sessions.vocabulary import AgentConfig, Reason, RequestContext

from ._swap import swap
from ._turn import reason_of

if TYPE_CHECKING:
    from ._driver import AgentDriver

REFRESH_WAIT: Final = 5.0
"""Seconds for a provider to say what it uses; a version or login probe takes as long at most."""


class Upkeep:
    """See `AgentDriver`, whose part it is."""

    def __init__(self, driver: AgentDriver) -> None:
        self._driver = driver
        self._refreshing = False

    async def configure(self, what: Literal["mode", "model", "thinking"], value: str | None) -> str | None:
        """Set one of the three and log it behind what the provider says about it."""
        driver = self._driver
        live = await driver.connection.ensure()
        told: str | None = None
        if what == "mode" and value is not None:
            told = await live.set_mode(value)
        elif what == "model":
            await live.set_model(value)
        elif what == "thinking":
            await live.set_thinking(value)
        driver.pump.flush()
        driver.writer.config(**{what: value})
        return told

    async def set_feature(self, feature: str, value: str | bool | None) -> None:  # noqa: FBT001 - a value, no flag
        """Choose the value of a feature and log it."""
        driver = self._driver
        live = await driver.connection.ensure()
        await live.set_feature(feature, value)
        driver.pump.flush()
        driver.session.append("agent/config", AgentConfig(features={feature: value}))

    def refresh_soon(self) -> None:
        """Refresh in the background, once at a time."""
        driver = self._driver
        if not self._refreshing and not driver.closing:
            self._refreshing = True
            driver.scope.spawn(self.refresh_contained, name="refresh")

    async def refresh_contained(self) -> None:
        """Refresh; a failure keeps what is known."""
        try:
            with anyio.move_on_after(REFRESH_WAIT):
                await self.refresh()
        except Exception as error:  # noqa: BLE001 - the provider's code; what it uses is shown, not needed
            self._driver.error(error)
        finally:
            self._refreshing = False
            self._driver.known()

    async def refresh(self) -> None:
        """Ask the provider what it uses and log what changed."""
        driver = self._driver
        live = driver.connection.live
        if live is None:
            return
        info = await live.runtime_info()
        modes = tuple(await live.modes())
        if modes:
            driver.writer.modes = modes
        if not driver.session.live:
            return
        driver.writer.config(mode=info.mode, model=info.model, thinking=info.thinking)
        known = driver.session.state.config.features or {}
        features = {name: value for name, value in info.features.items() if known.get(name) != value}
        if features:
            driver.session.append("agent/config", AgentConfig(features=features))
        if info.model is not None:
            context = RequestContext(driver.connection.spec.id, info.model, info.context_window)
            if context != driver.session.state.context:
                driver.session.append("request/context", context)

    async def reopen(self, *, rehydrate: bool) -> None:
        """Close the provider session and open it again on its conversation."""
        driver = self._driver
        outcome = await driver.cancel(Cause("replaced"), keep_inbox=True)
        if outcome is Canceled.REFUSED:
            raise CancelRefused("the running turn could not be ended; nothing was reopened")
        await driver.when_idle()
        await driver.run_maintenance(partial(swap, driver))
        if rehydrate:
            await self.hydrate(recast=True)

    async def revert(self, message_id: str) -> None:
        """Go back to before one of our messages."""
        driver, session = self._driver, self._driver.session
        if driver.activity is not None:
            raise AgentBusy(f"agent {driver.agent.id} is not at rest")
        acknowledged = await session.events(0, types=["user/acknowledged"])
        known = {event.data.message_id: event.data.provider_message_id for event in acknowledged}
        if message_id not in known:
            raise AgentError(f"the provider has not acknowledged a message {message_id!r}")
        start = await self._turn_of(message_id)

        async def go() -> None:
            await driver.connection.need().revert(known[message_id])
            session.recast("rewind", start)
            await session.flush()

        await driver.run_maintenance(go)

    async def _turn_of(self, message_id: str) -> int:
        """The seq of the `turn/start` of the turn that a message opened."""
        session, start = self._driver.session, 0
        for event in await session.events(0, types=["turn/start", "user/message"]):
            if event.type == "turn/start":
                start = event.seq
            elif event.data.message.id == message_id:
                return start
        raise AgentError(f"there is no message {message_id!r}")

    async def hydrate(self, *, recast: bool = False) -> None:
        """Replay the provider's own history into the log, silently and past the window of the coalescer."""
        driver = self._driver
        if not driver.connection.can(Capability.HISTORY):
            raise AgentError(f"the provider {driver.connection.spec.id} keeps no history")

        async def go() -> None:
            live = await driver.connection.ensure()
            events = [event async for event in live.history()]
            with driver.session.atomic():
                if recast:
                    driver.session.recast("rehydrate", 0)
                for event in events:
                    self._replay(event)
                if driver.writer.turn is not None:
                    driver.writer.end_turn(Reason("completed"))
            await driver.session.flush()

        await driver.run_maintenance(go)

    def _replay(self, event: ProviderEvent) -> None:
        writer = self._driver.writer
        if isinstance(event, UserEcho) and writer.turn is not None:
            writer.end_turn(reason_of(TurnCompleted(), None))
        if isinstance(event, TERMINAL):
            if writer.turn is not None:
                writer.end_turn(reason_of(event, None), event.usage)
            return
        if writer.turn is None:
            writer.open_turn("import")
        writer.event(event)
