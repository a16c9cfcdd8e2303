"""trio with a clock that jumps to the next deadline whenever nothing else can run: time-outs are exact and instant."""

from __future__ import annotations

import trio

JUMPING = ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
