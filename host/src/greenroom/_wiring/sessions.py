"""Ties sessions to a host: the store of the slot, the types and checks of plugins, the hooks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenroom._feed import Call
from greenroom._loading import Registrar
from greenroom.errors import PluginError
from greenroom.sessions import (
    EndReason,
    Event,
    EventType,
    Invariant,
    Invariants,
    InvariantSettings,
    MemoryStore,
    Ports,
    Session,
    SessionHooks,
    SessionRegistry,
    SessionStore,
    TriggerKind,
    Vocabulary,
)

if TYPE_CHECKING:
    from greenroom._diagnostics import Diagnostics
    from greenroom._hooks import Hooks
    from greenroom._scope import Scope
    from greenroom._settings.settings import Settings

PAGE: Final = 1_000
"""Events that a lagged observer reads at a time."""


class SessionWiring:
    """What a host keeps for its sessions while plugins come and go.

    Attributes:
        vocabulary: the host's own types and those of the plugins.
        checks: the invariants of the plugins.
        store: what the slot holds, or memory.
    """

    def __init__(
        self,
        hooks: Hooks,
        settings: Settings,
        diagnostics: Diagnostics,
        data_directory: Path | None,
        clock: Callable[[], float],
    ) -> None:
        self.vocabulary: Final = Vocabulary()
        self.checks: Final = Invariants(InvariantSettings(**settings.invariants))
        self.store: SessionStore = MemoryStore()
        self._store_owner: str | None = None
        self._hooks = hooks
        self._diagnostics = diagnostics
        self._clock = clock
        self.registrars: Final = {
            "event_types": Registrar(self._add_types),
            "invariants": Registrar(self._add_checks),
            "session_store": Registrar(self._take_store, lambda given: (given, data_directory)),
        }

    @property
    def durable(self) -> bool:
        """Whether a plugin brought a store, so that sessions outlive the process."""
        return self._store_owner is not None

    def registry(self, root: Scope, endpoint: Callable[[], str | None]) -> SessionRegistry:
        """Return the registry of the host, once its plugins are loaded."""
        self._hooks.session_event.source = _Log()
        return SessionRegistry(
            self.store,
            self.vocabulary,
            invariants=self.checks,
            hooks=SessionHooks(
                created=lambda session, _subject: self._hooks.session_created(session),
                disposed=lambda session, _subject: self._hooks.session_disposed(session),
                event=self._event,
            ),
            ports=Ports(clock=lambda: int(self._clock() * 1_000), report=self._report),
            owner=f"greenroom {os.getpid()}",
            endpoint=endpoint,
            subject=root,
        )

    def _event(self, session: Session, event: Event, _subject: object) -> None:
        if self._hooks.session_event.wanted:
            self._hooks.session_event(session, event)

    def _add_types(self, scope: Scope, items: Iterable[EventType | TriggerKind | EndReason]) -> None:
        for item in items:
            scope.undo(self.vocabulary.add(item, _owner(scope)), label=f"event type {item.name}")

    def _add_checks(self, scope: Scope, checks: Iterable[Invariant]) -> None:
        plugin = _owner(scope)
        distribution = plugin.partition(":")[0]
        known = None if distribution == "local" else distribution
        undo = self.checks.register(plugin, tuple(checks), distribution=known)
        scope.undo(undo, label="invariants")

    def _take_store(self, scope: Scope, store: SessionStore) -> None:
        if self._store_owner is not None:
            raise PluginError(
                f"the host takes one session store, found {self._store_owner} and {scope.plugin}",
                hint='deny one of them: [plugins] deny = ["..."]',
                plugin=scope.plugin,
            )

        async def leave() -> None:
            self._store_owner, self.store = None, MemoryStore()
            await store.aclose()

        # A full disk may make the last flush slow; the store bounds it itself.
        scope.undo(leave, label=f"session store {store.name}", grace=None)
        self._store_owner, self.store = scope.plugin, store

    def _report(self, error: Exception, what: str) -> None:
        self._diagnostics.record("session_observer_failed", f"{what}: {type(error).__name__}: {error}")


class _Log:
    """Where a lagged `session_event` observer reads again what it missed."""

    def place(self, call: Call) -> tuple[str, int]:
        session, event = call
        assert isinstance(session, Session)  # noqa: S101  # by the specification of the hook
        assert isinstance(event, Event)  # noqa: S101  # the same
        return session.id, event.seq

    async def read(self, call: Call, number: int) -> Sequence[Call]:
        session = call[0]
        assert isinstance(session, Session)  # noqa: S101  # by the specification of the hook
        return [(session, event) for event in await session.events(number, number + PAGE)]


def _owner(scope: Scope) -> str:
    return scope.plugin or "host"
