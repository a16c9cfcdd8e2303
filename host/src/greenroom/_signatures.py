"""Checks of an implementation against its spec, at load.

pluggy lets several mistakes pass until the call, or for ever: unknown hook
names, keyword-only parameters that are never filled, defaults that are never
used, a class where an instance is meant, a coroutine function that nobody
awaits. Here each is an error that names the plugin, its distribution and the line.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from typing import TYPE_CHECKING, Any

from greenroom._impl import REPLACED
from greenroom._kinds import Colour
from greenroom.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from greenroom._impl import Options
    from greenroom._kinds import Spec


def where(function: Callable[..., Any]) -> str:
    """Return `file:line` of a function or class, or its name where it has no source."""
    plain = innermost(function)
    code = getattr(plain, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        return f"{inspect.getsourcefile(plain)}:{inspect.getsourcelines(plain)[1]}"
    except (OSError, TypeError):
        return getattr(plain, "__qualname__", type(plain).__qualname__)


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling `function` makes a coroutine; sees through what `innermost` sees through."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(innermost(function))


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the author's function inside partials, bound methods, decorators and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isfunction(function) and hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        elif inspect.isroutine(function) or inspect.isclass(function):
            return function
        else:
            function = type(function).__call__


def check_known(name: str, known: Iterable[str], fail: Callable[[str, str], PluginError]) -> None:
    """Refuse a hook that the host does not have, with the nearest name."""
    known = sorted(known)
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the hooks are: {', '.join(known)}"
    raise fail(f"there is no hook {name!r}", hint)


def check_options(options: Options, spec: Spec, *, coroutine: bool, fail: Callable[[str, str], PluginError]) -> None:
    """Refuse options that have another name here, or that contradict the hook."""
    if options.refused:
        word = options.refused[0]
        raise fail(f"hookimpl does not take {word!r}", f"say {REPLACED[word]} instead")
    if options.thread and coroutine:
        raise fail("thread=True is for a blocking def, this is async def", "remove thread=True")
    if options.thread and spec.colour is Colour.DEF_ONLY:
        raise fail(
            f"hook {spec.name!r} is called synchronously, so thread=True cannot apply", "do slow work in scope.spawn"
        )
    seconds = options.timeout
    if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):  # type: ignore[redundant-expr]  # authors need no type checker
        raise fail(f"timeout={seconds!r} is not a positive number of seconds", "leave it out for the default")


def check_colour(
    spec: Spec, *, coroutine: bool, function: Callable[..., Any], fail: Callable[[str, str], PluginError]
) -> None:
    """Refuse `async def` where the hook is called synchronously, and the other way round."""
    inner = innermost(function)
    if inspect.isasyncgenfunction(inner) or inspect.isgeneratorfunction(inner):
        raise fail(
            "a generator function cannot implement a hook", "return the value; to wrap, implement a hook of kind wrap"
        )
    if coroutine and spec.colour is Colour.DEF_ONLY:
        raise fail(f"hook {spec.name!r} is def only, this is async def", "make it def; start work with scope.spawn")
    if not coroutine and spec.colour is Colour.ASYNC_ONLY:
        raise fail(f"hook {spec.name!r} is async def only, this is def", "make it async def")


def named_arguments(
    spec: Spec, function: Callable[..., Any], fail: Callable[[str, str], PluginError]
) -> tuple[str, ...]:
    """Return the arguments that the function names.

    Raises:
        PluginError: one is unknown to the spec, keyword-only, defaulted or variadic.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise fail("its signature cannot be read", "wrap it in a plain def") from error
    # What a partial has filled by name is no argument any more, though it is still in the signature.
    filled = function.keywords if isinstance(function, functools.partial) else {}
    asked = [parameter for parameter in parameters if parameter.name not in filled]
    for parameter in asked:
        _check_parameter(parameter, spec, fail)
    return tuple(parameter.name for parameter in asked)


def _check_parameter(parameter: inspect.Parameter, spec: Spec, fail: Callable[[str, str], PluginError]) -> None:
    name = parameter.name
    takes = f"{spec.name}({', '.join(spec.arguments)})"
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        raise fail(f"it takes *{name}", f"name the arguments it needs of {takes}")
    if parameter.kind is parameter.KEYWORD_ONLY:
        raise fail(f"its argument {name!r} is keyword-only and would never be filled", f"write it without *; {takes}")
    if name not in spec.arguments:
        near = difflib.get_close_matches(name, spec.arguments, n=1)
        hint = (
            f"did you mean {near[0]!r}? {takes}"
            if near
            else f"the hook is {takes}; a method needs self and an instance"
        )
        raise fail(f"it has no argument {name!r} in its specification", hint)
    if parameter.default is not parameter.empty:
        raise fail(f"its argument {name!r} has a default, which would never be used", f"remove the default; {takes}")
