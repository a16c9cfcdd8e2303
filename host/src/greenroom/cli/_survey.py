"""What there is and how it last went: discovery and `plugins.json` put together; imports no plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from greenroom._finding.discovery import Candidate, Origin, discover
from greenroom._finding.last_outcome import LastOutcome, read_records
from greenroom._finding.selection import choose, find
from greenroom._lifecycle import Phase, PluginState
from greenroom._settings.layers import did_you_mean
from greenroom._settings.settings import Settings
from greenroom.cli._state import CliState
from greenroom.errors import GreenroomError


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One plugin as the commands show it.

    Attributes:
        state: a state of the lifecycle, or `shadowed`.
        time: when a host last said so; None for what discovery alone says.
        record: everything the last host said about it, empty if none did.
    """

    id: str
    name: str
    distribution: str | None
    version: str | None
    origin: Origin
    target: str
    location: Path | None
    editable: bool
    state: str
    phase: str | None = None
    error: str | None = None
    hint: str | None = None
    time: datetime | None = None
    record: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything the listing commands need.

    Attributes:
        rows: in the order of discovery.
        warnings: about names in the settings.
        missing: what was installed with `plugins install` and is not there.
        last: what the last host wrote, or None.
    """

    rows: Sequence[Row]
    warnings: Sequence[str]
    missing: Sequence[str]
    last: LastOutcome | None


def candidates(settings: Settings) -> list[Candidate]:
    """Return all plugins that there are for these settings."""
    return discover(settings.plugins.load)


def survey(state: CliState) -> Survey:
    """Look at everything.

    Raises:
        SettingsError: the settings are broken.
    """
    settings = state.settings()
    found = candidates(settings)
    selection = choose(found, settings.plugins)
    last = read_records(state.data_directory)
    chosen = {(c.id, c.target): c for c in selection.chosen}  # with what a clash adds to them
    reasons = {(c.id, c.target): why for c, why in selection.blocked}
    rows = []
    for candidate in found:
        key = (candidate.id, candidate.target)
        if candidate.shadowed:
            rows.append(_row(candidate, state="shadowed", error=f"used instead: {candidate.shadowed_by}"))
        elif key in reasons:
            rows.append(_row(candidate, state=PluginState.BLOCKED, error=reasons[key]))
        else:
            rows.append(_tried(chosen[key], last))
    warnings = [*selection.warnings, *order_warnings(settings, found)]
    return Survey(rows, warnings, _missing(state.data_directory), last)


def order_warnings(settings: Settings, found: Sequence[Candidate] | None = None) -> list[str]:
    """Return what a host would say of the names in `[hooks.order]`, or pass over.

    Args:
        found: all plugins; by default they are looked for, unless nothing is ordered, as in most settings.
    """
    if not settings.hook_order:
        return []
    from greenroom import hookspecs

    found = candidates(settings) if found is None else found
    hooks = [name for name, value in vars(hookspecs).items() if hasattr(value, hookspecs.SPEC_ATTRIBUTE)]
    plugins = [name for candidate in found for name in (candidate.id, candidate.name)]
    said = []
    for hook, names in settings.hook_order.items():
        if hook not in hooks:
            said.append(f"[hooks.order]: there is no hook {hook!r}, so no host starts; {did_you_mean(hook, hooks)}")
        unknown = (name for name in names if name not in plugins)
        said += [f"[hooks.order] {hook}: no plugin is called {n!r}; {did_you_mean(n, plugins)}" for n in unknown]
    return said


def _missing(data_dir: Path) -> list[str]:
    if not (data_dir / "requested.json").exists():
        return []
    from greenroom.cli._installer import missing, read_requests  # a listing without requests needs none of it

    return [r.distribution or r.requirement for r in missing(read_requests(data_dir))]


def _tried(candidate: Candidate, last: LastOutcome | None) -> Row:
    """Return the row of one that may load: its problem, else the last outcome, else `discovered`."""
    if candidate.problem is not None:
        return _row(candidate, state=PluginState.FAILED, phase=Phase.DISCOVER, error=candidate.problem)
    record = last.plugins.get(candidate.id, {}) if last is not None else {}
    same = record.get("version") == candidate.version and record.get("target") == candidate.target
    if last is None or not same or record.get("state") in {None, PluginState.BLOCKED}:
        return _row(candidate, state=PluginState.DISCOVERED)
    said = {key: str(record[key]) for key in ("phase", "error", "hint") if record.get(key) is not None}
    return _row(candidate, state=str(record["state"]), time=last.time, record=record, **said)


def _row(
    candidate: Candidate,
    *,
    state: str,
    phase: str | None = None,
    error: str | None = None,
    hint: str | None = None,
    time: datetime | None = None,
    record: Mapping[str, object] | None = None,
) -> Row:
    return Row(
        id=candidate.id,
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        origin=candidate.origin,
        target=candidate.target,
        location=candidate.location,
        editable=candidate.editable,
        state=str(state),
        phase=phase,
        error=error,
        hint=hint or candidate.hint,
        time=time,
        record=record or {},
    )


def the_one(found: Sequence[Candidate], name: str) -> Candidate:
    """Return the plugin that a person means by an id, a short name or a distribution.

    Raises:
        GreenroomError: there is none, or more than one; names them.
    """
    matching = list({c.id: c for c in find([c for c in found if not c.shadowed], name)}.values())
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise GreenroomError(f"{name!r} may mean {' or '.join(c.id for c in matching)}", hint="use the full id")
    known = ", ".join(c.id for c in found if not c.shadowed)
    raise GreenroomError(f"there is no plugin {name!r}", hint=f"there are: {known}" if known else "none is installed")
