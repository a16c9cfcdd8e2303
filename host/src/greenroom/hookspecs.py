"""The hooks of greenroom: the contract that its version number covers.

A plugin implements a hook with a function of the same name, marked
`@greenroom.hookimpl`. It takes only the arguments it names. What the kinds mean
stands in `docs/hooks.md`, which is generated from this file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import pluggy

from greenroom._kinds import KINDS, Colour, Kind, Spec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from pathlib import Path

    from pydantic import BaseModel

    from greenroom._context import CallContext
    from greenroom._decision import Block, Decision
    from greenroom._host import Host
    from greenroom._scope import Scope
    from greenroom.agents import Agent, AgentFactory, Notification
    from greenroom.providers import PermissionRequest, ProviderSpec, ToolDetail
    from greenroom.sessions import EndReason, Event, EventType, Invariant, Message, Session, SessionStore, TriggerKind

P = ParamSpec("P")
R = TypeVar("R")

PROJECT: Final = "greenroom"
"""The name under which pluggy keeps our markers."""

_mark = pluggy.HookspecMarker(PROJECT)


def hookspec(
    kind: Kind,
    *,
    colour: Colour | None = None,
    timeout: float | None = None,
    subject: str | None = None,
    value: str | None = None,
    guarded: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function as the specification of a hook.

    Args:
        kind: decides how the hook is called and what a failure means.
        colour: narrows which functions may implement it.
        timeout: seconds for one implementation, instead of the kind's.
        subject, value, guarded: see `Spec`.

    Raises:
        ValueError: `subject` or `value` is not an argument of the function.
    """
    rules = KINDS[kind]

    def declare(function: Callable[P, R]) -> Callable[P, R]:
        arguments = tuple(inspect.signature(function).parameters)
        for named in (subject, value):
            if named is not None and named not in arguments:
                raise ValueError(f"hook {function.__name__}: no argument {named!r} in {arguments}")
        spec = Spec(
            name=function.__name__,
            kind=kind,
            arguments=arguments,
            colour=colour or rules.colour,
            timeout=timeout if timeout is not None else rules.timeout,
            on_failure=rules.on_failure,
            subject=subject,
            value=value,
            guarded=guarded,
        )
        setattr(function, SPEC_ATTRIBUTE, spec)
        return _mark(function)

    return declare


SPEC_ATTRIBUTE: Final = "greenroom_hook"
"""Where `hookspec` leaves the `Spec` on the function (`greenroom_spec` is pluggy's own)."""


@hookspec(Kind.REGISTER)
def plugin_settings() -> type[BaseModel] | None:
    """Return the pydantic model of this plugin's table `[plugins.<name>]`.

    Called once when the plugin is loaded. The table is validated with the model
    before `activate`, and the instance stands in `scope.settings`. An error in
    the table names the file and the key, and the plugin fails to load.

    Example:
        ```python
        class Settings(BaseModel):
            folder: Path = Path("audit")

        @hookimpl
        def plugin_settings():
            return Settings
        ```
    """


@hookspec(Kind.SETUP)
def activate(scope: Scope) -> Awaitable[None] | None:
    """Add what this plugin brings, through its scope.

    Called once for each generation of the plugin, in the scope's own task. What
    is added through `scope` is undone when the plugin leaves; background work is
    `scope.spawn`. A raise, or more than the time-out, undoes what was added and
    the plugin is listed as failed.

    Example:
        ```python
        @hookimpl
        async def activate(scope):
            client = await scope.enter(connect(scope.settings.url))
            scope.provide(Translations, client)
        ```
    """


@hookspec(Kind.SLOT)
def session_store(settings: BaseModel | None, data_directory: Path | None) -> SessionStore | None:
    """Return the store that keeps the sessions of this host.

    At most one plugin of a host may implement it; without one, sessions live in
    memory and the host warns. Called once, when the plugins are loaded; the host
    closes the store when it leaves. Do no I/O here: the store opens its file when
    it is first used.

    Args:
        settings: the plugin's validated table, None without a model.
        data_directory: where the host keeps its files, None for a host that keeps none.

    Example:
        ```python
        @hookimpl
        def session_store(settings, data_directory):
            return SqliteStore((data_directory or Path.cwd()) / "sessions.db")
        ```
    """


