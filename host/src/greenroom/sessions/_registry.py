"""The sessions that are live in this process: prepared unseen, entered, announced, detached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from greenroom.sessions._errors import SessionExists, SessionNotLive
from greenroom.sessions._event import Event, Header, check_id
from greenroom.sessions._fork import fork_seed
from greenroom.sessions._invariants import Invariants, SessionChecks
from greenroom.sessions._loading import resume_session
from greenroom.sessions._moving import move_session
from greenroom.sessions._ports import Ports, Validator
from greenroom.sessions._session import Session
from greenroom.sessions._store import EndProcess, SessionLease, SessionStore
from greenroom.sessions._vocabulary import Vocabulary
from greenroom.sessions.vocabulary import FOLDED_TYPES

Subject: TypeAlias = object
"""Whose session it is, opaque here; what hears of the session is told it too."""


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """Who hears of sessions. `created` may raise (a veto); the others' errors are reported and change nothing."""

    created: Callable[[Session, Subject], None] = lambda session, subject: None  # noqa: ARG005 - nobody listens
    disposed: Callable[[Session, Subject], None] = lambda session, subject: None  # noqa: ARG005 - nobody listens
    event: Callable[[Session, Event, Subject], None] | None = None


@dataclass(eq=False, slots=True)
class Prepared:
    """A session that nobody sees yet. Enter it or discard it."""

    session: Session
    lease: SessionLease
    source: Literal["startup", "resume"]
    registry: SessionRegistry
    used: bool = False

    async def discard(self) -> None:
        """Give up: the lease, and with a new session its id, are free again. Idempotent; nothing after `enter`."""
        if not self.used:
            self.used = True
            self.session.seal()
            await self.lease.release()


class Entered:
    """A session in the registry, and the right to take it out."""

    def __init__(self, registry: SessionRegistry, prepared: Prepared, subject: Subject) -> None:
        self._registry, self._subject = registry, subject
        self.session: Session = prepared.session
        self.lease: SessionLease = prepared.lease
        self._phase: Literal["entered", "announcing", "announced", "detached"] = "entered"
        self._told = self._leaving = False

    def announce(self) -> None:
        """Tell everybody, once. Raises what vetoed it, or SessionNotLive if it was detached meanwhile.

        Then the session is out of the registry again, and its farewell was said.
        """
        if self._phase != "entered":
            raise SessionNotLive(f"session {self.session.id} is {self._phase} already", session_id=self.session.id)
        self._phase, self._told = "announcing", True
        try:
            self._registry.hooks.created(self.session, self._subject)
        except BaseException:
            self._phase = "announced"
            self.detach()
            raise
        self._phase = "announced"
        if self._leaving:
            self.detach()
            raise SessionNotLive(f"session {self.session.id} left while it was announced", session_id=self.session.id)

    def detach(self) -> None:
        """Take the session out: no append any more, and a farewell if it was announced.

        Waits for the announcement, append or one-shot turn that is going on. Idempotent.
        The lease stays; `close` also flushes and releases.
        """
        if self._phase == "announcing":
            self._leaving = True
        elif self._phase != "detached":
            self.session.defer(self._detach)

    def _detach(self) -> None:
        if self._phase == "detached":
            return
        self._phase = "detached"
        self.session.seal()
        self._registry.remove(self)
        if self._told:
            try:
                self._registry.hooks.disposed(self.session, self._subject)
            except Exception as error:  # noqa: BLE001 - the session is gone, whoever hears of it
                self._registry.ports.report(error, f"the farewell of session {self.session.id}")

    async def close(self) -> None:
        """Flush, detach, release the lease. Raises what the store raises; the lease is kept then."""
        if self._phase != "detached":
            await self.session.flush()
        self.detach()
        await self.lease.release()


