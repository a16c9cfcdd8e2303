"""Errors of sessions and stores: those that somebody would catch separately."""

from __future__ import annotations

from collections.abc import Sequence

from greenroom.errors import GreenroomError


class SessionError(GreenroomError):
    """Base of the errors about one session.

    Attributes:
        session_id: the session it is about, or None.
    """

    def __init__(
        self, message: str, *, session_id: str | None = None, hint: str | None = None, plugin: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, plugin=plugin)
        self.session_id = session_id


class EventRefused(SessionError):
    """Raised by `append` when an event is malformed, too large or not allowed where it stands; nothing was written."""


class SessionExists(SessionError):
    """Raised when a session is created under an id that is taken."""


class NoSessionId(SessionError, ValueError):
    """Raised for a text that cannot be a session's id. A ValueError too: an id is checked where values are."""


class SessionNotFound(SessionError):
    """Raised when no session has the id."""


class SessionNotLive(SessionError):
    """Raised when a session is used that is not, or no longer, entered in the registry."""


class SessionOwned(SessionError):
    """Raised when another live process owns the session. The message says who and since when."""


class SessionFenced(SessionError):
    """Raised to an owner whose lease was taken from it; what it had not flushed is lost to the log."""


class SessionDamaged(SessionError):
    """Raised when stored bytes do not match their checksums or their place.

    Attributes:
        seq: the first damaged event, or None when it is the header or the file.
    """

    def __init__(
        self, message: str, *, session_id: str | None = None, seq: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, session_id=session_id, hint=hint)
        self.seq = seq


class UnreadableSession(SessionError):
    """Raised when a session was written by a newer greenroom or needs a plugin that is missing."""


class ProcessNotEnded(SessionError):
    """Raised when a dead owner's provider process would not end; names its pid."""


class HistoryNotLoaded(SessionError):
    """Raised when messages are asked for that are not in memory: await `session.load_history()` first."""


class ForkRefused(SessionError):
    """Raised when a session cannot be forked at the boundary that was asked for.

    Attributes:
        code: `invalid_boundary` or `open_turn`.
    """

    def __init__(self, message: str, *, code: str, session_id: str | None = None) -> None:
        super().__init__(message, session_id=session_id)
        self.code = code


class RecordConflict(GreenroomError):
    """Raised when a keyed record has another revision than the writer expected.

    Attributes:
        revision: the revision that stands in the store, 0 when there is none.
    """

    def __init__(self, message: str, *, revision: int) -> None:
        super().__init__(message)
        self.revision = revision


class StoreStalled(GreenroomError):
    """Raised by a barrier when the store cannot write: disk full, file gone, busy for too long."""


class InvariantViolation(GreenroomError):
    """Raised when a check refuses an event.

    Attributes:
        check: the name of the check.
        plugin, distribution: who owns the check.
        event_owner: the plugin that owns the event's type, or None for the host's own.
    """

    def __init__(
        self, message: str, *, check: str, plugin: str, distribution: str | None = None, event_owner: str | None = None
    ) -> None:
        super().__init__(message, plugin=plugin)
        self.check = check
        self.distribution = distribution
        self.event_owner = event_owner


class InvariantsViolated(EventRefused, ExceptionGroup[InvariantViolation]):
    """Raised by `append` with every violation that the event would have caused."""

    def __init__(self, message: str, violations: Sequence[InvariantViolation]) -> None:
        super().__init__(message, plugin=violations[0].plugin)


def busy(type_name: str, session_id: str) -> EventRefused:
    """An append in the middle of another: observers may not append to the session they observe."""
    return EventRefused(
        f"{type_name}: session {session_id} is in the middle of an append; observers may not append to it",
        session_id=session_id,
    )


def closed(type_name: str, session_id: str) -> SessionNotLive:
    """An append after the end."""
    return SessionNotLive(f"{type_name}: session {session_id} is closed", session_id=session_id)


def unregistered(type_name: str, session_id: str, owner: str | None) -> EventRefused:
    """An append of a type that nobody registered."""
    return EventRefused(
        f"{type_name} is not a registered event type",
        session_id=session_id,
        plugin=owner,
        hint="register it with the hook event_types()" if owner else None,
    )


def not_loaded(session: str) -> HistoryNotLoaded:
    """The messages are asked for and their events are not in memory."""
    text = f"the messages of session {session} are not in memory"
    return HistoryNotLoaded(text, session_id=session, hint="await session.load_history() first")
