"""From a tool call to its detail: one table of names, one small function per kind."""

from __future__ import annotations

import re
from collections.abc import Callable

from greenroom import hookimpl
from greenroom.providers import (
    EditDetail,
    Json,
    PlanDetail,
    ReadDetail,
    SearchDetail,
    SubAgentDetail,
    TextDetail,
    ToolDetail,
    WebFetchDetail,
    WebResult,
    WriteDetail,
)

from ._diffs import changes_detail, edits_of, envelope_detail, hunks_diff, short_diff
from ._fields import CONTENT, DIFF, NEW, OLD, PATH, as_object, flag_at, int_at, list_at, text_at
from ._names import leaf_name, mcp_name
from ._shell import shell_detail
from ._text import clean_text, flatten
from ._todo import todo_items, todo_text

Builder = Callable[[Json, Json], ToolDetail | None]
_LINE_NUMBER = re.compile(r"^ *\d+[\t→]")


def _read(input: Json, output: Json) -> ReadDetail | None:
    file = as_object(output).get("file")
    path = text_at(PATH, input, file, output)
    if path is None:
        return None
    content = text_at(CONTENT, file) if isinstance(file, dict) else flatten(output)
    offset, limit = int_at(("offset",), input), int_at(("limit",), input)
    return ReadDetail(path, content=_without_numbers(content), offset=offset, limit=limit)


def _without_numbers(text: str | None) -> str | None:
    """`text` without the line numbers that a reader tool puts in front of every line, if every line has one."""
    if text is None:
        return None
    lines = clean_text(text).split("\n")
    if all(_LINE_NUMBER.match(line) for line in lines):
        return "\n".join(_LINE_NUMBER.sub("", line) for line in lines)
    return "\n".join(lines)


def _write(input: Json, output: Json) -> WriteDetail | None:
    path = text_at(PATH, input, output)
    content = text_at(CONTENT, input)
    return None if path is None else WriteDetail(path, content=None if content is None else clean_text(content))


def _edit(input: Json, output: Json) -> ToolDetail | None:
    if isinstance(input, str):
        return envelope_detail(input)
    envelope = text_at(("input", *DIFF), input)
    found = envelope_detail(envelope) if envelope else None
    if found is None and "changes" in as_object(input):
        return changes_detail(input["changes"])
    path = text_at(PATH, input, output)
    if found is not None or path is None:
        return found
    old, new = edits_of(input)
    old, new = text_at(OLD, input) if old is None else old, text_at(NEW, input) if new is None else new
    diff = text_at(DIFF, input)
    hunks = list_at(("structuredPatch",), output)
    return EditDetail(
        path,
        old=None if old is None else clean_text(old),
        new=None if new is None else clean_text(new),
        diff=hunks_diff(hunks) if hunks else short_diff(diff) if diff else None,
    )


def _grep(input: Json, output: Json) -> SearchDetail | None:
    query = text_at(("pattern", "query"), input)
    if query is None:
        return None
    matches = int_at(("numMatches", "numLines", "numFiles"), output)
    files = _paths(output)
    return SearchDetail(query, "grep", content=flatten(output), paths=files, matches=matches)


def _glob(input: Json, output: Json) -> SearchDetail | None:
    query = text_at(("pattern", "query"), input)
    if query is None:
        return None
    files = _paths(output)
    if files is None and isinstance(output, str):
        files = tuple(line for line in clean_text(output).split("\n") if line)
    matches = int_at(("totalMatches", "numFiles"), output)
    return SearchDetail(query, "glob", paths=files, matches=matches, truncated=flag_at(("truncated",), output))


def _paths(output: Json) -> tuple[str, ...] | None:
    found = list_at(("filenames", "files", "paths"), output)
    return tuple(name for name in found if isinstance(name, str)) if found else None


def _search(input: Json, output: Json) -> SearchDetail | None:
    query = text_at(("query", "pattern"), input)
    return None if query is None else SearchDetail(query, content=flatten(output), paths=_paths(output))


