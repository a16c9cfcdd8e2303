"""Every setting that counts, with the place it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom._settings.layers import KeyPath, Origin, variable_part
from greenroom._settings.rules import HOST_KEYS, SECTION_KEYS

if TYPE_CHECKING:
    from greenroom._settings.model import PluginSection
    from greenroom._settings.settings import Settings

DEFAULT = Origin("default", "default")


@dataclass(frozen=True, slots=True)
class Effective:
    """A value as it counts: its key, and where it came from."""

    key: KeyPath
    value: object
    origin: Origin


def effective(settings: Settings) -> list[Effective]:
    """Return every value that counts, host keys first; plugins' tables under the names the layers use.

    Raises:
        SettingsError: a table of a plugin has a wrong value for a key of the host.
    """
    rows = [_row(settings, ("plugins", key), getattr(settings.plugins, key)) for key in HOST_KEYS]
    rows += [_row(settings, ("invariants", key), value) for key, value in settings.invariants.items()]
    rows += [_row(settings, ("hooks", "order", hook), names) for hook, names in settings.hook_order.items()]
    written: dict[str, str] = {}
    for layer in settings.layers:
        for name in (name for name, value in layer.table("plugins").items() if isinstance(value, dict)):
            written.setdefault(variable_part(name), name.lower() if layer.name == "environment" else name)
    for name in sorted(written.values()):
        section = settings.plugin(name, name)
        for path, origin in section.origins.items():
            rows.append(Effective(("plugins", name, *path), _at(section, path), origin))
    return rows


def _row(settings: Settings, path: KeyPath, value: object) -> Effective:
    origins = [layer.origin(path) for layer in settings.layers if layer.at(*path) is not None]
    if isinstance(value, tuple):
        value = [getattr(item, "text", item) for item in value]  # of an entry of `load`, what was written
    return Effective(path, value, origins[-1] if origins else DEFAULT)


def _at(section: PluginSection, path: KeyPath) -> object:
    if path[0] in SECTION_KEYS:
        return getattr(section, path[0])
    found: object = section.values
    for part in path:
        found = found[part] if isinstance(found, dict) else None
    return found
