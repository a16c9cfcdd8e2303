"""Runs `greenroom` as a person does: a process, with pipes or with a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

GREENROOM = Path(sys.executable).with_name("greenroom")
FULL_SPEED = ("--set", "plugins.replay.speed=full")
LIMIT = 30.0
"""Seconds that anything may take on a loaded machine; waiting ends when the text is there."""


def greenroom(*arguments: str, cwd: Path, text: str = "", env: dict[str, str] | None = None):
    """Run a command without a terminal; return the completed process."""
    return subprocess.run(
        [GREENROOM, *arguments],
        cwd=cwd,
        input=text,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


class Terminal:
    """A command with a terminal of its own. Closing it kills what is left."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._mine, theirs = pty.openpty()
        self.seen = ""
        self._process = subprocess.Popen(
            [GREENROOM, *arguments], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._mine)

    def wait_for(self, pattern: str) -> str:
        """Read until the screen shows the pattern; what was read up to its end counts as seen."""
        deadline = time.monotonic() + LIMIT
        while (found := re.search(pattern, self.seen, re.DOTALL)) is None:
            if not self._read(deadline):
                raise AssertionError(f"the screen never showed {pattern!r}:\n{self.seen}")
        self.seen = self.seen[found.end() :]
        return found.group()

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._mine, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Read to the end; return the exit status."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self._process.wait(timeout=LIMIT)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._mine], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._mine, 65536) if ready else b""
        except OSError:  # Linux: the other side is closed
            data = b""
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", data.decode("utf-8", "replace"))
        self.seen += plain.replace("\r\n", "\n")
        return bool(data)


def script(path: Path, *lines: Sequence[str] | str) -> Path:
    """Write a script for the replay provider."""
    path.write_text("\n".join(['{"script": 1, "title": "a test"}', *map(str, lines)]) + "\n")
    return path
