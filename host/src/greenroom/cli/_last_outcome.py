"""What the last host of a data directory wrote about its plugins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from greenroom._records import FILE


@dataclass(frozen=True, slots=True)
class LastOutcome:
    """What the last host of a data directory wrote.

    Attributes:
        time: when, in UTC.
        plugins: by id, what `PluginRecord.to_json` gave; keys may be missing or unknown.
    """

    time: datetime
    plugins: Mapping[str, Mapping[str, object]]


def read_records(data_dir: Path) -> LastOutcome | None:
    """Return what the last host wrote, or None if there is nothing that can be read.

    A missing, torn or foreign file is nothing; of a newer one, what is known is taken.
    """
    try:
        content = json.loads((data_dir / FILE).read_bytes())
        time = datetime.fromisoformat(content["time"])
        plugins = {p["id"]: p for p in content["plugins"] if isinstance(p, dict) and isinstance(p.get("id"), str)}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LastOutcome(time if time.tzinfo else time.replace(tzinfo=UTC), plugins)
