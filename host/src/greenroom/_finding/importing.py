"""Import one plugin, bounded in time, and take back what its import brought in.

Everything that foreign code can do at import ends here as a `PluginError` with the
plugin's id, the phase and a hint: it raises, exits, hangs, needs something that is
missing, or brings a class where an instance is meant.
"""

from __future__ import annotations

import difflib
import importlib
import re
import sys
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import anyio

from greenroom._finding.discovery import Candidate
from greenroom._finding.import_errors import explain
from greenroom._finding.sources import LOCAL
from greenroom._lifecycle import Phase
from greenroom._version import API_VERSION
from greenroom.errors import PluginError, PluginLeaked


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """What an import gave.

    Attributes:
        object: the plugin: a module or an instance.
        module: the module that the target names.
        modules: the names that the import added to `sys.modules` under the plugin's own top-level package.
    """

    object: object
    module: ModuleType
    modules: frozenset[str]


class _Packages:
    """How many live plugins stand on a top-level package, and which modules it had before the first of them.

    `sys.modules` belongs to the process, so this does, too: two hosts in one process share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[str, int] = {}
        self._before: dict[str, frozenset[str]] = {}

    def enter(self, top: str) -> None:
        """Count one more plugin."""
        with self._lock:
            if top not in self._users:
                self._before[top] = frozenset(_modules_of(top))
            self._users[top] = self._users.get(top, 0) + 1

    def leave(self, top: str, failed: frozenset[str] = frozenset()) -> None:
        """Count one less, drop the modules of a failed import, and with the last plugin all that came since."""
        with self._lock:
            self._users[top] -= 1
            drop = failed
            if not self._users[top]:
                del self._users[top]
                before = self._before.pop(top)
                drop = frozenset() if top in _COMMON else frozenset(_modules_of(top)) - before
            for name in drop:
                _drop(name)
        LOCAL.remove(top)


_PACKAGES: Final = _Packages()
# Modules of these are everybody's; a plugin that lives in one of them leaves them behind.
_COMMON: Final = sys.stdlib_module_names | {"greenroom"}
_LEAKED: Final[dict[str, str]] = {}  # target -> where its import hangs; until the process ends


def import_plugin(candidate: Candidate) -> Imported:
    """Import a plugin in this thread, for as long as its code takes.

    Raises:
        PluginError: with phase `discover`, `import` or `check`; nothing of the plugin stays in `sys.modules`.
        PluginLeaked: an earlier import of the same target has not returned.
    """
    if candidate.problem is not None:
        text = f"{candidate.id}: {candidate.problem}"
        raise PluginError(text, hint=candidate.hint, plugin=candidate.id, phase=Phase.DISCOVER)
    if candidate.target in _LEAKED:
        raise _leaked(candidate, f"an earlier import of it hangs{_LEAKED[candidate.target]}")
    if candidate.origin in {"file", "folder"}:
        name, attr = LOCAL.add(candidate.name, Path(candidate.target)), ""
    else:
        name, _, attr = candidate.target.partition(":")
    top = name.partition(".")[0]
    before = frozenset(_modules_of(top))
    _PACKAGES.enter(top)
    try:
        module = importlib.import_module(name)
        plugin = _resolve(candidate, module, attr)
        check_api(plugin, candidate, module)
    except BaseException as error:
        _PACKAGES.leave(top, frozenset(_modules_of(top)) - before)
        if isinstance(error, PluginError) and error.plugin == candidate.id:
            raise
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise  # a person pressed Ctrl-C; in another thread the plugin raised it
        raise explain(candidate, error) from error
    return Imported(plugin, module, frozenset(_modules_of(top)) - before)


def forget(imported: Imported) -> None:
    """Drop the modules that a load brought in, also those that the plugin imported later.

    Only modules under its own top-level package that were not there before, and none of them
    while another live plugin stands on the same package.
    """
    _PACKAGES.leave(imported.module.__name__.partition(".")[0])


async def import_with_timeout(candidate: Candidate, timeout: float) -> Imported:
    """Import a plugin in a daemon thread of its own and wait for it; the loop goes on meanwhile.

    Args:
        candidate: what to import.
        timeout: in real seconds. Nothing can end a thread that hangs, so after it the target is
            refused until the process ends.

    Raises:
        PluginError: as `import_plugin`.
        PluginLeaked: it did not return in time; says where it hangs.

    Cancellation: the import may still run to its end; what it brings in is dropped then.
    """
    job = _Job(candidate)
    thread = threading.Thread(target=job.run, name=f"greenroom import {candidate.id}", daemon=True)
    thread.start()
    try:
        # A limiter of its own: the waiting thread takes no place from the host's blocking work.
        limiter = anyio.CapacityLimiter(1)
        await anyio.to_thread.run_sync(job.returned.wait, timeout, abandon_on_cancel=True, limiter=limiter)
    except BaseException:
        outcome = job.take()
        job.returned.set()  # ends the waiting thread
        if isinstance(outcome, Imported):
            forget(outcome)
        raise
    outcome = job.take()
    if outcome is None:
        where = _where(thread)
        _LEAKED[candidate.target] = where
        raise _leaked(candidate, f"its import did not return within {timeout:g} s and hangs{where}")
    if isinstance(outcome, Imported):
        return outcome
    raise outcome


class _Job:
    """One import in a thread, and the one moment in which its outcome is taken or given up."""

    def __init__(self, candidate: Candidate) -> None:
        self.returned = threading.Event()
        self._candidate = candidate
        self._lock = threading.Lock()
        self._given_up = False
        self._outcome: Imported | PluginError | None = None

    def run(self) -> None:
        """Import; the body of the thread."""
        try:
            outcome: Imported | PluginError = import_plugin(self._candidate)
        except PluginError as error:
            outcome = error
        except BaseException as error:  # noqa: BLE001 - an object whose repr raises, say; nobody else sees this thread
            text = f"{self._candidate.id}: its import failed with {type(error).__name__}"
            outcome = PluginError(text, plugin=self._candidate.id, phase=Phase.IMPORT)
        with self._lock:
            self._outcome = outcome
            too_late = self._given_up
        self.returned.set()
        if too_late and isinstance(outcome, Imported):
            forget(outcome)

    def take(self) -> Imported | PluginError | None:
        """Return the outcome; None if there is none yet, and then it is given up."""
        with self._lock:
            self._given_up = self._outcome is None
            return self._outcome


def _resolve(candidate: Candidate, module: ModuleType, attr: str) -> object:
    found: object = module
    for part in filter(None, attr.split(".")):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, dir(found), n=1)
            hint = f"did you mean {close[0]!r}?" if close else "correct the entry point, or the object's name"
            text = f"{candidate.id}: {module.__name__} has no {attr!r}"
            raise PluginError(text, hint=hint, plugin=candidate.id, phase=Phase.IMPORT)
        found = getattr(found, part)
    return found


def check_api(plugin: object, candidate: Candidate, module: ModuleType | None = None) -> None:
    """Refuse a class, and an object that was written for another range of the plugin API.

    `greenroom_api` stands on the object or on its module; without it every host will do.

    Raises:
        PluginError: with phase `check`.
    """
    if isinstance(plugin, type):
        text = f"{candidate.id}: {candidate.target} is a class where an instance is meant"
        hint = f"write `{candidate.name.replace('-', '_')} = {plugin.__name__}()` and name that in the entry point"
        raise PluginError(text, hint=hint, plugin=candidate.id, phase=Phase.CHECK)
    wanted = getattr(plugin, "greenroom_api", getattr(module, "greenroom_api", None))
    if wanted is None or wanted == API_VERSION:
        return
    if not isinstance(wanted, str) or not _in_range(wanted):
        text = f"{candidate.id}: it is written for the plugin API {wanted!r}, and this host offers {API_VERSION!r}"
        hint = f"install a version of {candidate.distribution or candidate.name} for API {API_VERSION}"
        raise PluginError(text, hint=hint, plugin=candidate.id, phase=Phase.CHECK)


def _in_range(wanted: str) -> bool:
    """Whether the host's API is in a range: `"1"` (every 1.x), or a version specifier like `">=1,<2"`."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # slow to import; most plugins say "1" or nothing

    try:
        return SpecifierSet(f"=={wanted}.*" if re.fullmatch(r"[\d.]+", wanted) else wanted).contains(API_VERSION)
    except InvalidSpecifier:
        return False


def _leaked(candidate: Candidate, what: str) -> PluginLeaked:
    hint = "it cannot be loaded again before a restart; import_timeout in [plugins] gives a slow plugin more time"
    return PluginLeaked(f"{candidate.id}: {what}", hint=hint, plugin=candidate.id, phase=Phase.IMPORT)


def _where(thread: threading.Thread) -> str:
    """Return ` in file:line` of what a thread is doing."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented; the one way to see another thread
    if frame is None:
        return ""
    last = traceback.extract_stack(frame)[-1]
    return f" in {last.filename}:{last.lineno}"


def _modules_of(top: str) -> list[str]:
    return [name for name in list(sys.modules) if name == top or name.startswith(f"{top}.")]


def _drop(name: str) -> None:
    module = sys.modules.pop(name, None)
    parent, _, child = name.rpartition(".")
    if module is not None and getattr(sys.modules.get(parent), child, None) is module:
        delattr(sys.modules[parent], child)
