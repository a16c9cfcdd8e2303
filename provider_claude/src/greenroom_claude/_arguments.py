"""The command line of a session. Long texts are not in it: they go with `initialize`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from greenroom.providers import JsonObject, ProviderError

BASE = (
    *("-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose"),
    "--include-partial-messages",
    "--replay-user-messages",
    *("--permission-prompt-tool", "stdio"),
)
MODES = ("default", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\[\]/@-]{0,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a session is started with.

    Attributes:
        resume: native id of the conversation to continue; `resume_at` cuts it behind a message, `fork` copies it.
        session_id: id for a new conversation.
        may_bypass: the mode `bypassPermissions` can be chosen later.
        isolated: load no settings, hooks and servers of the folder (one that the user has not trusted).
        mcp_servers: servers beside the user's own, by name.
    """

    model: str | None = None
    mode: str | None = None
    effort: str | None = None
    resume: str | None = None
    resume_at: str | None = None
    fork: bool = False
    session_id: str | None = None
    may_bypass: bool = False
    isolated: bool = False
    mcp_servers: Mapping[str, JsonObject] = field(default_factory=dict)


def arguments(options: Options) -> list[str]:
    """The arguments behind the binary.

    Every value is one argument together with its flag, and checked: a stored id must never become a flag.

    Raises:
        ProviderError: a value has characters that no such value has, or the mode is unknown.
    """
    if options.mode is not None and options.mode not in MODES:
        raise ProviderError(f"there is no mode {options.mode!r}", hint=f"one of: {', '.join(MODES)}")
    words = {"--model": options.model, "--permission-mode": options.mode, "--effort": options.effort}
    ids = {"--resume": options.resume, "--resume-session-at": options.resume_at, "--session-id": options.session_id}
    argv = [*BASE]
    argv += [f"{flag}={_checked(flag, value, _WORD)}" for flag, value in words.items() if value is not None]
    argv += [f"{flag}={_checked(flag, value, _ID)}" for flag, value in ids.items() if value is not None]
    if options.fork:
        argv.append("--fork-session")
    if options.may_bypass or options.mode == "bypassPermissions":
        argv.append("--allow-dangerously-skip-permissions")
    if options.mcp_servers:
        servers = msgspec.json.encode({"mcpServers": dict(options.mcp_servers)}).decode()
        argv.append(f"--mcp-config={servers}")
    if options.isolated:
        argv += ["--setting-sources=", "--strict-mcp-config"]
    return argv


def _checked(flag: str, value: str, pattern: re.Pattern[str]) -> str:
    if not pattern.fullmatch(value):
        raise ProviderError(f"{value!r} is no value for {flag}")
    return value
