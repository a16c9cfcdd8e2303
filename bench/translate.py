"""How fast frames of Claude Code become events: a stream frame, and every recording once.

uv run --no-sync python bench/translate.py
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
from _bench import Bench

from greenroom.providers import decode_wire
from greenroom_claude import Translator

RECORDINGS = Path(__file__).parents[1] / "tests" / "data" / "recordings"
FRAMES = 100_000
GOAL = 1 / 100_000  # seconds a stream frame
GOAL_RECORDINGS = 2.0


def answer() -> list[dict[str, object]]:
    """One long answer in pieces of twelve characters, with the frames that open its turn."""
    rows = map(json.loads, (RECORDINGS / "claude" / "simple_text.jsonl").read_text().splitlines())
    frames = [row["msg"] for row in rows if row["dir"] == "out"]
    start = next(i for i, frame in enumerate(frames) if frame["type"] == "stream_event")
    deltas = [frame for frame in frames if frame.get("event", {}).get("type") == "content_block_delta"]
    return frames[: start + 2] + [deltas[i % len(deltas)] for i in range(FRAMES)]


def recordings() -> int:
    """Feed every recording once; the number of events."""
    events = 0
    for folder in ("claude", "claude-2.1.197"):
        for path in sorted((RECORDINGS / folder).glob("*.jsonl")):
            translator = Translator()
            for line in path.read_bytes().splitlines():
                row = decode_wire(line)
                if row["dir"] == "out":
                    events += len(translator.feed(row["msg"]))
    return events


def main() -> None:
    """Print the figures."""
    bench = Bench()
    frames = answer()
    lines = [msgspec.json.encode(frame) for frame in frames]

    start = time.perf_counter()
    translator = Translator()
    for frame in frames:
        translator.feed(frame)
    fed = time.perf_counter()
    bench.add("feed a stream frame", (fed - start) / len(frames), goal=GOAL)

    translator = Translator()
    for line in lines:
        translator.feed(decode_wire(line))
    bench.add("decode and feed a stream frame", (time.perf_counter() - fed) / len(lines), goal=GOAL)

    start = time.perf_counter()
    recordings()
    bench.add("all recordings", time.perf_counter() - start, goal=GOAL_RECORDINGS)
    bench.report()


if __name__ == "__main__":
    main()