class SessionRegistry:
    """The live sessions of one host, by id."""

    def __init__(
        self,
        store: SessionStore,
        vocabulary: Vocabulary,
        *,
        invariants: Invariants | None = None,
        hooks: SessionHooks = SessionHooks(),
        ports: Ports = Ports(),  # noqa: B008 - frozen, so it may be shared
        owner: str | None = None,
        endpoint: Callable[[], str | None] = lambda: None,
        subject: Subject = None,
    ) -> None:
        self.subject = subject
        self.store: SessionStore = store
        self.vocabulary: Vocabulary = vocabulary
        self.hooks: SessionHooks = hooks
        self.ports: Ports = ports
        self._invariants = invariants if invariants is not None else Invariants()
        self._owner = owner
        self._endpoint = endpoint
        self._live: dict[str, Entered] = {}

    def get(self, session_id: str) -> Session | None:
        """The live session of that id."""
        entered = self._live.get(session_id)
        return entered.session if entered is not None else None

    def list(self) -> Sequence[Session]:
        """All live sessions, in the order in which they entered."""
        return [entered.session for entered in self._live.values()]

    def new_header(self, session_id: str | None = None, **fields: object) -> Header:
        """A header of now, with a fresh epoch, and a fresh id unless one is given. Raises ValueError."""
        made = {"id": session_id or self.ports.new_id(), "epoch": self.ports.new_id(), "created_at": self.ports.clock()}
        try:
            return msgspec.convert({**made, **fields}, Header)
        except msgspec.ValidationError as error:
            raise ValueError(f"no session header: {error}") from error

    async def prepare(self, header: Header, *, seed: Sequence[Event] | None = None) -> Prepared:
        """Make a new session that nobody sees, and reserve its id in the store.

        Raises SessionExists, SessionError for a bad seed. Cancelled or failed: nothing is reserved.
        """
        self._require_free(header.id)
        session = Session(header, self.vocabulary, seed=seed, validators=self._validators(header), ports=self.ports)
        lease = await self.store.create(header, owner=self._owner, endpoint=self._endpoint())
        return Prepared(session, lease, "startup", self)

    async def prepare_resume(self, session_id: str, *, end_process: EndProcess | None = None) -> Prepared:
        """Load a stored session that nobody sees, recovered and with its lease. Raises what `resume_session` raises."""
        self._require_free(session_id)
        session = await resume_session(
            self.store,
            session_id,
            self.vocabulary,
            validators=self._validators,
            owner=self._owner,
            endpoint=self._endpoint(),
            end_process=end_process,
            ports=self.ports,
        )
        lease = session.lease
        if lease is None:
            raise SessionNotLive(f"session {session_id} came without a lease", session_id=session_id)
        return Prepared(session, lease, "resume", self)

    def _require_free(self, session_id: str) -> None:
        if session_id in self._live:
            raise SessionExists(f"session {session_id} is live here", session_id=session_id)

    def _validators(self, header: Header) -> Sequence[Validator]:
        return (self._invariants.validator(header, self.vocabulary),)

    def enter(self, prepared: Prepared, subject: Subject = None) -> Entered:
        """Make the session visible, and write what a new one holds. The only arbiter between two of one id.

        `subject` is captured here and handed to whoever hears of the session, also of its end.
        Raises SessionExists, SessionNotLive for one that was entered, discarded or prepared elsewhere.
        """
        session = prepared.session
        if prepared.used or prepared.registry is not self:
            raise SessionNotLive(f"session {session.id} is not prepared here", session_id=session.id)
        self._require_free(session.id)
        session.connect(self.store, prepared.lease)
        prepared.used = True
        session.scope = subject = subject if subject is not None else self.subject
        entered = self._live[session.id] = Entered(self, prepared, subject)
        tell = self.hooks.event
        if tell is not None:
            session.observe(lambda event: tell(session, event, subject))
        return entered

    async def create(self, header: Header, *, seed: Sequence[Event] | None = None, subject: Subject = None) -> Entered:
        """Prepare, enter and announce in one go. Raises what they raise, with nothing left."""
        prepared = await self.prepare(header, seed=seed)
        entered = self.enter(prepared, subject)
        try:
            entered.announce()
        except BaseException:
            await prepared.lease.release()
            raise
        return entered

    async def fork(
        self,
        source: Session | str,
        boundary: int | None = None,
        *,
        child_id: str | None = None,
        **fields: object,
    ) -> Prepared:
        """Prepare a child that begins with the parent's events up to `boundary` (None: all).

        The child has the parent's directory and provider unless `fields` say otherwise; it
        does not inherit the inbox. Raises SessionExists for the child's id before anything
        else, SessionNotLive for an object that is not the live one, and what `fork_seed` raises.
        """
        if child_id is not None:
            check_id(child_id)
            self._require_free(child_id)
        if isinstance(source, Session) and self.get(source.id) is not source:
            raise SessionNotLive(f"that is not the live session {source.id}", session_id=source.id)
        parent = source.header if isinstance(source, Session) else await self.store.header(source)
        empty = isinstance(source, Session) and len(source) == 0 and boundary is None
        seed = () if empty else await fork_seed(self.store, parent.id, boundary)
        inherited = {"cwd": parent.cwd, "provider": parent.provider}
        lineage = {"parent_session": parent.id, "seed_length": len(seed), "origin": "fork"}
        return await self.prepare(self.new_header(child_id, **{**inherited, **fields, **lineage}), seed=seed)

    async def move_to(self, store: SessionStore) -> None:
        """Go on with another store object on the same place: its plugin was reloaded.

        Every live session is flushed to the old store and taken over by the new one by
        comparing tails; an open turn stays open. The caller closes the old store. Raises a
        group of what failed; the sessions that could not be moved are detached.
        """
        failed: list[Exception] = []
        self.store = store
        for entered in list(self._live.values()):
            try:
                entered.lease = await move_session(
                    entered.session, entered.lease, store, owner=self._owner, endpoint=self._endpoint()
                )
            except Exception as error:  # noqa: BLE001 - every session gets its turn; all failures are raised together
                failed.append(error)
                entered.detach()
        if failed:
            raise ExceptionGroup(f"{len(failed)} sessions could not be moved to {store.name}", failed)

    async def revalidate(self) -> None:
        """Give checks that were registered meanwhile their traces in every live session."""
        for session in self.list():
            for checks in session.validators:
                if isinstance(checks, SessionChecks) and checks.stale:
                    await _replay(session, checks)

    def remove(self, entered: Entered) -> None:
        """Forget a session that was detached."""
        if self._live.get(entered.session.id) is entered:
            del self._live[entered.session.id]


async def _replay(session: Session, checks: SessionChecks) -> None:
    while True:
        length = len(session)
        events = list(await session.events(0, types=sorted(FOLDED_TYPES)))
        state = session.state
        if state.open_turn is not None:
            earlier = [event for event in events if event.seq < state.turn_start]
            events = [*earlier, *await session.events(state.turn_start)]
        if length == len(session):  # else: it went on while the store was read
            checks.replay(events)
            return
