"""The record of a plugin, and the file that shows the last outcome to other processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from greenroom._finding.discovery import Candidate, Origin
from greenroom._lifecycle import PLUGIN, Machine, Phase, PluginMove, PluginState
from greenroom._paths import write_atomically
from greenroom._version import __version__

FILE: Final = "plugins.json"
FORMAT: Final = 1  # readers take what they know from a higher one; a key never changes its meaning


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


def write_records(data_dir: Path, records: Iterable[PluginRecord], clock: Callable[[], float]) -> None:
    """Replace `plugins.json` as a whole; the data directory must exist.

    Args:
        data_dir: the data directory.
        records: of all plugins of the host.
        clock: seconds since 1970.

    Raises:
        OSError: the old file is as it was.
    """
    content = {
        "format": FORMAT,
        "time": datetime.fromtimestamp(clock(), UTC).isoformat(timespec="seconds"),
        "greenroom": __version__,
        "plugins": [record.to_json() for record in records],
    }
    write_atomically(data_dir / FILE, json.dumps(content, indent=1).encode())
