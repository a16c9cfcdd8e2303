"""Closing a provider session and opening another one on the same conversation, never both at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from greenroom.agents import AgentClosed, DisposeFailed

if TYPE_CHECKING:
    from ._driver import AgentDriver

CLOSE_WAIT: Final = 30.0
"""Seconds for the stop ladder of the old session until the agent is shown as failed: its longest documented steps are
5 + 5 + 5, doubled. It is waited for all the same."""


async def swap(driver: AgentDriver) -> None:
    """Close the provider session, log what it still said, and open its conversation again; inside a maintenance.

    Cancelled: what is closed stays closed, and the next turn opens it again.

    Raises:
        DisposeFailed: the old session would not close; it is kept, and nothing was opened.
        AgentClosed: the agent is being closed; nothing was opened.
        Exception: the conversation could not be opened again, or the log could not be written.
    """
    over = anyio.Event()
    driver.scope.spawn(_tell_when_late, driver, over, name="waiting for the old session")
    try:
        await driver.connection.aclose()
    except Exception as error:
        driver.last_error = f"the old session could not be closed: {error}"
        driver.error(error)
        raise DisposeFailed(f"agent {driver.agent.id} was not reopened: {driver.last_error}") from error
    finally:
        over.set()
    driver.pump.flush()
    driver.writer.withdraw_questions("the process that asked was ended")
    await driver.session.flush()  # what cannot be stored gets no successor
    if driver.closing:
        raise AgentClosed(f"agent {driver.agent.id} was closed")
    try:
        await driver.connection.ensure()
    except Exception as error:
        driver.last_error = f"the session could not be opened again: {error}"
        driver.error(error)
        raise
    driver.last_error = None  # whatever failed, it has a new session now


async def _tell_when_late(driver: AgentDriver, over: anyio.Event) -> None:
    with anyio.move_on_after(CLOSE_WAIT):
        await over.wait()
        return
    error = DisposeFailed(f"the old session has not ended within {CLOSE_WAIT:g} s")
    driver.last_error = str(error)
    driver.error(error)
