"""Scopes: one task, its background tasks and one list of undos behind everything added.

A scope belongs to a plugin or to an agent. All tasks live in the host's task
group, never in their parent's, because plugins and agents leave in any order and
task groups must nest; and a scope can leave a task behind that ignores its
cancellation. A parent closes its children through its own undo list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, TypeVar, TypeVarTuple

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus

from greenroom._context import INITIATOR
from greenroom._effect import Effect, EffectTree, Ground, Undo
from greenroom._foreign import note, only, plugins_own
from greenroom._lifecycle import SCOPE, Machine, ScopeMove, ScopeState
from greenroom._tasks import Tasks
from greenroom.errors import PLUGIN_ERRORS, GreenroomError, ScopeClosed

if TYPE_CHECKING:
    from pydantic import BaseModel

    from greenroom._host import Host
    from greenroom.agents import ScopedAgents

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GRACE: Final = 5.0
"""Seconds that one clean-up may take before it is abandoned and named; an operator who stops a host waits for it."""

TASKS_GRACE: Final = 3
"""How many times that long the cancelled tasks may take: one may be shielded while a process is stopped in 10 s."""


class Scope:
    """Everything one plugin or agent added to the host, and how to undo it.

    Attributes:
        label: for people, for instance "plugin acme:audit" or "agent 3f2a".
        plugin: the id of the plugin it belongs to, None for the host's own.
        generation: of that plugin.
        settings: the validated table of the plugin, None without a model.
        ground: the host's task group, diagnostics and services.
        crash: the error of a background task that ended the scope.
        errors: what clean-ups raised, and tasks that were cancelled, in order; filled while it drains.
    """

    def __init__(
        self,
        label: str,
        ground: Ground,
        *,
        parent: Scope | None = None,
        plugin: str | None = None,
        generation: int = 0,
        settings: BaseModel | None = None,
        grace: float = GRACE,
    ) -> None:
        """Make a scope that can be added to at once; `run` gives it its task.

        Raises:
            ScopeClosed: the parent has begun to stop.
        """
        self.label: Final = label
        self.plugin: Final = plugin
        self.generation: Final = generation
        self._parent: Final = parent
        self.settings: Final = settings
        self.crash: BaseException | None = None
        self.errors: list[BaseException] = []
        self.ground: Final = ground
        self._grace: Final = grace
        self._machine: Final = Machine(SCOPE, ScopeState.NEW)
        self._effects: Final[dict[Effect, None]] = {}
        self._tasks: Final = Tasks(ground.tasks, self._task_failed)
        self._body: anyio.CancelScope | None = None
        self._gone: Final = anyio.Event()
        self._setting_up = False
        self._in_parent: Final = (
            parent.undo(self.aclose, label=label, child=self, grace=None) if parent is not None else None
        )

    @property
    def parent(self) -> Scope | None:
        """The next one in the chain, fixed at creation: so the chain cannot have a cycle."""
        return self._parent

    @property
    def state(self) -> ScopeState:
        """Where the scope stands."""
        return self._machine.state

    @property
    def host(self) -> Host:
        """The host; its sessions and agents are there once all plugins are loaded, not yet in `activate`."""
        return self.ground.host

    @property
    def stopping(self) -> bool:
        """Whether additions are refused."""
        return self._machine.state in {ScopeState.STOPPING, ScopeState.GONE}

    @property
    def left_behind(self) -> tuple[str, ...]:
        """The names of the tasks that go on although the scope has ended."""
        return self._tasks.running if self._machine.state is ScopeState.GONE else ()

    def chain(self) -> Iterator[Scope]:
        """Iterate from this scope to the root."""
        at: Scope | None = self
        while at is not None:
            yield at
            at = at.parent

    def undo(
        self, callback: Undo, *, label: str | None = None, child: Scope | None = None, grace: float | None = -1.0
    ) -> Effect:
        """Run `callback` when the scope ends, before everything that was added earlier.

        Args:
            callback: sync or async; async ones are shielded and bounded.
            label: for `host.effects()`; the callback's name by default.
            child: the scope that the callback closes, shown below the label.
            grace: seconds it may take; the scope's own by default, None where it
                is bounded in itself.

        Returns:
            The effect, which can be undone early.

        Raises:
            ScopeClosed: the scope has begun to stop.
        """
        name = label if label is not None else getattr(callback, "__qualname__", type(callback).__name__)
        effect = Effect(name, callback, self, child=child, grace=self._grace if grace == -1.0 else grace)
        self._hold(effect)
        return effect

    async def enter(self, manager: AbstractAsyncContextManager[T], *, label: str | None = None) -> T:
        """Enter a context manager and leave it when the scope ends.

        It must not hold a task group or a cancel scope: those must nest, and
        scopes end in any order. It may be left in another task than it was
        entered in. Cancelled while entering: it was not entered.

        Raises:
            ScopeClosed: the scope has begun to stop; the manager is not entered, or left at once.
        """
        self._refuse_when_stopping(label or "enter")
        value = await manager.__aenter__()
        try:
            self.undo(lambda: manager.__aexit__(None, None, None), label=label or type(manager).__qualname__)
        except ScopeClosed:
            with anyio.move_on_after(self._grace, shield=True):
                await manager.__aexit__(None, None, None)
            raise
        return value

    def spawn(self, task: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: str | None = None) -> None:
        """Run background work in the scope's task group; it is cancelled when the scope ends.

        It starts without an initiator. If it raises, the scope is drained and
        the plugin is listed as failed with the error.

        Raises:
            ScopeClosed: the scope has begun to stop.
        """
        label = name or str(getattr(task, "__qualname__", type(task).__name__))
        self._refuse_when_stopping(label)
        self._tasks.add(label, lambda: task(*args))

    def child(self, label: str) -> Scope:
        """Make a scope below this one, for instance an agent's; `open` gives it its task.

        Raises:
            ScopeClosed: the scope has begun to stop.
        """
        return Scope(label, self.ground, parent=self, plugin=self.plugin, generation=self.generation, grace=self._grace)

    @property
    def agents(self) -> ScopedAgents:
        """The way to make agents that end with this scope; those of an agent's scope are its children."""
        return self.ground.host.agents.owned_by(self)

    def provide(self, protocol: type[T], service: T) -> Effect:
        """Offer `service` to other plugins, who find it with `host.service(protocol)`.

        Raises:
            NameTaken: another plugin offers it; names both.
            ScopeClosed: the scope has begun to stop.
        """
        return self.ground.provide(self, protocol, service)

    async def open(self, setup: Callable[[Scope], Awaitable[None]] | None = None) -> None:
        """Start the scope's task in the host's task group; returns when `setup` is done.

        Cancelled: what `setup` added is undone before the cancellation goes on.

        Raises:
            Exception: what `setup` raised, after its additions were undone.
        """
        await self.ground.tasks.start(self.run, setup, name=self.label)

    async def run(
        self,
        setup: Callable[[Scope], Awaitable[None]] | None = None,
        ready: Callable[[], None] = lambda: None,
        stopping: Callable[[BaseException | None], None] = lambda _cause: None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Live in the calling task until `aclose` or a crash; cancellation ends the set-up only.

        Args:
            setup: adds things; runs in this task.
            ready: called once `setup` is done, in the same step.
            stopping: called when no more can be added, before anything is
                undone; with the error of the set-up or of a crashed task, or None.

        Raises:
            Exception: what `setup` or `ready` raised. A crash of a background
                task is not raised: it stands in `crash` and was reported.
        """
        self._refuse_when_stopping("its task")
        INITIATOR.set(None)
        self._machine.fire(ScopeMove.RUN)
        failure: BaseException | None = None
        try:
            with anyio.CancelScope() as self._body:
                self._tasks.begin()
                try:
                    await self._set_up(setup)
                    ready()
                except PLUGIN_ERRORS as error:
                    failure = error  # raised again below, once everything is undone
                else:
                    task_status.started()
                    # Who was cancelled before it heard of the start now takes the task back and
                    # waits for its end, which the shield below would keep away for ever.
                    await anyio.lowlevel.checkpoint()
                    # From here only `aclose` ends it, as it is with the tasks.
                    self._body.shield = True
                    await anyio.sleep_forever()
                finally:
                    self._begin_to_stop()
        except ExceptionGroup as group:
            # What is left of the error of the set-up when the cancellation beside it was taken out.
            self._task_failed("task", group)
        finally:
            try:
                stopping(failure or self.crash)
            finally:
                await self._drain()
        if self._setting_up and failure is None:
            failure = self._interrupted()
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """End the scope: cancel its tasks, then undo everything in reverse.

        Any number of callers share one run. A caller that is cancelled stops
        waiting; the clean-up goes on in the scope's own task. Errors of
        clean-ups, and tasks that ignore their cancellation and are left behind,
        are reported and kept in `errors`, never raised.
        """
        has_task = self._machine.state is not ScopeState.NEW
        self._begin_to_stop()
        if not has_task:
            await self._drain()
        await self._gone.wait()

    def effects(self) -> EffectTree:
        """Return what the scope holds, in the order of addition."""
        held = (effect.child.effects() if effect.child else EffectTree(effect.label) for effect in self._effects)
        return EffectTree(self.label, tuple(held))

    async def _set_up(self, setup: Callable[[Scope], Awaitable[None]] | None) -> None:
        self._setting_up = True
        if setup is not None:
            await setup(self)
            # One that swallowed its cancellation is not ready all the same.
            await anyio.lowlevel.checkpoint_if_cancelled()
        self._setting_up = False

    def _interrupted(self) -> GreenroomError:
        """Return why the set-up did not come to its end."""
        if self.crash is None:
            return ScopeClosed(f"{self.label} was closed while it was being set up", plugin=self.plugin)
        error = GreenroomError(f"{self.label}: a background task failed during set-up: {self.crash}")
        error.__cause__ = self.crash
        return error

    def _begin_to_stop(self) -> None:
        """Refuse additions from now on and cancel the tasks; the scope's own task does the rest."""
        if not self.stopping:
            self._machine.fire(ScopeMove.STOP)
            if self._body is not None:
                self._body.cancel()
            self._tasks.cancel()

    async def _end_tasks(self) -> None:
        """Wait for the cancelled tasks; one that does not end is named, and the scope ends without it."""
        bound = self._grace * TASKS_GRACE
        for label in await self._tasks.ended(bound):
            self.ground.left[self] = None
            text = f"background task {label!r} of {self.label} ignores its cancellation for {bound:g} s, and goes on"
            self._clean_up_failed(TimeoutError(text))

    def _task_failed(self, label: str, error: BaseException) -> None:
        """End the scope with the error of a task; one that comes while it ends belongs to the clean-up."""
        if isinstance(error, SystemExit):
            # asyncio would end the whole host; a plugin may only end itself.
            error, exited = GreenroomError(f"background task {label!r} called sys.exit", plugin=self.plugin), error
            error.__cause__ = exited
        error = only(error)
        note(error, f"in background task {label!r} of {self.label}")
        if self.stopping:
            self._clean_up_failed(error)
        else:
            self.crash = error
            self._begin_to_stop()
            self.ground.report("task_crashed", error, self)

    def _clean_up_failed(self, error: BaseException) -> None:
        self.errors.append(error)
        self.ground.report("cleanup_failed", error, self)

    async def _drain(self) -> None:
        """Undo everything, the last first; one that fails or hangs does not stop the others."""
        interrupted: BaseException | None = None
        try:
            await self._end_tasks()
        except BaseException as error:  # noqa: BLE001  # as below
            interrupted = error
        while self._effects:
            effect, _ = self._effects.popitem()
            try:
                await self._undo_one(effect)
            except BaseException as error:  # noqa: BLE001  # goes on below: nothing may keep the others from being undone
                interrupted = error
        self._machine.fire(ScopeMove.DRAINED)
        if self._in_parent is not None:
            self._in_parent.forget()
        self._gone.set()
        if interrupted is not None:
            raise interrupted

    async def _undo_one(self, effect: Effect) -> None:
        bound = effect.grace if effect.grace is not None else float("inf")
        bounded = anyio.CancelScope(deadline=anyio.current_time() + bound, shield=True)
        # `try` is outside: leaving the scope may take the cancellation out of a group and raise the rest.
        try:
            with bounded:
                await effect.aclose()
        except BaseException as raised:  # noqa: BLE001  # `plugins_own` raises what is not the plugin's
            error = plugins_own(raised)
            note(error, f"while undoing {effect.label!r} of {self.label}")
            self._clean_up_failed(error)
        if bounded.cancelled_caught:
            text = f"clean-up {effect.label!r} of {self.label} did not end within {bound:g} s and was abandoned"
            self._clean_up_failed(TimeoutError(text))

    def _hold(self, effect: Effect) -> None:
        self._refuse_when_stopping(effect.label)
        self._effects[effect] = None

    def _release(self, effect: Effect) -> None:
        self._effects.pop(effect, None)

    def _refuse_when_stopping(self, label: str) -> None:
        if self.stopping:
            raise ScopeClosed(
                f"{label!r} cannot be added: {self.label} is {self._machine.state}",
                hint="work that outlives its plugin or agent must be ended, not added to",
                plugin=self.plugin,
            )

    def __repr__(self) -> str:
        return f"<Scope {self.label} {self._machine.state}>"
