"""What is done to a provider session beside its turns: configure, refresh, reopen, revert, hydrate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from greenroom.agents import Canceled, CancelRefused, Cause, Hydrated
from greenroom.sessions.vocabulary import AgentConfig, RequestContext

from ._hydrate import hydrate
from ._rewind import rewind
from ._swap import swap

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
        driver.writer.cancel_children()  # behind what was held meanwhile: a child that had ended is not canceled
        if rehydrate:
            await self.hydrate(recast=True)

    async def revert(self, message_id: str) -> None:
        """Go back to before one of our messages."""
        await rewind(self._driver, message_id)

    async def hydrate(self, *, recast: bool = False) -> Hydrated:
        """Take over what the provider's own history knows and the log does not, past the window of the coalescer."""
        return await hydrate(self._driver, recast=recast)
