"""The door to the hooks: the only module that uses pluggy's manager.

pluggy holds the specs and the registrations and refuses what it can refuse. It
awaits nothing, lets one raising implementation stop the later ones and moves a
plugin that registers again to the front; so the calls are ours (`_callers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypedDict, TypeVar, Unpack, overload

import pluggy

from greenroom import _async_callers as waiting
from greenroom import _callers as instant
from greenroom import _signatures as signatures
from greenroom import hookspecs
from greenroom._engine import Engine, Report, failure
from greenroom._impl import OPTIONS_ATTRIBUTE, Impl, options_of
from greenroom._kinds import Colour, Kind, Spec
from greenroom._staging import Staged, stage
from greenroom._trace import Trace
from greenroom._watchdog import Watchdog
from greenroom.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path
    from types import ModuleType

    from pydantic import BaseModel

    from greenroom._context import CallContext
    from greenroom._decision import Decision
    from greenroom._host import Host
    from greenroom._scope import Scope
    from greenroom._staging import Owner
    from greenroom.agents import Agent, AgentFactory, Notification
    from greenroom.providers import PermissionRequest, ProviderSpec, ToolDetail
    from greenroom.sessions import EndReason, Event, EventType, Invariant, Message, Session, SessionStore, TriggerKind

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

_mark = pluggy.HookimplMarker(hookspecs.PROJECT)


class ImplOptions(TypedDict, total=False):
    """What an implementation may ask for; `hookimpl` says what each means."""

    before: Sequence[str]
    after: Sequence[str]
    requires: Sequence[str]
    timeout: float | None
    thread: bool
    interactive: bool
    optional: bool
    hook: str | None


@overload
def hookimpl(function: F, /) -> F: ...
@overload
def hookimpl(**options: Unpack[ImplOptions]) -> Callable[[F], F]: ...
def hookimpl(function: F | None = None, /, **options: Unpack[ImplOptions]) -> F | Callable[[F], F]:
    """Mark a function as the implementation of the hook that has its name.

    Args:
        function: what is marked, where there are no options.
        options: what it asks for:

            - `before`, `after`: ids or short names of plugins; a plugin that is not there is satisfied.
            - `requires`: like `after`, and the plugin must be active.
            - `timeout`: seconds instead of the hook's own; more only up to the operator's `timeout_cap`.
            - `thread`: run a blocking `def` in a worker thread, with the time-out.
            - `interactive`: the implementation asks a person: no time-out.
            - `optional`: no error when the host does not know the hook.
            - `hook`: the hook's name, where the function has another.

            pluggy's own words are refused at load, with what says it here.
    """
    asked = options_of(options)

    def mark(marked: F) -> F:
        setattr(marked, OPTIONS_ATTRIBUTE, asked)
        return _mark(marked, optionalhook=asked.optional, specname=asked.hook)

    return mark if function is None else mark(function)


def implements(spec: Callable[P, R], /, **options: Unpack[ImplOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark an implementation of `spec` so that a type checker compares the two.

    `hookimpl` knows the hook only by the function's name, which no type checker
    can follow. This twin takes the specification itself:

        @implements(hookspecs.activate)
        async def activate(scope: Scope) -> None: ...

    The function names every argument of the hook; its name is free, and the options are those of `hookimpl`.
    """
    declared: Spec = getattr(spec, hookspecs.SPEC_ATTRIBUTE)
    options["hook"] = declared.name
    return hookimpl(**options)


class _Shown:
    """What pluggy is shown of a plugin: the functions that were checked, and nothing of its own.

    pluggy takes two plugins that compare equal for one, and reads every attribute.
    """

    def __init__(self, staged: Staged) -> None:
        self.staged = staged
        vars(self).update({impl.spec.name: impl.function for impl in staged.impls})


