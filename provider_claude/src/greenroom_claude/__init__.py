"""Claude Code as a provider of greenroom."""

from __future__ import annotations

from pydantic import BaseModel

from greenroom import hookimpl
from greenroom.providers import ProviderSpec

from ._settings import ClaudeSettings
from ._spec import spec
from ._translate import Translator

__all__ = ["ClaudeSettings", "Translator"]
greenroom_api = "1"


@hookimpl
def plugin_settings() -> type[BaseModel]:
    """What `[plugins.claude]` may hold."""
    return ClaudeSettings


@hookimpl
def providers(settings: BaseModel | None) -> list[ProviderSpec]:
    """The provider `claude`."""
    return [spec(settings if isinstance(settings, ClaudeSettings) else ClaudeSettings())]
