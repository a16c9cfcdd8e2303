"""One layer of settings: a file, the environment or the command line, and where each value stands.

Layers have the shape of a TOML document; `settings.py` lays them over each other.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

KeyPath = tuple[str, ...]
LayerName = Literal["default", "user", "project", "environment", "command line"]

_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_KEYS})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*({_KEYS})\s*=")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: the layer, the file or variable or option, and the line of a file."""

    layer: LayerName
    where: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where


DEFAULT = Origin("default", "default")


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one place.

    Attributes:
        name: which layer it is.
        base: the folder that relative paths in it are relative to.
        tables: the values, in the shape of a TOML document.
        file: the file, for the two layers that are files.
        text: its text.
        names: for other layers, the variable or option behind each key.
        raw: for other layers, the text that a value was parsed from.
    """

    name: LayerName
    base: Path
    tables: Mapping[str, object]
    file: Path | None = None
    text: str = ""
    names: Mapping[KeyPath, str] = field(default_factory=dict)
    raw: Mapping[KeyPath, str] = field(default_factory=dict)

    def origin(self, path: KeyPath) -> Origin:
        """Where the value at `path`, or the nearest table around it, was written."""
        if self.file is not None:
            return Origin(self.name, str(self.file), find_line(self.text, path))
        for length in range(len(path), 0, -1):
            for known, name in self.names.items():
                if known[:length] == path[:length]:
                    return Origin(self.name, name)
        return Origin(self.name, self.name)

    def sections(self, plugin: str, short: str) -> dict[str, Mapping[str, object]]:
        """The tables of one plugin in this layer by the name they are written under."""
        plugins = self.tables.get("plugins")
        if not isinstance(plugins, dict):
            return {}
        names = [variable_part(short)] if self.name == "environment" else [short, plugin]
        return {name: table for name in dict.fromkeys(names) if isinstance(table := plugins.get(name), dict)}


def read_file(name: LayerName, file: Path | None) -> Layer | None:
    """Read a settings file; None when there is none.

    Raises:
        SettingsError: it is no readable TOML; the message names file, line and column.
    """
    if file is None:
        return None
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        message = f"{file}: the settings cannot be read: {error.strerror or error}"
        raise SettingsError(message, hint="make it a file that you may read, or move it away") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{file}:{line}: not UTF-8", hint="save the file in the encoding UTF-8") from error
    return Layer(name, file.parent, parse(text, file), file, text)


def parse(text: str, file: Path) -> dict[str, object]:
    """Parse TOML.

    Raises:
        SettingsError: names file, line and column.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        line, column = (place[1], place[2]) if place and place[1] else (str(text.count("\n") + 1), "1")
        reason = message[: place.start()] if place else message
        hint = f"correct line {line}; text values stand in double quotes"
        raise SettingsError(f"{file}:{line}:{column}: broken TOML: {reason}", hint=hint) from error
    except RecursionError as error:
        raise SettingsError(f"{file}: values are nested too deeply", hint="flatten them") from error


def environment_layer(environ: Mapping[str, str], base: Path, host_keys: Iterable[str]) -> Layer:
    """The variables `GREENROOM_PLUGINS__…` and `GREENROOM_HOOKS__ORDER__…` as a layer.

    A double underscore separates the parts. Tables of plugins are kept under the upper-case form of
    their short name, since a variable cannot say whether an underscore was a hyphen.

    Raises:
        SettingsError: a name that means nothing.
    """
    layer = _TextLayer("environment", base)
    known = list(host_keys)
    for variable in sorted(environ):
        if not variable.startswith("GREENROOM_") or "__" not in variable:
            continue
        top, *parts = variable.removeprefix("GREENROOM_").split("__")
        if top == "PLUGINS" and all(parts) and len(parts) == 1 and parts[0].lower() in known:
            path: KeyPath = ("plugins", parts[0].lower())
        elif top == "PLUGINS" and all(parts) and len(parts) > 1 and parts[0].lower() not in known:
            path = ("plugins", parts[0], *(part.lower() for part in parts[1:]))
        elif top == "HOOKS" and len(parts) == 2 and parts[0] == "ORDER" and parts[1]:  # noqa: PLR2004 ORDER, hook
            path = ("hooks", "order", parts[1].lower())
        else:
            raise SettingsError(f"{variable}: no setting has this name", hint=_variable_hint(top, parts, known))
        layer.put(path, environ[variable], variable)
    return layer.done()


