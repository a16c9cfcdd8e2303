"""A session as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from greenroom.providers import PermissionAllow, Usage
from greenroom.sessions import Event
from greenroom.sessions.vocabulary import CORE_DECODERS, Reason, Text, ToolCall, ToolResult, TurnEnd

WIDTH: Final = 100
"""Characters of a tool call's line; the whole stands in the log."""

_MARKS: Final = {"completed": "✓", "failed": "✗", "canceled": "-", "unknown": "?"}


class Transcript:
    """Prints events as they come: text as it streams, a tool call in a line, reasoning dimmed.

    Args:
        echo_prompts: whether to print the prompts too, as for a session that is read afterwards.
    """

    def __init__(self, *, echo_prompts: bool) -> None:
        self._echo_prompts = echo_prompts
        self._inline: str | None = None
        self._calls: dict[str, str] = {}
        self._methods: Mapping[str, Callable[[Any], None]] = {
            "user/message": self._prompt,
            "steering/message": self._prompt,
            "assistant/message": lambda data: self.piece("text", data.text),
            "assistant/reasoning": lambda data: self.piece("reasoning", data.text),
            "tool/call": self._call,
            "tool/result": self._result,
            "permission/asked": lambda data: self.line(f"? {data.request.title or data.request.name}", fg="yellow"),
            "permission/answered": self._answered,
            "notice": lambda data: self.line(f"! {data.message}", fg="yellow"),
            "compaction/start": lambda _data: self.line("… shortening the context", dim=True),
            "turn/end": self._end,
        }

    def show(self, event: Event) -> None:
        """Print an event, if it is one for people."""
        method = self._methods.get(event.type)
        if method is not None:
            method(event.data)

    def show_row(self, type_name: str, item: bytes) -> None:
        """Print what one row of a timeline says."""
        method = self._methods.get(type_name)
        if method is not None:
            method(CORE_DECODERS[type_name](item))

    def summary(self, session_id: str, seconds: float, usage: Usage | None) -> None:
        """Print the last line of a run."""
        parts = [f"{seconds:.1f} s"]
        if usage is not None and (usage.input_tokens is not None or usage.output_tokens is not None):
            parts.append(f"{usage.input_tokens or 0} tokens in, {usage.output_tokens or 0} out")
        self.line(" · ".join([*parts, f"session {session_id}"]), dim=True)

    def finish(self) -> None:
        """End the line that is being written, if there is one."""
        if self._inline is not None:
            click.echo()
            self._inline = None

    def piece(self, kind: str, text: object) -> None:
        """Print more of a text: of the answer, or of its `reasoning`."""
        if not text:
            return
        if self._inline not in (None, kind):
            click.echo()
        self._inline = kind
        said = text if isinstance(text, str) else f"[{getattr(text, 'bytes', '?')} bytes]"
        click.secho(clean(said), nl=False, dim=kind == "reasoning")

    def line(self, text: str, **style: Any) -> None:  # noqa: ANN401 - click's own style options
        """Print a line of its own."""
        self.finish()
        click.secho(clean(text), **style)

    def _prompt(self, data: Any) -> None:  # noqa: ANN401 - the two kinds of prompts share a shape
        if self._echo_prompts:
            words = "\n".join(str(block.text) for block in data.message.content if isinstance(block, Text))
            self.line(f"> {words}", bold=True)

    def _call(self, data: ToolCall) -> None:
        self._calls[data.call_id] = f"{data.name} {summarise(data.detail)}".strip()

    def _result(self, data: ToolResult) -> None:
        what = self._calls.pop(data.call_id, data.call_id)
        self.call(data.status, what, data.error, data.output)

    def call(self, status: str, what: str, error: str | None, output: object) -> None:
        """Print a tool call in one line: how it ended, what it was, the first words of what came out."""
        said = error if error is not None else output if isinstance(output, str) else ""
        first = said.strip().splitlines()[0] if said.strip() else ""
        line = f"{_MARKS.get(status, '…')} {what}" + (f" → {first}" if first else "")
        self.line(line[:WIDTH] + ("…" if len(line) > WIDTH else ""), fg="red" if error else "cyan")

    def _answered(self, data: Any) -> None:  # noqa: ANN401 - two kinds of answers share a tag
        verdict = "allowed" if isinstance(data.response, PermissionAllow) else "denied"
        why = getattr(data.response, "message", None)
        self.line(f"  {verdict} by {_who(data.by)}" + (f": {why}" if why else ""), dim=True)

    def _end(self, data: TurnEnd) -> None:
        told = ending(data.reason)
        if told is not None:
            self.line(told, fg="red" if data.reason.kind == "error" else "yellow")
        else:
            self.finish()


def _who(by: str) -> str:
    """Who has answered a question, in words."""
    kind, _, plugin = by.partition(":")
    return {"policy": "policy (nobody was asked)", "hook": f"plugin {plugin}"}.get(kind, by)


def ending(reason: Reason) -> str | None:
    """What to say about the end of a turn; None if it ended by itself."""
    if reason.kind == "completed":
        return None
    if reason.kind == "error":
        return f"error: {reason.message}" + (f" ({reason.code})" if reason.code else "")
    if reason.kind == "blocked":
        return f"blocked by {reason.by}: {reason.reason}"
    if reason.kind == "max_tokens":
        return "the answer was cut: its limit of tokens was reached"
    return f"{reason.kind}" + (f" by {reason.cause}" if reason.cause else "")


def summarise(detail: object) -> str:
    """What a call is about, in a few words."""
    for name in ("command", "path", "query", "url", "description", "label", "text"):
        value = detail.get(name) if isinstance(detail, Mapping) else getattr(detail, name, None)
        if isinstance(value, str) and value:
            return value.splitlines()[0]
    return ""


def clean(text: str) -> str:
    """The text without what could drive the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
