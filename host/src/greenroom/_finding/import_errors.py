"""Say what went wrong when a plugin was imported, and what to do about it."""

from __future__ import annotations

import platform
import traceback
from collections.abc import Iterable
from pathlib import Path

from importlib_metadata import Distribution

from greenroom._finding.discovery import Candidate
from greenroom._finding.metadata import distributions, missing_requirements, normalize
from greenroom._lifecycle import Phase
from greenroom._version import __version__
from greenroom.errors import PluginError


def explain(candidate: Candidate, error: BaseException) -> PluginError:
    """Return what to raise `from error` for whatever the import of `candidate` raised."""
    message = _message(candidate, error)
    try:
        hint = _wrong_python(candidate) or _hint(candidate, error)
    except Exception:  # noqa: BLE001 - it reads foreign metadata; a hint is not worth hiding the error for
        hint = None
    return PluginError(f"{candidate.id}: {message}", hint=hint, plugin=candidate.id, phase=Phase.IMPORT)


def _message(candidate: Candidate, error: BaseException) -> str:
    match error:
        case SystemExit():
            text = f"it called sys.exit({error.code!r}) while it was imported"
        case SyntaxError():
            return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
        case _:
            lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
            text = lines[0] if lines else type(error).__name__
    return text + _place(candidate, error)


def _hint(candidate: Candidate, error: BaseException) -> str | None:
    match error:
        case SystemExit():
            return "a plugin must not end the process; its author should raise an error, or do this work in activate"
        case SyntaxError():
            return "correct the file" if candidate.distribution is None else f"upgrade {candidate.distribution}"
        case ModuleNotFoundError(name=str(name)):
            return _missing_module(candidate, name)
        case ImportError(name=str(name)):
            return _wrong_version(name)
    return None


def _place(candidate: Candidate, error: BaseException) -> str:
    """Return ` (file:line)` of the innermost frame that is the plugin's, else of the innermost foreign one."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen ")]
    own = [f for f in frames if _is_own(candidate, f.filename)]
    frames = own or [f for f in frames if not f.filename.startswith(str(Path(__file__).parent))]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _is_own(candidate: Candidate, filename: str) -> bool:
    if candidate.origin in {"file", "folder"}:
        return filename.startswith(candidate.target)
    return candidate.target.partition(":")[0].partition(".")[0] in Path(filename).with_suffix("").parts


def _wrong_python(candidate: Candidate) -> str | None:
    dist = _distribution(candidate)
    wanted = dist.metadata.get("Requires-Python") if dist is not None else None
    if not wanted:
        return None
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # only a failed import asks

    try:
        if SpecifierSet(wanted).contains(platform.python_version(), prereleases=True):
            return None
    except InvalidSpecifier:
        return None
    return f"{candidate.distribution} needs Python {wanted}, and this is {platform.python_version()}"


def _missing_module(candidate: Candidate, name: str) -> str:
    top = name.partition(".")[0]
    if candidate.origin in {"file", "folder"}:
        folder = Path(candidate.target) if candidate.origin == "folder" else Path(candidate.target).parent
        if (folder / f"{top}.py").exists() or (folder / top).is_dir():
            if candidate.origin == "folder":
                return f"its own modules are imported relatively: from . import {top}"
            return f"a file cannot import its neighbours; name a folder with an __init__.py in [plugins] load: {folder}"
    elif top == candidate.target.partition(":")[0].partition(".")[0]:
        return _missing_target(candidate)
    if top == "greenroom":
        return _wrong_version(name)
    dist = _distribution(candidate)
    extra = _extra_with(dist, top) if dist is not None else None
    if extra:
        return f'install its extra: pip install "{candidate.distribution}[{extra}]"'
    missing = missing_requirements(dist) if dist is not None else []
    if missing:
        return f"install what it requires: pip install {' '.join(missing)}"
    return f"install the distribution that provides the module {top!r}, often: pip install {top}"


def _missing_target(candidate: Candidate) -> str:
    if candidate.editable:
        return (
            f"its editable install points at a missing module; look in {candidate.location}, "
            f"or reinstall it: pip install -e {candidate.location}"
        )
    if candidate.distribution is not None:
        return f"the installed files do not hold what its metadata names; reinstall {candidate.distribution}"
    return "the folder that holds it must be on the import path (PYTHONPATH), or correct [plugins] load"


def _wrong_version(name: str) -> str:
    top = name.partition(".")[0]
    if top == "greenroom":
        return f"it was written for another version of greenroom; this is {__version__}"
    dist = next(distributions(name=top), None)
    installed = f"{top} {dist.version} is installed" if dist is not None else f"it comes from the module {name}"
    return f"it needs another version of {top}; {installed}"


def _extra_with(dist: Distribution, top: str) -> str | None:
    """Return the extra of a distribution that requires something with the name of the module."""
    from packaging.requirements import Requirement  # only a failed import asks

    for extra in dist.metadata.get_all("Provides-Extra") or ():
        for requirement in map(Requirement, dist.requires or ()):
            marker = requirement.marker
            if normalize(requirement.name) != normalize(top) or marker is None:
                continue
            if marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""}):
                return str(extra)
    return None


def _distribution(candidate: Candidate) -> Distribution | None:
    if candidate.distribution is None:
        return None
    found: Iterable[Distribution] = distributions(name=candidate.distribution)
    return next(iter(found), None)