@hookspec(Kind.REGISTER)
def event_types() -> Iterable[EventType | TriggerKind | EndReason] | None:
    """Return the event types, trigger kinds and end reasons that this plugin writes.

    `Session.append` refuses what is not registered. Names are `<plugin>/<name>`
    and unique over the host. They leave with the plugin; events that were written
    stay, and are skipped on reading if their type is ignorable.

    Example:
        ```python
        class Note(msgspec.Struct, frozen=True):
            text: str

        @hookimpl
        def event_types():
            return [EventType("audit/note", Note, enclosure="free")]
        ```
    """


@hookspec(Kind.COLLECT)
def invariants() -> Iterable[Invariant] | None:
    """Return checks over the events of sessions.

    Asked once for each generation of the plugin, after `activate`. Each check is
    pure: it gets its trace and the candidate and answers with the next trace, or
    with a violation, which vetoes the event and names the plugin.

    Example:
        ```python
        @hookimpl
        def invariants():
            return [Invariant("no-empty-note", no_empty_note, types=frozenset({"audit/note"}))]
        ```
    """


@hookspec(Kind.ANNOUNCE, subject="session")
def session_created(session: Session) -> None:
    """Hear that a session is live: created, resumed, forked or imported.

    All implementations run; a raise of any vetoes the session, which is then
    taken back with the paired `session_disposed`.

    Example:
        ```python
        @hookimpl
        def session_created(session):
            print("session", session.id)
        ```
    """


@hookspec(Kind.OBSERVE, subject="session")
def session_disposed(session: Session) -> None:
    """Hear that a session is live no longer; its log stays in the store.

    Example:
        ```python
        @hookimpl
        def session_disposed(session):
            print("left", session.id, "after", len(session), "events")
        ```
    """


@hookspec(Kind.OBSERVE, subject="session")
def session_event(session: Session, event: Event) -> None:
    """Hear each event after its commit, in the order of the log: audits and mirrors.

    An implementation may not append to the same session. An `async def` one has a
    bounded queue; what it missed while it lagged is read again from the log, so it
    gets every event once.

    Example:
        ```python
        @hookimpl
        def session_event(session, event):
            if event.type == "tool/call":
                print(session.id, event.seq, event.data.name)
        ```
    """


@hookspec(Kind.REGISTER)
def providers(host: Host, settings: BaseModel | None) -> Iterable[ProviderSpec] | None:
    """Return what runs models: one spec for each kind of provider, cheap to import.

    An id is unique over the host.

    Args:
        host: its sessions, agents and providers are there once all plugins are loaded, not yet here.
        settings: the plugin's validated table, None without a model.

    Example:
        ```python
        @hookimpl
        def providers():
            return [ProviderSpec(id="echo", label="Echo", steps="provider", load=load_echo)]
        ```
    """


@hookspec(Kind.SLOT)
def agent_factory(host: Host) -> AgentFactory | None:
    """Return what makes the drivers of agents. One plugin does; a second one is refused with both names.

    Example:
        ```python
        @hookimpl
        def agent_factory(host):
            return MyFactory(host)
        ```
    """


@hookspec(Kind.SETUP, subject="agent")
def agent_setup(agent: Agent) -> Awaitable[Callable[[], None] | None] | Callable[[], None] | None:
    """Compose an agent before anybody sees it, through `agent.scope`.

    Called for every agent that is created or resumed. It may not drive the agent. What it
    returns is called at the last moment before the agent is published, and may still refuse.

    Example:
        ```python
        @hookimpl
        def agent_setup(agent):
            agent.scope.spawn(watch, agent)
        ```
    """


@hookspec(Kind.ANNOUNCE, subject="agent")
def agent_created(agent: Agent) -> None:
    """Hear that an agent is live; its session was announced before.

    All implementations run; a raise of any vetoes the agent, which is then taken back with
    the paired `agent_disposed`.

    Example:
        ```python
        @hookimpl
        def agent_created(agent):
            print("agent", agent.id)
        ```
    """


