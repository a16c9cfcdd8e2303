"""The settings of a host: default < user file < project file < environment < command line.

Every value knows where it came from. The host's own keys are checked here, a plugin's by its
own model (`validate_plugin`). docs/settings.md is the description for people.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greenroom._settings.layers import (
    KeyPath,
    Layer,
    Origin,
    environment_layer,
    override_layer,
    put,
    read_file,
    variable_part,
)
from greenroom._settings.model import PluginSection
from greenroom._settings.rules import (
    HOST_KEYS,
    IMPORT_TIMEOUT,
    INVARIANT_KEYS,
    SECTION_KEYS,
    YES,
    HostKey,
    check_shape,
    folded,
)
from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

RESERVED_NAMES = frozenset(HOST_KEYS)
NO_PLUGINS_OPTION = "--no-plugins"


@dataclass(frozen=True, slots=True)
class LoadEntry:
    """One entry of `load`: `module:attr`, or a file or folder.

    Attributes:
        text: as written.
        base_dir: what a relative path is relative to.
        from_project: whether a project file asked for it, so that it needs the user's trust.
        origin: where it was written.
    """

    text: str
    base_dir: Path
    from_project: bool
    origin: Origin

    @property
    def path(self) -> Path | None:
        """The absolute file or folder, or None for `module:attr`."""
        looks_like_path = self.text.startswith((".", "~")) or self.text.endswith(".py")
        if looks_like_path or "/" in self.text or "\\" in self.text:
            return self.base_dir / Path(self.text).expanduser()
        return None


@dataclass(frozen=True, slots=True)
class HostPluginSettings:
    """The host's own keys of `[plugins]`.

    Attributes:
        load: what to load besides the installed plugins.
        allow: if not None, only these plugins (ids, short names or distributions) may load.
        deny: these never load; they are not even imported.
        strict: a plugin that fails to load fails the host.
        import_timeout: seconds that the import of one plugin may take.
        disable_all: load no plugin (`GREENROOM_NO_PLUGINS=1`, `--no-plugins`).
    """

    load: tuple[LoadEntry, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    strict: bool = False
    import_timeout: float = IMPORT_TIMEOUT
    disable_all: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """What all layers together say; immutable.

    Attributes:
        plugins: the host's own keys of `[plugins]`.
        hook_order: `[hooks.order]`: hook name -> plugin ids or short names, in the order they shall run.
        invariants: `[invariants]`: which checks of sessions run; absent keys have their defaults.
        layers: the layers, the strongest last.
    """

    plugins: HostPluginSettings
    hook_order: Mapping[str, tuple[str, ...]]
    invariants: Mapping[str, Any]  # each key has a type of its own
    layers: tuple[Layer, ...]

    @property
    def project_file(self) -> Path | None:
        """The project's file if there is one that was read."""
        return next((layer.file for layer in self.layers if layer.name == "project"), None)

    @property
    def project_needs_trust(self) -> bool:
        """Whether the project's file says anything: then it may be used only if its content is trusted.

        Not only `load` runs code: a plugin's setting may name a command, and `deny` can switch a policy off.
        """
        return any(layer.name == "project" and layer.tables for layer in self.layers)

    def plugin(self, plugin: str, short: str) -> PluginSection:
        """The section of one plugin by its id (`distribution:name`) and its short name.

        Raises:
            SettingsError: the files have tables under both names, or one of the host's keys has a wrong value.
        """
        tables = [
            (layer, name, table) for layer in self.layers for name, table in layer.sections(plugin, short).items()
        ]
        _refuse_two_names(plugin, {name: layer for layer, name, _table in tables if layer.file})
        written = [name for layer, name, _table in tables if layer.name != "environment"]
        own = {
            key: folded(rule, [(layer, ("plugins", name, key)) for layer, name, _table in tables])
            for key, rule in SECTION_KEYS.items()
        }
        origins: dict[KeyPath, Origin] = {}
        found: dict[KeyPath, object] = {}
        raw: dict[KeyPath, str | None] = {}
        for layer, name, table in tables:
            for path, value in _leaves(table):
                # Tables are merged, everything else is replaced.
                for known in [k for k in origins if k[: len(path)] == path or path[: len(k)] == k]:
                    del origins[known], found[known]
                here = ("plugins", name, *path)
                origins[path], found[path], raw[path] = layer.origin(here), value, layer.raw.get(here)
        values: dict[str, object] = {}
        for path, value in found.items():
            if path[0] not in SECTION_KEYS:
                put(values, path, copy.deepcopy(value))
        return PluginSection(
            plugin=plugin,
            table=_header(written[-1] if written else short),
            values=values,
            origins=origins,
            raw={path: text for path in origins if (text := raw[path]) is not None},
            **own,
        )

    def unclaimed(self, plugins: Iterable[tuple[str, str]]) -> list[tuple[str, Origin]]:
        """Tables of `[plugins]` that belong to none of these plugins (id, short name): a typo, or not installed."""
        known = list(plugins)
        names = {name for pair in known for name in pair}
        variables = {variable_part(short) for _, short in known}
        found = []
        for layer in self.layers:
            taken = variables if layer.name == "environment" else names
            for name, value in layer.table("plugins").items():
                if isinstance(value, dict) and name not in taken:
                    found.append((name, layer.origin(("plugins", name))))
        return found


