"""Decide which of the plugins that were found may load: allow, deny, no-plugins, name clashes."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from greenroom._finding.discovery import Candidate, discover
from greenroom._finding.metadata import normalize, refresh_metadata
from greenroom.errors import PluginError

if TYPE_CHECKING:
    from greenroom._settings.settings import HostPluginSettings

NO_PLUGINS: Final = "GREENROOM_NO_PLUGINS"


@dataclass(frozen=True, slots=True)
class Selection:
    """What `select` decided.

    Attributes:
        chosen: to be loaded; those with a `problem` are to be shown as failed.
        blocked: not to be loaded, each with who said so.
        shadowed: another distribution or entry stands in front of them.
        warnings: names in the lists that match nothing.
    """

    chosen: tuple[Candidate, ...]
    blocked: tuple[tuple[Candidate, str], ...]
    shadowed: tuple[Candidate, ...]
    warnings: tuple[str, ...]


def matches(candidate: Candidate, name: str) -> bool:
    """Whether a person who writes `name` may mean this one: its id, short name or distribution."""
    known = {normalize(candidate.id), normalize(candidate.name)}
    if candidate.distribution is not None:
        known.add(normalize(candidate.distribution))
    return normalize(name) in known


def find(candidates: Iterable[Candidate], name: str) -> list[Candidate]:
    """Return those that `name` may mean; a full id means that one only."""
    return [c for c in candidates if matches(c, name)]


def select(
    candidates: Sequence[Candidate],
    *,
    allow: Sequence[str] | None = None,
    deny: Sequence[str] = (),
    no_plugins: bool = False,
) -> Selection:
    """Apply the settings before anything is imported.

    Args:
        candidates: what `discover` found.
        allow: if not None, only these may load. Names are ids, short names or names of distributions.
        deny: these may not, even if `allow` has them.
        no_plugins: nothing may.

    Returns:
        The choice. Two plugins that would load under the same short name both get a problem that
        names the other and the way out.
    """
    chosen: list[Candidate] = []
    blocked: list[tuple[Candidate, str]] = []
    for candidate in (c for c in candidates if not c.shadowed):
        if no_plugins:
            blocked.append((candidate, f"all plugins are off ({NO_PLUGINS} or --no-plugins)"))
        elif any(matches(candidate, name) for name in deny):
            blocked.append((candidate, "denied ([plugins] deny or --no-plugins)"))
        elif allow is not None and not any(matches(candidate, name) for name in allow):
            blocked.append((candidate, "not in [plugins] allow"))
        else:
            chosen.append(candidate)
    names = [("allow", name) for name in allow or ()] + [("deny", name) for name in deny]
    return Selection(
        chosen=tuple(_with_conflicts(chosen)),
        blocked=tuple(blocked),
        shadowed=tuple(c for c in candidates if c.shadowed),
        warnings=tuple(filter(None, (_unknown(name, key, candidates) for key, name in names))),
    )


def choose(candidates: Sequence[Candidate], plugins: HostPluginSettings) -> Selection:
    """Apply the lists of the settings to what `discover` found."""
    return select(candidates, allow=plugins.allow, deny=plugins.deny, no_plugins=plugins.disable_all)


def installed_one(name: str, plugins: HostPluginSettings) -> Candidate:
    """Return the plugin of an id or short name that may load, also one that was installed a moment ago.

    Raises:
        PluginError: there is none or more than one, or the lists of the settings keep it out.
    """
    refresh_metadata()
    selection = select(discover(plugins.load), allow=plugins.allow, deny=plugins.deny)
    for candidate, reason in selection.blocked:
        if name in {candidate.id, candidate.name}:
            raise PluginError(f"{candidate.id} may not load: {reason}", hint="change [plugins]", plugin=candidate.id)
    found = [c for c in selection.chosen if c.id == name] or [c for c in selection.chosen if c.name == name]
    if len(found) == 1:
        return found[0]
    known = ", ".join(c.id for c in (found or selection.chosen)) or "none"
    raise PluginError(f"there is no one plugin {name!r} to load", hint=f"installed: {known}")


def _with_conflicts(chosen: list[Candidate]) -> list[Candidate]:
    by_name: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in chosen:
        if candidate.problem is None:  # one that cannot load takes no name
            by_name[normalize(candidate.name)].append(candidate)
    result = []
    for candidate in chosen:
        others = [c for c in by_name[normalize(candidate.name)] if c is not candidate]
        result.append(_conflict(candidate, others) if others and candidate.problem is None else candidate)
    return result


def _conflict(candidate: Candidate, others: list[Candidate]) -> Candidate:
    names = " and ".join(f"{c.id} ({c.where})" for c in [candidate, *others])
    if any(normalize(c.id) == normalize(candidate.id) for c in others):
        hint = "rename one of them, or take it out of [plugins] load"
    else:
        deny = " or ".join(f'"{c.id}"' for c in [*others, candidate])
        hint = f"keep one of them: add the full id of the other to [plugins] deny: {deny}"
    return replace(candidate, problem=f"the name {candidate.name!r} is taken twice, by {names}", hint=hint)


def _unknown(name: str, key: str, candidates: Sequence[Candidate]) -> str | None:
    if any(matches(c, name) for c in candidates):
        return None
    known = (
        {c.id for c in candidates}
        | {c.name for c in candidates}
        | {c.distribution for c in candidates if c.distribution}
    )
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f"{key} names {name!r}, which is not installed" + (f"; did you mean {close[0]!r}?" if close else "")
