"""The settings of a host: default < user file < project file < environment < command line.

Every value knows where it came from. The host's own keys are checked here, a plugin's by its
own model (`validate_plugin`). docs/settings.md is the description for people.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom._settings.layers import (
    DEFAULT,
    KeyPath,
    Layer,
    Origin,
    environment_layer,
    override_layer,
    read_file,
    variable_part,
)
from greenroom._settings.model import PluginSection
from greenroom._settings.rules import (
    DEFAULT_IMPORT_TIMEOUT,
    DEFAULT_TIMEOUT_CAP,
    HOST_KEYS,
    INVARIANT_KEYS,
    SECTION_KEYS,
    YES,
    check_shape,
    checked,
    fold,
    number,
    strings,
    table_at,
)
from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    import_timeout: float = DEFAULT_IMPORT_TIMEOUT
    disable_all: bool = False


@dataclass(frozen=True, slots=True)
class Effective:
    """A value as it counts, for listings: its dotted key, and where it came from."""

    key: KeyPath
    value: object
    origin: Origin


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
    invariants: Mapping[str, object]
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
        self._refuse_two_names(plugin, short)
        values: dict[str, object] = {}
        origins: dict[KeyPath, Origin] = {}
        raw: dict[KeyPath, tuple[str, str]] = {}
        own: dict[str, object] = {"guard": False, "required": False, "timeout_cap": DEFAULT_TIMEOUT_CAP}
        for layer in self.layers:
            for name, table in layer.sections(plugin, short).items():
                prefix = ("plugins", name)
                for key in SECTION_KEYS.keys() & table.keys():
                    value = checked(layer, (*prefix, key), SECTION_KEYS[key][0])
                    own[key] = fold(own[key], value, SECTION_KEYS[key][1], layer)
                    origins[key,] = layer.origin((*prefix, key))
                rest = {key: value for key, value in table.items() if key not in SECTION_KEYS}
                _merge(values, rest, layer, prefix, origins)
                raw |= {path[2:]: (layer.name, text) for path, text in layer.raw.items() if path[:2] == prefix}
        return PluginSection(
            plugin=plugin,
            table=self._table_name(plugin, short),
            values=values,
            guard=own["guard"] is True,
            required=own["required"] is True,
            timeout_cap=number(own["timeout_cap"]),
            origins=origins,
            raw={path: text for path, (name, text) in raw.items() if path in origins and origins[path].layer == name},
        )

    def unclaimed(self, plugins: Iterable[tuple[str, str]]) -> list[tuple[str, Origin]]:
        """Tables of `[plugins]` that belong to none of these plugins (id, short name): a typo, or not installed."""
        known = list(plugins)
        names = {name for pair in known for name in pair}
        variables = {variable_part(short) for _, short in known}
        found = []
        for layer in self.layers:
            taken = variables if layer.name == "environment" else names
            for name, value in table_at(layer, "plugins").items():
                if isinstance(value, dict) and name not in taken:
                    found.append((name, layer.origin(("plugins", name))))
        return found

    def effective(self) -> list[Effective]:
        """Every value that counts, host keys first; plugins' tables under the names the layers use."""
        rows = [Effective(("plugins", key), value, self._last(("plugins", key))) for key, value in self._host_values()]
        for key, value in self.invariants.items():
            rows.append(Effective(("invariants", key), value, self._last(("invariants", key))))
        for hook, names in self.hook_order.items():
            rows.append(Effective(("hooks", "order", hook), list(names), self._last(("hooks", "order", hook))))
        written: dict[str, str] = {}
        for layer in self.layers:
            for name in (n for n, value in table_at(layer, "plugins").items() if isinstance(value, dict)):
                written.setdefault(variable_part(name), name.lower() if layer.name == "environment" else name)
        for name in sorted(written.values()):
            section = self.plugin(name, name)
            for path, origin in section.origins.items():
                rows.append(Effective(("plugins", name, *path), _at(section, path), origin))
        return rows

    def _host_values(self) -> list[tuple[str, object]]:
        p = self.plugins
        allow = None if p.allow is None else list(p.allow)
        load = [entry.text for entry in p.load]
        return [
            ("load", load),
            ("allow", allow),
            ("deny", list(p.deny)),
            ("strict", p.strict),
            ("import_timeout", p.import_timeout),
        ]

    def _last(self, path: KeyPath) -> Origin:
        for layer in reversed(self.layers):
            found: object = layer.tables
            for part in path:
                found = found.get(part) if isinstance(found, dict) else None
            if found is not None:
                return layer.origin(path)
        return DEFAULT

    def _refuse_two_names(self, plugin: str, short: str) -> None:
        used = {name: layer for layer in self.layers if layer.file for name in layer.sections(plugin, short)}
        if len(used) > 1:
            places = [f"[{_header(name)}] ({layer.origin(('plugins', name))})" for name, layer in used.items()]
            message = f"the plugin {plugin} has settings under two names: {' and '.join(places)}"
            raise SettingsError(message, hint="keep one of them", plugin=plugin)

    def _table_name(self, plugin: str, short: str) -> str:
        names = [name for layer in self.layers if layer.name != "environment" for name in layer.sections(plugin, short)]
        return _header(names[-1] if names else short)


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
    host: dict[str, object] = {"allow": None, "deny": (), "strict": False, "import_timeout": DEFAULT_IMPORT_TIMEOUT}
    load: dict[Path | str, LoadEntry] = {}  # the first who asked for it counts
    order: dict[str, tuple[str, ...]] = {}
    invariants: dict[str, object] = {}
    for layer in layers:
        for key in HOST_KEYS.keys() & table_at(layer, "plugins").keys():
            value = checked(layer, ("plugins", key), HOST_KEYS[key][0])
            if key == "load":
                for entry in _entries(layer, value):
                    load.setdefault(entry.path or entry.text, entry)
            else:
                host[key] = fold(host[key], value, HOST_KEYS[key][1], layer)
        for key in table_at(layer, "invariants"):
            value = checked(layer, ("invariants", key), INVARIANT_KEYS[key][0])
            invariants[key] = fold(invariants.get(key), value, INVARIANT_KEYS[key][1], layer)
        for hook in table_at(layer, "hooks", "order"):
            order[hook] = strings(checked(layer, ("hooks", "order", hook), "strings"))
    switches = (environ.get("GREENROOM_NO_PLUGINS", ""), str((overrides or {}).get(NO_PLUGINS_OPTION, "")))
    denied = [_no_plugins(text) for text in switches]
    plugins = HostPluginSettings(
        load=tuple(load.values()),
        allow=None if host["allow"] is None else strings(host["allow"]),
        deny=tuple(dict.fromkeys([*strings(host["deny"]), *(name for names in denied for name in names or ())])),
        strict=host["strict"] is True or YES.get(environ.get("GREENROOM_STRICT_PLUGINS", "").lower(), False),
        import_timeout=number(host["import_timeout"]),
        disable_all=None in denied,
    )
    return Settings(plugins, order, invariants, tuple(layers))


