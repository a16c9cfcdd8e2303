"""Carry a live session over to another store object on the same place (the store's plugin was reloaded)."""

from __future__ import annotations

from greenroom.sessions._errors import SessionDamaged, SessionNotFound
from greenroom.sessions._session import Session
from greenroom.sessions._store import ProviderProcess, SessionLease, SessionStore


async def move_session(
    session: Session, old: SessionLease, store: SessionStore, *, owner: str | None = None, endpoint: str | None = None
) -> SessionLease:
    """Give the old lease back, take the new store's, and write there what is missing.

    What is appended meanwhile waits and goes to the new store. An open turn stays open:
    its driver is alive. Raises what the two leases raise, and SessionDamaged if the new
    store holds anything else than the beginning of this session; nothing is written then.
    """
    with session.atomic():
        length = len(session)
        process = await _process(session.id, store)
        await old.release()
        if length:
            lease = await store.acquire(session.id, owner=owner, endpoint=endpoint)
        else:
            lease = await store.create(session.header, owner=owner, endpoint=endpoint)
        try:
            if process is not None:  # it goes on, and a killed host must not leave it behind
                await lease.set_process(process)
            await _write_missing(session, store, lease, length)
        except BaseException:
            await lease.release()
            raise
        session.connect(store, lease)
    return lease


async def _process(session_id: str, store: SessionStore) -> ProviderProcess | None:
    try:
        return (await store.entry(session_id)).process
    except SessionNotFound:  # nothing of it was written yet
        return None


async def _write_missing(session: Session, store: SessionStore, lease: SessionLease, length: int) -> None:
    stored = lease.next_seq
    mine = [event for event in session.tail if event.seq < length]
    kept = await store.read_from(session.id, stored - 1, limit=1) if stored else []
    if stored > length or any(event not in mine for event in kept if mine and event.seq >= mine[0].seq):
        raise SessionDamaged(
            f"{store.name} holds another session {session.id} than the live one", session_id=session.id, seq=stored - 1
        )
    missing = [event for event in mine if event.seq >= stored]
    if len(missing) != length - stored:
        raise SessionDamaged(
            f"{store.name} lacks events of session {session.id} that are no longer in memory",
            session_id=session.id,
            seq=stored,
        )
    lease.append(missing)
