"""Open a stored session: to drive it (with its lease, recovered) or only to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import msgspec

from greenroom.errors import GreenroomError
from greenroom.sessions._errors import UnreadableSession
from greenroom.sessions._event import Event, Header
from greenroom.sessions._ports import Ports, Validator
from greenroom.sessions._recovery import closers
from greenroom.sessions._session import Session
from greenroom.sessions._state import SessionState
from greenroom.sessions._store import PAGE, EndProcess, SessionLease, SessionStore
from greenroom.sessions._vocabulary import Vocabulary
from greenroom.sessions.vocabulary import FOLDED_TYPES, JsonValue

TAIL_ON_RESUME = 256
"""How many of the latest events a resumed session has in memory at once: enough for a screen, read in one page."""


async def resume_session(
    store: SessionStore,
    session_id: str,
    vocabulary: Vocabulary,
    *,
    validators: Callable[[Header], Sequence[Validator]] = lambda header: (),  # noqa: ARG005 - the default is nobody
    owner: str | None = None,
    endpoint: str | None = None,
    end_process: EndProcess | None = None,
    ports: Ports = Ports(),  # noqa: B008 - frozen, so it may be shared
) -> Session:
    """Take the lease, load what folds need, recast after a takeover, close an open turn, and be ready to append.

    Raises what `SessionStore.acquire` and reading raise, and UnreadableSession for a
    type that may not be skipped or a payload that does not fit its type. The lease is
    given back then, as on cancellation.
    """
    lease = await store.acquire(session_id, owner=owner, endpoint=endpoint, end_process=end_process)
    try:
        session = Session(lease.header, vocabulary, ports=ports)
        stored = lease.next_seq
        folded, unfinished = await _load(store, session, stored)
        await _recover(session, store, lease, unfinished)
        judges = tuple(validators(lease.header))
        if judges:
            history = [*folded, *await session.events(stored)]
            for judge in judges:
                judge.replay(history)
            session.validate_with(judges)
        return session
    except BaseException:
        with anyio.CancelScope(shield=True), suppress(GreenroomError):
            await lease.release()
        raise


async def inspect_session(store: SessionStore, session_id: str, vocabulary: Vocabulary) -> Session:
    """The session as it is stored, to read from: nothing is repaired, closed or locked, and appends are refused.

    Raises SessionNotFound, SessionDamaged, UnreadableSession.
    """
    header = await store.header(session_id)
    session = Session(header, vocabulary)
    await _load(store, session, (await store.entry(session_id)).next_seq)
    session.seal()
    return session


async def _load(store: SessionStore, session: Session, next_seq: int) -> tuple[list[Event], Sequence[Event]]:
    """Fold the state; the log's events of folded types, and those of the open turn."""
    vocabulary, session_id = session.vocabulary, session.id
    vocabulary.check_readable(await store.types(session_id), session_id)
    state, folded = SessionState.of(session.header), list[Event]()
    types, page = sorted(FOLDED_TYPES), 10 * PAGE
    while len(folded) % page == 0:
        seq = folded[-1].seq + 1 if folded else 0
        found = await store.read_from(session_id, seq, before=next_seq, types=types, limit=page)
        if not found:
            break
        for event in found:
            state.apply(event, _payload(event, session_id))
        folded.extend(found)
    if state.open_turn is None:
        tail = await store.read_from(session_id, 0, before=next_seq, limit=TAIL_ON_RESUME, newest=True)
    else:
        tail = await store.read_from(session_id, state.turn_start, before=next_seq, limit=None)
        for event in tail:
            data = _payload(event, session_id)
            if event.type not in FOLDED_TYPES:
                state.apply(event, data)
    session.restore(state, next_seq, tail, store)
    return folded, tail if state.open_turn is not None else ()


def _payload(event: Event, session_id: str) -> JsonValue:
    """What the event holds. Its bytes are those that were written; another version may have written something else."""
    try:
        return event.data
    except msgspec.DecodeError as error:
        raise UnreadableSession(
            f"event {event.seq} of session {session_id} is no {event.type} as this greenroom knows it: {error}",
            session_id=session_id,
        ) from error


async def _recover(session: Session, store: SessionStore, lease: SessionLease, unfinished: Sequence[Event]) -> None:
    """Name a new epoch if rows may have been lost, then close the open turn; one transaction, made durable."""
    ending = closers(unfinished, session.state)
    session.connect(store, lease)
    with session.atomic():
        if lease.taken_over or lease.torn:
            session.recast("repair")
        for closer in ending:
            session.append(
                closer.type, closer.data, surface=closer.surface, sources=closer.sources, time=unfinished[-1].time
            )
    await session.flush()
