"""Where a session's events go: held until there is a lease, one batch while atomic, else straight to the lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from greenroom.sessions._event import Event
from greenroom.sessions._store import Extras, RecordWrite, SessionLease


class Outlet:
    """Hands events to the lease in order. `write` is replaced as a whole, so that the usual case is one call.

    Attributes:
        write: takes events and what goes into their transaction; raises what the lease raises, with nothing taken.
    """

    __slots__ = ("_atomic", "_held", "_lease", "_mail", "_records", "write")

    def __init__(self) -> None:
        self._lease: SessionLease | None = None
        self._held: list[Event] = []
        self._records: list[RecordWrite] = []
        self._mail: list[int] = []
        self._atomic = 0
        self.write: Callable[[Sequence[Event], Extras | None], None] = self._hold

    @property
    def lease(self) -> SessionLease | None:
        """The lease, None before there is one."""
        return self._lease

    def connect(self, lease: SessionLease) -> None:
        """Write what was held, and from now on everything, to the lease."""
        self._lease = lease
        if not self._atomic:
            self._settle()

    def begin(self) -> None:
        """Hold what comes, to be written in one transaction; calls nest."""
        self._atomic += 1
        self.write = self._hold

    def end(self) -> None:
        """Write what was held since the outermost `begin`. If the lease refuses, it is tried again before the next."""
        self._atomic -= 1
        if not self._atomic and self._lease is not None:
            self._settle()

    def settle(self) -> None:
        """Try again to write what the lease refused. Raises what it raises."""
        if self._held and not self._atomic and self._lease is not None:
            self._settle()

    def _hold(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        self._held.extend(events)
        if extras is not None:
            self._records.extend(extras.records)
            self._mail.extend(extras.consumed_mail)

    def _settle(self) -> None:
        lease = self._lease
        if lease is None:
            return
        self.write = self._retry
        if self._held or self._records or self._mail:
            extras = Extras(tuple(self._records), tuple(self._mail)) if self._records or self._mail else None
            lease.append(tuple(self._held), extras)
            self._held, self._records, self._mail = [], [], []
        self.write = lease.append

    def _retry(self, events: Sequence[Event], extras: Extras | None = None) -> None:
        self._settle()
        self.write(events, extras)
