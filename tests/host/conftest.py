"""Fake installed distributions, and hooks of the tests' own specifications, one of each kind."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from greenroom._hooks import Hooks
from greenroom._kinds import Colour, Kind
from greenroom._scope import Scope
from greenroom._staging import Owner, Staged
from greenroom.hookspecs import hookspec


class Site:
    """A folder that acts as a site-packages folder.

    Attributes:
        folder: where the distributions lie.
        path: the folder as `discover(path=...)` wants it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = [str(folder)]

    def dist(
        self,
        name: str,
        version: str = "1.0",
        *,
        entries: Mapping[str, str] | str | None = None,
        modules: Mapping[str, str] | None = None,
        editable: Path | None = None,
        metadata: Sequence[str] = (),
    ) -> Path:
        """Write a distribution; `entries` is group `greenroom` or the whole text of entry_points.txt."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *metadata]
        (info / "METADATA").write_text("\n".join(head) + "\n")
        if entries is not None:
            lines = entries if isinstance(entries, str) else "\n".join(f"{k} = {v}" for k, v in entries.items())
            (info / "entry_points.txt").write_text(lines if isinstance(entries, str) else f"[greenroom]\n{lines}\n")
        if editable is not None:
            origin = {"url": editable.as_uri(), "dir_info": {"editable": True}}
            (info / "direct_url.json").write_text(json.dumps(origin))
        for file, text in (modules or {}).items():
            self.write(file, text)
        return info

    def write(self, file: str, text: str) -> Path:
        """Write a module of a distribution and return its path."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Give an empty fake site-packages folder on `sys.path`; what is imported from it is forgotten again."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(folder))
    yield Site(folder)
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if str(tmp_path) in file:
            del sys.modules[name]


class Specs:
    """One hook of each kind, and the variants that a specification may declare."""

    @staticmethod
    @hookspec(Kind.REGISTER)
    def brings(): ...

    @staticmethod
    @hookspec(Kind.SLOT)
    def only_one(): ...

    @staticmethod
    @hookspec(Kind.SETUP)
    def set_up(thing): ...

    @staticmethod
    @hookspec(Kind.GATE)
    def may_go(thing): ...

    @staticmethod
    @hookspec(Kind.ANNOUNCE)
    def born(thing): ...

    @staticmethod
    @hookspec(Kind.COLLECT)
    def parts(thing): ...

    @staticmethod
    @hookspec(Kind.OBSERVE)
    def seen(thing): ...

    @staticmethod
    @hookspec(Kind.OBSERVE, subject="agent")
    def seen_by(agent, thing): ...

    @staticmethod
    @hookspec(Kind.FIRST)
    def answer(thing): ...

    @staticmethod
    @hookspec(Kind.FIRST, colour=Colour.DEF_ONLY)
    def answer_now(thing): ...

    @staticmethod
    @hookspec(Kind.DECIDE)
    def allowed(thing): ...

    @staticmethod
    @hookspec(Kind.DECIDE, guarded=True)
    def guarded(thing): ...

    @staticmethod
    @hookspec(Kind.DECIDE, subject="ctx")
    def allowed_by(ctx, thing): ...

    @staticmethod
    @hookspec(Kind.REWRITE, value="text")
    def rewritten(thing, text): ...

    @staticmethod
    @hookspec(Kind.WRAP)
    def around(thing, call_next): ...


class Rig:
    """Hooks with the specifications above, and the failures that they reported."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, BaseException]] = []
        self.hooks: Any = Hooks(report=lambda impl, error: self.reports.append((impl.short, error)), specs=[Specs])

    def stage(
        self,
        short: str,
        *functions: Callable[..., Any],
        generation: int = 1,
        scope: Scope | None = None,
        timeout_cap: float = 120.0,
        **named: object,
    ) -> Staged:
        """Check a plugin that is made of marked functions, under their own names or the given ones."""
        plugin = SimpleNamespace(**{function.__name__: function for function in functions}, **named)
        owner = Owner(f"acme:{short}", short, "acme 1.0", generation, timeout_cap)
        staged: Staged = self.hooks.check(plugin, owner, scope=scope)
        return staged

    def add(self, short: str, *functions: Callable[..., Any], **more: Any) -> Staged:
        """Check a plugin and publish it."""
        staged = self.stage(short, *functions, **more)
        self.hooks.publish(staged)
        return staged

    @asynccontextmanager
    async def feeding(self, *plugins: Staged) -> AsyncIterator[None]:
        """Deliver to the plugins' observers meanwhile, as their scopes would do."""
        async with anyio.create_task_group() as tasks:
            for staged in plugins:
                for feed in self.hooks.feeds(staged):
                    tasks.start_soon(feed)
            yield
            tasks.cancel_scope.cancel()

    def trace(self) -> list[tuple[str, str, str | None, str | None]]:
        """Return hook, plugin, value and error of every outcome."""
        return [(o.hook, o.plugin, o.value, o.error) for o in self.hooks.engine.trace]


@pytest.fixture(scope="session")
def make_rig() -> type[Rig]:
    """Make hooks of every kind, for a test that needs them more than once."""
    return Rig


@pytest.fixture
def rig() -> Rig:
    """Give hooks of every kind that nobody implements yet."""
    return Rig()


@pytest.fixture(params=["asyncio", "trio"])
def jumping_backend(request: pytest.FixtureRequest) -> object:
    """Give both loops, trio with a clock that jumps to the next deadline: time-outs are instant there."""
    return ("trio", {"clock": MockClock(autojump_threshold=0)}) if request.param == "trio" else "asyncio"
