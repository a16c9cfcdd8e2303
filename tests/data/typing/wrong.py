"""What a type checker must refuse; each such line says so. Never run, and never checked but by its test."""

from __future__ import annotations

from greenroom import Host, Scope, hookspecs, implements


@implements(hookspecs.activate)  # wrong: the argument has another name
async def other_name(scop: Scope) -> None: ...


@implements(hookspecs.activate)  # wrong: the argument has another type
async def other_type(scope: int) -> None: ...


@implements(hookspecs.activate)  # wrong: an argument too many
async def too_many(scope: Scope, more: int) -> None: ...


@implements(hookspecs.activate)  # wrong: an argument too few
async def too_few() -> None: ...


@implements(hookspecs.plugin_settings)  # wrong: the result has another type
def other_result() -> int:
    return 3


@implements(hookspecs.session_event, befor=["x"])  # wrong: no such option
def unknown_option(session: object, event: object) -> None: ...


async def call(host: Host, scope: Scope) -> None:
    await host.hooks.activate(3)  # wrong: the argument has another type
    await host.hooks.activate()  # wrong: an argument too few
    host.hooks.session_disposed(3)  # wrong: the argument has another type
    settings: int = host.hooks.plugin_settings.of(host)  # wrong: not an implementation, and another result
    host.hooks.activte(scope)  # wrong: no such hook
