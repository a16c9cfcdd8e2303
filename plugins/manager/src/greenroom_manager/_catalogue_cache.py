"""What was found out about providers: kept for each folder, stale after a while, asked anew once at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import anyio

from greenroom.agents import ProviderEntry
from greenroom.providers import Availability

from ._catalogue_specs import Offer, with_models

FRESH: Final = 300_000
"""Milliseconds for which an answer counts: models and log-ins change seldom, but they do."""
ASKING: Final = 30.0
"""Seconds for one provider: a version and a login probe of 5 s each, a catalogue that may start a program."""
FOLDERS: Final = 16
"""Folders of which answers are kept, the latest used."""

Changed: TypeAlias = Callable[[Path, ProviderEntry], None]


@dataclass(slots=True)
class _Line:
    """One provider in one folder. `asked` counts the questions, `heard` is the latest one that was answered."""

    entry: ProviderEntry
    offer: Offer
    asked: int = 0
    heard: int = 0


@dataclass(slots=True)
class _Folder:
    lines: dict[str, _Line] = field(default_factory=dict)
    warming: bool = False


class Cache:
    """See the module.

    Args:
        clock: ms since the epoch.
        spawn: runs a warm-up in the background.
        changed: hears of each entry that is another one now.
    """

    def __init__(
        self, clock: Callable[[], int], spawn: Callable[[Callable[[], Awaitable[None]], str], None], changed: Changed
    ) -> None:
        self._clock: Final = clock
        self._spawn: Final = spawn
        self._changed: Final = changed
        self._folders: dict[Path, _Folder] = {}
        self._turn: Final = anyio.Lock()

    def entries(self, cwd: Path, offers: Iterable[Offer]) -> Sequence[ProviderEntry]:
        """What is known of these providers; what is not, or is stale, is being found out in the background."""
        folder, known = self._folder(cwd), list(offers)
        self._keep(folder, cwd, known)
        wanting = [line for line in folder.lines.values() if self._stale(line)]
        if wanting and not folder.warming:
            folder.warming = True

            async def warm() -> None:
                await self._warm(cwd, folder)

            self._spawn(warm, f"warm-up of providers for {cwd}")
        return [line.entry for line in folder.lines.values()]

    async def refresh(self, cwd: Path, offers: Iterable[Offer], only: str | None) -> Sequence[ProviderEntry]:
        """Ask those that are enabled now, whatever is known and whoever else asks."""
        folder, known = self._folder(cwd), list(offers)
        self._keep(folder, cwd, known)
        wanted = [line for name, line in folder.lines.items() if only in (None, name)]
        await self._ask_all(cwd, [line for line in wanted if line.entry.status != "disabled"], fresh=True)
        return [line.entry for name, line in folder.lines.items() if only in (None, name)]

    def get(self, cwd: Path, offer: Offer) -> ProviderEntry | None:
        """What is known of a provider, None if nothing is or it is stale."""
        line = self._folders[cwd].lines.get(offer.spec.id) if cwd in self._folders else None
        return line.entry if line is not None and line.offer == offer and not self._stale(line) else None

    # inside

    def _folder(self, cwd: Path) -> _Folder:
        folder = self._folders.pop(cwd, None) or _Folder()
        self._folders[cwd] = folder  # the latest used last
        while len(self._folders) > FOLDERS:
            del self._folders[next(iter(self._folders))]
        return folder

    def _keep(self, folder: _Folder, cwd: Path, offers: Sequence[Offer]) -> None:
        """Have a line for each provider as it is now; what was known of one that is another now counts no more."""
        old, folder.lines = folder.lines, {}
        for offer in offers:
            name = offer.spec.id
            line = old.get(name)
            if line is not None and line.offer == offer:
                folder.lines[name] = line
                continue
            folder.lines[name] = fresh = _Line(_first(offer, self._clock()), offer)
            if line is not None:
                self._changed(cwd, fresh.entry)

    def _stale(self, line: _Line) -> bool:
        if line.entry.status == "disabled" or line.offer.problem is not None:
            return False
        at = line.entry.fetched_at
        return at is None or not 0 <= self._clock() - at <= FRESH

    async def _warm(self, cwd: Path, folder: _Folder) -> None:
        try:
            async with self._turn:
                await self._ask_all(cwd, [line for line in folder.lines.values() if self._stale(line)], fresh=False)
        finally:
            folder.warming = False

    async def _ask_all(self, cwd: Path, lines: Sequence[_Line], *, fresh: bool) -> None:
        async with anyio.create_task_group() as tasks:
            for line in lines:
                tasks.start_soon(self._ask, cwd, line, fresh)

    async def _ask(self, cwd: Path, line: _Line, fresh: bool) -> None:  # noqa: FBT001 - handed to `start_soon`
        if line.offer.problem is not None:
            return
        line.asked += 1
        number = line.asked
        entry = await ask(line.offer, cwd, self._clock, fresh=fresh)
        if number < line.heard:
            return  # one that was asked later has answered already
        line.heard, line.entry = number, entry
        folder = self._folders.get(cwd)
        if folder is not None and folder.lines.get(entry.id) is line:
            self._changed(cwd, entry)


def _first(offer: Offer, now: int) -> ProviderEntry:
    """What is shown of a provider before it was asked."""
    spec = offer.spec
    if not offer.settings.enabled:
        return ProviderEntry(id=spec.id, label=spec.label, status="disabled")
    if offer.problem is not None:
        return ProviderEntry(id=spec.id, label=spec.label, status="error", problem=offer.problem, fetched_at=now)
    return ProviderEntry(id=spec.id, label=spec.label, status="loading")


async def ask(offer: Offer, cwd: Path, clock: Callable[[], int], *, fresh: bool) -> ProviderEntry:
    """Ask a provider whether it can be used and what it offers; never raises but when it is cancelled."""
    spec, found = offer.spec, None
    try:
        with anyio.fail_after(ASKING):
            provider = spec.load()
            found = await provider.availability()
            catalogue = await provider.catalogue(cwd=cwd, fresh=fresh) if found.ok else None
    except Exception as error:  # noqa: BLE001 - a plugin's code; that it failed is the answer
        problem, hint = said_of(error)
        return ProviderEntry(
            id=spec.id,
            label=spec.label,
            status="error",
            availability=found,
            problem=problem,
            hint=hint,
            fetched_at=clock(),
        )
    return ProviderEntry(
        id=spec.id,
        label=spec.label,
        status="unavailable" if catalogue is None else "ready",
        availability=found,
        catalogue=with_models(catalogue, offer.settings) if catalogue is not None else None,
        problem=found.problem,
        hint=found.hint,
        fetched_at=clock(),
    )


async def probe(offer: Offer) -> Availability:
    """Ask a provider only whether it can be used; never raises but when it is cancelled."""
    try:
        with anyio.fail_after(ASKING):
            return await offer.spec.load().availability()
    except Exception as error:  # noqa: BLE001 - a plugin's code; that it failed is the answer
        problem, hint = said_of(error)
        return Availability(ok=False, problem=problem, hint=hint)


def said_of(error: Exception) -> tuple[str, str | None]:
    """What to tell of a failure, and its hint."""
    if isinstance(error, TimeoutError):
        return f"no answer within {ASKING:g} s", None
    text = str(error.args[0]) if error.args else ""
    known = getattr(error, "hint", None)
    return (text if text and hasattr(error, "hint") else f"{type(error).__name__}: {text}"), known