def _web_search(input: Json, output: Json) -> SearchDetail | None:
    query = text_at(("query",), input, as_object(input).get("action"))
    if query is None:
        return None
    hits = []
    for row in list_at(("results", "content"), output) or (output if isinstance(output, list) else []):
        for hit in list_at(("content",), row) or [row]:
            url = text_at(("url",), hit)
            if url:
                hits.append(WebResult(clean_text(text_at(("title",), hit) or url), url))
    return SearchDetail(query, "web_search", content=None if hits else flatten(output), web_results=tuple(hits) or None)


def _web_fetch(input: Json, output: Json) -> WebFetchDetail | None:
    url = text_at(("url",), input, output)
    if url is None:
        return None
    status = int_at(("code", "status", "status_code"), output)
    return WebFetchDetail(url, prompt=text_at(("prompt",), input), result=flatten(output), status=status)


def _sub_agent(input: Json, output: Json) -> SubAgentDetail | None:
    description = text_at(("description", "prompt", "message"), input)
    if description is None:
        return None
    kind = text_at(("subagent_type", "agent_type", "agentType"), input, output)
    child = text_at(("agentId", "agent_id", "receiverThreadId", "newThreadId"), output)
    return SubAgentDetail(clean_text(description), agent_type=kind, child_id=child)


def _plan(input: Json, output: Json) -> PlanDetail | None:
    text = text_at(("plan",), input, output)
    return None if text is None else PlanDetail(clean_text(text))


def _todo(input: Json, output: Json) -> TextDetail | None:
    items = todo_items(input) if todo_items(input) is not None else todo_items(output)
    return None if items is None else TextDetail("Todo", text=todo_text(items), icon="pencil")


def _skill(input: Json, output: Json) -> TextDetail | None:
    name = text_at(("skill", "name", "command"), input)
    return None if name is None else TextDetail(clean_text(name), text=flatten(output), icon="sparkles")


def _names(builder: Builder, *names: str) -> dict[str, Builder]:
    return dict.fromkeys(names, builder)


TABLE: dict[str, Builder] = {
    **_names(shell_detail, "Bash", "bash", "shell", "exec_command", "local_shell", "commandExecution", "BashOutput"),
    **_names(_read, "Read", "read", "read_file", "view_file", "NotebookRead", "view_image", "imageView"),
    **_names(_write, "Write", "write", "write_file", "create_file"),
    **_names(_edit, "Edit", "edit", "MultiEdit", "multi_edit", "NotebookEdit", "str_replace_editor"),
    **_names(_edit, "apply_patch", "apply_diff", "fileChange"),
    **_names(_grep, "Grep", "grep"),
    **_names(_glob, "Glob", "glob"),
    **_names(_search, "search", "ToolSearch"),
    **_names(_web_search, "WebSearch", "web_search", "webSearch"),
    **_names(_web_fetch, "WebFetch", "web_fetch", "webfetch", "webFetch"),
    **_names(_sub_agent, "Agent", "Task", "spawn_agent", "collabAgentToolCall"),
    **_names(_plan, "ExitPlanMode", "exit_plan_mode"),
    **_names(_todo, "TodoWrite", "update_plan", "TaskList"),
    **_names(_skill, "Skill", "skill"),
}
"""Name of a tool, in every spelling that was seen, to what makes its detail. Both families in one table."""

_OVER_MCP = frozenset({"read_file", "write_file"})
"""Tools of MCP servers whose meaning their name tells; the others are shown as they are."""


@hookimpl
def normalize_tool_call(provider: str, name: str, input: Json, output: Json) -> ToolDetail | None:
    """The canonical detail of a tool call, or None when nothing is known about it.

    Args:
        provider: id of the provider; the table needs none, names do not collide between the families.
        name: the tool's name as the provider spells it.
        input: its input, perhaps only the part that has arrived.
        output: its result as the provider gave it, None while it runs.
    """
    del provider
    if mcp_name(name):
        leaf = leaf_name(name)
        builder = TABLE.get(leaf) if leaf in _OVER_MCP else None
    else:
        builder = TABLE.get(name)
    return builder(input, output) if builder else None
