"""The plugin: its settings, and the provider that it brings."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from greenroom import Host, hookimpl
from greenroom.providers import (
    Availability,
    Capability,
    Catalogue,
    Model,
    OpenRequest,
    Provider,
    ProviderError,
    ProviderLink,
    ProviderSession,
    ProviderSpec,
    StaleSession,
)

if TYPE_CHECKING:
    from ._script import Script

DEMO: Final = Path(__file__).with_name("demo.jsonl")
"""The script that is played when the settings name none."""
CAPABILITIES: Final = frozenset({Capability.RESUME, Capability.PERMISSIONS, Capability.REVEALS_STEPS})
FOREIGN_MODEL: Final = "a replay has no model to choose; what you hear was said by {heard}"


class ReplaySettings(BaseModel):
    """`[plugins.replay]`.

    Attributes:
        file: a script or a recording, relative to the agent's working directory; the demo by default.
        speed: a factor on the original speed, or `full` for no waiting at all.
        provider: whose traffic a recording holds, where the file does not say.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path | None = None
    speed: Literal["full"] | Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    provider: str | None = None


class ReplayProvider(Provider):
    """Plays a script or a recording.

    Args:
        settings: what to play, and how fast.
        providers: the kinds of providers of the host, by id: their translators read recordings.
        new_id: names conversations.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        providers: Callable[[], Mapping[str, ProviderSpec]],
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._settings = settings
        self._providers = providers
        self._new_id = new_id

    async def availability(self) -> Availability:
        """See `Provider.availability`; needs nothing but its file."""
        from importlib.metadata import version

        try:
            self._read(Path.cwd())
        except ProviderError as error:
            return Availability(ok=False, problem=str(error.args[0]), hint=error.hint)
        return Availability(ok=True, version=version("greenroom-replay"), login="none needed")

    async def catalogue(self, *, cwd: Path, fresh: bool = False) -> Catalogue:
        """See `Provider.catalogue`: the model that was recorded."""
        del fresh
        heard = self._read(cwd)
        model = heard.model or "recorded"
        return Catalogue(models=(Model(id=model, label=model, description=heard.title, default=True),))

    async def open(self, request: OpenRequest, link: ProviderLink) -> ProviderSession:
        """See `Provider.open`."""
        from ._session import ReplaySession

        script = self._read(request.cwd)
        native = request.handle.native_id if request.handle is not None else f"{self._new_id()}:0"
        if not native.rpartition(":")[2].isdecimal():
            raise StaleSession(f"{native!r} is no conversation of the replay provider")
        heard = script.model or "whoever was recorded"
        note = FOREIGN_MODEL.format(heard=heard) if request.model not in {None, script.model} else None
        return ReplaySession(script, self._settings.speed, link, native, note)

    def _read(self, cwd: Path) -> Script:
        """What is to be played. Raises ProviderError."""
        from ._script import parse_script

        file = self._settings.file
        path = DEMO if file is None else cwd / file.expanduser()
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise ProviderError(f"{path} cannot be read: {error.strerror}") from error
        if b'"dir"' not in next(iter(lines), b""):
            return parse_script(lines, path.name)
        from ._recording import parse_recording

        return parse_recording(lines, path.name, self._providers(), self._settings.provider)


@hookimpl
def plugin_settings() -> type[BaseModel]:
    """What the table may hold."""
    return ReplaySettings


@hookimpl
def providers(host: Host, settings: BaseModel | None) -> list[ProviderSpec]:
    """The provider `replay`."""
    known = settings if isinstance(settings, ReplaySettings) else ReplaySettings()
    return [
        ProviderSpec(
            id="replay",
            label="Replay",
            steps="provider",
            load=lambda: ReplayProvider(known, lambda: host.providers),
            capabilities=CAPABILITIES,
        )
    ]
