"""`plugins.json`: how the plugins of a data directory went in its last host, for other processes to show."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from greenroom._paths import write_atomically
from greenroom._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from greenroom._records import PluginRecord

FILE: Final = "plugins.json"
FORMAT: Final = 1  # readers take what they know from a higher one; a key never changes its meaning


@dataclass(frozen=True, slots=True)
class LastOutcome:
    """What the last host of a data directory wrote.

    Attributes:
        time: when, in UTC.
        plugins: by id, what `PluginRecord.to_json` gave; keys may be missing or unknown.
    """

    time: datetime
    plugins: Mapping[str, Mapping[str, object]]


def write_records(data_dir: Path, records: Iterable[PluginRecord], clock: Callable[[], float]) -> None:
    """Replace `plugins.json` as a whole; the data directory must exist.

    Args:
        data_dir: the data directory.
        records: of all plugins of the host.
        clock: seconds since 1970.

    Raises:
        OSError: the old file is as it was.
    """
    content = {
        "format": FORMAT,
        "time": datetime.fromtimestamp(clock(), UTC).isoformat(timespec="seconds"),
        "greenroom": __version__,
        "plugins": [record.to_json() for record in records],
    }
    write_atomically(data_dir / FILE, json.dumps(content, indent=1).encode())


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
