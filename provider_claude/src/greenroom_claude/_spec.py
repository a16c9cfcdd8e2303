"""What the host is told of the provider before anything of it is used."""

from __future__ import annotations

from greenroom.providers import Capability, Launch, Provider, ProviderSpec

from ._settings import ClaudeSettings
from ._translate import Translator

CAPABILITIES = frozenset(Capability) - {Capability.FEATURES, Capability.ARCHIVE, Capability.DELETE}
"""Modes, models and levels are all there is to choose; what lies in Claude Code's own folder is the user's."""


def spec(settings: ClaudeSettings) -> ProviderSpec:
    """The provider `claude`; the process shell is imported when it is loaded."""

    def load(launch: Launch | None = None) -> Provider:
        from ._provider import ClaudeProvider

        return ClaudeProvider(settings, launch=launch)

    return ProviderSpec(
        id="claude",
        label="Claude Code",
        steps="provider",
        load=load,
        translator=Translator,
        capabilities=CAPABILITIES,
        launched=load,
    )
