"""Find the plugins that there are, from metadata and settings alone.

Nothing here imports a plugin, so what it lists can be denied, disabled or uninstalled
however broken it is. Everything that is found is a `Candidate`; one that cannot be used
says so in `problem`, and never stops the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from greenroom._finding.metadata import GROUP, Installed, declared_entry_points, installed, normalize
from greenroom._settings.rules import HOST_KEYS

if TYPE_CHECKING:
    from greenroom._settings.settings import LoadEntry

Origin = Literal["entry-point", "module", "file", "folder"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TARGET: Final = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*)(:(?P<attr>[^\W\d]\w*(\.[^\W\d]\w*)*))?")
_REINSTALL: Final = "reinstall it, so that its metadata is written again: pip install -e {root}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that could be loaded, as far as metadata and settings tell.

    Attributes:
        id: `distribution:name`, or `local:name` for one that no distribution brought.
        name: the short name, as its author wrote it.
        distribution, version: where an entry point comes from; None for the other origins.
        origin: how it was found.
        target: `module` or `module:attr`; for a file or folder its absolute path.
        location: the folder of the distribution, the project folder of an editable install, the file or the folder.
        editable: the distribution is an editable install.
        from_project: a settings file of the project named it, so it needs the user's trust.
        shadowed_by: what stands before it and is used instead, or None.
        problem: why it cannot be loaded, or None.
        hint: what to do about the problem, or what else is worth knowing.
    """

    id: str
    name: str
    distribution: str | None = None
    version: str | None = None
    origin: Origin
    target: str
    location: Path | None = None
    editable: bool = False
    from_project: bool = False
    shadowed_by: str | None = None
    problem: str | None = None
    hint: str | None = None

    @property
    def where(self) -> str:
        """The distribution with its version, or else the target: what error texts name."""
        return f"{self.distribution} {self.version}" if self.distribution is not None else self.target

    @property
    def shadowed(self) -> bool:
        """Whether another one is used instead."""
        return self.shadowed_by is not None


def discover(load: Iterable[LoadEntry] = (), *, path: list[str] | None = None) -> list[Candidate]:
    """List the installed plugins and those that the settings name.

    Args:
        load: the entries of `[plugins] load`.
        path: where to look for distributions; default `sys.path`.

    Returns:
        Installed ones ordered by id, a shadowed one behind what shadows it; then the entries of
        `load` in their order. The first distribution of a name is the one that imports find.
    """
    found = sorted(_installed(path), key=lambda c: (normalize(c.id), c.shadowed, str(c.location), c.target))
    used = {c.target: c.id for c in reversed(found) if not c.shadowed}
    for candidate in map(_local, load):
        owner = used.get(candidate.target)
        found.append(replace(candidate, shadowed_by=f"{owner}, which has the same target") if owner else candidate)
        used.setdefault(candidate.target, candidate.id)
    return found


def _installed(path: list[str] | None) -> Iterator[Candidate]:
    first: dict[str, Installed] = {}
    for dist in installed(path):
        winner = first.setdefault(dist.key, dist)
        try:
            yield from _plugins_of(dist, winner)
        except (ValueError, OSError) as error:
            yield Candidate(
                id=dist.key,
                name=dist.key,
                distribution=dist.key,
                origin="entry-point",
                target="",
                location=Path(dist.info),
                problem=f"the metadata of {dist.key} cannot be read: {type(error).__name__}: {error}",
                hint=f"reinstall or uninstall {dist.key}",
            )


def _plugins_of(dist: Installed, winner: Installed) -> Iterator[Candidate]:
    brings = GROUP.encode() in dist.read("entry_points.txt")
    root = dist.editable_root()
    declared = declared_entry_points(root) if root is not None else None
    entries = dist.entry_points() if brings else []
    known = dict(entries)
    entries += [(short, target) for short, target in (declared or {}).items() if short not in known]
    if not entries:
        return  # the usual case
    name, version = dist.name_and_version()
    shadowed_by = None
    if winner is not dist:
        if winner.name_and_version()[1] == version and winner.entry_points() == dist.entry_points():
            return  # one installation seen twice, as a build folder beside an editable install
        shadowed_by = f"{' '.join(winner.name_and_version())} in {winner.folder}"
    for short, target in entries:
        candidate = Candidate(
            id=f"{normalize(name)}:{short}",
            name=short,
            distribution=name,
            version=version,
            origin="entry-point",
            target=target,
            location=root or Path(dist.folder),
            editable=root is not None,
            shadowed_by=shadowed_by,
        )
        if root is not None:
            candidate = _check_editable(candidate, root, declared, known)
        yield _check(candidate, repeated=[entry for entry, _ in entries].count(short) > 1)


