"""Puts the parts together for one host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom.agents import AgentDirectory, HeadlessPolicy, Presence, ProviderCatalogue

from ._attention_watch import AttentionWatch
from ._catalogue import Providers
from ._context import Context
from ._directory import Directory
from ._history import History
from ._permissions import Patience, Policy
from ._settings import ManagerSettings
from .ways import Ways

if TYPE_CHECKING:
    from greenroom import Scope


@dataclass(frozen=True, slots=True)
class Parts:
    """What the plugin's hooks reach of one host."""

    settings: ManagerSettings
    directory: Directory
    attention: AttentionWatch


def compose(scope: Scope) -> Parts:
    """Make the parts of a host, offer them, and start what they do in the background."""
    settings = scope.settings if isinstance(scope.settings, ManagerSettings) else ManagerSettings()
    context = Context(scope)
    catalogue = Providers(context, settings.providers)
    ways = Ways(context, admission=catalogue)
    directory = Directory(context, ways, History(context, ways))
    attention, policy = AttentionWatch(context), Policy(settings.permissions)
    if settings.permissions.wait is not None:
        Patience(context, policy, settings.permissions.wait)
    scope.spawn(context.book.run, name="records")
    scope.spawn(directory.boot, name="reconcile records")
    scope.undo(directory.watch.last_words, label="last words")
    scope.provide(AgentDirectory, directory)
    scope.provide(ProviderCatalogue, catalogue)
    scope.provide(HeadlessPolicy, policy)
    scope.provide(Presence, attention.clients)
    return Parts(settings, directory, attention)
