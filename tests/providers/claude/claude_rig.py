"""A host with the driver, the companion of sessions and the provider on the real binary, and agents in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import anyio
from claude_box import Box
from stub_anthropic import Stub

import greenroom_driver
import greenroom_normalize
import greenroom_sqlite
from greenroom import Host, hookimpl, load_settings
from greenroom import providers as p
from greenroom.agents import Agent, AgentHandle, AgentOptions, AgentSpec
from greenroom.sessions import Event
from greenroom_claude._provider import ClaudeProvider
from greenroom_claude._settings import ClaudeSettings
from greenroom_claude._spec import spec
from greenroom_session_invariants import SessionInvariants

NOTHING_ASKED = {"IS_SANDBOX": "1"}
"""With the mode `bypassPermissions`: tools run without a question, also for root."""


class Elsewhere:
    """A scripted model that runs already, perhaps in another process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class ClaudePlugin:
    """The plugin with an environment of its own: that of a box."""

    def __init__(self, box: Box, settings: ClaudeSettings, environ: dict[str, str]) -> None:
        self.provider = ClaudeProvider(settings, environ)

    @hookimpl
    def providers(self):
        made = spec(ClaudeSettings())
        kept = {name: getattr(made, name) for name in ("id", "label", "steps", "translator", "capabilities")}
        return [p.ProviderSpec(load=lambda: self.provider, **kept)]


class Rig:
    """A host and the agent of a test."""

    def __init__(self, host: Host, box: Box, plugin: ClaudePlugin) -> None:
        self.host, self.box, self.provider = host, box, plugin.provider
        self.handle: AgentHandle

    async def create(self, **options: Any) -> Agent:
        made = AgentSpec(cwd=self.box.cwd, options=AgentOptions(provider="claude", **options))
        self.handle = await self.host.agents.create(made, owner=self.host.scope)
        return self.handle.agent

    async def resume(self, session_id: str, **options: Any) -> Agent:
        self.handle = await self.host.agents.resume(session_id, AgentOptions(**options), owner=self.host.scope)
        return self.handle.agent

    @property
    def agent(self) -> Agent:
        return self.handle.agent

    @property
    def live(self) -> Any:
        """The provider's session."""
        return self.agent._driver.connection.live

    @property
    def process(self) -> Any:
        return self.live._process

    @property
    def events(self) -> tuple[Event, ...]:
        return self.agent.session.tail

    def of(self, *types: str) -> list[Event]:
        return [event for event in self.events if event.type in types]

    def reasons(self) -> list[str]:
        return [event.data.reason.kind for event in self.of("turn/end")]

    def texts(self) -> list[str]:
        """The answers, whole."""
        whole: dict[str | None, str] = {}
        for event in self.of("assistant/message"):
            whole[event.data.message_id] = whole.get(event.data.message_id, "") + event.data.text
        return list(whole.values())

    async def until(self, look: Callable[[], Any], *, timeout: float = 30) -> Any:
        """The first answer of `look` that is true, as the log grows."""
        with anyio.fail_after(timeout):
            while not (found := look()):  # noqa: ASYNC110 - the log has no event of its own for tests
                await anyio.sleep(0.005)
            return found

    async def logged(self, *types: str, count: int = 1) -> Event:
        await self.until(lambda: len(self.of(*types)) >= count)
        return self.of(*types)[count - 1]

    async def asked(self) -> p.PermissionRequest:
        """The question that is open."""
        return (await self.until(lambda: list(self.agent.questions.values())))[0]

    async def answer(self, response: p.PermissionResponse | None = None) -> p.PermissionRequest:
        request = await self.asked()
        await self.agent.respond(request.id, response or p.PermissionAllow())
        return request

    def complaints(self) -> list[str]:
        """What was refused by the log or had no place in it."""
        bad = {"event_refused", "stray_event", "invariant"}
        return [f"{row.code}: {row.text}" for row in self.host.diagnostics.recent if row.code in bad]


@asynccontextmanager
async def hosted(
    root: Path | Box,
    *turns: Any,
    stub: Any = None,
    settings: ClaudeSettings | None = None,
    env: dict[str, str] | None = None,
    data: Path | None = None,
    plugins: dict[str, object] | None = None,
    strict: bool = True,
    **scripted: Any,
) -> AsyncIterator[Rig]:
    """A host in front of a scripted model; `strict`: nothing that the agent says is refused or has no place."""
    stub = stub or Stub(list(turns), **scripted)
    box = root if isinstance(root, Box) else Box(root, stub)
    plugin = ClaudePlugin(box, settings or ClaudeSettings(), {**box.given, **(env or {})})
    given = {
        "driver": greenroom_driver,
        "normalize": greenroom_normalize,
        "session_invariants": SessionInvariants(),
        "claude": plugin,
        **({"sqlite": greenroom_sqlite} if data is not None else {}),
        **(plugins or {}),
    }
    with stub:
        async with Host(load_settings(), discovery=False, plugins=given, data_directory=data) as host:
            bad = [record for record in host.plugins() if record.state != "active"]
            assert not bad, bad
            rig = Rig(host, box, plugin)
            rig.stub = stub
            yield rig
            if strict:
                assert rig.complaints() == []
