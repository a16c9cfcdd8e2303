"""Errors of agents: those that somebody would catch separately."""

from __future__ import annotations

from greenroom.errors import GreenroomError


class AgentError(GreenroomError):
    """Base of the errors about agents."""


class NoFactory(AgentError):
    """Raised when an agent is created or resumed while no plugin drives agents."""


class AgentBusy(AgentError):
    """Raised when foreground work is asked for while a run is active, input waits, or maintenance goes on."""


class AgentClosed(AgentError):
    """Raised when an agent is driven before it is published or after its disposal has begun."""


class AgentNotFound(AgentError):
    """Raised when no agent is known by that id; the hint names those that are close."""


class AgentExists(AgentError):
    """Raised when what was to be imported or restored is an agent already; names it."""


class AgentArchived(AgentError):
    """Raised when work is asked of an archived agent; it has to be restored first."""


class HostGone(AgentError):
    """Raised when the connection to the host in another process broke: it has ended, or nothing listens there."""


class CreationAborted(AgentError):
    """Raised when a creation or resume was given up; nothing is left of it. The reason is the `__cause__`."""


class CancelRefused(AgentError):
    """Raised when a turn had to end for something else (replace, reopen, revert) and the provider did not end it."""


class TurnFailed(AgentError):
    """Raised by `run` when its turn ended with an error; the text is the provider's.

    Attributes:
        code: what kind of failure, for programs.
        diagnostic: more text for a person, or None.
    """

    def __init__(self, message: str, *, code: str | None = None, diagnostic: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.diagnostic = diagnostic


class DisposeFailed(AgentError):
    """Raised when an agent could not be closed: a process would not end. It keeps its session's lease."""
