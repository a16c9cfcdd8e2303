"""Commands: what a person would have typed, and the output without what the tool wraps around it."""

from __future__ import annotations

import re
import shlex

from greenroom.providers import Json, ShellDetail

from ._fields import int_at, text_at
from ._text import clean_text, flatten

_SHELLS = {"bash", "zsh", "sh"}
_SHELL_ARGUMENTS = 3  # <shell> -lc <command>
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:?) (-?\d+)$", re.MULTILINE)
_ENVELOPE = re.compile(
    r"(?:(?:Chunk ID|Wall time|Process exited with code|Process running with session ID|Exit code"
    r"|Original token count)\b[^\n]*\n)+(?:Output:\n|\Z)"
)


def unwrap_command(command: Json) -> str | None:
    """The command line inside `command`: a string or an argv, with `bash -lc '…'` taken off. None if it is neither."""
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        return _inner(words) or shlex.join(words) if words else None
    if not isinstance(command, str):
        return None
    if command.split(" ", 1)[0].rsplit("/", 1)[-1] in _SHELLS:
        try:
            return clean_text(_inner(shlex.split(command)) or command)
        except ValueError:  # an open quote: the command is still being written, or not for a shell at all
            pass
    return clean_text(command)


def _inner(words: list[str]) -> str | None:
    if len(words) == _SHELL_ARGUMENTS and words[0].rsplit("/", 1)[-1] in _SHELLS and words[1] in {"-lc", "-c"}:
        return words[2]
    return None


def unwrap_output(text: str) -> tuple[str, int | None]:
    """The body of a command's output and the exit status that its envelope states, if it has one."""
    envelope = _ENVELOPE.match(text)
    if not envelope:
        first, _, rest = text.partition("\n")
        only = _EXIT.fullmatch(first)
        return (rest, int(only[1])) if only else (text, None)
    status = _EXIT.search(envelope.group())
    return text[envelope.end() :], int(status[1]) if status else None


def shell_detail(input: Json, output: Json) -> ShellDetail | None:
    """The detail of a command; None without one."""
    raw = input.get("command", input.get("cmd")) if isinstance(input, dict) else None
    command = unwrap_command(raw)
    if command is None:
        return None
    text, status = flatten(output), None
    if text is not None:
        text, status = unwrap_output(text)
    stated = int_at(("exitCode", "exit_code"), output)
    cwd = text_at(("cwd", "directory", "workdir"), input, output)
    return ShellDetail(command, cwd=cwd, output=text, exit_code=status if stated is None else stated)