@hookspec(Kind.OBSERVE, subject="agent")
def agent_session_start(agent: Agent, source: str) -> None:
    """Hear why an agent starts: `startup`, `resume`, `import` or `reload`. No veto."""


@hookspec(Kind.OBSERVE, subject="agent")
def agent_disposed(agent: Agent) -> None:
    """Hear that an announced agent is live no longer; its session says farewell after it."""


@hookspec(Kind.OBSERVE, subject="agent")
def agent_status(agent: Agent, status: str) -> None:
    """Hear that an agent went `running` or `idle`; the two alternate."""


@hookspec(Kind.OBSERVE, subject="agent")
def attention(agent: Agent, reason: str, notice: Notification) -> None:
    """Hear that somebody should look at an agent: `finished`, `error` or `permission`.

    Called at the edge: when an agent comes to rest, fails, or asks its first open question; never for internal
    agents and those that work for another one. `notice` says in words what happened, which client is to show it,
    and whether to reach the person elsewhere, for those who deliver it.

    Example:
        ```python
        @hookimpl
        async def attention(reason, notice):
            if notice.push:
                await send_to_phone(notice.title, notice.body)
        ```
    """


@hookspec(Kind.OBSERVE, subject="agent")
def agent_error(agent: Agent, error: BaseException, turn: int | None, step: int | None) -> None:
    """Hear of a failure that has no place in a turn of the log, or that ended one."""


@hookspec(Kind.OBSERVE, subject="agent")
def agent_inbox_inserted(agent: Agent, message: Message) -> None:
    """Hear of a message that waits now, once the splice is committed."""


@hookspec(Kind.OBSERVE, subject="agent")
def agent_inbox_claimed(agent: Agent, message: Message, turn: int | None) -> None:
    """Hear of a message that a turn took, once the splice is committed."""


@hookspec(Kind.OBSERVE, subject="agent")
def agent_inbox_discarded(agent: Agent, message: Message) -> None:
    """Hear of a message that was canceled or replaced before a turn took it."""


@hookspec(Kind.REWRITE, subject="ctx", value="messages")
def pre_step(
    ctx: CallContext, messages: Sequence[Message]
) -> Awaitable[Sequence[Message] | Block | None] | Sequence[Message] | Block | None:
    """Return the messages that enter the step instead of those that were claimed, or refuse them.

    `greenroom.block(reason)` ends the turn as blocked. A raise or a time-out ends it with an
    error that names the plugin; what waits in the inbox stays.

    Example:
        ```python
        @hookimpl
        def pre_step(ctx, messages):
            if any("password" in text_of(message) for message in messages):
                return block("no passwords here")
        ```
    """


@hookspec(Kind.GATE, subject="ctx")
def turn_stopping(ctx: CallContext) -> Awaitable[None] | None:
    """Act at the last moment before a completed turn closes, for instance steer it on.

    Example:
        ```python
        @hookimpl
        async def turn_stopping(ctx):
            await report(ctx.agent, ctx.turn)
        ```
    """


@hookspec(Kind.DECIDE, subject="ctx", guarded=True)
def permission_request(ctx: CallContext, request: PermissionRequest) -> Awaitable[Decision | None] | Decision | None:
    """Answer a question of the provider in the user's place, or have no opinion.

    `allow(answer=...)` and `deny(...)` may carry a whole `PermissionResponse`. With no opinion,
    or `ask`, the user is asked.

    Example:
        ```python
        @hookimpl
        def permission_request(ctx, request):
            if request.name == "Read":
                return allow("reading is fine")
        ```
    """


@hookspec(Kind.FIRST, colour=Colour.DEF_ONLY)
def normalize_tool_call(provider: str, name: str, input: object, output: object) -> ToolDetail | None:
    """Return what a tool call is about, for clients that do not know the tool, or None.

    Called for every state of every call; it runs in the event pump and must be quick.

    Example:
        ```python
        @hookimpl
        def normalize_tool_call(provider, name, input, output):
            if name == "sh":
                return ShellDetail(input["line"], output=output)
        ```
    """
