"""Event loops whose clock jumps to the next deadline whenever nothing else can run: time-outs are exact and instant."""

from __future__ import annotations

import asyncio
import selectors

import trio


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits for time to pass; whoever asks for at most `timeout` seconds is told that they have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout is not None:
            self.jumped += max(timeout, 0.0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """asyncio with such a clock."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped


JUMPING = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
JUMPING_ASYNCIO = ("asyncio", {"loop_factory": JumpingLoop})
