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
    from collections.abc import Awaitable

    from pydantic import BaseModel

    from greenroom._scope import Scope

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
