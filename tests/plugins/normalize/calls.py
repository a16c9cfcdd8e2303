"""Tool calls as the recordings hold them: name, input, result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[2] / "data" / "recordings"
CODEX = Path(__file__).parent / "data" / "codex_calls.jsonl"


def claude_call(scenario: str, name: str, index: int = 0) -> tuple[dict[str, Any], Any]:
    """Input and result of the `index`-th call of `name` in a recorded scenario (`folder/name`)."""
    calls: dict[str, dict[str, Any]] = {}
    results: dict[str, Any] = {}
    for line in (RECORDINGS / f"{scenario}.jsonl").read_text().splitlines():
        row = json.loads(line)
        frame = row["msg"]
        if row["dir"] != "out" or frame.get("type") not in {"assistant", "user"}:
            continue
        for block in frame["message"]["content"]:
            if isinstance(block, dict) and block["type"] == "tool_use" and block["name"] == name:
                calls[block["id"]] = block["input"]
            elif isinstance(block, dict) and block["type"] == "tool_result":
                results[block["tool_use_id"]] = frame.get("tool_use_result") or block.get("content")
    ident = list(calls)[index]
    return calls[ident], results[ident]


def codex_call(source: str, name: str, index: int = 0) -> tuple[Any, Any]:
    """Input and output of the `index`-th recorded call of `name` in `source`."""
    rows = [json.loads(line) for line in CODEX.read_text().splitlines()]
    row = [row for row in rows if row["source"] == source and row["name"] == name][index]
    return row["input"], row["output"]
