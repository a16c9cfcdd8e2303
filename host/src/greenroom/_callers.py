"""The kinds of hooks that are called synchronously, and what all callers share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from greenroom._engine import Engine, failure
from greenroom._feed import Feed, Source
from greenroom._foreign import plugins_own
from greenroom._order import in_order, reasons
from greenroom.errors import HookError

if TYPE_CHECKING:
    from greenroom._impl import Impl
    from greenroom._kinds import Spec
    from greenroom._scope import Scope

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Owned(Generic[R]):
    """A result with the plugin that it comes from."""

    plugin: str
    generation: int
    value: R


class Caller(Generic[P, R]):
    """One hook of one host; calling it calls its implementations.

    Attributes:
        wanted: whether anybody implements it. Guard hot calls with it.
        impls: the implementations in order. A call works on the tuple it finds,
            so loading during a call takes effect with the next.
    """

    def __init__(self, spec: Spec, engine: Engine) -> None:
        self.spec = spec
        self.wanted: bool = False
        self.impls: tuple[Impl, ...] = ()
        self._engine = engine
        self._scoped = False
        self._configured: Sequence[str] = ()
        self._subject_at = spec.arguments.index(spec.subject) if spec.subject is not None else None

    def configure(self, order: Sequence[str]) -> None:
        """Set the order of the settings: ids or short names, the first goes first."""
        self._configured = order
        self.show(self.ordered((), ()))

    def ordered(self, added: Iterable[Impl], removed: Iterable[Impl]) -> tuple[Impl, ...]:
        """Return in which order this hook's implementations would be called; changes nothing.

        Args:
            added, removed: implementations of any hook.

        Raises:
            PluginError: the order is a cycle.
        """
        gone = set(map(id, removed))
        new = (impl for impl in added if impl.spec is self.spec)
        return in_order([*(impl for impl in self.impls if id(impl) not in gone), *new], self._configured)

    def show(self, impls: tuple[Impl, ...]) -> None:
        """Let these answer from the next call on, in one step."""
        self.impls = impls
        self.wanted = bool(impls)
        self._scoped = any(impl.scope is not None for impl in impls)

    def explain(self) -> list[tuple[Impl, tuple[str, ...]]]:
        """Return the implementations in order, each with why it stands there."""
        return [(impl, reasons(impl, self._configured)) for impl in self.impls]

    def _bound(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Return the arguments by position; a wrong call must not look like a plugin's error."""
        if kwargs:
            rest = self.spec.arguments[len(args) :]
            if kwargs.keys() == set(rest):
                return (*args, *(kwargs[name] for name in rest))
        elif len(args) == len(self.spec.arguments):
            return args
        given = ", ".join([*("..." for _ in args), *(f"{name}=..." for name in kwargs)])
        raise TypeError(f"{self.spec.name}({', '.join(self.spec.arguments)}) was called as {self.spec.name}({given})")

    def _audience(self, arguments: tuple[object, ...]) -> tuple[Impl, ...]:
        """Return who hears this call: host-level implementations, and those of the subject's scope chain."""
        if self._subject_at is None:
            return self.impls
        scope: Scope | None = getattr(arguments[self._subject_at], "scope", None)
        if scope is None:
            raise HookError(
                f"hook {self.spec.name} was called with a {self.spec.subject!r} that carries no scope",
                hook=self.spec.name,
            )
        if not self._scoped:
            return self.impls
        chain = set(scope.chain())
        return tuple(impl for impl in self.impls if impl.scope is None or impl.scope in chain)


class Register(Caller[P, R]):
    """Kinds `register` and `slot`: called for the one plugin that is being loaded."""

    def of(self, impl: Impl, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what one implementation brings.

        Raises:
            HookError: it raised; the plugin fails to load.
        """
        value, error = self._engine.attempt_now(impl, self._bound(args, kwargs))
        if error is not None:
            raise failure(impl, error)
        result: R = value
        return result


class Announce(Caller[P, R]):
    """Kind `announce`: all run at the publication point, then a raise of any vetoes."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every implementation.

        Raises:
            ExceptionGroup: of the HookErrors of those that raised.
        """
        if not self.wanted:
            return
        arguments = self._bound(args, kwargs)
        results = [(impl, self._engine.attempt_now(impl, arguments)) for impl in self._audience(arguments)]
        vetoes = [failure(impl, error) for impl, (_value, error) in results if error is not None]
        if vetoes:
            raise ExceptionGroup(f"{self.spec.name} was vetoed", vetoes)


class FirstNow(Caller[P, R]):
    """Kind `first` of a `def only` hook: in order, until one answers."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return the first answer that is not None; one that raises is skipped."""
        if not self.wanted:
            return None
        arguments = self._bound(args, kwargs)
        for impl in self._audience(arguments):
            value, _error = self._engine.attempt_now(impl, arguments)
            if value is not None:
                answer: R = value
                return answer
        return None


class Observe(Caller[P, R]):
    """Kind `observe`: all run; nothing that they do reaches the caller.

    `async def` implementations stand behind a bounded queue each, which a task
    of their plugin's scope drains.

    Attributes:
        source: reads again what a lagged queue dropped, or None where the calls
            stand in no log.
    """

    def __init__(self, spec: Spec, engine: Engine) -> None:
        super().__init__(spec, engine)
        self.source: Source | None = None

    def feed(self) -> Feed:
        """Return a queue for an implementation that the caller cannot wait for."""
        return Feed(self._engine, lambda: self.source)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every implementation; errors are recorded, nothing else."""
        if not self.wanted:
            return
        arguments = self._bound(args, kwargs)
        impls = self.impls if self._subject_at is None else self._audience(arguments)
        engine = self._engine
        record = engine.trace.append
        watchdog = engine.watchdog
        outer = watchdog.mark
        # The loop of attempt_now by hand: this is the hottest call of the host.
        try:
            for impl in impls:
                if impl.feed is not None:
                    impl.feed.put(arguments)
                    continue
                since = perf_counter_ns()
                watchdog.mark = (impl, since)
                value = error = None
                try:
                    value = impl.call(*(arguments if impl.context_at is None else impl.bind(arguments)))
                except BaseException as raised:  # noqa: BLE001  # `plugins_own` raises what is not the plugin's
                    error = plugins_own(raised)
                if value is None and error is None:
                    record((impl.named, perf_counter_ns() - since, None, None))
                else:
                    engine.settled(impl, since, value, error)
        finally:
            watchdog.mark = outer
