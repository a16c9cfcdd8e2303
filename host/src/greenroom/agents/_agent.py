"""The live capability that drives one session in this process, and the scope that carries it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio

from greenroom._scope import Scope
from greenroom.agents._errors import AgentBusy, AgentClosed
from greenroom.agents._inbox import Inbox
from greenroom.agents._interfaces import (
    AgentOptions,
    AnsweredBy,
    Canceled,
    Cause,
    Driver,
    InjectPolicy,
    Otherwise,
    Pending,
)
from greenroom.agents._mount import mount_plugin
from greenroom.agents._states import AgentState, Closed
from greenroom.agents._stream import RunResult, TurnStream
from greenroom.providers import Mode, PermissionRequest, PermissionResponse
from greenroom.sessions import Message
from greenroom.sessions.vocabulary import PluginSource, Source, Target, Text, UserSource

if TYPE_CHECKING:
    from greenroom._hooks import Hooks
    from greenroom.agents._imports import Hydrated
    from greenroom.agents._initiator import Initiators
    from greenroom.sessions import Session, SessionLease

T = TypeVar("T")

Prompt = Message | str


def message_of(prompt: Prompt, source: Source | None = None) -> Message:
    """Make a message of a text, with a random id; a message keeps its id, unless that is blank."""
    if not isinstance(prompt, Message):
        return Message(str(uuid.uuid4()), (Text(prompt),), source or UserSource())
    return prompt if prompt.id.strip() else Message(str(uuid.uuid4()), prompt.content, prompt.source)


class Agent:
    """What drives a session. Seeing one gives no right to close it: that is `AgentHandle`.

    Attributes:
        options: how it runs.
        session: its log; the agent has the session's id.
        inbox: its pending input.
        scope: what was added for it; hooks and listeners added through it hear it and its descendants.
        owner: the live agent whose scope created it, or None.
        internal: hidden from lists and host-wide feeds.
        initiators: the boundaries of its host.
    """

    def __init__(
        self,
        *,
        session: Session,
        scope: AgentScope,
        inbox: Inbox,
        options: AgentOptions,
        initiators: Initiators,
        hooks: Hooks,
        owner: Agent | None = None,
        internal: bool = False,
    ) -> None:
        self.session: Final = session
        self.scope: Final[AgentScope] = scope
        self.inbox: Final = inbox
        self.options: Final = options
        self.initiators: Final = initiators
        self.owner: Final = owner
        self.internal: Final = internal
        self._hooks = hooks
        self._driver: Driver | None = None
        self._published = False
        self._leaving = self._gone = False
        self._farewell: set[anyio.Event] = set()

    @property
    def id(self) -> str:
        """The id of its session."""
        return self.session.id

    @property
    def status(self) -> Literal["idle", "running"]:
        """Whether it works on something; `running` spans the turns of a queue and the gaps between them."""
        return self._driver.status if self._driver is not None else "idle"

    @property
    def state(self) -> AgentState:
        """What clients are shown."""
        return self._driver.state if self._driver is not None else Closed()

    @property
    def modes(self) -> Sequence[Mode]:
        """The permission modes that its provider session offers."""
        return self._driver.modes if self._driver is not None else ()

    @property
    def questions(self) -> Mapping[str, PermissionRequest]:
        """The open questions of the provider, by id."""
        return self._driver.questions if self._driver is not None else {}

    # input

    def send(self, prompt: Prompt, target: Target, *, wake: bool) -> Message:
        """Put a message into a list of the inbox, durably queued; `wake` starts the driver.

        Raises:
            AgentClosed: the agent is not published, or is being closed.
            EventRefused, InboxError: it is no valid message, or its id is pending.
        """
        message = message_of(prompt)
        self._live().send(message, target, wake=wake)
        return message

    def followup(self, prompt: Prompt) -> Message:
        """Queue a message that opens a turn of its own. Raises as `send`."""
        return self.send(prompt, "next-turn", wake=True)

    def wake(self) -> None:
        """Begin with what waits, for instance after a resume; at work, or with nothing waiting, it does nothing.

        Raises:
            AgentClosed: the agent is not published, or is being closed.
        """
        self._live().wake()

    def steer(self, prompt: Prompt, *, otherwise: Otherwise = "queue") -> Pending[str]:
        """Put a message into the running turn; at rest it opens one.

        A provider that runs its own steps is asked to take it. If it cannot, the message opens the next turn, or, with
        `otherwise="replace"`, ends the running turn and opens the next one at once. The outcome is `accepted`,
        `queued`, `replaced`, or `ambiguous` (it may have been delivered and is not sent again). Raises as `send`.
        """
        return self._live().steer(message_of(prompt), otherwise=otherwise)

    def inject(self, prompt: Prompt, *, policy: InjectPolicy | None = None, plugin: str | None = None) -> Message:
        """Add context that enters with the next step or turn; wakes nobody.

        `plugin` names the source of a text. At rest the policy decides (see `AgentOptions.inject`). Raises as `send`.
        """
        message = message_of(prompt, PluginSource(plugin) if plugin is not None else None)
        self._live().inject(message, policy)
        return message

    def replace(self, prompt: Prompt) -> Pending[None]:
        """End what runs and open a turn with this message; nobody sees the agent at rest in between.

        Awaiting it raises CancelRefused if the running turn could not be ended; it goes on then, and the message is
        gone. Raises as `send`.
        """
        return self._live().replace(message_of(prompt))

    def stream(self, prompt: Prompt, *, replace: bool = False, cancel_on_leave: bool = False) -> TurnStream:
        """Open a turn with this message and read it.

        Raises:
            AgentBusy: a run is active or input waits, unless `replace`.
            AgentClosed: the agent is not published, or is being closed.
        """
        driver = self._live()
        if not replace and (driver.busy or self.inbox.next_turn):
            raise AgentBusy(f"agent {self.id} is busy", hint="followup() queues, replace=True ends what runs")
        message = message_of(prompt)
        reader = TurnStream(self, message, cancel_on_leave=cancel_on_leave)
        if replace:
            driver.replace(message)
        else:
            driver.send(message, "next-turn", wake=True)
        return reader

    async def run(self, prompt: Prompt, *, replace: bool = False) -> RunResult:
        """Open a turn with this message and wait for its durable end. Cancelled: the turn goes on.

        Raises:
            TurnFailed: the turn ended with an error.
            AgentBusy, AgentClosed: as `stream`.
        """
        result = await self.stream(prompt, replace=replace).finish()
        await self.flush()
        return result

    # control

    def cancel(self, cause: Cause | None = None, *, keep_inbox: bool = False) -> Pending[Canceled]:
        """End what runs and, unless `keep_inbox`, cancel what waits. At rest with nothing waiting it does nothing."""
        return self._live().cancel(cause or Cause("user"), keep_inbox=keep_inbox)

    async def when_idle(self) -> None:
        """Wait until nothing runs and nothing was scheduled meanwhile."""
        if self._driver is not None:
            await self._driver.when_idle()

    async def run_maintenance(self, task: Callable[[], Awaitable[T]]) -> T:
        """Run `task` while no turn may begin; input that arrives meanwhile is taken afterwards.

        Cancelled, or ended by `cancel`: the task is cancelled.

        Raises:
            AgentBusy: the agent is not at rest.
        """
        return await self._live().run_maintenance(task)

    async def initialized(self) -> None:
        """Wait until it is no longer initializing: mode and model are known, or could not be asked for."""
        if self._driver is not None:
            await self._driver.initialized()

    async def started(self, timeout: float | None = None) -> None:
        """Wait until a run is active: ours once its provider has accepted it, or one of the provider's own.

        Raises:
            AgentError: nothing is about to run, or the start failed.
            TimeoutError: `timeout` seconds have passed.
        """
        await self._live().started(timeout)

    async def respond(self, request_id: str, response: PermissionResponse, *, by: AnsweredBy = "user") -> None:
        """Answer a question; the same answer again does nothing. Cancelled: the answer may have been given.

        Raises:
            ProviderError: no such question was asked, or it is just being answered.
            AgentError: it was answered otherwise, or the answer does not fit it; it stays as it is.
        """
        await self._live().respond(request_id, response, by)

    async def set_mode(self, mode: str) -> str | None:
        """Use another permission mode from the next request on; may return a line for the person."""
        return await self._live().configure("mode", mode)

    async def set_model(self, model: str | None) -> None:
        """Use another model from the next request on; None = the provider's default."""
        await self._live().configure("model", model)

    async def set_thinking(self, level: str | None) -> None:
        """Use another thinking level from the next request on; None = the default."""
        await self._live().configure("thinking", level)

    async def set_feature(self, feature: str, value: str | bool | None) -> None:  # noqa: FBT001 - a value, no flag
        """Choose the value of a feature."""
        await self._live().set_feature(feature, value)

    async def refresh(self) -> None:
        """Ask the provider what it uses now and log what changed."""
        await self._live().refresh()

    async def reopen(self, *, rehydrate: bool = False) -> None:
        """Close the provider session and open it again on the same conversation.

        Raises:
            CancelRefused: a turn ran and could not be ended; everything is as before.
        """
        await self._live().reopen(rehydrate=rehydrate)

    async def revert(self, message_id: str) -> None:
        """Go back to before one of our messages, here and in the provider's conversation.

        Raises:
            AgentBusy: the agent is not at rest.
            AgentError: the message opened no turn of this line, or the provider has not acknowledged it.
            Unsupported: the provider cannot go back.
        """
        await self._live().revert(message_id)

    async def hydrate(self) -> Hydrated:
        """Add to the log what the provider's own history knows and the log does not; nothing is doubled.

        Cancelled, failed or empty: the log is as it was.

        Raises:
            AgentBusy: the agent is not at rest.
            AgentError: the provider keeps no history.
            ProviderError: it could not be read.
        """
        return await self._live().hydrate()

    async def mount(self, plugin: object, *, name: str | None = None) -> Scope:
        """Activate a plugin object for this agent alone; it leaves with the agent, or when the returned scope closes.

        Its hooks hear this agent and its descendants. Cancelled: it was not mounted.

        Raises:
            PluginError: it is no plugin.
            HookError: its `activate` raised.
            ScopeClosed: the agent is going.
        """
        return await mount_plugin(self._hooks, self, plugin, name)

    async def flush(self) -> None:
        """Log everything the provider has said so far and wait until it is durable."""
        if self._driver is not None:
            await self._driver.flush()

    # for the pipeline

    def attach(self, driver: Driver) -> None:
        """Give the agent its driver; once, before it is published."""
        self._driver = driver

    def publish(self) -> None:
        """From here on it may be driven."""
        self._published = True

    def leave(self) -> None:
        """From here on it may be driven no more."""
        self._leaving = True

    def farewell(self) -> None:
        """It has left: nothing will be logged any more, and who waits for news is told."""
        self._gone = True
        for event in self._farewell:
            event.set()

    @property
    def gone(self) -> bool:
        """Whether it has left."""
        return self._gone

    @contextmanager
    def closing(self, event: anyio.Event) -> Iterator[None]:
        """Set `event` when the agent has left while the block runs."""
        self._farewell.add(event)
        try:
            yield
        finally:
            self._farewell.discard(event)

    def _live(self) -> Driver:
        if self._driver is None or not self._published or self._leaving:
            why = "is being closed" if self._leaving else "is not published yet: set-up may compose it, not drive it"
            raise AgentClosed(f"agent {self.id} {why}")
        return self._driver

    def __repr__(self) -> str:
        return f"<Agent {self.id} {self.status}>"


class AgentScope(Scope):
    """The scope of an agent.

    Attributes:
        agent: whose scope it is.
        lease: the right to write its session.
    """

    agent: Agent
    lease: SessionLease


def agent_of(scope: Scope) -> Agent | None:
    """Return the agent that a scope belongs to, or None for a plugin's or the host's own."""
    return getattr(scope, "agent", None) if isinstance(scope, AgentScope) else None


def owner_of(scope: Scope) -> Agent | None:
    """Return the nearest agent at or above a scope."""
    return next((agent for at in scope.chain() if (agent := agent_of(at)) is not None), None)
