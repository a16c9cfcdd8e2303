"""Implementations that a type checker compares with their specification, and typed calls; never run."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

from greenroom import Host, Scope, hookspecs, implements
from greenroom._impl import Impl
from greenroom.sessions import Event, Session


class Settings(BaseModel):
    """Settings of a plugin."""

    folder: str = "audit"


@implements(hookspecs.activate)
async def begin(scope: Scope) -> None:
    """Be an async implementation."""


@implements(hookspecs.activate, before=["other"], timeout=3)
def begin_at_once(scope: Scope) -> None:
    """Be a plain implementation, with options."""


@implements(hookspecs.plugin_settings)
def settings() -> type[Settings]:
    """Return a narrower type than the specification."""
    return Settings


@implements(hookspecs.session_event)
def write_down(session: Session, event: Event) -> None:
    """Keep the types of the arguments."""


async def call(host: Host, scope: Scope, session: Session, event: Event, impl: Impl) -> None:
    """Call hooks like the host does."""
    host.hooks.session_event(session, event)
    assert_type(host.hooks.session_event.wanted, bool)
    assert_type(host.hooks.plugin_settings.of(impl), type[BaseModel] | None)
    parts = await host.hooks.invariants()
    for part in parts:
        assert_type(part.plugin, str)
