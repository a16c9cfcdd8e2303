"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from greenroom import Scope, hookimpl
from greenroom.sessions import Invariant

from ._checks import session_log


class Settings(BaseModel):
    """The table `[plugins.session-invariants]`.

    `enclosure`: "declared" follows the vocabulary; "strict" wants an open turn for everything.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enclosure: Literal["declared", "strict"] = "declared"


class SessionInvariants:
    """One generation of the plugin."""

    def __init__(self) -> None:
        self._settings = Settings()

    @hookimpl
    def plugin_settings(self) -> type[BaseModel]:
        """Name the model of the settings."""
        return Settings

    @hookimpl
    def activate(self, scope: Scope) -> None:
        """Keep the settings."""
        if isinstance(scope.settings, Settings):
            self._settings = scope.settings

    @hookimpl
    def invariants(self) -> Sequence[Invariant]:
        """Bring the checks of the log."""
        return [session_log(enclosure=self._settings.enclosure)]


plugin = SessionInvariants()