def override_layer(overrides: Mapping[str, object], base: Path) -> Layer:
    """Values of the command line, by TOML key (`plugins.x.key`); a string is parsed like a variable's value.

    Raises:
        SettingsError: a key that is no TOML key.
    """
    layer = _TextLayer("command line", base)
    for key, value in overrides.items():
        layer.put(parse_key(key), value, f"--set {key}")
    return layer.done()


class _TextLayer:
    """Collects values that come one by one under dotted names."""

    def __init__(self, name: LayerName, base: Path) -> None:
        self._name: LayerName = name
        self._base = base
        self._tables: dict[str, object] = {}
        self._names: dict[KeyPath, str] = {}
        self._raw: dict[KeyPath, str] = {}

    def put(self, path: KeyPath, value: object, name: str) -> None:
        table = self._tables
        for part in path[:-1]:
            inner = table.setdefault(part, {})
            if not isinstance(inner, dict):
                raise SettingsError(f"{name}: {part!r} has a value already and cannot be a table as well")
            table = inner
        if isinstance(table.get(path[-1]), dict):
            raise SettingsError(f"{name}: {path[-1]!r} is a table already and cannot have a value as well")
        table[path[-1]] = parse_value(value) if isinstance(value, str) else value
        self._names[path] = name
        if isinstance(value, str):
            self._raw[path] = value

    def done(self) -> Layer:
        return Layer(self._name, self._base, self._tables, names=self._names, raw=self._raw)


def parse_key(key: str) -> KeyPath:
    """`plugins."dist:name".key` as its parts.

    Raises:
        SettingsError: it is no TOML key.
    """
    if not re.fullmatch(rf"\s*{_KEYS}\s*", key):
        hint = "write table.key, with quotes around a part that has other characters than A-Z a-z 0-9 _ -"
        raise SettingsError(f"{key!r} is no key of the settings", hint=hint)
    found: object = tomllib.loads(f"{key} = 0")
    parts: list[str] = []
    while isinstance(found, dict):
        parts.append(next(iter(found)))
        found = found[parts[-1]]
    return tuple(parts)


def parse_value(text: str) -> object:
    """The TOML value that a text is, or else the text itself."""
    try:
        parsed = tomllib.loads(f"v = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return parsed["v"] if set(parsed) == {"v"} else text


def find_line(text: str, path: KeyPath) -> int | None:
    """The line (from 1) of a key or of the nearest table around it; a good guess, not a parse.

    Lines inside a multi-line string can look like keys; the answer is for people.
    """
    table: KeyPath = ()
    best: KeyPath = ()
    found: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = here = parse_key(header[1])
        elif assignment := _ASSIGNMENT.match(line):
            here = table + parse_key(assignment[1])
        else:
            continue
        if len(here) > len(best) and here == path[: len(here)]:
            best, found = here, number
    return found


def variable_part(name: str) -> str:
    """A name as it stands in a variable: upper case, everything but letters and digits as `_`."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or all of them."""
    words = sorted(known)
    close = get_close_matches(name, words, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(words) or 'none'}"


def _variable_hint(top: str, parts: list[str], known: list[str]) -> str:
    if top == "PLUGINS" and len(parts) == 1 and parts[0]:
        variables = [f"GREENROOM_PLUGINS__{key.upper()}" for key in known]
        return did_you_mean(f"GREENROOM_PLUGINS__{parts[0]}", variables)
    return "write GREENROOM_PLUGINS__<PLUGIN>__<KEY> or GREENROOM_HOOKS__ORDER__<HOOK>"
