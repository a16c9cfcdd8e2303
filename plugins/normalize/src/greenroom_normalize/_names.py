"""Names: of tools that come over MCP, and of states."""

from __future__ import annotations

from typing import Literal, NamedTuple

_MCP_SEGMENTS = 3  # mcp__<server>__<tool>; a server's tool may contain further double underscores


class McpName(NamedTuple):
    """A tool of an MCP server, kept apart from its server."""

    server: str
    tool: str


def mcp_name(name: str) -> McpName | None:
    """Server and tool in `mcp__<server>__<tool>` or `<server>.<tool>`; None for any other name."""
    parts = name.split("__", _MCP_SEGMENTS - 1)
    if len(parts) == _MCP_SEGMENTS and parts[0] == "mcp" and parts[1] and parts[2]:
        return McpName(parts[1], parts[2])
    server, dot, tool = name.partition(".")
    return McpName(server, tool) if dot and server and tool else None


def leaf_name(name: str) -> str:
    """The last segment of a name, without server or namespace."""
    found = mcp_name(name)
    return (found.tool if found else name).rsplit("__", 1)[-1].rsplit(".", 1)[-1]


Status = Literal["running", "completed", "failed", "canceled"]

_STATUS: dict[str, Status] = {
    **dict.fromkeys(("failed", "failure", "error", "errored", "rejected", "denied", "declined"), "failed"),
    **dict.fromkeys(("canceled", "cancelled", "interrupted", "aborted"), "canceled"),
    **dict.fromkeys(("completed", "complete", "done", "success", "succeeded"), "completed"),
}


def status_of(word: str | None, *, has_output: bool = False) -> Status:
    """The status that a provider's word means. An unknown word: running; no word: completed if there is output."""
    if word is None:
        return "completed" if has_output else "running"
    return _STATUS.get(word.strip().lower(), "running")
