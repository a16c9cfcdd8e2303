"""Invariants: pure checks over a session's events, each owned by a plugin.

A check looks at a candidate before it is committed and answers with its next trace
or a violation. All checks run, also after a violation; the traces move on only if
the event is committed, so that a veto never puts a trace out of step with the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from greenroom.errors import NameTaken, ScopeClosed, SettingsError
from greenroom.sessions._errors import InvariantsViolated, InvariantViolation, SessionError
from greenroom.sessions._event import Event, Header
from greenroom.sessions._vocabulary import Undo, Vocabulary
from greenroom.sessions.vocabulary import JsonValue

Trace: TypeAlias = Any  # each check's own immutable state, opaque to the service

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]*")  # the colon of a plugin id


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with the event."""

    message: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named check.

    Attributes:
        name: unique within its plugin.
        check: `(trace, event, data) -> trace | Violation`, pure; `data` is the decoded
            payload. Returning the same trace object costs nothing.
        start: the trace of a session without events; None: the trace is None.
        fold: takes in an event of the past as it is, without judging; None: `check`, and
            the trace stays where it finds a violation. On a resume it sees the events of
            folded types only, so a trace must not depend on others of closed turns.
        types: the types it wants to see, None for all.
    """

    name: str
    check: Callable[[Trace, Event, JsonValue], Trace | Violation]
    start: Callable[[Header, Vocabulary], Trace] | None = None
    fold: Callable[[Trace, Event, JsonValue], Trace] | None = None
    types: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class InvariantSettings:
    """Which checks run: `allow` and `block` are regular expressions, searched in plugin id and distribution.

    An empty `allow` admits all; `block` wins. Raises SettingsError for a pattern that is
    blank, padded, twice in its list or no expression.
    """

    enabled: bool = True
    allow: tuple[str, ...] = ()
    block: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key, patterns in (("allow", self.allow), ("block", self.block)):
            for pattern in patterns:
                _require_pattern(key, pattern, patterns)

    def selects(self, plugin: str, distribution: str | None) -> bool:
        """Whether the checks of this plugin run."""
        names = [plugin, *([distribution] if distribution else ())]

        def hit(patterns: Iterable[str]) -> bool:
            return any(re.search(pattern, name) for pattern in patterns for name in names)

        return self.enabled and not hit(self.block) and (not self.allow or hit(self.allow))


def _require_pattern(key: str, pattern: str, patterns: Sequence[str]) -> None:
    if not pattern.strip() or pattern != pattern.strip():
        raise SettingsError(f"invariants.{key}: the pattern {pattern!r} is blank or padded")
    if patterns.count(pattern) > 1:
        raise SettingsError(f"invariants.{key}: the pattern {pattern!r} stands there twice")
    try:
        re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"invariants.{key}: {pattern!r} is no regular expression: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class _Registered:
    invariant: Invariant
    plugin: str
    distribution: str | None


@dataclass(slots=True)
class Invariants:
    """The checks of one host. `generation` changes whenever they do."""

    settings: InvariantSettings = field(default_factory=InvariantSettings)
    generation: int = 0
    closed: bool = False
    _plugins: dict[str, tuple[_Registered, ...]] = field(default_factory=dict)

    def register(self, plugin: str, invariants: Sequence[Invariant], *, distribution: str | None = None) -> Undo:
        """Add a plugin's checks, all or none; the answer takes them back and may be called twice.

        The name is reserved also when the settings leave the plugin out. Raises NameTaken,
        SessionError for a malformed name, ScopeClosed after `close`. Live sessions run new
        checks from their next `SessionChecks.replay` on.
        """
        if self.closed:
            raise ScopeClosed(f"invariants of {plugin} come too late: the host is closing", plugin=plugin)
        for name in (plugin, *([distribution] if distribution else ()), *(one.name for one in invariants)):
            if not _NAME.fullmatch(name):
                raise SessionError(f"{name!r} is no name for a check or its owner", plugin=plugin)
        names = [one.name for one in invariants]
        if len(set(names)) < len(names):
            raise NameTaken(f"{plugin} brings two checks of one name: {', '.join(sorted(names))}", plugin=plugin)
        if plugin in self._plugins:
            raise NameTaken(f"the invariants of {plugin} are registered already", plugin=plugin)
        entries = tuple(_Registered(one, plugin, distribution) for one in invariants)
        self._plugins[plugin] = entries
        self.generation += 1

        def undo() -> None:
            if self._plugins.get(plugin) is entries:
                del self._plugins[plugin]
                self.generation += 1

        return undo

    def close(self) -> None:
        """Run no check any more and take no new one."""
        self.closed = True
        self._plugins.clear()
        self.generation += 1

    def selected(self) -> tuple[_Registered, ...]:
        """What runs, in the order of registration."""
        return tuple(
            entry
            for entries in self._plugins.values()
            for entry in entries
            if self.settings.selects(entry.plugin, entry.distribution)
        )

    def validator(self, header: Header, vocabulary: Vocabulary) -> SessionChecks:
        """The checks of one session that has no events yet; `replay` for one that has."""
        return SessionChecks(self, header, vocabulary)


class _Slot:
    """A check with its trace for one session."""

    __slots__ = ("check", "entry", "trace", "types")

    def __init__(self, entry: _Registered, trace: Trace) -> None:
        self.entry, self.trace = entry, trace
        self.check, self.types = entry.invariant.check, entry.invariant.types


class SessionChecks:
    """A Validator that runs all selected checks over one session."""

    __slots__ = ("_generation", "_header", "_service", "_slots", "_staged", "_vocabulary")

    def __init__(self, service: Invariants, header: Header, vocabulary: Vocabulary) -> None:
        self._service, self._header, self._vocabulary = service, header, vocabulary
        self._staged: list[tuple[_Slot, Trace]] = []
        self._start()

    def _start(self) -> None:
        self._generation = self._service.generation
        self._slots = [_Slot(entry, self._trace(entry.invariant)) for entry in self._service.selected()]

    def _trace(self, invariant: Invariant) -> Trace:
        return invariant.start(self._header, self._vocabulary) if invariant.start is not None else None

    @property
    def stale(self) -> bool:
        """Whether checks came that wait for a `replay`."""
        running = {slot.entry for slot in self._slots}
        return any(entry not in running for entry in self._service.selected())

    def stage(self, event: Event, data: JsonValue) -> None:
        """Run every check. Raises InvariantsViolated with all violations."""
        if self._generation != self._service.generation:
            self._drop_removed()
        staged = self._staged
        if staged:
            staged.clear()
        violations: list[InvariantViolation] | None = None
        for slot in self._slots:
            if slot.types is not None and event.type not in slot.types:
                continue
            before = slot.trace
            try:
                trace = slot.check(before, event, data)
            except Exception as error:  # noqa: BLE001 - a broken check refuses, with its owner's name
                trace = Violation(f"the check itself failed: {error!r}")
            if type(trace) is Violation:
                violations = [*(violations or ()), self._violation(slot, event, trace)]
            elif trace is not before:
                staged.append((slot, trace))
        if violations:
            staged.clear()
            refused = InvariantsViolated(
                f"{event.type} at seq {event.seq} of session {self._header.id}: {violations[0]}", violations
            )
            refused.session_id = self._header.id
            raise refused

    def commit(self) -> None:
        """Move the traces on."""
        for slot, trace in self._staged:
            slot.trace = trace

    def replay(self, events: Sequence[Event]) -> None:
        """Start over, with all checks that are selected now, from what the log holds."""
        self._start()
        for event in events:
            data = event.data
            for slot in self._slots:
                if slot.types is None or event.type in slot.types:
                    slot.trace = _folded(slot, event, data)

    def judge(self, events: Iterable[Event]) -> list[InvariantViolation]:
        """Run the checks over a whole log and say everything that is wrong with it (`sessions verify`)."""
        self._start()
        found: list[InvariantViolation] = []
        for event in events:
            try:
                self.stage(event, event.data)
            except InvariantsViolated as group:
                found.extend(one for one in group.exceptions if isinstance(one, InvariantViolation))
                for slot in self._slots:
                    slot.trace = _folded(slot, event, event.data)
            else:
                self.commit()
        return found

    def _drop_removed(self) -> None:
        selected = set(self._service.selected())
        self._slots = [slot for slot in self._slots if slot.entry in selected]
        self._generation = self._service.generation

    def _violation(self, slot: _Slot, event: Event, violation: Violation) -> InvariantViolation:
        entry, owner = slot.entry, self._vocabulary.owner_of(event.type)
        whose = f" (an event of {owner})" if owner else ""
        return InvariantViolation(
            f"invariant {entry.invariant.name} of {entry.distribution or entry.plugin} violated: "
            f"{violation.message}{whose}",
            check=entry.invariant.name,
            plugin=entry.plugin,
            distribution=entry.distribution,
            event_owner=owner,
        )


def _folded(slot: _Slot, event: Event, data: JsonValue) -> Trace:
    invariant = slot.entry.invariant
    if invariant.fold is not None:
        return invariant.fold(slot.trace, event, data)
    trace = invariant.check(slot.trace, event, data)
    return slot.trace if type(trace) is Violation else trace
