"""What of our environment the agent gets: a list of what passes, minus what marks an agent inside an agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

PASSED = (
    # the person and the machine
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    *("TMPDIR", "TMP", "TEMP", "PWD", "XDG_*", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "EDITOR"),
    *("SYSTEMROOT", "COMSPEC", "PATHEXT", "WINDIR", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PROGRAMDATA"),
    # the network
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"),
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_TTY", "GNUPGHOME"),
    # the tools that the agent runs
    *("VIRTUAL_ENV", "CONDA_*", "PYENV_*", "UV_*", "NVM_*", "GOPATH", "GOROOT", "JAVA_HOME", "CARGO_HOME"),
    *("RUSTUP_HOME", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH", "GIT_*", "GH_*", "GITHUB_*", "DOCKER_*", "KUBECONFIG"),
    # the agent itself, and the ways to its models
    *("ANTHROPIC_*", "CLAUDE_*", "DISABLE_*", "BASH_*_MS", "BASH_MAX_*", "MCP_*", "MAX_*", "ENABLE_TOOL_SEARCH"),
    *("IS_SANDBOX", "AWS_*", "GOOGLE_*", "CLOUD_ML_REGION", "VERTEX_*", "AZURE_*", "API_TIMEOUT_MS", "USE_BUILTIN_*"),
)
"""Names and patterns of variables that pass."""

NESTED = (
    *("CLAUDECODE", "CLAUDE_PID", "CLAUDE_EFFORT", "AI_AGENT"),
    *("CLAUDE_CODE_SESSION_*", "CLAUDE_CODE_CHILD_*", "CLAUDE_CODE_MESSAGING_*", "CLAUDE_CODE_ENTRYPOINT"),
    *("CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_PARENT_*", "CLAUDE_CODE_AGENT_*"),
    *("CLAUDE_AGENT_SDK_*", "CLAUDE_CODE_TASK_*"),
)
"""What an agent sets for its tools: inherited, it would make ours believe that it runs inside another."""

OURS = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",  # how a program that drives it over stream-json names itself
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",  # it says when nothing runs
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",  # a bad mode is a frame, not only a line on stderr
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true",  # files can be taken back to a message
    "MCP_TIMEOUT": "600000",  # a tool of the host may wait for a person
    "MCP_TOOL_TIMEOUT": "600000",
}
"""What we set; the user's own values of the last two win."""

_USERS_CHOICE = frozenset({"MCP_TIMEOUT", "MCP_TOOL_TIMEOUT"})
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SHORTEST_SECRET = 8  # shorter values ("1", "none") would blacken ordinary text


def launch_environment(
    inherited: Mapping[str, str], *, marker: Mapping[str, str], passed: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of an agent's process.

    Args:
        inherited: ours.
        marker: what the host adds to every process of the session.
        passed: further names or patterns that pass (a setting).
    """
    patterns = (*PASSED, *passed)
    env = {
        name: value
        for name, value in inherited.items()
        if _matches(name, patterns) and not (_matches(name, NESTED) and name not in passed)
    }
    kept = {name: value for name, value in env.items() if name in _USERS_CHOICE}
    return {**env, **OURS, **kept, **marker}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_secret(name: str) -> bool:
    """Whether the value of a variable may never be shown."""
    return _SECRET.search(name) is not None


def describe(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for a log or a report: values that may be secrets are replaced."""
    return {name: "***" if is_secret(name) else value for name, value in sorted(env.items())}


def redact(text: str, env: Mapping[str, str]) -> str:
    """`text` without the secrets of `env`."""
    for name, value in env.items():
        if is_secret(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text
