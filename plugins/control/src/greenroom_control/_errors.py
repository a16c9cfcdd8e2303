"""The codes of the errors on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from greenroom.agents import (
    AgentArchived,
    AgentBusy,
    AgentClosed,
    AgentError,
    AgentExists,
    AgentNotFound,
    CancelRefused,
    CreationAborted,
    DisposeFailed,
    HostGone,
    InboxError,
    NoFactory,
)
from greenroom.errors import GreenroomError
from greenroom.providers import ProviderError
from greenroom.sessions import (
    EventRefused,
    ProcessNotEnded,
    SessionDamaged,
    SessionError,
    SessionExists,
    SessionFenced,
    SessionNotFound,
    SessionOwned,
    StoreStalled,
    UnreadableSession,
)

from ._wire import Refusal

CLASSES: Final[Mapping[str, type[GreenroomError]]] = {
    "agent_archived": AgentArchived,
    "agent_busy": AgentBusy,
    "agent_closed": AgentClosed,
    "agent_exists": AgentExists,
    "agent_not_found": AgentNotFound,
    "cancel_refused": CancelRefused,
    "creation_aborted": CreationAborted,
    "dispose_failed": DisposeFailed,
    "no_factory": NoFactory,
    "inbox": InboxError,
    "agent": AgentError,
    "event_refused": EventRefused,
    "process_not_ended": ProcessNotEnded,
    "session_damaged": SessionDamaged,
    "session_exists": SessionExists,
    "session_fenced": SessionFenced,
    "session_not_found": SessionNotFound,
    "session_owned": SessionOwned,
    "session_unreadable": UnreadableSession,
    "session": SessionError,
    "store_stalled": StoreStalled,
    "provider": ProviderError,
}
"""Code -> the error that a client raises for it, the special ones before their bases."""

OWN: Final[Mapping[str, str]] = {
    "malformed": "the line is no request; `id` is null",
    "line_too_long": "the line had more bytes than a host takes, and was skipped; `id` is null",
    "hello_first": "the first request of a connection is `hello`",
    "protocol": "the host does not speak the version that was asked for; the connection is closed",
    "unknown_method": "there is no such method",
    "invalid_params": "the parameters are not those of the method, or a value is none of the possible ones",
    "id_in_use": "an earlier request of the connection with this id is not over",
    "too_many": "more requests are open on the connection than a host keeps",
    "not_served": "a private host only serves the sessions that it owns",
    "missing_plugin": "the host has no plugin for this; the hint says which one to install",
    "refused": "any other refusal",
    "internal": "a mistake of greenroom or of a plugin; the host's diagnostics hold it",
}
"""The other codes, and what they mean."""


class Refused(GreenroomError):
    """Raised where a request ends with one of the codes of `OWN`."""

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


def refusal(error: Exception) -> Refusal:
    """What the client is told of an error."""
    if isinstance(error, Refused):
        return Refusal(error.code, str(error.args[0]), error.hint)
    if isinstance(error, GreenroomError):
        code = next((code for code, kind in CLASSES.items() if isinstance(error, kind)), "refused")
        return Refusal(code, str(error.args[0]) if error.args else type(error).__name__, error.hint)
    if isinstance(error, (ValueError, msgspec.ValidationError)):
        return Refusal("invalid_params", str(error))
    return Refusal("internal", f"{type(error).__name__}: {error}", "greenroom doctor --errors")


def raised(refused: Refusal) -> GreenroomError:
    """The error that a client raises."""
    kind = CLASSES.get(refused.code, GreenroomError)
    return kind(refused.message, hint=refused.hint)


def gone(why: str) -> HostGone:
    """The error of a connection that broke."""
    return HostGone(f"the other host went away: {why}", hint="what it had accepted is in the session's log")
