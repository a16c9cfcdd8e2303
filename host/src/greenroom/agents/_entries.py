"""The agents that are live in this process: entered, announced, detached by the exact entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from greenroom.agents._errors import AgentError
from greenroom.sessions import SessionExists

if TYPE_CHECKING:
    from greenroom.agents._agent import Agent

Tell = Callable[["Agent"], None]


class Entry:
    """An agent in the registry, and the right to take out exactly this one."""

    def __init__(self, entries: Entries, agent: Agent) -> None:
        self._entries = entries
        self.agent = agent
        self._phase: Literal["entered", "announcing", "announced", "detached"] = "entered"
        self._told = self._leaving = False

    @property
    def live(self) -> bool:
        """Whether it is in the registry and nobody has asked to take it out."""
        return self._phase != "detached" and not self._leaving

    def announce(self) -> None:
        """Tell everybody, once. A raise vetoes: the entry is out again and its farewell was said.

        Raises:
            AgentError: it was announced before, or a listener has taken it out.
        """
        if self._phase != "entered":
            raise AgentError(f"agent {self.agent.id} is {self._phase} already")
        self._phase, self._told = "announcing", True
        try:
            self._entries.created(self.agent)
        except BaseException:
            self._phase = "announced"
            self.detach()
            raise
        self._phase = "announced"
        if self._leaving:
            self.detach()
            raise AgentError(f"agent {self.agent.id} left while it was announced")

    def detach(self) -> None:
        """Take the entry out; while it is being announced, afterwards. Idempotent, and harmless to a successor."""
        if self._phase == "announcing":
            self._leaving = True
        elif self._phase != "detached":
            self._phase = "detached"
            self._entries.remove(self)
            if self._told:
                self._entries.disposed(self.agent)


class Entries:
    """The registry.

    Args:
        created: announces an agent; may raise.
        disposed: says farewell; contains what its listeners raise.
    """

    def __init__(self, created: Tell, disposed: Tell) -> None:
        self.created = created
        self.disposed = disposed
        self._live: dict[str, Entry] = {}

    def enter(self, agent: Agent) -> Entry:
        """Make an agent visible; announces nothing. The only arbiter between two of one id.

        Raises:
            AgentError: its id is not its session's.
            SessionExists: an agent of that id is live.
        """
        if agent.id != agent.session.id:
            raise AgentError(f"agent {agent.id} does not have the id of its session {agent.session.id}")
        if agent.id in self._live:
            raise SessionExists(f"agent {agent.id} is live here", session_id=agent.id)
        entry = self._live[agent.id] = Entry(self, agent)
        return entry

    def remove(self, entry: Entry) -> None:
        """Forget exactly this entry."""
        if self._live.get(entry.agent.id) is entry:
            del self._live[entry.agent.id]

    def get(self, agent_id: str) -> Agent | None:
        """The live agent of that id."""
        entry = self._live.get(agent_id)
        return entry.agent if entry is not None else None

    def list(self) -> Sequence[Agent]:
        """All live agents, in the order in which they entered."""
        return [entry.agent for entry in self._live.values()]
