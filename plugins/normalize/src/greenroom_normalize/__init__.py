"""Canonical details for the tool calls of coding agents, as pure functions.

The module is the plugin: `normalize_tool_call` is the implementation of the hook of that name.
"""

from __future__ import annotations

from ._calls import TABLE, normalize_tool_call
from ._diffs import changes_detail, envelope_detail
from ._names import McpName, leaf_name, mcp_name, status_of
from ._shell import unwrap_command, unwrap_output
from ._text import DIFF_LIMIT, clean_text, flatten, truncate
from ._todo import todo_items, todo_text

greenroom_api = "1"

__all__ = [
    "DIFF_LIMIT",
    "TABLE",
    "McpName",
    "changes_detail",
    "clean_text",
    "envelope_detail",
    "flatten",
    "leaf_name",
    "mcp_name",
    "normalize_tool_call",
    "status_of",
    "todo_items",
    "todo_text",
    "truncate",
    "unwrap_command",
    "unwrap_output",
]
