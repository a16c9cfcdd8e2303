"""The plugin: its settings, and the store for the host's slot."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from greenroom import hookimpl
from greenroom.sessions import Barrier

from ._store import SqliteStore

FILE_NAME = "sessions.db"


class StoreSettings(BaseModel):
    """`[plugins.sqlite]`.

    Attributes:
        path: the file; by default `sessions.db` in the data directory.
        barrier: what a barrier waits for: `full` survives a loss of power, `normal` a crash of the process.
        window_ms: milliseconds that a batch is gathered between barriers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path | None = None
    barrier: Barrier = "full"
    window_ms: int = Field(default=200, ge=0, le=60_000)

    def open(self, data_directory: Path | None) -> SqliteStore | None:
        """The store that the settings describe; None if there is no place for its file. Opens nothing yet."""
        path = self.path.expanduser() if self.path is not None else None
        if data_directory is None and (path is None or not path.is_absolute()):
            return None
        place = (data_directory or Path()) / (path or FILE_NAME)
        return SqliteStore(place, barrier=self.barrier, window=self.window_ms / 1000)


@hookimpl
def plugin_settings() -> type[BaseModel]:
    """What the table may hold."""
    return StoreSettings


@hookimpl
def session_store(settings: BaseModel | None, data_directory: Path | None) -> SqliteStore | None:
    """The store of this host."""
    known = settings if isinstance(settings, StoreSettings) else StoreSettings()
    return known.open(data_directory)