def _check_editable(
    candidate: Candidate, root: Path, declared: dict[str, str] | None, installed: dict[str, str]
) -> Candidate:
    hint = _REINSTALL.format(root=root)
    if not root.is_dir():
        problem = f"it is an editable install and its folder is gone: {root}"
        return replace(candidate, problem=problem, hint=f"install it again, or: pip uninstall {candidate.distribution}")
    if candidate.name not in installed:
        problem = f"pyproject.toml declares the entry point {candidate.name!r}, but the installed metadata does not"
        return replace(candidate, problem=problem, hint=hint)
    if declared is None or declared.get(candidate.name, "").replace(" ", "") == candidate.target:
        return candidate
    now = declared.get(candidate.name)
    change = f"says {now!r} now" if now else "no longer has it"
    return replace(candidate, hint=f"the entry point is {candidate.target!r}, but pyproject.toml {change}: {hint}")


def _check(candidate: Candidate, *, repeated: bool = False) -> Candidate:
    """Add the problem of a name or a target that cannot be used, unless there is one already."""
    if candidate.problem is not None:
        return candidate
    name, whose = candidate.name, candidate.distribution or candidate.target
    if not _NAME.fullmatch(name):
        problem, hint = f"{name!r} cannot be the name of a plugin", "use letters, digits, '-', '_' and '.'"
    elif normalize(name).replace("-", "_") in HOST_KEYS:
        problem = f"{name!r} is a key of the host in [plugins]"
        hint = f"its author has to rename the entry point in {whose}" if candidate.distribution else "rename it"
    elif repeated:
        problem, hint = f"{whose} declares the entry point {name!r} twice", "its author has to rename one of them"
    elif candidate.origin in {"entry-point", "module"} and not _TARGET.fullmatch(candidate.target):
        problem, hint = f"{candidate.target!r} names no object", "write it as package.module or package.module:object"
    else:
        return candidate
    return replace(candidate, problem=problem, hint=hint)


def _local(entry: LoadEntry) -> Candidate:
    """Read one entry of `load`."""
    if entry.path is not None:
        found = _at(entry.path, entry.text)
    else:
        name, target = re.split(r"[.:]", entry.text)[-1], entry.text.replace(" ", "")
        found = Candidate(id=f"local:{name}", name=name, origin="module", target=target)
    return _check(replace(found, from_project=entry.from_project))


def at_path(path: Path) -> Candidate:
    """Return the plugin in a file or folder that somebody loads by hand."""
    return _check(_at(path, str(path)))


def given(name: str) -> Candidate:
    """Return what stands for a plugin object that is handed over."""
    return Candidate(id=f"local:{name}", name=name, origin="module", target=name)


def _at(path: Path, text: str) -> Candidate:
    path = path.resolve()  # two ways to one file are one plugin
    origin: Origin = "file" if path.suffix == ".py" else "folder"
    name = path.stem if origin == "file" else path.name
    candidate = Candidate(id=f"local:{name}", name=name, origin=origin, target=str(path), location=path)
    correct = f"correct {text!r} in [plugins] load"
    if not path.exists():
        return replace(candidate, problem=f"there is no such {origin}: {path}", hint=correct)
    if path.is_file() != (origin == "file"):
        return replace(candidate, problem=f"not a {origin}: {path}", hint=correct)
    if origin == "folder" and not (path / "__init__.py").is_file():
        hint = f"install a project folder instead: pip install -e {path}"
        return replace(candidate, problem=f"a folder of code needs an __init__.py: {path}", hint=hint)
    return candidate
