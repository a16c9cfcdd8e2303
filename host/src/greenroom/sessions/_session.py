"""A session: an immutable header and an append-only log, with everything that is folded from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from greenroom.sessions._enclosed import append_enclosed
from greenroom.sessions._encoding import Entry
from greenroom.sessions._errors import SessionNotLive, busy, closed, not_loaded, unregistered
from greenroom.sessions._event import Event, Header, Replace, Surface
from greenroom.sessions._history import History
from greenroom.sessions._messages import ModelMessage
from greenroom.sessions._outlet import Outlet
from greenroom.sessions._ports import Observer, Ports, Validator
from greenroom.sessions._seed import adopt_seed
from greenroom.sessions._state import FOLDS, SessionState
from greenroom.sessions._store import Barrier, Extras, SessionLease, SessionStore
from greenroom.sessions._surface import SurfaceFold, SurfaceView, require_marker, require_sources
from greenroom.sessions._vocabulary import Undo, Vocabulary
from greenroom.sessions.vocabulary import Blob, JsonValue, SeedEnd, SessionRecast, event_key

TAIL_EVENTS: Final = 1024
"""Events kept in memory per session; older ones are read from the store (a page there costs about 0.1 ms)."""
TAIL_BYTES: Final = 4 * 1024 * 1024
"""Bytes kept in memory per session, so that large events do not make the tail large."""
_LARGE: Final = TAIL_BYTES // TAIL_EVENTS


class Session:
    """The log of one session, and what it says.

    A new session holds its events until `connect` gives it a lease. `seed` (also an
    empty one) makes a log that begins with these events and a seed-end marker.

    Raises SessionError naming the index of a seed event that is refused.
    """

    def __init__(
        self,
        header: Header,
        vocabulary: Vocabulary,
        *,
        seed: Sequence[Event] | None = None,
        validators: Sequence[Validator] = (),
        ports: Ports = Ports(),  # noqa: B008 - frozen, so it may be shared
    ) -> None:
        self.header: Final = header
        self.scope: object = None  # whose session it is; the registry says so when it enters
        self.vocabulary: Final = vocabulary
        self._state = SessionState.of(header)
        self._entries = vocabulary.entries
        self.validate_with(validators)
        self._clock, self._new_id, self._report = ports.clock, ports.new_id, ports.report
        self._next = 0
        self._tail: deque[Event] = deque()
        self._snapshot: tuple[Event, ...] = ()
        self._store: SessionStore | None = None
        self._outlet = Outlet()
        self._fold = SurfaceFold()
        self._history = History()
        self._observers: tuple[Observer, ...] = ()
        self._busy = self._sealed = self.enclosing = False
        self._holds = 0
        self._after: list[Callable[[], None]] = []
        self.surface: Final = SurfaceView(self._fold)
        if seed is not None:
            self._plant(seed)

    def _plant(self, seed: Sequence[Event]) -> None:
        events = adopt_seed(seed, self.vocabulary, self._state, self._fold)
        self._tail.extend(events)
        self._next = len(events)
        self._outlet.write(events, None)
        for validator in self._validators:
            validator.replay(events)
        if not events or events[-1].type != "session/seed-end":
            self.append("session/seed-end", SeedEnd())

    @property
    def id(self) -> str:
        """The session's id, and its agent's."""
        return self.header.id

    @property
    def state(self) -> SessionState:
        """What is folded from the log."""
        return self._state

    @property
    def epoch(self) -> str:
        """The name of the current line of the timeline."""
        return self._state.epoch

    @property
    def next_seq(self) -> int:
        """The length of the log: the seq of the next event."""
        return self._next

    def __len__(self) -> int:
        return self._next

    @property
    def tail(self) -> tuple[Event, ...]:
        """The latest events, those that are in memory; the tuple does not grow."""
        if not self._snapshot or self._snapshot[-1].seq != self._next - 1:
            self._snapshot = tuple(self._tail)
        return self._snapshot

    @property
    def lease(self) -> SessionLease | None:
        """The right to write, None before the session is entered."""
        return self._outlet.lease

    @property
    def live(self) -> bool:
        """Whether it is connected to a store and not sealed."""
        return self._outlet.lease is not None and not self._sealed

    @property
    def validators(self) -> tuple[Validator, ...]:
        """Who judges each event before it is committed."""
        return self._validators

    def observe(self, observer: Observer) -> Undo:
        """Call `observer(event)` after each commit, in the order of registration; the answer takes it back.

        It must not block and may not append to this session; what it raises is reported and changes nothing.
        """
        self._observers = (*self._observers, observer)
        one = [observer]

        def undo() -> None:
            if one:
                one.clear()
                left = list(self._observers)
                left.remove(observer)
                self._observers = tuple(left)

        return undo

    def append(
        self,
        type: str,
        payload: JsonValue,
        *,
        surface: Surface | None = None,
        sources: Sequence[int] | None = None,
        extras: Extras | None = None,
        time: int | None = None,
    ) -> Event:
        """Validate, encode once, number and commit an event; then tell the observers.

        `payload` is an instance of the type's model, or a mapping with its fields.
        `surface` and `sources` belong to model-visible types; a replacement without
        sources names what it replaces. `extras` go into the event's transaction, `time` is for
        history that happened earlier (milliseconds since the epoch).

        Raises EventRefused (a veto is one, InvariantsViolated), SessionNotLive after the
        session was sealed, and what the store raises when it cannot take more. Nothing
        was written then. Never blocks.
        """
        if self._busy or self._sealed:
            raise busy(type, self.id) if self._busy else closed(type, self.id)
        entry = self._entries.get(type)
        if entry is None:
            raise unregistered(type, self.id, self.vocabulary.owner_of(type))
        raw, data = entry.freeze(payload)
        seq = self._next
        observers = self._observers
        self._busy = True
        try:
            if surface is None and sources is None and (not entry.surface or (entry.pieces and not data.final)):
                now = self._clock() if time is None else time
                event, span = Event(seq, now, type, raw, entry.ignorable), None
            else:
                event, span = self._visible(entry, raw, data, surface, sources, time)
            for stage in self._stages:
                stage(event, data)
            self._outlet.write((event,), extras)  # the commit: what follows cannot fail
            self._next = seq + 1
            self._tail.append(event)
            for commit in self._commits:
                commit()
            fold = FOLDS.get(type)
            if fold is not None:
                fold(self._state, seq, data)
                if type == "session/recast":
                    self._cut(data)
            elif entry.surface and (surface is not None or self._history.keeping):
                self._show(event, span)
            if observers:
                self._notify(observers, event)
        finally:
            self._busy = False
            if self._after or len(raw) > _LARGE:
                self._wind_up()
        return event

    def _notify(self, observers: Sequence[Observer], event: Event) -> None:
        for observer in observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - an observer can neither undo a commit nor starve the next
                self._report(error, f"an observer of session {self.id} at seq {event.seq}")

    def _visible(
        self,
        entry: Entry,
        raw: bytes,
        data: JsonValue,
        surface: Surface | None,
        sources: Sequence[int] | None,
        time: int | None,
    ) -> tuple[Event, tuple[int, int] | None]:
        name, seq = entry.name, self._next
        require_marker(name, data, surface, sources, visible=entry.surface)
        if sources is None and isinstance(surface, Replace):
            sources = self._fold.covered(surface) or None
        cited = require_sources(name, seq, sources) if sources is not None else None
        now = self._clock() if time is None else time
        event = Event(seq, now, name, raw, entry.ignorable, surface, cited)
        return event, self._fold.span(event, self._lookup) if isinstance(surface, Replace) else None

    def _show(self, event: Event, span: tuple[int, int] | None) -> None:
        keeping = self._history.keeping
        if event.surface is not None:
            gone = self._fold.commit(event.seq, span)
            if gone and keeping:
                self._history.drop(gone)
        if keeping:
            self._history.push(event)

    def _cut(self, data: SessionRecast) -> None:
        if data.reason != "repair":
            self._fold.cut(data.keep_before)
            self._history.cut(self._fold)

    def _wind_up(self) -> None:
        """Do what was deferred to the end of an append."""
        if self._store is not None:
            size = sum(len(event.raw) for event in self._tail)
            while size > TAIL_BYTES and len(self._tail) > 1:
                size -= len(self._tail.popleft().raw)
        if not self._holds:
            deferred, self._after = self._after, []
            for call in deferred:
                call()

    @contextmanager
    def atomic(self) -> Iterator[None]:
        """Write what is appended inside in one transaction of the store: after a crash all of it is there, or nothing.

        The events are committed one by one all the same. Do not await inside.
        """
        self._outlet.begin()
        try:
            yield
        finally:
            self._outlet.end()

    def recast(self, reason: Literal["rewind", "rehydrate", "repair"], keep_before: int | None = None) -> Event:
        """Start a new epoch that shows the old line up to `keep_before` (None: all of it)."""
        keep = self._next if keep_before is None else keep_before
        return self.append("session/recast", SessionRecast(self._new_id(), reason, keep))

    async def append_enclosed(
        self,
        type: str,
        payload: JsonValue,
        *,
        trigger: str = "command",
        surface: Surface | None = None,
        sources: Sequence[int] | None = None,
    ) -> Event:
        """Append inside the open turn, or in a one-shot turn of its own that is flushed.

        Raises what `append` raises; a one-shot turn is closed and flushed even then. Overlapping
        calls are refused with EventRefused. Cancelled in the flush: the events stand in the log.
        """
        return await append_enclosed(self, type, payload, trigger, surface, sources)

    def put_blob(self, data: bytes) -> Blob:
        """Keep bytes in the session's store, written no later than the events that follow."""
        return self._held_lease().put_blob(data)

    async def flush(self, barrier: Barrier | None = None) -> None:
        """Wait until everything appended so far is durable. Raises SessionNotLive, and what the store raises.

        Cancelled: the events are written later all the same.
        """
        lease = self._held_lease()
        self._outlet.settle()
        await lease.flush(barrier)

    async def room(self) -> None:
        """Wait while the store has more queued than it wants."""
        await self._held_lease().room()

    def _held_lease(self) -> SessionLease:
        lease = self._outlet.lease
        if lease is None or self._sealed:
            raise SessionNotLive(f"session {self.id} is not entered, or no longer", session_id=self.id)
        return lease

    async def events(
        self, start: int = 0, stop: int | None = None, *, types: Sequence[str] | None = None
    ) -> Sequence[Event]:
        """The events with `start <= seq < stop`, only of `types` when given; from memory, or the store if older."""
        end = self._next if stop is None else min(stop, self._next)
        if self._store is None or (self._tail and start >= self._tail[0].seq) or start >= end:
            wanted = None if types is None else frozenset(types)
            return [e for e in self._tail if start <= e.seq < end and (wanted is None or e.type in wanted)]
        return await self._store.read_from(self.id, start, before=end, types=types, limit=None)

    async def find(self, key: str) -> Sequence[int]:
        """The seqs of the events that carry this call or message id."""
        if self._store is not None:
            return await self._store.find(self.id, key)
        return [event.seq for event in self._tail if event_key(event.type, event.raw) == key]

    def _lookup(self, seq: int) -> Event | None:
        if self._tail and seq >= self._tail[0].seq:
            return self._tail[seq - self._tail[0].seq] if seq < self._next else None
        return self._history.result(seq)

    def derive_messages(self) -> list[ModelMessage]:
        """What the model sees, as messages: a new list of shared, frozen messages.

        Costs what was appended since the last call. Raises HistoryNotLoaded when older
        events would have to be read first; after one `load_history` it does not, except
        after a rewind behind a replacement.
        """
        if not (self._history.keeping and self._fold.complete):
            if self._store is not None and (not self._tail or self._tail[0].seq > 0) and self._next:
                raise not_loaded(self.id)
            self._history.begin()
            self._history.load(self._tail, self._next, self._fold)
        return self._history.messages(self._fold)

    async def load_history(self) -> None:
        """Read what `derive_messages` needs, once. Cancelled: nothing is loaded."""
        types = [kind.name for kind in self.vocabulary if kind.surface]
        while not (self._history.keeping and self._fold.complete):
            self._history.begin()
            head, generation = self._next, self._fold.generation
            try:
                events = await self.events(0, head, types=[*types, "session/recast"])
            except BaseException:
                self._history.keeping = False
                raise
            if generation == self._fold.generation:  # else: replaced or cut meanwhile, read again
                self._history.load(events, head, self._fold)
            else:
                self._history.keeping = False

    def connect(self, store: SessionStore, lease: SessionLease) -> None:
        """Enter: write what was held so far to the lease, and everything from now on."""
        self._outlet.connect(lease)
        self._store = store
        self._tail = deque(self._tail, TAIL_EVENTS)

    def restore(self, state: SessionState, next_seq: int, tail: Sequence[Event], store: SessionStore) -> None:
        """Be what the store holds: this folded state, and these latest events."""
        self._state, self._next, self._store = state, next_seq, store
        self._tail = deque(tail, TAIL_EVENTS)
        self._fold.complete = next_seq == 0

    def validate_with(self, validators: Sequence[Validator]) -> None:
        """Use these validators from now on; they have been told what the log holds."""
        self._validators = tuple(validators)
        self._stages = tuple(validator.stage for validator in validators)
        self._commits = tuple(validator.commit for validator in validators)

    def defer(self, call: Callable[[], None]) -> None:
        """Do it now, or when the append or the one-shot turn that is going on is over."""
        if self._busy or self._holds:
            self._after.append(call)
        else:
            call()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session attached: what is deferred meanwhile happens at the end."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds and not self._busy:
                self._wind_up()

    def seal(self) -> None:
        """Refuse every further append."""
        self._sealed = True
