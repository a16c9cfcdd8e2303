"""The record of a plugin: what the host knows about it, for as long as the host lives."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from greenroom._finding.discovery import Candidate, Origin
from greenroom._lifecycle import PLUGIN, Machine, Phase, PluginMove, PluginState


@dataclass(slots=True, eq=False, kw_only=True)
class PluginRecord:
    """What the host knows about a plugin; it outlives the generations.

    Attributes:
        id, name, distribution, version, origin, target: as the candidate says.
        machine: the state of the live generation; moved by `fire`.
        phase: the part of the work that it reached last.
        error: why it is not active, or why it is stale; None if neither.
        hint: what to do about the error.
        generation: how often it has been loaded, from 1; 0 before the first time.
        stale: the last reload failed and the generation before it goes on.
        required: the host does not start without it.
        guard: what it would decide is denied while it is not active.
        load_seconds: how long import, check and registration took, or None.
        effects: how many things it has added to the host.
    """

    id: str
    name: str
    distribution: str | None
    version: str | None
    origin: Origin
    target: str
    machine: Machine[PluginState, PluginMove] = field(repr=False)
    phase: Phase = Phase.DISCOVER
    error: str | None = None
    hint: str | None = None
    generation: int = 0
    stale: bool = False
    required: bool = False
    guard: bool = False
    load_seconds: float | None = None
    effects: int = 0

    @classmethod
    def of(cls, candidate: Candidate) -> PluginRecord:
        """Return the record of a plugin that was just found."""
        return cls(
            id=candidate.id,
            name=candidate.name,
            distribution=candidate.distribution,
            version=candidate.version,
            origin=candidate.origin,
            target=candidate.target,
            machine=Machine(PLUGIN, PluginState.DISCOVERED, owner=candidate.id),
            hint=candidate.hint,
        )

    @property
    def state(self) -> PluginState:
        """Where the live generation stands."""
        return self.machine.state

    def fire(self, move: PluginMove) -> PluginState:
        """Make a move of the lifecycle.

        Raises:
            IllegalMove: the present state does not allow it.
        """
        return self.machine.fire(move)

    def to_json(self) -> dict[str, object]:
        """Return the record as plain data."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "machine"}
        return {**plain, "state": str(self.state), "phase": str(self.phase)}
