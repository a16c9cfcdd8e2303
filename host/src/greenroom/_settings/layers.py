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

    def at(self, *path: str) -> object:
        """The value or table at a path, or None."""
        found: object = self.tables
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def table(self, *path: str) -> Mapping[str, object]:
        """The table at a path; empty when there is none."""
        found = self.at(*path)
        return found if isinstance(found, dict) else {}

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
        names = [variable_part(short)] if self.name == "environment" else dict.fromkeys([short, plugin])
        return {name: table for name in names if isinstance(table := self.at("plugins", name), dict)}


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
    known = list(host_keys)
    names = [name for name in sorted(environ) if name.startswith("GREENROOM_") and "__" in name]
    return _text_layer("environment", base, [(_variable_path(name, known), environ[name], name) for name in names])


def _variable_path(variable: str, host_keys: list[str]) -> KeyPath:
    match variable.removeprefix("GREENROOM_").split("__"):
        case ["PLUGINS", key] if key.lower() in host_keys:
            return ("plugins", key.lower())
        case ["PLUGINS", plugin, *keys] if plugin and keys and all(keys) and plugin.lower() not in host_keys:
            return ("plugins", plugin, *(key.lower() for key in keys))
        case ["HOOKS", "ORDER", hook] if hook:
            return ("hooks", "order", hook.lower())
        case ["PLUGINS", key] if key:
            hint = did_you_mean(variable, [f"GREENROOM_PLUGINS__{known.upper()}" for known in host_keys])
        case _:
            hint = "write GREENROOM_PLUGINS__<PLUGIN>__<KEY> or GREENROOM_HOOKS__ORDER__<HOOK>"
    raise SettingsError(f"{variable}: no setting has this name", hint=hint)


def override_layer(overrides: Mapping[str, object], base: Path) -> Layer:
    """Values of the command line, by TOML key (`plugins.x.key`); a string is parsed like a variable's value.

    Raises:
        SettingsError: a key that is no TOML key.
    """
    items = overrides.items()
    return _text_layer("command line", base, [(parse_key(key), value, f"--set {key}") for key, value in items])


def _text_layer(name: LayerName, base: Path, values: Iterable[tuple[KeyPath, object, str]]) -> Layer:
    """Make a layer of values that come one by one: where each belongs, what it is, and its variable or option."""
    tables: dict[str, object] = {}
    names: dict[KeyPath, str] = {}
    raw: dict[KeyPath, str] = {}
    for path, value, where in values:
        names[path] = where
        if isinstance(value, str):
            raw[path] = value
        try:
            put(tables, path, parse_value(value) if isinstance(value, str) else value)
        except ValueError as error:
            raise SettingsError(f"{where}: {error}") from None
    return Layer(name, base, tables, names=names, raw=raw)


def put(table: dict[str, object], path: KeyPath, value: object) -> None:
    """Set a value in nested tables, which are made where they are missing.

    Raises:
        ValueError: a value stands where a table is needed, or a table where the value belongs.
    """
    for part in path[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{part!r} has a value already and cannot be a table as well")  # noqa: TRY004  # no type is wrong
        table = inner
    if isinstance(table.get(path[-1]), dict):
        raise ValueError(f"{path[-1]!r} is a table already and cannot have a value as well")  # noqa: TRY004  # the same
    table[path[-1]] = value


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
