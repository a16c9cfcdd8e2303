"""The vocabulary of one host: the host's own types and what plugins register."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

import msgspec

from greenroom.errors import NameTaken
from greenroom.sessions._encoding import Entry
from greenroom.sessions._errors import EventRefused, SessionError, UnreadableSession
from greenroom.sessions._event import Event
from greenroom.sessions.vocabulary import (
    ABORT_CAUSES,
    CORE_REASONS,
    CORE_TRIGGERS,
    CORE_TYPES,
    EndReason,
    EventType,
    JsonValue,
    Message,
    TriggerKind,
    TurnEnd,
    TurnStart,
)

Undo: TypeAlias = Callable[[], None]

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]*/[a-z0-9][a-z0-9_./-]*")
_KIND: Final = re.compile(r"[a-z0-9][a-z0-9_./-]*")
_RESERVED: Final = frozenset(kind.name.partition("/")[0] for kind in CORE_TYPES)
_PLUGIN_ENCLOSURES: Final = ("turn", "step", "free")


class Vocabulary:
    """Types of events, trigger kinds and end reasons: the host's own and the registered ones.

    `append` refuses what is not registered here. A session looks types up at each
    append, so a reloaded plugin's new model takes effect at once.
    """

    def __init__(self) -> None:
        self._triggers = {kind.name: kind for kind in CORE_TRIGGERS}
        self._reasons = {reason.name: reason for reason in CORE_REASONS}
        checks: dict[str, Callable[[JsonValue], None]] = {"turn/start": self._check_start, "turn/end": self._check_end}
        self._entries = {kind.name: Entry(kind, checks.get(kind.name)) for kind in CORE_TYPES}

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[EventType]:
        return (entry.kind for entry in self._entries.values())

    def __getitem__(self, name: str) -> EventType:
        return self._entries[name].kind

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The prepared types by name, live; only `add` changes it (a proxy would cost at each append)."""
        return self._entries

    @property
    def triggers(self) -> Mapping[str, TriggerKind]:
        """Why a turn may be opened, by name."""
        return MappingProxyType(self._triggers)

    @property
    def reasons(self) -> Mapping[str, EndReason]:
        """How a turn may end, by name."""
        return MappingProxyType(self._reasons)

    def add(self, item: EventType | TriggerKind | EndReason, owner: str) -> Undo:
        """Register what a plugin brings; the answer takes it back and may be called twice.

        Raises NameTaken naming both owners, SessionError for a type that may not be registered.
        """
        if isinstance(item, EventType):
            check_event_type(item, owner)
            kind = EventType(
                item.name, item.model, item.enclosure, item.ignorable and not item.surface, item.timeline,
                item.surface, item.folded, item.key, owner,
            )  # fmt: skip
            return _put(self._entries, item.name, Entry(kind), owner, lambda entry: entry.kind.owner)
        if not _KIND.fullmatch(item.name):
            raise SessionError(f"{item.name!r} is no name for a kind: a-z 0-9 . _ - /", plugin=owner)
        if isinstance(item, TriggerKind):
            return _put(self._triggers, item.name, TriggerKind(item.name, owner), owner, lambda kind: kind.owner)
        return _put(self._reasons, item.name, EndReason(item.name, item.needs, owner), owner, lambda kind: kind.owner)

    def owner_of(self, name: str) -> str | None:
        """The plugin behind a type: who registered it, or whose prefix it bears; None for the host's own."""
        entry = self._entries.get(name)
        if entry is not None:
            return entry.kind.owner
        return name.partition("/")[0] if "/" in name else None

    def decode(self, event: Event) -> JsonValue:
        """The event's payload in the registered model. Raises EventRefused if it does not fit, or is unknown."""
        entry = self._entries.get(event.type)
        if entry is None:
            raise EventRefused(f"{event.type} is not registered", plugin=self.owner_of(event.type))
        return entry.validate(event.raw)

    def check_readable(self, types: Mapping[str, bool], session_id: str) -> None:
        """Raise UnreadableSession if a session holds a type that is unknown and not ignorable.

        `types`: name -> whether every event of the type is ignorable, as a store tells.
        """
        missing = sorted(name for name, ignorable in types.items() if name not in self._entries and not ignorable)
        if missing:
            plugins = sorted({self.owner_of(name) or "a newer greenroom" for name in missing})
            raise UnreadableSession(
                f"session {session_id} holds events that cannot be skipped: {', '.join(missing)}",
                session_id=session_id,
                plugin=plugins[0],
                hint=f"install or enable: {', '.join(plugins)}",
            )

    def _check_start(self, data: TurnStart) -> None:
        if data.trigger.kind not in self._triggers:
            raise EventRefused(
                f"turn/start: the trigger kind {data.trigger.kind!r} is not registered",
                hint=f"known: {', '.join(sorted(self._triggers))}",
            )

    def _check_end(self, data: TurnEnd) -> None:
        reason = self._reasons.get(data.reason.kind)
        if reason is None:
            raise EventRefused(
                f"turn/end: the reason {data.reason.kind!r} is not registered",
                hint=f"known: {', '.join(sorted(self._reasons))}",
            )
        lacking = [field for field in reason.needs if getattr(data.reason, field) is None]
        if lacking:
            raise EventRefused(f"turn/end: the reason {reason.name} needs {', '.join(lacking)}")
        if reason.name == "aborted" and data.reason.cause not in ABORT_CAUSES:
            raise EventRefused(f"turn/end: {data.reason.cause!r} aborts nothing", hint=f"known: {ABORT_CAUSES}")


def check_event_type(kind: EventType, owner: str) -> None:
    """Raise SessionError if a plugin may not register the type like this."""
    prefix = kind.name.partition("/")[0]
    wrong = None
    if not _NAME.fullmatch(kind.name):
        wrong = "its name must be <plugin>/<name> in lower case"
    elif prefix in _RESERVED:
        wrong = f"names that begin with {prefix}/ are the host's own"
    elif kind.enclosure not in _PLUGIN_ENCLOSURES:
        wrong = f"its enclosure must be one of {', '.join(_PLUGIN_ENCLOSURES)}"
    elif kind.surface and kind.enclosure == "free":
        wrong = "a model-visible type must be enclosed in a turn"
    elif kind.surface and not _has_message(kind.model):
        wrong = "a model-visible type must be a Struct with a field `message: Message`"
    if wrong:
        raise SessionError(f"the event type {kind.name!r} is refused: {wrong}", plugin=owner)


def _has_message(model: type) -> bool:
    if not issubclass(model, msgspec.Struct):
        return False
    return any(field.name == "message" and field.type is Message for field in msgspec.structs.fields(model))


_T = TypeVar("_T")


def _put(table: dict[str, _T], name: str, value: _T, owner: str, owner_of: Callable[[_T], str | None]) -> Undo:
    if name in table:
        raise NameTaken(f"{name} is registered by {owner_of(table[name]) or 'greenroom'} and by {owner}", plugin=owner)
    table[name] = value

    def undo() -> None:
        if table.get(name) is value:
            del table[name]

    return undo
