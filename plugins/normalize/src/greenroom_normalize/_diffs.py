"""Changes of files in their several shapes, as one unified diff."""

from __future__ import annotations

import re

from greenroom.providers import EditDetail, Json, WriteDetail

from ._fields import CONTENT, DIFF, NEW, OLD, PATH, as_object, list_at, text_at
from ._text import DIFF_LIMIT, clean_text, truncate

_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$")
_MOVE = "*** Move to: "


def hunks_diff(hunks: list[Json]) -> str | None:
    """A diff from structured hunks `{oldStart, oldLines, newStart, newLines, lines}`; None when there are none."""
    out = []
    for hunk in map(as_object, hunks):
        lines = [line for line in hunk.get("lines") or [] if isinstance(line, str)]
        if lines:
            numbers = [hunk.get(key, 0) for key in ("oldStart", "oldLines", "newStart", "newLines")]
            out.append("@@ -{},{} +{},{} @@".format(*numbers))
            out.extend(lines)
    return short_diff("\n".join(out)) if out else None


def short_diff(diff: str) -> str:
    """`diff` without control characters, at most `DIFF_LIMIT` characters."""
    return truncate(clean_text(diff), DIFF_LIMIT)


def envelope_detail(text: str) -> EditDetail | WriteDetail | None:
    """The detail of a patch envelope (`*** Begin Patch`); None if `text` is none.

    One new file is a write; anything else is an edit whose diff names every file.
    """
    if "*** Begin Patch" not in text:
        return None
    files: list[tuple[str, str, list[str]]] = []
    for line in clean_text(text).split("\n"):
        head = _FILE.match(line)
        if head:
            files.append((head[1], head[2], []))
        elif files and not line.startswith(("*** ", "\\")):
            files[-1][2].append(line)
        elif files and line.startswith(_MOVE):
            files[-1][2].insert(0, f"rename to {line.removeprefix(_MOVE)}")
    if not files:
        return None
    kind, path, lines = files[0]
    if len(files) == 1 and kind == "Add":
        return WriteDetail(path, "".join(line[1:] + "\n" for line in lines if line.startswith("+")))
    diff = "\n".join(_file_diff(*file) for file in files)
    return EditDetail(", ".join(file[1] for file in files), diff=short_diff(diff))


def _file_diff(kind: str, path: str, lines: list[str]) -> str:
    before = "/dev/null" if kind == "Add" else f"a/{path}"
    after = "/dev/null" if kind == "Delete" else f"b/{path}"
    while lines and not lines[-1]:
        lines = lines[:-1]
    return "\n".join((f"--- {before}", f"+++ {after}", *lines))


def changes_detail(changes: Json) -> EditDetail | WriteDetail | None:
    """The detail of a list of changes, or of an object of changes keyed by path.

    A change without content says too little for an edit: only paths give None (never an empty edit).
    """
    if isinstance(changes, dict):
        changes = [{**as_object(change), "path": path} for path, change in changes.items()]
    parts = [part for part in map(_change, changes if isinstance(changes, list) else []) if part]
    if not parts:
        return None
    if len(parts) == 1 and parts[0][0] == "add":
        return WriteDetail(parts[0][1], parts[0][2])
    diff = "\n".join(_change_diff(*part) for part in parts)
    return EditDetail(", ".join(part[1] for part in parts), diff=short_diff(diff))


def _change(change: Json) -> tuple[str, str, str] | None:
    path = text_at(PATH, change)
    if path is None:
        return None
    kind = as_object(change).get("kind", as_object(change).get("type"))
    kind = as_object(kind).get("type", kind)
    body = text_at((*DIFF, *CONTENT), change)
    if body is None and kind != "delete":
        return None
    return (kind if isinstance(kind, str) else "update"), path, clean_text(body or "")


def _change_diff(kind: str, path: str, body: str) -> str:
    if kind == "update" or body.startswith(("@@", "--- ", "diff ")):
        return body if body.startswith(("--- ", "diff ")) else f"--- a/{path}\n+++ b/{path}\n{body.rstrip()}"
    sign = "-" if kind == "delete" else "+"
    lines = [sign + line for line in body.splitlines()]
    return _file_diff(kind.capitalize(), path, lines)


def edits_of(input: Json) -> tuple[str | None, str | None]:
    """Old and new text of a list of edits (`edits`), joined; (None, None) without one."""
    edits = list_at(("edits",), input)
    if not edits:
        return None, None
    old, new = ("\n…\n".join(text_at(keys, edit) or "" for edit in edits) for keys in (OLD, NEW))
    return clean_text(old), clean_text(new)
