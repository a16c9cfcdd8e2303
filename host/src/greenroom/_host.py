"""The composition root: one object that owns plugins, hooks, scopes and registries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from greenroom import _loading as loading
from greenroom._diagnostics import Diagnostics, secret_values
from greenroom._effect import Effect, EffectTree
from greenroom._finding.discovery import at_path, discover, given
from greenroom._finding.last_outcome import write_records
from greenroom._finding.selection import choose, installed_one
from greenroom._hooks import Hooks
from greenroom._impl import Impl
from greenroom._lifecycle import PluginState
from greenroom._paths import make_data_directory
from greenroom._records import PluginRecord
from greenroom._scope import Scope
from greenroom._services import Services
from greenroom._settings.settings import Settings, load_settings
from greenroom._trust import check_project
from greenroom._wiring.agents import AgentWiring
from greenroom._wiring.sessions import SessionWiring
from greenroom.agents import Agents, HostClient
from greenroom.errors import GreenroomError, PluginError
from greenroom.providers import ProviderSpec
from greenroom.sessions import SessionRegistry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the scopes of a host stand on; see `greenroom._effect.Ground`."""

    tasks: TaskGroup
    host: Host
    left: dict[Scope, None] = field(default_factory=dict)

    def report(self, code: str, error: BaseException, scope: Scope) -> None:
        self.host.diagnostics.failed(code, error, plugin=scope.plugin, generation=scope.generation)

    def provide(self, scope: Scope, protocol: type[object], service: object) -> Effect:
        return self.host.services.provide(scope, protocol, service)


