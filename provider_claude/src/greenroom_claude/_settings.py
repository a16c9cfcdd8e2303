"""What the user can set, and which folders' own settings the agent may load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from greenroom.providers import decode_wire

from ._wire import object_at

_LOADED = (".claude", ".mcp.json", "CLAUDE.md")
"""What of a folder the agent would load: hooks and rules, servers, instructions."""


class ClaudeSettings(BaseModel):
    """`[plugins.claude]`.

    Attributes:
        binary: the program; default: `claude` on PATH, else the one in the wheel of `claude-agent-sdk`.
        environment: names or patterns of further variables that the agent gets.
        arguments: further arguments of the command line.
        project_settings: whether hooks, servers and instructions of a folder are loaded: those of folders that are
            trusted, `always` or `never`. A folder is trusted when Claude Code itself was told so there, or above it.
        bypass: whether a session may be switched to the mode that never asks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    binary: str | None = None
    environment: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    project_settings: Literal["trusted", "always", "never"] = "trusted"
    bypass: bool = True


def loads_project(settings: ClaudeSettings, cwd: Path, env: Mapping[str, str]) -> bool:
    """Whether the settings of `cwd` may be loaded by an agent with the environment `env`."""
    if settings.project_settings != "trusted":
        return settings.project_settings == "always"
    folder = env.get("CLAUDE_CONFIG_DIR") or env.get("HOME") or str(Path.home())
    try:
        projects = object_at(decode_wire((Path(folder) / ".claude.json").read_bytes()), "projects")
    except (OSError, ValueError):
        return False
    known = (object_at(projects, str(place)) for place in (cwd, *cwd.parents))
    return any(row.get("hasTrustDialogAccepted") is True for row in known)


def has_project_settings(cwd: Path) -> bool:
    """Whether the folder holds something that a trusted one would load."""
    return any((cwd / name).exists() for name in _LOADED)
