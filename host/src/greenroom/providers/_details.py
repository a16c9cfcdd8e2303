"""The parts that provider events are made of: tool details, usage, todo items, permissions.

Field names and variants: the "Tool details", "Usage" and "Permission request" paragraphs of the vocabulary. In every
detail the required field stands first; the others are None until the provider says them. Constructors refuse unknown
fields, decoders ignore them.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

Json = Any  # data of a vendor; nothing in greenroom reads it without checking its type first
"""Any JSON value."""
JsonObject = dict[str, Json]
"""A JSON object."""

ToolStatus = Literal["running", "completed", "failed", "canceled", "unknown"]
"""State of a tool call. All but `running` are terminal."""


class _Detail(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of the tool details: what a client can draw without knowing the tool."""


class ShellDetail(_Detail, frozen=True, tag="shell"):
    """A command. `command` is one line as a person would type it; `output` is hygienic text."""

    command: str
    cwd: str | None = None
    output: str | None = None
    exit_code: int | None = None


class ReadDetail(_Detail, frozen=True, tag="read"):
    """A file that was read; `offset` (first line, from 1) and `limit` are lines."""

    path: str
    content: str | None = None
    offset: int | None = None
    limit: int | None = None


class EditDetail(_Detail, frozen=True, tag="edit"):
    """A change inside a file: `old` and `new` text, or a unified `diff`, or both."""

    path: str
    old: str | None = None
    new: str | None = None
    diff: str | None = None


class WriteDetail(_Detail, frozen=True, tag="write"):
    """A whole file that was written."""

    path: str
    content: str | None = None


class WebResult(msgspec.Struct, frozen=True):
    """One hit of a web search."""

    title: str
    url: str


class SearchDetail(_Detail, frozen=True, tag="search"):
    """A search in files or on the web. `matches` counts hits (files for a glob); `truncated` says that more exist."""

    query: str
    tool: Literal["search", "grep", "glob", "web_search"] = "search"
    content: str | None = None
    paths: tuple[str, ...] | None = None
    web_results: tuple[WebResult, ...] | None = None
    matches: int | None = None
    truncated: bool | None = None


class WebFetchDetail(_Detail, frozen=True, tag="web_fetch"):
    """A page that was fetched; `status` is the HTTP status."""

    url: str
    prompt: str | None = None
    result: str | None = None
    status: int | None = None


class SubAgentAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One tool call of a sub-agent, in a line."""

    index: int
    tool: str
    summary: str | None = None


class SubAgentDetail(_Detail, frozen=True, tag="sub_agent"):
    """Delegated work: `log` has one line per action, `actions` the last ones."""

    description: str | None = None
    agent_type: str | None = None
    child_id: str | None = None
    log: str = ""
    actions: tuple[SubAgentAction, ...] = ()


class PlanDetail(_Detail, frozen=True, tag="plan"):
    """A plan, in Markdown."""

    text: str


class TextDetail(_Detail, frozen=True, tag="text"):
    """A labelled note. `icon` is a name that a client may know."""

    label: str
    text: str | None = None
    icon: str | None = None


class UnknownDetail(_Detail, frozen=True, tag="unknown"):
    """A tool that nobody described: its input and output as they are."""

    input: Json = None
    output: Json = None


ToolDetail = (
    ShellDetail
    | ReadDetail
    | EditDetail
    | WriteDetail
    | SearchDetail
    | WebFetchDetail
    | SubAgentDetail
    | PlanDetail
    | TextDetail
    | UnknownDetail
)
"""What a tool call is about, by kind (`type` on the wire)."""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost. Tokens are counts, the cost is in US dollars; all optional, all finite.

    `context_used` of `context_max` tokens is how full the window of the main conversation is.
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_cost_usd: float | None = None
    context_max: int | None = None
    context_used: int | None = None


def finite_usage(usage: Usage | None) -> Usage | None:
    """`usage` itself, or None if any number in it is not finite: half a truth about cost is worse than none."""
    if usage is None:
        return None
    values = (getattr(usage, name) for name in usage.__struct_fields__)
    return usage if all(value is None or math.isfinite(value) for value in values) else None


class TodoItem(msgspec.Struct, frozen=True):
    """One line of a todo list."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class PermissionAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A button of a question; `variant` is how a client may draw it."""

    id: str
    label: str
    behavior: Literal["allow", "deny"]
    variant: Literal["primary", "secondary", "danger"] | None = None


class PermissionRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question of the provider that blocks it until it is answered or withdrawn.

    `id` is the provider's id of the question, `call_id` the tool call it is about (None when there is none).
    `suggestions` are rules in the provider's own shape; an answer may send some back as `updated_permissions`.
    """

    id: str
    name: str
    kind: Literal["tool", "plan", "question", "mode", "other"] = "tool"
    title: str | None = None
    description: str | None = None
    input: JsonObject | None = None
    detail: ToolDetail | None = None
    suggestions: tuple[JsonObject, ...] = ()
    actions: tuple[PermissionAction, ...] = ()
    call_id: str | None = None


class PermissionAllow(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="behavior", tag="allow"):
    """Yes. `updated_input` replaces the input as a whole; `action` is the id of the button."""

    updated_input: JsonObject | None = None
    updated_permissions: tuple[JsonObject, ...] = ()
    action: str | None = None


class PermissionDeny(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="behavior", tag="deny"):
    """No. `message` reaches the model unless `interrupt`, which ends the turn."""

    message: str | None = None
    interrupt: bool = False
    action: str | None = None


PermissionResponse = PermissionAllow | PermissionDeny
"""An answer to a question."""


class Mode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A permission mode that the provider offers."""

    id: str
    label: str
    description: str | None = None
