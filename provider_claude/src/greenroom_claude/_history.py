"""Histories on disk: rows of a session file, as the provider events of balanced turns.

A row is almost the frame that the agent wrote when it happened, so rows are turned back into frames and read by the
translator: a message has the same ids in its history as it had live. What the file cannot say — when a turn began and
how it ended — is added: a turn lasts from a prompt to the next one.

The file is a tree by `parentUuid`. Only the branch that ends in the last row is read: what a rewind cut off is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from greenroom.providers import Idle, JsonObject, ProviderError, ProviderEvent, SessionStarted, UsageUpdated

from . import _tasks
from ._translate import Translator
from ._wire import (
    INTERRUPTED,
    PLACEHOLDERS,
    TOOL_BLOCKS,
    Frame,
    content_blocks,
    int_at,
    is_noise,
    is_result,
    local_output,
    object_at,
    text_at,
    user_text,
)

_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_FIRST_YEAR = 1970
_NOT_TYPED = ("isMeta", "isSidechain", "isCompactSummary")


def prompt_text(row: JsonObject) -> str | None:
    """What a person typed in a `user` row; None if nobody did. A slash command is given as it was typed."""
    if row.get("type") != "user" or any(row.get(flag) is True for flag in _NOT_TYPED):
        return None
    message = object_at(row, "message")
    if any(is_result(block) for block in content_blocks(message)):
        return None
    text = user_text(message)
    command = _COMMAND.search(text) if text else None
    if text and command:
        arguments = _ARGUMENTS.search(text)
        return f"{command[1].strip()} {arguments[1].strip() if arguments else ''}".strip()
    return None if text is None or is_noise(text) or "<task-notification>" in text else text


def last_prompt_id(rows: Sequence[JsonObject]) -> str | None:
    """The id of the last message that a person wrote: the one that a rewind without a target goes back to."""
    return next((text_at(row, "uuid") for row in reversed(branch(rows)) if prompt_text(row) is not None), None)


def before(rows: Sequence[JsonObject], ident: str) -> str | None:
    """The id of the answer that stands before a message; None if the message is the first one.

    Raises:
        ProviderError: the history has no such message.
    """
    known = {row_id: row for row in rows if (row_id := text_at(row, "uuid"))}
    row = known.get(ident)
    if row is None:
        raise ProviderError(f"the history of Claude Code has no message {ident!r}")
    while row is not None:
        row = known.get(text_at(row, "parentUuid", "logicalParentUuid") or "")
        if row is not None and row.get("type") == "assistant":
            return text_at(row, "uuid")
    return None


def stands(rows: Sequence[JsonObject], ident: str) -> bool:
    """Whether a message stands on the branch that ends in the last row."""
    return any(text_at(row, "uuid") == ident for row in branch(rows))


def shown(rows: Sequence[JsonObject], cut: str | None) -> Sequence[JsonObject]:
    """The rows that count after a cut in front of a message: until the next prompt the file does not tell of it."""
    if cut is None or not stands(rows, cut):
        return rows
    last = before(rows, cut)
    places = [place for place, row in enumerate(rows) if text_at(row, "uuid") == last] if last is not None else []
    return rows[: places[0] + 1] if places else ()


def branch(rows: Sequence[JsonObject]) -> list[JsonObject]:
    """The rows of the branch that ends in the last message, in the order of the file; rows without an id stay.

    Results of parallel calls hang on their own calls, so they belong to the branch of their call. A parent that is not
    in the file (another version's row, a cut file) is taken to be the row before.
    """
    index = {ident: place for place, row in enumerate(rows) if (ident := text_at(row, "uuid"))}
    mains = [place for place, row in enumerate(rows) if _spoken(row) and row.get("isSidechain") is not True]
    kept: set[int] = set()
    place = mains[-1] if mains else None
    while place is not None and place not in kept:
        kept.add(place)
        parent = text_at(rows[place], "parentUuid", "logicalParentUuid")
        before = place
        place = index.get(parent) if parent else None
        if parent and place is None:
            place = next((main for main in reversed(mains) if main < before), None)
    answers = {text_at(object_at(rows[place], "message"), "id") for place in kept} - {None}
    calls = {text_at(rows[place], "uuid") for place in kept}
    for place in mains:
        row = rows[place]
        if text_at(object_at(row, "message"), "id") in answers:
            kept.add(place)
            calls.add(text_at(row, "uuid"))
        elif text_at(row, "sourceToolAssistantUUID") in calls:
            kept.add(place)
    return [row for place, row in enumerate(rows) if place in kept or not _spoken(row)]


def _spoken(row: JsonObject) -> bool:
    return text_at(row, "type") in {"user", "assistant", "system"}


class _Reader:
    """Rows to frames: the frames of the rows, and between them the beginnings and ends of turns."""

    def __init__(self, children: Mapping[str, Sequence[JsonObject]]) -> None:
        self.children = children
        self.turn: str | None = None
        self.aborted = False
        self.error: str | None = None
        self.extra = 0
        self.notified: set[str | None] = set()
        self.blocks: dict[str | None, int] = {}

    def open(self, ident: str | None) -> Iterator[Frame]:
        """End the turn that runs and begin another."""
        yield from self.close()
        if ident is None:
            self.extra += 1
            ident = f"history-{self.extra}"
        self.turn = ident
        yield {"type": "command_lifecycle", "state": "started", "command_uuid": ident}

    def close(self) -> Iterator[Frame]:
        """End the turn that runs, as its rows tell."""
        if self.turn is None:
            return
        end: Frame = {"type": "result", "subtype": "success", "is_error": False, "user_message_uuids": [self.turn]}
        if self.aborted:
            end |= {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted"}
        elif self.error is not None:
            end |= {"is_error": True, "result": self.error}
        self.turn, self.aborted, self.error = None, False, None
        yield end

    def inside(self) -> Iterator[Frame]:
        """Make sure that a turn runs."""
        if self.turn is None:
            yield from self.open(None)

    def user(self, row: JsonObject) -> Iterator[Frame]:
        """Read a `user` row."""
        ident, text = text_at(row, "uuid"), user_text(row.get("message"))
        frame: Frame = {"type": "user", "uuid": ident, "message": row.get("message"), "isReplay": True}
        notification = _tasks.from_text(text, ident)
        if notification is not None:
            self.notified.add(notification.task_id)
            yield from self.open(ident)
            yield frame
        elif row.get("isCompactSummary") is True:
            yield frame | {"isSynthetic": True}
        elif (typed := prompt_text(row)) is not None:
            yield from self.open(ident)
            images = any(block.get("type") != "text" for block in content_blocks(row.get("message")))
            yield frame if images else frame | {"message": {"role": "user", "content": typed}}
        elif row.get("isMeta") is not True:
            self.aborted = self.aborted or (text or "").startswith(INTERRUPTED)
            if any(is_result(block) for block in content_blocks(row.get("message"))):
                yield from self.inside()
            yield frame | {"tool_use_result": row.get("toolUseResult")}

    def assistant(self, row: JsonObject) -> Iterator[Frame]:
        """Read an `assistant` row: one finished block."""
        message = object_at(row, "message")
        text = user_text(message)
        if text_at(message, "model") == "<synthetic>" and text in PLACEHOLDERS:
            return
        yield from self.inside()
        failed = row.get("isApiErrorMessage") is True
        self.error = (text or "the request failed") if failed else None
        ident, blocks = text_at(message, "id"), len(list(content_blocks(message)))
        index = int_at(row, "apiBlockIndex")
        index = self.blocks.get(ident, 0) if index is None else index
        self.blocks[ident] = index + blocks
        place = {"uuid": text_at(row, "uuid"), "block_index": index}  # a message's texts are named by it
        frame: Frame = {"type": "assistant", "message": message, **place}
        yield frame | {"is_api_error_message": failed, "error": text_at(row, "error") if failed else None}
        for block in content_blocks(message):
            if text_at(block, "type") in TOOL_BLOCKS:
                yield from self.child(text_at(block, "id") or "", block)

    def child(self, call: str, block: JsonObject) -> Iterator[Frame]:
        """The rows of the sub-agent that a call started."""
        rows = self.children.get(call, ())
        given = object_at(block, "input")
        for place, row in enumerate(rows):
            agent = text_at(row, "agentId") or call
            if place == 0:
                start = {"tool_use_id": call, "task_id": agent, "task_type": "local_agent", "is_backgrounded": False}
                yield {"type": "system", "subtype": "task_started", **given, **start}
            if row.get("type") in {"user", "assistant"} and row.get("isMeta") is not True:
                kind = {"type": row["type"], "uuid": text_at(row, "uuid"), "message": row.get("message")}
                yield {**kind, "parent_tool_use_id": call, "agent_id": agent}
        if rows:
            done = {"task_id": text_at(rows[0], "agentId") or call, "patch": {"status": "completed"}}
            yield {"type": "system", "subtype": "task_updated", **done}

    def system(self, row: JsonObject) -> Iterator[Frame]:
        """Read a `system` row."""
        subtype = text_at(row, "subtype")
        if subtype == "local_command" and local_output(text_at(row, "content") or ""):
            yield {"type": "user", "message": {"content": row["content"]}}
        elif subtype == "compact_boundary":
            yield from self.inside()
            yield row
        elif subtype == "api_error":
            error = object_at(row, "error")
            yield {
                "type": "system",
                "subtype": "api_retry",
                "attempt": int_at(row, "retryAttempt"),
                "max_retries": int_at(row, "maxRetries"),
                "error_status": int_at(error, "status"),
                "error": text_at(error, "formatted"),
            }
        elif subtype == "informational":
            yield row

    def queue(self, row: JsonObject) -> Iterator[Frame]:
        """Read a `queue-operation` row: a notification, or a message that joined the turn that ran."""
        text = text_at(row, "content")
        notification = _tasks.from_text(text, None)
        absorbed = text_at(row, "reason") == "absorbed_mid_turn"
        ident = text_at(row, "commandUuid")
        if notification is not None:
            if notification.task_id not in self.notified:
                self.notified.add(notification.task_id)
                yield from self.inside()
                yield {"type": "user", "message": {"content": text}, "uuid": notification.task_id}
        elif absorbed and ident and text:
            yield from self.inside()
            yield {"type": "user", "message": {"content": text}, "uuid": ident, "isReplay": True}


def frames(
    rows: Sequence[JsonObject], children: Mapping[str, Sequence[JsonObject]]
) -> Iterator[tuple[Frame, int | None]]:
    """The frames that the rows stand for, and when they were written. Rows of an unknown kind are skipped."""
    reader = _Reader(children)
    kept = branch(rows)
    texts = (user_text(row.get("message")) for row in kept if row.get("type") == "user")
    reader.notified = {found.task_id for text in texts if (found := _tasks.from_text(text, None))}
    readers = {
        "user": reader.user,
        "assistant": reader.assistant,
        "system": reader.system,
        "queue-operation": reader.queue,
    }
    time = None
    for row in kept:
        kind = row.get("type")
        read = readers.get(kind) if isinstance(kind, str) and row.get("isSidechain") is not True else None
        if read is not None:
            before, time = time, _time(row) or time
            for frame in read(row):
                yield frame, before if frame.get("type") == "result" else time  # a turn ends before the next begins
    for frame in reader.close():
        yield frame, time


def _time(row: JsonObject) -> int | None:
    """When a row was written, in ms since the epoch."""
    try:
        written = datetime.fromisoformat(text_at(row, "timestamp") or "")
    except ValueError:
        return None
    return int(written.timestamp() * 1000) if written.tzinfo is not None and written.year >= _FIRST_YEAR else None


def history(
    rows: Sequence[JsonObject], children: Mapping[str, Sequence[JsonObject]] | None = None
) -> list[ProviderEvent]:
    """The conversation in `rows` as balanced turns, each event marked `from_history` and with its time.

    Args:
        rows: the decoded rows of a session file.
        children: the rows of its sub-agents, by the id of the call that started each.
    """
    translator = Translator()
    dated = frames(rows, children or {})
    return list(_marked((event, time) for frame, time in dated for event in translator.feed(frame)))


def _marked(events: Iterable[tuple[ProviderEvent, int | None]]) -> Iterator[ProviderEvent]:
    for event, time in events:
        if not isinstance(event, UsageUpdated | SessionStarted | Idle):
            yield replace(event, from_history=True, time=time)
