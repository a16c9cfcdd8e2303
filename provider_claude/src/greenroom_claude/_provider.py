"""The provider: what can be said and done without a live conversation, and the way into one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from greenroom.providers import (
    Availability,
    Catalogue,
    Handle,
    JsonObject,
    Launch,
    NativeSession,
    Notice,
    OpenRequest,
    Provider,
    ProviderError,
    ProviderEvent,
    ProviderLink,
    ProviderSession,
    StaleSession,
)

from ._arguments import Options
from ._binary import availability, find_binary
from ._catalogue import catalogue
from ._environment import describe, launch_environment
from ._files import SessionFile, config_dir, describe_session, find_session, list_sessions, read_history
from ._process import ProcessExited, spawn
from ._session import ClaudeSession, Setting
from ._settings import ClaudeSettings, has_project_settings, loads_project
from ._wire import Frame

MARKER = "GREENROOM_AGENT_ID"
_UNTRUSTED = "Hooks, servers and instructions of this folder are not loaded: Claude Code was not told to trust it."

_NOTHING_KEPT = "Claude Code has kept nothing of this conversation. It begins anew and does not know what was said."


class ClaudeProvider(Provider):
    """See `Provider`.

    Args:
        settings: of the plugin.
        environ: our environment; what of it passes to the agent is chosen for every process.
        new_id: makes UUIDs.
        launch: how the user wants it to be started; stronger than `settings`.
    """

    def __init__(
        self,
        settings: ClaudeSettings,
        environ: Mapping[str, str] | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        launch: Launch | None = None,
    ) -> None:
        self._settings = settings
        self._launch = launch = launch or Launch()
        self._binary = launch.command[0] if launch.command else settings.binary
        self._environ = os.environ if environ is None else environ
        self._new_id = new_id

    async def availability(self) -> Availability:
        """See `Provider.availability`; asks the binary twice and opens no session."""
        return await availability(self._binary, self._env({}), self._launch.command[1:])

    async def open(self, request: OpenRequest, link: ProviderLink) -> ProviderSession:
        """See `Provider.open`."""
        if not request.cwd.is_dir():
            raise ProviderError(f"the folder {request.cwd} is gone", hint="make it again, or start in another one")
        setting = self._setting(request.cwd, link.env)
        if setting.config.exists() and not (setting.config.is_dir() and os.access(setting.config, os.W_OK)):
            hint = "make it writable, or choose another one: CLAUDE_CONFIG_DIR"
            raise ProviderError(f"Claude Code cannot write its folder {setting.config}", hint=hint)
        if request.max_output_tokens is not None:
            setting.env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_output_tokens)
        resume = request.handle.native_id if request.handle is not None else None
        fresh = None
        if resume is not None and await anyio.to_thread.run_sync(find_session, setting.config, resume) is None:
            fresh, resume = _again(resume, setting.config), None
        isolated = not loads_project(self._settings, request.cwd, setting.env)
        options = Options(
            model=None if request.model == "default" else request.model,
            mode=request.mode,
            effort=request.thinking,
            resume=resume,
            session_id=fresh,
            may_bypass=self._settings.bypass and _may_bypass(setting.env),
            isolated=isolated,
        )
        session = ClaudeSession(setting, options, link, self._new_id)
        try:
            await session.launch()
        except StaleSession as error:
            told = _elsewhere(resume, setting)
            if told is None:
                raise
            raise told from error
        if fresh is not None:
            link.emit(Notice(level="warning", message=_NOTHING_KEPT, code="nothing_kept"))
        if isolated and request.handle is None and has_project_settings(request.cwd):
            link.emit(Notice(message=_UNTRUSTED, code="untrusted_folder"))
        return session

    async def catalogue(self, *, cwd: Path, fresh: bool = False) -> Catalogue:
        """See `Provider.catalogue`; starts a process and ends it, so it is always fresh."""
        del fresh
        marker = {MARKER: f"catalogue-{self._new_id()}"}
        setting = self._setting(cwd, marker)
        isolated = not loads_project(self._settings, cwd, setting.env)
        process = await spawn(setting.launch(Options(isolated=isolated)))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.run, _ignore)
                try:
                    answer: JsonObject = await process.control("initialize", hooks=None)
                finally:
                    await process.stop(interrupt=False)
        except* ProcessExited as errors:
            said = process.stderr_tail.strip() or process.obituary()
            raise ProviderError(f"Claude Code did not start: {said}") from errors
        except* TimeoutError as errors:
            raise ProviderError("Claude Code did not answer to its start") from errors
        return catalogue(answer)

    async def list_native(self, *, cwd: Path | None, limit: int) -> Sequence[NativeSession]:
        """See `Provider.list_native`; reads both ends of each file and changes none."""
        config, place = config_dir(self._env({})), str(cwd) if cwd is not None else None
        found = await anyio.to_thread.run_sync(
            lambda: list_sessions(config, cwd=place, limit=limit), abandon_on_cancel=True
        )
        return [_native(session, Path(session.cwd)) for session in found if session.cwd is not None]

    async def native(self, handle: Handle) -> NativeSession | None:
        """See `Provider.native`."""
        config = config_dir(self._env({}))

        def look() -> SessionFile | None:
            path = find_session(config, handle.native_id)
            return describe_session(path) if path is not None else None

        found = await anyio.to_thread.run_sync(look)
        return _native(found, Path(found.cwd)) if found is not None and found.cwd is not None else None

    async def import_native(self, handle: Handle) -> Sequence[ProviderEvent]:
        """See `Provider.import_native`."""
        config = config_dir(self._env({}))

        def read() -> Sequence[ProviderEvent]:
            path = find_session(config, handle.native_id)
            if path is None:
                raise StaleSession(f"Claude Code has no conversation {handle.native_id} in {config}")
            return read_history(path)

        return await anyio.to_thread.run_sync(read)

    async def diagnose(self) -> str:
        """See `Provider.diagnose`."""
        state, env = await self.availability(), self._env({})
        rows = {
            "binary": state.binary or "not found",
            "version": state.version or "unknown",
            "login": state.login or "none",
            "configuration": str(config_dir(env)),
            "problem": f"{state.problem} ({state.hint})" if state.problem else "none found",
        }
        told = [f"{name}: {value}" for name, value in rows.items()]
        return "\n".join([*told, "environment:", *(f"  {name}={value}" for name, value in describe(env).items())])

    def _env(self, marker: Mapping[str, str]) -> dict[str, str]:
        added = {**self._launch.env, **marker}
        return launch_environment(self._environ, marker=added, passed=self._settings.environment)

    def _setting(self, cwd: Path, marker: Mapping[str, str]) -> Setting:
        env, launch = self._env(marker), self._launch
        barred = (f"--disallowedTools={','.join(launch.disallowed_tools)}",) if launch.disallowed_tools else ()
        return Setting(
            binary=find_binary(self._binary, env).path,
            prefix=launch.command[1:],
            cwd=cwd,
            env=env,
            marker=dict(marker),
            config=config_dir(env),
            extra=(*self._settings.arguments, *launch.arguments, *barred),
        )


def _native(session: SessionFile, cwd: Path) -> NativeSession:
    return NativeSession(
        handle=Handle(native_id=session.id),
        cwd=cwd,
        title=session.title,
        first_prompt=session.first_prompt,
        updated_at=session.updated_at,
    )


def _again(native_id: str, config: Path) -> str:
    """The id to begin a conversation with of which no file is left: its first turn may have died before one was made.

    Raises:
        StaleSession: the agent takes no such id.
    """
    try:
        return str(uuid.UUID(native_id))
    except ValueError:
        raise StaleSession(f"Claude Code has no conversation {native_id} in {config}") from None


def _elsewhere(native_id: str | None, setting: Setting) -> StaleSession | None:
    """A conversation whose file is there was refused for the folder: the agent continues it only where it began."""
    path = find_session(setting.config, native_id) if native_id is not None else None
    known = describe_session(path) if path is not None else None
    if known is None or known.cwd is None or Path(known.cwd) == setting.cwd:
        return None
    told = f"Claude Code continues the conversation {native_id} only in {known.cwd}, where it began"
    return StaleSession(told, hint=f"not in {setting.cwd}")


def _may_bypass(env: Mapping[str, str]) -> bool:
    """Whether the agent would start with the ability to bypass: it refuses to, for root outside of a sandbox."""
    return os.name == "nt" or os.geteuid() != 0 or env.get("IS_SANDBOX") == "1"


async def _ignore(_: Frame) -> None:
    """A process that is only asked what it offers says nothing else of interest."""
