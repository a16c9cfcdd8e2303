"""From a plugin object to its implementations: found, checked, and called by nobody yet."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from greenroom import _callers as instant
from greenroom import _signatures as signatures
from greenroom import hookspecs
from greenroom._impl import OPTIONS_ATTRIBUTE, Impl, Options, picker
from greenroom._kinds import TIMEOUT_CAP, Colour, Kind, Spec
from greenroom.errors import PluginError

if TYPE_CHECKING:
    from greenroom._scope import Scope

T = TypeVar("T")

Callers = Mapping[str, instant.Caller[Any, Any]]

_OF_ONE_PLUGIN: Final = frozenset({Kind.REGISTER, Kind.SETUP})
"""Kinds that are called for the plugin they belong to, so it does not matter who else hears."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose implementations are being checked; what error texts name.

    Attributes:
        distribution: name and version, or the file of a plugin without one.
    """

    plugin: str
    short: str
    distribution: str
    generation: int = 1
    timeout_cap: float = TIMEOUT_CAP


@dataclass(frozen=True, slots=True, eq=False)  # eq=False: what is published is this one, not one like it
class Staged:
    """A plugin object whose implementations were checked; nothing calls them before `Hooks.publish`."""

    owner: Owner
    plugin: object
    impls: tuple[Impl, ...]

    def impl(self, hook: str) -> Impl | None:
        """Return the plugin's implementation of a hook."""
        return next((impl for impl in self.impls if impl.spec.name == hook), None)


def stage(plugin: object, owner: Owner, callers: Callers, scope: Scope | None = None) -> Staged:
    """Check every implementation of a plugin object.

    Args:
        callers: every hook of the host.
        scope: the agent's scope through which it is added, None for the host.

    Raises:
        PluginError: with the plugin, its distribution and the line.
    """
    if inspect.isclass(plugin):
        raise _error(owner, signatures.where(plugin), "a class where an instance is meant", f"use {plugin.__name__}()")
    impls = [impl for name in dir(plugin) if (impl := _impl(plugin, name, owner, callers, scope)) is not None]
    if not impls:
        raise PluginError(
            f"{owner.plugin} ({owner.distribution}) implements no hook",
            hint="mark its functions with @greenroom.hookimpl",
            plugin=owner.plugin,
        )
    return Staged(owner, plugin, tuple(impls))


def _impl(plugin: object, name: str, owner: Owner, callers: Callers, scope: Scope | None) -> Impl | None:
    options = _mark(plugin, name, OPTIONS_ATTRIBUTE, Options)
    if options is None and _mark(plugin, name, f"{hookspecs.PROJECT}_impl", dict) is None:
        return None
    function = getattr(plugin, name)
    place = signatures.where(function)
    if options is None:
        raise _error(owner, place, "marked with pluggy's own marker", "use @greenroom.hookimpl")
    hook = options.hook or name

    def fail(text: str, hint: str) -> PluginError:
        return _error(owner, place, f"implementation of {hook!r}: {text}", hint)

    if options.optional and hook not in callers:
        return None
    signatures.check_known(hook, callers, fail)
    caller = callers[hook]
    spec = caller.spec
    if scope is not None and spec.subject is None and spec.kind not in _OF_ONE_PLUGIN:
        raise fail("the hook is about the whole host, this is added to one agent", "implement it in a plugin")
    coroutine = signatures.is_async(function)
    signatures.check_options(options, spec, coroutine=coroutine, fail=fail)
    signatures.check_colour(spec, coroutine=coroutine, function=function, fail=fail)
    named = signatures.named_arguments(spec, function, fail)
    awaited = coroutine or options.thread
    return Impl(
        spec=spec,
        plugin=owner.plugin,
        short=owner.short,
        generation=owner.generation,
        function=function,
        call=picker(function, named, spec.arguments),
        is_async=coroutine,
        timeout=_timeout(spec, options, owner),
        options=options,
        where=place,
        scope=scope,
        context_at=spec.arguments.index("ctx") if "ctx" in named else None,
        feed=caller.feed() if awaited and isinstance(caller, instant.Observe) else None,
    )


def _mark(plugin: object, name: str, attribute: str, kind: type[T]) -> T | None:
    """Return what a marker left on a member; runs no property and believes no mock."""
    member = inspect.getattr_static(plugin, name, None)
    inner = member.__func__ if isinstance(member, staticmethod | classmethod | MethodType) else None
    for holder in (member, inner):
        found = inspect.getattr_static(holder, attribute, None)
        if isinstance(found, kind):
            return found
    return None


def _timeout(spec: Spec, options: Options, owner: Owner) -> float | None:
    """Return the seconds that apply to what is awaited: asked for up to the cap, else the hook's."""
    if options.interactive or spec.colour is Colour.DEF_ONLY:
        return None
    if options.timeout is None:
        return spec.timeout
    return min(options.timeout, max(owner.timeout_cap, spec.timeout or 0.0))


def _error(owner: Owner, place: str, text: str, hint: str) -> PluginError:
    return PluginError(f"{owner.plugin} ({owner.distribution}), {place}: {text}", hint=hint, plugin=owner.plugin)
