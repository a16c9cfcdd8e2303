"""Finding the agent's binary, and asking it for its version and its login without a session."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from greenroom.providers import Availability, JsonObject, ProviderError, decode_wire

from ._wire import text_at

PROBE = 5.0
"""Seconds that each question to the binary may take."""
MINIMUM = (2, 1, 0)
"""The oldest version whose frames are understood (2.1.197 and 2.1.332 are tested)."""
_INSTALL = "install it (npm install -g @anthropic-ai/claude-code), or: pip install 'greenroom-claude[binary]'"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Where the agent is, and how it was found."""

    path: str
    source: Literal["setting", "path", "wheel"]


def find_binary(setting: str | None, env: Mapping[str, str]) -> Binary:
    """The binary: the setting, else `claude` on PATH, else the one in the wheel of `claude-agent-sdk`.

    Raises:
        ProviderError: there is none, or the setting names nothing that can be run.
    """
    path = env.get("PATH", os.defpath)
    if setting:
        found = shutil.which(str(Path(setting).expanduser()), path=path)
        if found is None:
            raise ProviderError(f"the setting `binary` names nothing that can be run: {setting}", hint=_INSTALL)
        return Binary(path=_runnable(found), source="setting")
    found = shutil.which("claude", path=path)
    if found is not None:
        return Binary(path=_runnable(found), source="path")
    wheel = _in_wheel()
    if wheel is None:
        raise ProviderError("Claude Code is not installed: no `claude` on PATH", hint=_INSTALL)
    return Binary(path=wheel, source="wheel")


def _runnable(found: str) -> str:
    if found.lower().endswith((".bat", ".cmd")):  # they are run by a shell, which re-reads our arguments
        raise ProviderError(f"{found} is a batch file and is not run", hint="point the setting `binary` to claude.exe")
    return str(Path(found).absolute())


def _in_wheel() -> str | None:
    spec = importlib.util.find_spec("claude_agent_sdk")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder) / "_bundled" / ("claude.exe" if sys.platform == "win32" else "claude")
        if os.access(binary, os.X_OK):
            return str(binary)
    return None


async def availability(setting: str | None, env: Mapping[str, str], prefix: Sequence[str] = ()) -> Availability:
    """Whether a session can be opened: the binary is there, new enough, and logged in. Opens none, never raises.

    Args:
        setting: the setting `binary`, or None.
        env: the environment that the agent would get.
        prefix: arguments that stand in front of all others.
    """
    try:
        binary = find_binary(setting, env).path
    except ProviderError as error:
        return Availability(ok=False, problem=error.args[0], hint=error.hint)
    status, said = await _ask([binary, *prefix, "--version"], env)
    found = _VERSION.search(said) if status == 0 else None
    if found is None:
        problem = f"{binary} --version did not answer as Claude Code does: {said.strip() or 'no output'}"
        return Availability(ok=False, binary=binary, problem=problem, hint=_INSTALL)
    version = found.group()
    if tuple(map(int, found.groups())) < MINIMUM:
        minimum = ".".join(map(str, MINIMUM))
        problem = f"Claude Code {version} is too old, {minimum} is needed"
        return Availability(ok=False, binary=binary, version=version, problem=problem, hint="run: claude update")
    login = _login(await _auth([binary, *prefix], env))
    if login is None:
        problem, hint = "Claude Code is not logged in", "run `claude` once and log in, or set ANTHROPIC_API_KEY"
        return Availability(ok=False, binary=binary, version=version, problem=problem, hint=hint)
    return Availability(ok=True, binary=binary, version=version, login=login)


async def _auth(command: Sequence[str], env: Mapping[str, str]) -> JsonObject:
    _, said = await _ask([*command, "auth", "status"], env)
    try:
        state = decode_wire(said)
    except ValueError:
        return {"loggedIn": True}  # it cannot say: the first turn will
    return state if isinstance(state, dict) else {"loggedIn": True}


def _login(state: JsonObject) -> str | None:
    if state.get("loggedIn") is not True:
        return None
    email = text_at(state, "email")
    if email:
        return f"signed in as {email}"
    return (text_at(state, "authMethod", "tokenSource") or "unknown").replace("_", " ")


async def _ask(argv: Sequence[str], env: Mapping[str, str]) -> tuple[int | None, str]:
    """Exit status and output of a short command; (None, reason) if it did not end or could not be started."""
    try:
        with anyio.fail_after(PROBE):
            done = await anyio.run_process(argv, env=dict(env), check=False, start_new_session=True)
    except TimeoutError:
        return None, f"no answer in {PROBE:g} s"
    except OSError as error:
        return None, error.strerror or str(error)
    output = done.stdout or done.stderr
    return done.returncode, output.decode(errors="replace")[:4_096]