def load_settings(
    *,
    user_file: Path | None = None,
    project_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Read and check all layers. Imports no plugin and runs nothing; a missing file is an empty layer.

    Args:
        user_file: see `_paths.user_settings_file`.
        project_file: see `_paths.project_settings_file`.
        environ: the environment; only `GREENROOM_*` is read.
        overrides: TOML key -> value from the command line; a string is parsed as a TOML value if it is one.
            The key `--no-plugins` stands for that option (`1`, or a list with commas).
        cwd: what relative paths of environment and command line are relative to; default: the working directory.

    Raises:
        SettingsError: naming file and line, table and key, and what to do.
    """
    environ = environ or {}
    base = cwd if cwd is not None else Path.cwd()
    given = {key: value for key, value in (overrides or {}).items() if key != NO_PLUGINS_OPTION}
    files = [read_file("user", user_file), read_file("project", project_file)]
    layers = [layer for layer in files if layer is not None]
    layers += [environment_layer(environ, base, HOST_KEYS), override_layer(given, base)]
    for layer in layers:
        check_shape(layer)
    host = {"allow": None, **_said(layers, ("plugins",), HOST_KEYS)}
    load: dict[Path | str, LoadEntry] = {}  # the first who asked for it counts
    for layer in layers:
        listed = layer.at("plugins", "load")
        for text in listed if isinstance(listed, list) else ():
            entry = LoadEntry(text, layer.base, layer.name == "project", layer.origin(("plugins", "load")))
            load.setdefault(entry.path or text, entry)
    switches = (environ.get("GREENROOM_NO_PLUGINS", ""), str((overrides or {}).get(NO_PLUGINS_OPTION, "")))
    denied = [_no_plugins(text) for text in switches]
    host["load"] = tuple(load.values())
    host["deny"] = tuple(dict.fromkeys([*host["deny"], *(name for names in denied for name in names or ())]))
    host["strict"] = host["strict"] or YES.get(environ.get("GREENROOM_STRICT_PLUGINS", "").lower(), False)
    hooks = {name: HostKey("strings", "replace") for layer in layers for name in layer.table("hooks", "order")}
    return Settings(
        plugins=HostPluginSettings(**host, disable_all=None in denied),
        hook_order=_said(layers, ("hooks", "order"), hooks),
        invariants=_said(layers, ("invariants",), INVARIANT_KEYS),
        layers=tuple(layers),
    )


def _said(layers: Sequence[Layer], table: KeyPath, keys: Mapping[str, HostKey]) -> dict[str, Any]:
    """What counts of a table's keys, without those that no layer has."""
    values = {key: folded(rule, [(layer, (*table, key)) for layer in layers]) for key, rule in keys.items()}
    return {key: value for key, value in values.items() if value is not None}


def _no_plugins(text: str) -> tuple[str, ...] | None:
    """None = all plugins are off; else those that are."""
    word = text.strip().lower()
    if word == "all" or YES.get(word):
        return None
    return () if word in YES else tuple(name for part in text.split(",") if (name := part.strip()))


def _leaves(table: Mapping[str, object], path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Yield what is no table, or an empty one, with its path."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _refuse_two_names(plugin: str, used: Mapping[str, Layer]) -> None:
    if len(used) > 1:
        places = [f"[{_header(name)}] ({layer.origin(('plugins', name))})" for name, layer in used.items()]
        message = f"the plugin {plugin} has settings under two names: {' and '.join(places)}"
        raise SettingsError(message, hint="keep one of them", plugin=plugin)


def _header(name: str) -> str:
    return f"plugins.{name}" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'plugins."{name}"'
