"""The kinds of hooks that are awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import anyio

from greenroom._callers import Caller, Owned
from greenroom._decision import Block, Decision, Verdict
from greenroom._engine import failure
from greenroom._foreign import error_text
from greenroom._kinds import OnFailure
from greenroom.errors import HookError

if TYPE_CHECKING:
    from greenroom._engine import Engine, Result
    from greenroom._impl import Impl
    from greenroom._kinds import Spec

P = ParamSpec("P")
R = TypeVar("R")


class InOrder(Caller[P, R]):
    """Kinds `setup`, `gate` and `collect`: awaited in order.

    Of a collect, a part that fails is missing; of the others, the first failure ends it.
    """

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[Owned[R]]:
        """Await every implementation in order.

        Returns:
            What each returned, without the Nones.

        Raises:
            HookError: one raised or timed out; later ones are not called.
        """
        arguments = self._bound(args, kwargs)
        parts = []
        for impl in self._audience(arguments):
            value = await self._one(impl, arguments)
            if value is not None:
                parts.append(Owned(impl.plugin, impl.generation, value))
        return parts

    async def of(self, impl: Impl, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await one implementation, published or not.

        Raises:
            HookError: it raised or timed out.
        """
        result: R = await self._one(impl, self._bound(args, kwargs))
        return result

    async def _one(self, impl: Impl, arguments: tuple[object, ...]) -> Any:  # noqa: ANN401  # the hook's own result
        value, error = await self._engine.attempt(impl, arguments)
        if error is not None and self.spec.on_failure is not OnFailure.MISSING:
            raise failure(impl, error)
        return value


class First(Caller[P, R]):
    """Kind `first`: in order, until one answers."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return the first answer that is not None; one that raises or times out is skipped."""
        arguments = self._bound(args, kwargs)
        for impl in self._audience(arguments):
            value, _error = await self._engine.attempt(impl, arguments)
            if value is not None:
                answer: R = value
                return answer
        return None


class Decide(Caller[P, R]):
    """Kind `decide`: all run concurrently, the strictest opinion wins.

    Whatever is not an opinion counts as deny: a raise, a time-out, a value of
    another type. The answer does not depend on who finishes first.
    """

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Decision | None:
        """Return the decision with the plugin that made it, or None if nobody has an opinion.

        Cancelled: no decision was made; the caller must treat it as none given.
        """
        if self.spec.guarded and self._engine.guards:
            plugin, why = min(self._engine.guards.items())
            return Decision(Verdict.DENY, f"the guard {plugin} is not active: {why}", by=plugin)
        arguments = self._bound(args, kwargs)
        audience = self._audience(arguments)
        opinions: list[Decision | None] = [None] * len(audience)

        async def wait(place: int, impl: Impl, rest: Awaitable[Result]) -> None:
            opinions[place] = _opinion(impl, await rest)

        waiting = []
        for place, impl in enumerate(audience):
            begun = self._engine.begin(impl, arguments)
            if isinstance(begun, tuple):
                opinions[place] = _opinion(impl, begun)
            else:
                waiting.append((place, impl, begun))
        if len(waiting) == 1:
            await wait(*waiting[0])
        elif waiting:
            async with anyio.create_task_group() as tasks:
                for one in waiting:
                    tasks.start_soon(wait, *one)
        given = [opinion for opinion in opinions if opinion is not None]
        # max keeps the first of equals, so ties go by order.
        return max(given, key=lambda opinion: opinion.verdict, default=None)


def _opinion(impl: Impl, result: Result) -> Decision | None:
    value, error = result
    if error is not None:
        text = f"{impl.plugin} failed to decide: {error_text(error)}"
        return Decision(Verdict.DENY, text, by=impl.plugin)
    if value is None:
        return None
    if isinstance(value, Decision) and isinstance(value.verdict, Verdict):
        return Decision(value.verdict, value.reason, value.answer, impl.plugin)
    return Decision(Verdict.DENY, f"{impl.plugin} answered {type(value).__name__}, not a Decision", by=impl.plugin)


class Rewrite(Caller[P, R]):
    """Kind `rewrite`: a chain in which each sees what the earlier ones made."""

    def __init__(self, spec: Spec, engine: Engine) -> None:
        super().__init__(spec, engine)
        if spec.value is None:
            raise ValueError(f"hook {spec.name}: a rewrite says which argument it rewrites, value=")
        self._value_at = spec.arguments.index(spec.value)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R | Block:
        """Return the rewritten value, or the refusal that ended the chain.

        Raises:
            HookError: one raised or timed out; the caller must not use any value.
        """
        arguments = list(self._bound(args, kwargs))
        for impl in self._audience(tuple(arguments)):
            value, error = await self._engine.attempt(impl, tuple(arguments))
            if error is not None:
                raise failure(impl, error)
            if isinstance(value, Block):
                return replace(value, by=impl.plugin)
            if value is not None:
                arguments[self._value_at] = value
        rewritten: R = arguments[self._value_at]  # type: ignore[assignment]  # the spec declares it as the hook's result
        return rewritten


class Wrap(Caller[P, R], Generic[P, R]):
    """Kind `wrap`: each implementation is handed the rest as `call_next`, its last argument."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the outermost implementation.

        Raises:
            HookError: an implementation raised; the caller makes an error result of it.
            Exception: what the innermost body raised, unchanged.
        """
        arguments = self._bound(args, kwargs)
        body: Callable[[], Awaitable[R]] = arguments[-1]  # type: ignore[assignment]  # call_next, by the spec
        passed: list[BaseException] = []

        async def innermost() -> R:
            try:
                return await body()
            except BaseException as error:
                passed.append(error)
                raise

        call: Callable[[], Awaitable[R]] = innermost
        for impl in reversed(self._audience(arguments)):
            call = self._around(impl, arguments[:-1], call, passed)
        return await call()

    def _around(
        self,
        impl: Impl,
        arguments: tuple[object, ...],
        call_next: Callable[[], Awaitable[R]],
        passed: list[BaseException],
    ) -> Callable[[], Awaitable[R]]:
        async def around() -> R:
            value, error = await self._engine.attempt(impl, (*arguments, call_next), passed)
            if error is None:
                result: R = value
                return result
            if any(error is earlier for earlier in passed):
                raise error
            raised = error if isinstance(error, HookError) else failure(impl, error)
            passed.append(raised)
            raise raised

        return around
