"""What the parts of the manager share: the host, the book of records, and what is known of the live agents."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from greenroom.agents import Agent, AgentRecord, AgentSnapshot, AgentState
from greenroom.errors import GreenroomError

from ._records import NAMESPACE, RecordBook
from ._snapshot import snapshot

if TYPE_CHECKING:
    from greenroom import Host, Scope

Moved: TypeAlias = Callable[[Agent, AgentState, AgentState], None]
"""Hears that a live agent's state has changed: the agent, what it was, what it is. Called behind the change of the
record."""

Asked: TypeAlias = Callable[[Agent, int, int], None]
"""Hears that the number of open questions of a live agent has changed: the agent, before, after."""


class Context:
    """One for each host that the plugin serves; every part gets it.

    Attributes:
        host: its `sessions` and `agents` are there once it has started (`host.started`).
        scope: the plugin's; background work of a part is `scope.spawn`.
        book: the records.
        moved, asked: who hears of live agents' changes of state and of open questions, in order; append to it.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope: Final = scope
        self.host: Final[Host] = scope.host
        self.book: Final = RecordBook(
            lambda: self.host.sessions.store.records(NAMESPACE), clock=self.clock, report=self.report
        )
        self.moved: Final[list[Moved]] = []
        self.asked: Final[list[Asked]] = []

    @property
    def owner(self) -> Scope:
        """Whose scope the agents end with: the host's, so that they end before the plugin of the store leaves."""
        return self.host.scope

    def clock(self) -> int:
        """Milliseconds since the epoch, by the host's clock."""
        return self.host.sessions.ports.clock()

    def report(self, code: str, text: str, *, agent_id: str | None = None) -> None:
        """Take what no caller hears of to the diagnostics."""
        self.host.diagnostics.record(code, text, plugin=self.scope.plugin, session=agent_id)

    def failed(self, code: str, error: BaseException, agent_id: str) -> None:
        """Take the error of somebody else's code, which no caller hears of, to the diagnostics."""
        self.report(code, f"{type(error).__name__}: {error}", agent_id=agent_id)

    def live(self, agent_id: str) -> Agent | None:
        """The live agent of that id in this host, or None."""
        return self.host.agents.get(agent_id)

    def snapshot(
        self, record: AgentRecord, *, elsewhere: bool = False, providers: Container[str] | None = None
    ) -> AgentSnapshot:
        """What a client is shown of an agent.

        Args:
            elsewhere: another process drives it.
            providers: the known ones, for who asks for many agents at once; by default the host is asked.
        """
        known = record.provider in (self.host.providers if providers is None else providers)
        return snapshot(record, self.live(record.id), available=known, elsewhere=elsewhere)

    def tell_moved(self, agent: Agent, before: AgentState, after: AgentState) -> None:
        """Tell everybody of a change of state; what one raises is reported and harms nobody else."""
        for listener in list(self.moved):
            self._tell(agent, partial(listener, agent, before, after))

    def tell_asked(self, agent: Agent, before: int, after: int) -> None:
        """Tell everybody of questions that came or went, as `tell_moved`."""
        for listener in list(self.asked):
            self._tell(agent, partial(listener, agent, before, after))

    def _tell(self, agent: Agent, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception as error:  # noqa: BLE001 - one that looks on must not harm the agent or the others
            self.failed("listener_failed", error, agent.id)


def text_of(error: BaseException) -> str:
    """An error as one line, for an answer that names it beside others."""
    return (
        str(error.args[0]) if isinstance(error, GreenroomError) and error.args else f"{type(error).__name__}: {error}"
    )