class Host:
    """A plugin host: `async with Host(...) as host:` loads the plugins, leaving it unloads them.

    Attributes:
        hooks: every hook, typed like its specification.
        scope: the root; the scopes of plugins and agents are below it.
        settings: what the files, the environment and the command line say.
        diagnostics: what went wrong outside a turn.
        services: what plugins offer each other.
        sessions: the live sessions, and the store behind them.
        agents: the live agents, and the way to make one.
        started: set once all plugins are loaded and sessions and agents are there.
        warnings: what the operator should know after the start, one sentence each.
        stuck: called when everything is closed, and tasks that ignore their cancellation are all that keeps the
            host; with one sentence each. Nobody can end a task: leaving the host waits for it, unless the process
            ends here.
    """

    scope: Scope
    services: Services
    sessions: SessionRegistry
    agents: Agents

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        data_directory: Path | None = None,
        discovery: bool = True,
        plugins: Mapping[str, object] | None = None,
        specs: Sequence[ModuleType | type] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare a host; nothing is imported before it is entered.

        Args:
            settings: default: none, and no file is read.
            data_directory: for `plugins.json` and diagnostics; None keeps them in memory.
            discovery: whether installed plugins and those of the settings are loaded.
            plugins: further plugin objects by short name, loaded after the found ones.
            specs: modules with further hook specifications.
            clock: seconds since 1970.
        """
        self.settings: Final = settings if settings is not None else load_settings()
        self.diagnostics: Final = Diagnostics(data_directory, clock=clock, secrets=secret_values(os.environ))
        self.hooks: Final = Hooks(report=self._hook_failed, blocking=self._hook_blocks, specs=specs)
        self._wiring: Final = SessionWiring(self.hooks, self.settings, self.diagnostics, data_directory, clock)
        self._agents: Final = AgentWiring(self)
        self.registrars: Final[dict[str, loading.Registrar]] = {**self._wiring.registrars, **self._agents.registrars}
        self.started: Final = anyio.Event()
        self.warnings: list[str] = []
        self.stuck: Callable[[Sequence[str]], None] = lambda _tasks: None
        self._data_directory = data_directory
        self._leaving = False
        self._discovery = discovery
        self._given = dict(plugins or {})
        self._clock = clock
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Load the plugins. A broken one is a failed record, never an error of the host.

        Cancelled: what was loaded is unloaded again.

        Raises:
            PluginError: a plugin with `required = true` is not active, or with
                `strict` any plugin failed.
            SettingsError: the settings contradict the installed plugins.
            GreenroomError: the data directory cannot be made.
        """
        self._make_data_directory()
        try:
            await self._enter()
        except BaseExceptionGroup as group:
            # The task group wraps what stopped the start; nobody expects a group there.
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from group.exceptions[0].__cause__
            raise
        return self

    def _make_data_directory(self) -> None:
        if self._data_directory is None:
            return
        try:
            make_data_directory(self._data_directory)
        except OSError as error:
            text = f"the data directory {self._data_directory} cannot be used: {error.strerror or error}"
            raise GreenroomError(text, hint="set GREENROOM_HOME to a folder that you may write") from error

    async def _enter(self) -> None:
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(anyio.create_task_group())
            self.scope = Scope("host", _Ground(tasks, self))
            self.services = Services(self.scope)
            self._plugins = loading.Plugins(
                hooks=self.hooks,
                root=self.scope,
                settings=self.settings,
                registrars=self.registrars,
                changed=self._write_records,
            )
            self.hooks.engine.watchdog.start()
            stack.callback(self.hooks.engine.watchdog.stop)
            await self.scope.open()
            stack.push_async_callback(self._close)
            await self._load_all()
            self._stack = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Unload everything in reverse; shielded, each clean-up bounded. Swallows nothing."""
        try:
            await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            # The task group wraps the error of the `async with` body; nobody expects a group there.
            if error is None or group.exceptions != (error,):
                raise

    def plugins(self) -> list[PluginRecord]:
        """Return the records of all plugins, in the order in which they were found."""
        return self._plugins.records()

    def plugin(self, name: str) -> PluginRecord:
        """Return the record of a plugin by id or short name.

        Raises:
            PluginError: there is none, or two have the short name.
        """
        return self._plugins.get(name).record

    async def load(self, plugin: object, *, name: str | None = None) -> PluginRecord:
        """Load a plugin: an id (or short name) that is installed, a file or folder, or an object.

        Args:
            plugin: text for an id, a `Path` for a file or folder, else the plugin itself.
            name: the short name of an object; by default its own name.

        An id may name a distribution that was installed a moment ago, or a plugin
        that failed or was unloaded. Cancelled: it was not loaded.

        Raises:
            PluginError: there is none of that id, or it is loaded already. A
                plugin that fails to load does not raise: its record says so.
        """
        if isinstance(plugin, str):
            entry = self._plugins.add(installed_one(plugin, self.settings.plugins))
        elif isinstance(plugin, Path):
            entry = self._plugins.add(at_path(plugin))
        else:
            entry = self._plugins.add(given(name or _name_of(plugin)), given=plugin)
        await self._plugins.load([entry])
        await self.sessions.revalidate()
        return entry.record

    async def unload(self, name: str) -> PluginRecord:
        """Unload a plugin by id or short name; returns when nothing of it is left.

        Cancelled: it is unloaded all the same, nobody waits for it.

        Raises:
            PluginError: there is no such plugin.
        """
        return await self._plugins.unload(name)

    @property
    def data_directory(self) -> Path | None:
        """Where the host keeps its files; None for one that keeps none."""
        return self._data_directory

    @property
    def providers(self) -> Mapping[str, ProviderSpec]:
        """The kinds of providers by id, as the settings have them if a plugin keeps a catalogue of them."""
        return self._agents.providers

    @property
    def brought_providers(self) -> Mapping[str, ProviderSpec]:
        """The kinds of providers that plugins brought, by id."""
        return self._agents.brought

    def service(self, protocol: type[T]) -> T | None:
        """Return what a plugin offers under a protocol, or None while none does."""
        return self.services.find(protocol)

    def effects(self) -> EffectTree:
        """Return everything that was added to the host, as a tree of labels."""
        return self.scope.effects()

    async def _load_all(self) -> None:
        check_project(self.settings, self._data_directory, self._clock)
        self.hooks.configure(self.settings.hook_order)
        if self._discovery:
            self._find()
        for name, plugin in self._given.items():
            self._plugins.add(given(name), given=plugin)
        await self._plugins.load_all()
        self._refuse_to_start_without(self._guard_missing())
        if not self._wiring.durable:
            self.warnings.append("no plugin keeps sessions: they live in memory and end with this process")
        self.sessions = self._wiring.registry(self.scope, self._endpoint)
        self.agents = self._agents.agents()
        self.started.set()

    def _endpoint(self) -> str | None:
        client = self.service(HostClient)
        return client.endpoint if client is not None else None

    def _find(self) -> None:
        """Put everything that is installed or named by the settings into the table."""
        selection = choose(discover(self.settings.plugins.load), self.settings.plugins)
        self.warnings += selection.warnings
        for candidate in selection.chosen:
            self._plugins.add(candidate)
        for candidate, reason in selection.blocked:
            self._plugins.block(candidate, reason)

    def _guard_missing(self) -> list[str]:
        """Deny for guards that are not installed; return what is required and not installed."""
        required = []
        for name, _origin in self.settings.unclaimed((r.id, r.name) for r in self.plugins()):
            section = self.settings.plugin(name, name)
            if section.guard:
                self.hooks.engine.guards[name] = "not installed"
            if section.required:
                required.append(name)
        return required

    def _refuse_to_start_without(self, missing: list[str]) -> None:
        strict = self.settings.plugins.strict
        bad = {PluginState.FAILED, PluginState.LEAKED}
        broken = [r for r in self.plugins() if (strict and r.state in bad) or (r.required and r.state != "active")]
        if not broken and not missing:
            return
        lines = [f"{record.id} is {record.state}: {record.error}" for record in broken]
        lines += [f"{name} is required and not installed" for name in missing]
        hint = next((record.hint for record in broken if record.hint), None)
        why = "strict" if strict and not missing and not any(record.required for record in broken) else "required"
        raise PluginError(f"the host does not start ({why} plugins): " + "; ".join(lines), hint=hint)

    async def _close(self) -> None:
        self._leaving = True  # plugins.json keeps how the plugins went, not that this host has left
        # Not bounded as a whole: each clean-up is, and none may be skipped.
        with anyio.CancelScope(shield=True):
            await self.scope.aclose()
            if hasattr(self, "agents"):  # else the start ended before there were any
                await self.agents.aclose()
        stuck = [
            f"{task!r} of {scope.label} does not end" for scope in self.scope.ground.left for task in scope.left_behind
        ]
        if stuck:
            self.stuck(stuck)
        self.scope.ground.tasks.cancel_scope.cancel()

    def _write_records(self) -> None:
        if self._data_directory is None or self._leaving:
            return
        try:
            write_records(self._data_directory, self.plugins(), self._clock)
        except OSError as error:
            self.diagnostics.failed("records_not_written", error)

    def _hook_failed(self, impl: Impl, error: BaseException) -> None:
        self.diagnostics.failed("hook_failed", error, plugin=impl.plugin, generation=impl.generation)

    def _hook_blocks(self, impl: Impl, seconds: float, stack: str) -> None:
        text = f"hook {impl.spec.name} of {impl} has blocked the event loop for {seconds:.1f} s\n{stack}"
        self.diagnostics.record("hook_blocks", text, plugin=impl.plugin, generation=impl.generation)


def _name_of(plugin: object) -> str:
    name = getattr(plugin, "__name__", None) or type(plugin).__name__
    return str(name).rpartition(".")[2]