_CALLERS: Final[Mapping[Kind, type[instant.Caller[Any, Any]]]] = {
    Kind.REGISTER: instant.Register,
    Kind.SLOT: instant.Register,
    Kind.ANNOUNCE: instant.Announce,
    Kind.OBSERVE: instant.Observe,
    Kind.SETUP: waiting.InOrder,
    Kind.GATE: waiting.InOrder,
    Kind.COLLECT: waiting.InOrder,
    Kind.FIRST: waiting.First,
    Kind.DECIDE: waiting.Decide,
    Kind.REWRITE: waiting.Rewrite,
    Kind.WRAP: waiting.Wrap,
}


class Hooks:
    """Every hook of one host: an attribute for each, typed like its specification.

    Attributes:
        engine: the trace, the watchdog, the guards.
    """

    plugin_settings: instant.Register[[], type[BaseModel] | None]
    activate: waiting.InOrder[[Scope], Awaitable[None] | None]
    session_store: instant.Register[[BaseModel | None, Path | None], SessionStore | None]
    event_types: instant.Register[[], Iterable[EventType | TriggerKind | EndReason] | None]
    invariants: waiting.InOrder[[], Iterable[Invariant] | None]
    session_created: instant.Announce[[Session], None]
    session_disposed: instant.Observe[[Session], None]
    session_event: instant.Observe[[Session, Event], None]
    providers: instant.Register[[Host, BaseModel | None], Iterable[ProviderSpec] | None]
    agent_factory: instant.Register[[Host], AgentFactory | None]
    agent_setup: waiting.InOrder[[Agent], Callable[[], None]]
    agent_created: instant.Announce[[Agent], None]
    agent_session_start: instant.Observe[[Agent, str], None]
    agent_disposed: instant.Observe[[Agent], None]
    agent_status: instant.Observe[[Agent, str], None]
    attention: instant.Observe[[Agent, str, Notification], None]
    agent_error: instant.Observe[[Agent, BaseException, int | None, int | None], None]
    agent_inbox_inserted: instant.Observe[[Agent, Message], None]
    agent_inbox_claimed: instant.Observe[[Agent, Message, int | None], None]
    agent_inbox_discarded: instant.Observe[[Agent, Message], None]
    pre_step: waiting.Rewrite[[CallContext, Sequence[Message]], Sequence[Message]]
    turn_stopping: waiting.InOrder[[CallContext], None]
    permission_request: waiting.Decide[[CallContext, PermissionRequest], Decision]
    normalize_tool_call: instant.FirstNow[[str, str, object, object], ToolDetail]

    def __init__(
        self,
        *,
        report: Report = lambda _impl, _error: None,
        blocking: Callable[[Impl, float, str], None] = lambda _impl, _seconds, _stack: None,
        specs: Sequence[ModuleType | type] = (),
    ) -> None:
        """Make the callers of all specifications.

        Args:
            report: takes each recorded failure to the diagnostics.
            blocking: takes the watchdog's reports; called in its thread.
            specs: modules, or classes with static methods, with further specifications.
        """
        self.engine: Engine = Engine(Watchdog(blocking), report, Trace())
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._callers: dict[str, instant.Caller[Any, Any]] = {}
        for module in (hookspecs, *specs):
            self._manager.add_hookspecs(module)
            for spec in declared_specs(module):
                self._add(spec)

    def __iter__(self) -> Iterator[instant.Caller[Any, Any]]:
        """Iterate over the callers, by name."""
        return iter([self._callers[name] for name in sorted(self._callers)])

    def caller(self, name: str) -> instant.Caller[Any, Any]:
        """Return the caller of a hook by its name.

        Raises:
            PluginError: there is no such hook; says which is near.
        """
        signatures.check_known(name, self._callers, lambda text, hint: PluginError(text, hint=hint))
        return self._callers[name]

    def configure(self, order: Mapping[str, Sequence[str]]) -> None:
        """Set the order of implementations from the settings, per hook."""
        for name, names in order.items():
            self.caller(name).configure(names)

    def check(self, plugin: object, owner: Owner, *, scope: Scope | None = None) -> Staged:
        """Check every implementation of a plugin object; publishes nothing.

        Args:
            scope: the agent's scope through which it is added, None for the host.

        Raises:
            PluginError: with the plugin, its distribution and the line.
        """
        return stage(plugin, owner, self._callers, scope)

    def publish(self, staged: Staged, replacing: Staged | None = None) -> None:
        """Make the implementations answer from the next call on, and those of `replacing` no longer.

        Raises:
            PluginError: a cycle in the order, a second plugin for a slot, or this
                generation is published already; nothing is changed.
        """
        if self._published(staged) not in {None, replacing}:
            raise PluginError(f"{_name(staged)} is published already", plugin=staged.owner.plugin)
        self._swap(staged, replacing)

    def withdraw(self, staged: Staged) -> None:
        """Make the implementations answer no longer; calls under way end on the snapshot they took."""
        self._swap(None, staged)

    def bring(self, impl: Impl, arguments: tuple[object, ...]) -> object:
        """Return what an implementation of a `register` hook brings.

        Raises:
            HookError: it raised; the plugin fails to load.
        """
        caller = self._callers[impl.spec.name]
        assert isinstance(caller, instant.Register)  # noqa: S101  # by the kind of its specification
        return caller.of(impl, *arguments)

    async def bring_late(self, impl: Impl, arguments: tuple[object, ...]) -> object:
        """Return what a `slot` or `collect` hook brings, once its plugin is activated.

        A part of a `collect` hook that fails is missing, and None.

        Raises:
            HookError: the implementation of a slot raised; the plugin fails to load.
        """
        value, error = await self.engine.attempt(impl, arguments)
        if error is not None and impl.spec.kind is Kind.SLOT:
            raise failure(impl, error)
        return value

    def feeds(self, staged: Staged) -> Iterable[Callable[[], Awaitable[None]]]:
        """Return the loops of the plugin's observers that a caller cannot wait for, for its scope to spawn."""
        for impl in staged.impls:
            if impl.feed is not None:
                yield partial(impl.feed.run, impl)

    def _add(self, spec: Spec) -> None:
        kind = _CALLERS[spec.kind]
        if spec.kind is Kind.FIRST and spec.colour is Colour.DEF_ONLY:
            kind = instant.FirstNow
        caller = kind(spec, self.engine)
        self._callers[spec.name] = caller
        setattr(self, spec.name, caller)

    def _swap(self, added: Staged | None, removed: Staged | None) -> None:
        new, old = ((staged.impls if staged is not None else ()) for staged in (added, removed))
        callers = [self._callers[name] for name in dict.fromkeys(impl.spec.name for impl in (*new, *old))]
        orders = [(caller, caller.ordered(new, old)) for caller in callers]
        for caller, impls in orders:
            _check_slot(caller.spec, impls)
        # Nothing below can fail: the names are unique, pluggy has nothing left to refuse.
        if removed is not None and self._published(removed) is removed:
            self._manager.unregister(name=_name(removed))
        # Implementations of one agent's scope are ours alone: pluggy has one flat table.
        if added is not None and all(impl.scope is None for impl in new):
            self._manager.register(_Shown(added), name=_name(added))
        for caller, impls in orders:
            caller.show(impls)

    def _published(self, staged: Staged) -> Staged | None:
        """Return what is published under the plugin and generation of `staged`."""
        shown: _Shown | None = self._manager.get_plugin(_name(staged))
        return shown.staged if shown is not None else None


def _check_slot(spec: Spec, impls: Sequence[Impl]) -> None:
    if spec.kind is Kind.SLOT and len(impls) > 1:
        names = " and ".join(impl.plugin for impl in impls)
        text = f"hook {spec.name!r} takes one plugin, found {names}"
        raise PluginError(text, hint='deny one of them: [plugins] deny = ["..."]', plugin=impls[-1].plugin)


def declared_specs(module: ModuleType | type) -> list[Spec]:
    """Return the specifications of a module, or of a class with static methods, in the order they stand there."""
    found = (getattr(getattr(module, name), hookspecs.SPEC_ATTRIBUTE, None) for name in vars(module))
    return [spec for spec in found if spec is not None]


def _name(staged: Staged) -> str:
    return f"{staged.owner.plugin}@{staged.owner.generation}"