def _no_plugins(text: str) -> tuple[str, ...] | None:
    """None = all plugins are off; else those that are."""
    word = text.strip().lower()
    if word == "all" or YES.get(word):
        return None
    return () if word in YES else tuple(name for part in text.split(",") if (name := part.strip()))


def _entries(layer: Layer, value: object) -> list[LoadEntry]:
    origin = layer.origin(("plugins", "load"))
    return [LoadEntry(text, layer.base, layer.name == "project", origin) for text in strings(value)]


def _merge(
    into: dict[str, object],
    table: Mapping[str, object],
    layer: Layer,
    prefix: KeyPath,
    origins: dict[KeyPath, Origin],
    path: KeyPath = (),
) -> None:
    """Lay a table over another: tables are merged, everything else is replaced."""
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, dict) and value:
            inner = into.get(key)
            if not isinstance(inner, dict):
                inner = into[key] = {}
                origins.pop(here, None)
            _merge(inner, value, layer, prefix, origins, here)
            continue
        for known in [known for known in origins if known[: len(here)] == here]:
            del origins[known]
        into[key] = copy.deepcopy(value)
        origins[here] = layer.origin(prefix + here)


def _at(section: PluginSection, path: KeyPath) -> object:
    if path[0] in SECTION_KEYS:
        return getattr(section, path[0])
    found: object = section.values
    for part in path:
        found = found[part] if isinstance(found, dict) else None
    return found


def _header(name: str) -> str:
    return f"plugins.{name}" if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'plugins."{name}"'
