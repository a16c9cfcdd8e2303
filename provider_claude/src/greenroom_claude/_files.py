"""Where Claude Code keeps its sessions, and reading them without changing a byte.

`<config>/projects/<folder of the cwd>/<session id>.jsonl`, with the rows of sub-agents beside it in
`<session id>/subagents/agent-<id>.jsonl` and the call that started each in `agent-<id>.meta.json`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from greenroom.providers import JsonObject, ProviderEvent, decode_wire

from ._history import history, prompt_text, shown
from ._wire import one_line, text_at

EDGE = 256 * 1024
"""Bytes at each end of a file that a listing reads: the first prompt is at the head, titles are at the tail."""
TITLE = 200
_NAME = re.compile(r"[^A-Za-z0-9]")
_SESSION = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session as a listing shows it.

    Attributes:
        updated_at: when the file was last written, ms since the epoch.
        title: the title that was given, else the last prompt, else the first one, at most 200 characters.
    """

    id: str
    path: Path
    cwd: str | None
    title: str | None
    first_prompt: str | None
    updated_at: int
    size: int


def config_dir(env: Mapping[str, str]) -> Path:
    """The agent's configuration folder under these environment variables."""
    chosen = env.get("CLAUDE_CONFIG_DIR")
    return Path(chosen) if chosen else Path(env.get("HOME") or Path.home()) / ".claude"


def project_folder(cwd: str) -> str:
    """The name of the folder for a cwd. Long ones are cut and hashed by the agent, so listings compare rows instead."""
    return _NAME.sub("-", cwd)


def read_rows(path: Path) -> list[JsonObject]:
    """The rows of a file. A line that is no JSON object (torn by a crash, of another format) is skipped."""
    with path.open("rb") as file:
        return list(_rows(file))


def _rows(lines: Iterable[bytes]) -> Iterator[JsonObject]:
    for line in lines:
        try:
            row = decode_wire(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def read_children(path: Path) -> dict[str, list[JsonObject]]:
    """The rows of a session's sub-agents, by the call that started each."""
    found: dict[str, list[JsonObject]] = {}
    folder = path.with_suffix("") / "subagents"
    for meta in sorted(folder.glob("agent-*.meta.json")) if folder.is_dir() else ():
        try:
            call = text_at(decode_wire(meta.read_bytes()), "toolUseId")
        except ValueError:
            continue
        rows = meta.with_name(meta.name.removesuffix(".meta.json") + ".jsonl")
        if call and rows.is_file():
            found[call] = read_rows(rows)
    return found


def read_history(path: Path, cut: str | None = None) -> list[ProviderEvent]:
    """The conversation in a file, in front of the message `cut` if there is one."""
    return history(shown(read_rows(path), cut), read_children(path))


def find_session(config: Path, session_id: str) -> Path | None:
    """The file of a session, in whichever project it is. An id that could leave the folder is not looked for."""
    if not _SESSION.fullmatch(session_id):
        return None
    return next((config / "projects").glob(f"*/{session_id}.jsonl"), None)


def describe_session(path: Path) -> SessionFile | None:
    """One session as a listing shows it; None if it has no prompt, or is gone."""
    try:
        status = path.stat()
        return _summary(path, status.st_mtime_ns // 1_000_000, status.st_size)
    except FileNotFoundError:
        return None


def list_sessions(config: Path, *, cwd: str | None = None, limit: int | None = None) -> list[SessionFile]:
    """The sessions with at least one prompt, the latest first.

    Args:
        config: the agent's configuration folder.
        cwd: only sessions that began there.
        limit: at most so many.
    """
    dated = []
    for path in (config / "projects").glob("*/*.jsonl"):
        try:
            status = path.stat()
        except FileNotFoundError:  # deleted meanwhile
            continue
        dated.append((status.st_mtime_ns, path, status.st_size))
    found: list[SessionFile] = []
    for time_ns, path, size in sorted(dated, reverse=True):
        if limit is not None and len(found) >= limit:
            break
        session = _summary(path, time_ns // 1_000_000, size)
        if session is not None and (cwd is None or session.cwd == cwd):
            found.append(session)
    return found


def _summary(path: Path, updated_at: int, size: int) -> SessionFile | None:
    head, tail = _edges(path, size)
    first = title = last = cwd = None
    for row in (*head, *tail):
        cwd = cwd or text_at(row, "cwd")
        first = first or prompt_text(row)
        title = text_at(row, "customTitle") or title
        last = text_at(row, "lastPrompt") or last
    if first is None and last is None:
        return None
    shown = title or last or first
    return SessionFile(
        id=path.stem,
        path=path,
        cwd=cwd,
        title=one_line(shown, TITLE) if shown else None,
        first_prompt=first,
        updated_at=updated_at,
        size=size,
    )


def _edges(path: Path, size: int) -> tuple[list[JsonObject], list[JsonObject]]:
    with path.open("rb") as file:
        if size <= 2 * EDGE:
            return list(_rows(file)), []
        head = file.read(EDGE).split(b"\n")[:-1]
        file.seek(-EDGE, os.SEEK_END)
        return list(_rows(head)), list(_rows(file.read().split(b"\n")[1:]))
