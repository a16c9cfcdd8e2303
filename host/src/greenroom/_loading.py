"""From a candidate to an active plugin, and back: the plugin table of a host.

Loading is staged: import, check and register touch nothing that others can see;
everything is published in one step when `activate` is done. Each failure becomes
a record with phase, text and hint, and the other plugins go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from anyio.abc import TaskStatus

from greenroom._finding import importing
from greenroom._hooks import Hooks
from greenroom._kinds import Kind
from greenroom._lifecycle import Phase, PluginMove, PluginState
from greenroom._records import PluginRecord
from greenroom._scope import Scope
from greenroom._settings.model import refuse_values, validate_plugin
from greenroom._staging import Owner, Staged
from greenroom.errors import PLUGIN_ERRORS, GreenroomError, PluginError, PluginLeaked

if TYPE_CHECKING:
    from pydantic import BaseModel

    from greenroom._finding.discovery import Candidate
    from greenroom._settings.model import PluginSection
    from greenroom._settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Registrar:
    """Who takes what a hook that is called at load returned (kinds register, slot, collect).

    Attributes:
        add: adds it through the plugin's scope; a raise fails the plugin.
        arguments: gives the arguments of the hook, from the plugin's validated settings.
    """

    add: Callable[[Scope, Any], None]  # each hook has a type of its own
    arguments: Callable[[BaseModel | None], tuple[object, ...]] = lambda _settings: ()


STARTABLE: Final = frozenset({PluginState.DISCOVERED, PluginState.FAILED, PluginState.UNLOADED, PluginState.BLOCKED})


@dataclass(slots=True, eq=False)
class Plugin:
    """One plugin of the table: its record, and what is alive of it.

    Attributes:
        given: the object itself, for a plugin that was handed over and not found.
        brought: what its `register` hooks returned, by hook.
        settings: its validated table.
        refused: why it may not start although it was loaded.
        was_policy: it was active with a decide hook, so its absence denies.
        by_operator: whether the operator asked for it to leave.
    """

    record: PluginRecord
    candidate: Candidate
    given: object = None
    imported: importing.Imported | None = None
    staged: Staged | None = None
    scope: Scope | None = None
    brought: list[tuple[str, object]] = field(default_factory=list)
    settings: BaseModel | None = None
    refused: PluginError | None = None
    was_policy: bool = False
    by_operator: bool = False


class Plugins:
    """The plugins of one host, in the order in which they were found.

    Args:
        root: the host's scope; the scope of each plugin is its child.
        registrars: by the name of a hook that is called at load, who takes its results.
        changed: called after a record has changed.
    """

    def __init__(
        self,
        *,
        hooks: Hooks,
        root: Scope,
        settings: Settings,
        registrars: dict[str, Registrar],
        changed: Callable[[], None],
    ) -> None:
        self._hooks = hooks
        self._root = root
        self._settings = settings
        self._registrars = registrars
        self._changed = changed
        self._table: dict[str, Plugin] = {}

    def records(self) -> list[PluginRecord]:
        """Return the records, in the order in which the plugins were found."""
        return [plugin.record for plugin in self._table.values()]

    def get(self, name: str) -> Plugin:
        """Return a plugin by its id or its short name.

        Raises:
            PluginError: there is none, or two have the short name.
        """
        if name in self._table:
            return self._table[name]
        found = [plugin for plugin in self._table.values() if plugin.record.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            ids = " and ".join(plugin.record.id for plugin in found)
            raise PluginError(f"{name!r} may mean {ids}", hint="use the full id")
        raise PluginError(f"there is no plugin {name!r}", hint=f"known: {', '.join(self._table) or 'none'}")

    def add(self, candidate: Candidate, *, given: object = None) -> Plugin:
        """Put a candidate into the table; an entry of the same id that is not alive is replaced.

        Raises:
            PluginError: a plugin with this id is alive, or hung at import.
        """
        earlier = self._table.get(candidate.id)
        if earlier is not None and earlier.record.state not in STARTABLE:
            raise PluginError(
                f"the plugin {candidate.id} is {earlier.record.state}", hint="unload it first", plugin=candidate.id
            )
        plugin = Plugin(PluginRecord.of(candidate), candidate, given)
        if earlier is not None:
            plugin.record.generation = earlier.record.generation
            plugin.was_policy = earlier.was_policy
            del self._table[candidate.id]  # it stands where it was found last
        self._table[candidate.id] = plugin
        return plugin

    async def load_all(self) -> None:
        """Load everything that was found and not tried yet; see `load`."""
        await self.load([plugin for plugin in self._table.values() if plugin.record.state is PluginState.DISCOVERED])

    async def load(self, plugins: Sequence[Plugin]) -> None:
        """Load plugins: stage all of them, then activate them in the order of `activate`.

        Failures become records. Cancelled: the plugin that was being loaded is
        undone, those that are active stay.
        """
        staged = [plugin for plugin in plugins if await self._stage(plugin)]
        for plugin in self._by_activation(staged):
            await self._start(plugin)
        self._changed()

    async def unload(self, name: str, *, by_operator: bool = True) -> PluginRecord:
        """End a plugin and forget its modules.

        A plugin with a policy that leaves other than by the operator denies what
        it would have decided, until it is back. Cancelled: the plugin ends all
        the same, nobody waits for it.

        Raises:
            PluginError: there is no such plugin, or it is being imported.
        """
        plugin = self.get(name)
        state = plugin.record.state
        if state is PluginState.LOADING:
            raise PluginError(f"{plugin.record.id} is being imported", hint="wait for it", plugin=plugin.record.id)
        plugin.by_operator = by_operator
        if state is PluginState.LOADED:
            plugin.record.fire(PluginMove.UNLOAD)
            self._forget(plugin)
        elif plugin.scope is not None:
            # When it is gone, `_live` has settled the record in the same step.
            await plugin.scope.aclose()
        self._guard(plugin)
        self._changed()
        return plugin.record

    def block(self, candidate: Candidate, reason: str) -> None:
        """Put a candidate into the table that may not load."""
        plugin = self.add(candidate)
        plugin.record.fire(PluginMove.BLOCK)
        plugin.record.error = reason
        self._guard(plugin)

    async def _stage(self, plugin: Plugin) -> bool:
        """Import, check and register one plugin; says whether it is loaded."""
        record = plugin.record
        record.fire(PluginMove.LOAD)
        record.generation += 1
        record.phase, record.error, record.hint = Phase.DISCOVER, None, None
        plugin.by_operator, plugin.refused = False, None
        started = time.perf_counter()
        try:
            section = self._section(plugin)
            record.phase = Phase.IMPORT
            target = await self._import(plugin)
            record.phase = Phase.CHECK
            candidate = plugin.candidate
            owner = Owner(candidate.id, candidate.name, candidate.where, record.generation, section.timeout_cap)
            plugin.staged = self._hooks.check(target, owner)
            record.phase = Phase.REGISTER
            self._register(plugin, plugin.staged, section)
        except PLUGIN_ERRORS as error:
            self._fail(plugin, error, PluginMove.LEAK if isinstance(error, PluginLeaked) else PluginMove.FAIL)
        except BaseException:
            record.fire(PluginMove.STOP)
            self._forget(plugin)
            raise
        else:
            record.fire(PluginMove.LOADED)
        finally:
            record.load_seconds = time.perf_counter() - started
            self._guard(plugin)
        return record.state is PluginState.LOADED

    def _section(self, plugin: Plugin) -> PluginSection:
        candidate = plugin.candidate
        if candidate.problem is not None:
            raise PluginError(candidate.problem, hint=candidate.hint, plugin=candidate.id)
        section = self._settings.plugin(candidate.id, candidate.name)
        plugin.record.required, plugin.record.guard = section.required, section.guard
        return section

    async def _import(self, plugin: Plugin) -> object:
        if plugin.given is not None:
            importing.check_api(plugin.given, plugin.candidate)
            return plugin.given
        plugin.imported = await importing.import_with_timeout(plugin.candidate, self._settings.plugins.import_timeout)
        return plugin.imported.object

    def _register(self, plugin: Plugin, staged: Staged, section: PluginSection) -> None:
        """Validate the settings, then call the `register` hooks and keep what they bring."""
        impl = staged.impl("plugin_settings")
        model = self._hooks.plugin_settings.of(impl) if impl is not None else None
        if model is None:
            refuse_values(section)
        else:
            plugin.settings = validate_plugin(section, model)
        for other in staged.impls:
            if other.spec.kind is Kind.REGISTER and other is not impl:
                registrar = self._registrars.get(other.spec.name)
                arguments = registrar.arguments(plugin.settings) if registrar is not None else ()
                plugin.brought.append((other.spec.name, self._hooks.bring(other, arguments)))

    def _check_requires(self, staged: Staged) -> None:
        usable = {PluginState.LOADED, PluginState.ACTIVE}
        records = [record for record in self.records() if record.state in usable]
        there = {name for record in records for name in (record.id, record.name)}
        for impl in staged.impls:
            missing = [name for name in impl.options.requires if name not in there]
            if missing:
                raise PluginError(
                    f"{impl.plugin} requires {', '.join(missing)} (hook {impl.spec.name}, {impl.where})",
                    hint=f"install {missing[0]}, or see why it is not active: greenroom plugins info {missing[0]}",
                    plugin=impl.plugin,
                )

    def _by_activation(self, plugins: Iterable[Plugin]) -> list[Plugin]:
        """Return the plugins in the order of their `activate`, behind those without one.

        Those only bring something that others use, for instance the store: they come first, so they leave last.
        """
        by_id = {plugin.record.id: plugin for plugin in plugins}
        impls = [impl for plugin in by_id.values() if plugin.staged and (impl := plugin.staged.impl("activate"))]
        try:
            order = [impl.plugin for impl in self._hooks.activate.ordered(impls, ())]
        except PluginError as error:
            # The cycle is one of these plugins'; without it the others have an order.
            culprit = by_id.pop(error.plugin or "")
            culprit.refused = error
            return [*self._by_activation(by_id.values()), culprit]
        active = [by_id.pop(name) for name in order if name in by_id]
        return [*by_id.values(), *active]

    async def _start(self, plugin: Plugin) -> None:
        record, staged = plugin.record, plugin.staged
        if staged is None:
            return  # it was unloaded while others were loaded
        plugin.scope = scope = Scope(
            f"plugin {record.id}",
            self._root.ground,
            parent=self._root,
            plugin=record.id,
            generation=record.generation,
            settings=plugin.settings,
        )
        record.fire(PluginMove.START)
        record.phase = Phase.ACTIVATE
        try:
            await self._root.ground.tasks.start(self._live, plugin, staged, scope, name=scope.label)
        except PLUGIN_ERRORS as error:
            record.error, record.hint = said(error)
            self._report(record, error)
            self._changed()

    async def _live(self, plugin: Plugin, staged: Staged, scope: Scope, *, task_status: TaskStatus[None]) -> None:
        """Be the plugin's task from `activate` until everything of it is undone."""
        record = plugin.record
        try:
            await scope.run(
                lambda _scope: self._activate(plugin, staged, scope),
                lambda: self._ready(plugin, staged, scope),
                lambda cause: self._stopping(plugin, staged, cause),
                task_status=task_status,
            )
        finally:
            # A clean-up that failed makes a draining plugin failed.
            failed = record.state is PluginState.DRAINING and scope.errors
            record.fire(PluginMove.FAIL if failed else PluginMove.DRAINED)
            if failed:
                record.error, record.hint = said(scope.errors[0])
            self._forget(plugin)
            self._guard(plugin)
            self._changed()

    async def _activate(self, plugin: Plugin, staged: Staged, scope: Scope) -> None:
        if plugin.refused is not None:
            raise plugin.refused
        self._check_requires(staged)
        impl = staged.impl("activate")
        if impl is not None:
            await self._hooks.activate.of(impl, scope)
        for late in staged.impls:
            registrar = self._registrars.get(late.spec.name)
            if registrar is not None and late.spec.kind is not Kind.REGISTER:
                value = await self._hooks.bring_late(late, registrar.arguments(plugin.settings))
                plugin.brought.append((late.spec.name, value))

    def _ready(self, plugin: Plugin, staged: Staged, scope: Scope) -> None:
        """Publish everything in one step; what was added before a refusal is undone with the scope."""
        record = plugin.record
        for hook, value in plugin.brought:
            if hook in self._registrars and value is not None:
                self._registrars[hook].add(scope, value)
        for feed in self._hooks.feeds(staged):
            scope.spawn(feed, name=f"observers of {record.id}")
        self._hooks.publish(staged)
        record.fire(PluginMove.READY)
        record.phase = Phase.RUN
        record.effects = scope.effects().count()
        plugin.was_policy = any(impl.spec.kind is Kind.DECIDE for impl in staged.impls)
        self._guard(plugin)

    def _stopping(self, plugin: Plugin, staged: Staged, cause: BaseException | None) -> None:
        record = plugin.record
        if record.state is PluginState.ACTIVE:
            self._hooks.withdraw(staged)
            record.fire(PluginMove.DRAIN if cause is None else PluginMove.CRASH)
            record.phase = Phase.DRAIN if cause is None else record.phase
        else:
            record.fire(PluginMove.STOP if cause is None else PluginMove.FAIL)
        if cause is not None:
            record.error, record.hint = said(cause)
        self._guard(plugin)

    def _fail(self, plugin: Plugin, error: BaseException, move: PluginMove) -> None:
        plugin.record.fire(move)
        plugin.record.error, plugin.record.hint = said(error)
        if isinstance(error, PluginError) and error.phase is not None:
            plugin.record.phase = Phase(error.phase)
        self._report(plugin.record, error)
        self._forget(plugin)

    def _report(self, record: PluginRecord, error: BaseException) -> None:
        """Tell the diagnostics in the plugin's name; it may have failed before it had a scope."""
        diagnostics = self._root.ground.host.diagnostics
        diagnostics.failed("plugin_failed", error, plugin=record.id, generation=record.generation)

    def _forget(self, plugin: Plugin) -> None:
        """Let go of the plugin's objects, so that its modules can be collected."""
        plugin.scope = plugin.settings = plugin.staged = None
        plugin.brought.clear()
        if plugin.imported is not None:
            importing.forget(plugin.imported)
            plugin.imported = None

    def _guard(self, plugin: Plugin) -> None:
        """Deny guarded decisions while a guard is not active (a guard that is absent denies)."""
        record = plugin.record
        self._hooks.engine.guards.pop(record.name, None)  # it stood for a plugin that was not installed
        wanted = record.guard or (plugin.was_policy and not plugin.by_operator)
        if wanted and record.state is not PluginState.ACTIVE:
            self._hooks.engine.guards[record.id] = record.error or str(record.state)
        else:
            self._hooks.engine.guards.pop(record.id, None)


def said(error: BaseException) -> tuple[str, str | None]:
    """Return the text and the hint of an error, for a record."""
    hint = error.hint if isinstance(error, GreenroomError) else None
    text = error.args[0] if isinstance(error, GreenroomError) and error.args else f"{type(error).__name__}: {error}"
    return str(text), hint
