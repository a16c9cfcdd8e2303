"""Every error that greenroom raises on purpose: one base, few children.

An error says what happened, where, whose it is and what to do. The parts are
attributes, so that `--json` and logs need not parse a sentence.
"""

from __future__ import annotations

from typing import Final

PLUGIN_ERRORS: Final = (Exception, SystemExit)
"""What foreign code may raise without ending the host: every error, and `sys.exit`.

Cancellation and KeyboardInterrupt are never among them.
"""


class GreenroomError(Exception):
    """Base of every error of greenroom.

    Attributes:
        hint: what to do about it, one sentence, or None.
        plugin: the id of the plugin that is at fault, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None, plugin: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.plugin = plugin

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  hint: {self.hint}" if self.hint else message


class PluginError(GreenroomError):
    """Raised when a plugin cannot be found, imported, checked, activated or unloaded.

    Attributes:
        phase: the part of the work in which it arose (`import`, `check`, ...), or None.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, plugin: str | None = None, phase: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, plugin=plugin)
        self.phase = phase


class PluginLeaked(PluginError):
    """Raised when the import of a plugin did not return in time: its thread cannot be ended before the process."""


class HookError(GreenroomError):
    """Raised when an implementation of a hook failed and the hook's kind lets the failure through.

    The plugin's own exception is the `__cause__`.
    """

    def __init__(
        self,
        message: str,
        *,
        hook: str,
        plugin: str | None = None,
        generation: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, plugin=plugin)
        self.hook = hook
        self.generation = generation


class SettingsError(GreenroomError):
    """Raised when a settings file or a value in it is unusable; names file, table and key."""


class TrustError(GreenroomError):
    """Raised when code of a project would run whose content the user has not trusted."""


class IllegalMove(GreenroomError):
    """Raised when a lifecycle is asked for a move that its table does not list."""


class ScopeClosed(GreenroomError):
    """Raised when something is added to a scope that has begun to stop."""


class NameTaken(GreenroomError):
    """Raised when a name is registered twice in one layer; names both owners."""
