"""What has no place in a turn: kept in memory, in `diagnostics.jsonl`, and told to a logger.

A flush failure, the error of a contained observer or clean-up, the late error of a call that
timed out. Recording must never make things worse, so nothing here raises and everything is bounded.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom._foreign import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

FILE_NAME = "diagnostics.jsonl"
KEPT_IN_MEMORY = 1_000
FILES = 3  # with the live one
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_TEXT = 8 * 1024  # characters; a line stays far below what one append writes in one piece
SECRET_NAME = re.compile(r"key|token|secret|passw(or)?d|credential|auth", re.IGNORECASE)
MIN_SECRET = 8  # characters; a shorter value would blank out ordinary words
HIDDEN = "[hidden]"
_SECRET_TEXT = re.compile(
    r"""(?P<name>\b[\w-]{0,40}(?:api[_-]?key|token|secret|password|passwd|authorization)["']?\s*[=:]\s*["']?(?:bearer\s+)?)
        (?P<value>[^\s"',;&]{4,})
      | (?P<bearer>\bbearer\s+)[\w.~+/=-]{8,}
      | \bsk-[\w-]{8,}""",
    re.IGNORECASE | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that went wrong outside a turn.

    Attributes:
        time: ISO 8601 in UTC, with milliseconds.
        code: a stable word for programs, such as `hook_failed`.
        text: for people; secrets are blanked out.
        plugin: the id of the plugin at fault, or None for the host.
        generation: of that plugin.
        session: the id of the session it concerns.
        turn: the turn in that session.
    """

    time: str
    code: str
    text: str
    plugin: str | None = None
    generation: int | None = None
    session: str | None = None
    turn: int | None = None


def plugin_logger(plugin: str | None) -> logging.Logger:
    """The logger of a plugin, by its id or short name: `greenroom.<short name>`; the host's own for None."""
    return logging.getLogger(f"greenroom.{plugin.rpartition(':')[2]}" if plugin else "greenroom")


def secret_values(environ: Mapping[str, str]) -> frozenset[str]:
    """The values of variables whose names say that they are secret; they never reach a diagnostic."""
    return frozenset(v for name, v in environ.items() if SECRET_NAME.search(name) and len(v) >= MIN_SECRET)


class Diagnostics:
    """The record of one host. Safe to use from any thread; several hosts may share a directory."""

    def __init__(
        self,
        directory: Path | None,
        *,
        clock: Callable[[], float],
        secrets: Iterable[str] = (),
        limit: int = MAX_FILE_BYTES,
    ) -> None:
        """Prepare a record; nothing is written yet.

        Args:
            directory: the data directory, or None to keep records in memory only.
            clock: seconds since 1970, such as `time.time`.
            secrets: texts that must never be recorded (see `secret_values`).
            limit: bytes after which the file is rotated.
        """
        self._path = directory / FILE_NAME if directory is not None else None
        self._clock = clock
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._limit = limit
        self._recent: deque[Diagnostic] = deque(maxlen=KEPT_IN_MEMORY)
        self._unwritten = 0

    @property
    def recent(self) -> tuple[Diagnostic, ...]:
        """The last 1,000 records of this host, oldest first."""
        return tuple(self._recent)

    @property
    def unwritten(self) -> int:
        """How many records the file did not take (disk full, folder gone); they were kept in memory."""
        return self._unwritten

    def record(
        self,
        code: str,
        text: str,
        *,
        plugin: str | None = None,
        generation: int | None = None,
        session: str | None = None,
        turn: int | None = None,
    ) -> None:
        """Keep, write and log one diagnostic. Never raises, never waits for another process."""
        item = Diagnostic(self._now(), code, self._clean(text), plugin, generation, session, turn)
        self._recent.append(item)
        try:
            self._write(item)
        except (OSError, ValueError):  # a full disk, a removed folder: the memory and the logger still have it
            self._unwritten += 1
        try:
            plugin_logger(plugin).warning("%s: %s", code, item.text)
        except Exception:  # noqa: BLE001 a handler or filter that somebody installed failed; recording must not
            self._unwritten += 1

    def failed(
        self,
        code: str,
        error: BaseException,
        *,
        plugin: str | None = None,
        generation: int | None = None,
        session: str | None = None,
    ) -> None:
        """Record an error with its notes. Never raises."""
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        self.record(code, error_text(error) + notes, plugin=plugin, generation=generation, session=session)

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self._clock(), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        more = len(text) - MAX_TEXT
        text = _SECRET_TEXT.sub(lambda m: (m["name"] or m["bearer"] or "") + HIDDEN, text[:MAX_TEXT])
        return text if more <= 0 else f"{text} [... {more} characters more]"

    def _write(self, item: Diagnostic) -> None:
        if self._path is None:
            return
        known = {name: value for name, value in asdict(item).items() if value is not None}
        line = json.dumps(known).encode() + b"\n"
        # Opened for each line: another host may have rotated the file, and these lines are rare.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
            full = os.fstat(descriptor).st_size >= self._limit
        finally:
            os.close(descriptor)
        if full:
            self._rotate(self._path)

    def _rotate(self, path: Path) -> None:
        from filelock import FileLock, Timeout  # slow to import, wanted once in 10 MiB

        try:
            with FileLock(path.with_suffix(".lock"), timeout=0, mode=0o600):
                if path.stat().st_size < self._limit:  # another host was faster
                    return
                for number in range(FILES - 1, 0, -1):
                    source = _numbered(path, number - 1)
                    if source.exists():
                        source.replace(_numbered(path, number))
        except Timeout:  # another host rotates at this moment
            return


def read_diagnostics(directory: Path) -> Iterator[Diagnostic]:
    """Every readable record of a data directory, oldest first; torn and foreign lines are skipped.

    Raises:
        OSError: a file exists and cannot be read.
    """
    for number in range(FILES - 1, -1, -1):
        try:
            file = _numbered(directory / FILE_NAME, number).open(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        with file:
            for line in file:
                if (item := _read(line)) is not None:
                    yield item


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _read(line: str) -> Diagnostic | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name), str) for name in ("time", "code", "text")):
        return None
    return Diagnostic(
        fields["time"],
        fields["code"],
        fields["text"],
        plugin=_text(fields.get("plugin")),
        generation=_number(fields.get("generation")),
        session=_text(fields.get("session")),
        turn=_number(fields.get("turn")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
