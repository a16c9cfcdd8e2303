"""What the host's own keys may hold, and how a nearer layer changes what the layers below it say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from greenroom._settings.layers import KeyPath, Layer, did_you_mean
from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEFAULT_IMPORT_TIMEOUT = 10.0  # seconds; a plugin that needs longer works at import time
DEFAULT_TIMEOUT_CAP = 120.0  # seconds; the longest time-out that a plugin may ask for (hooks)

Kind = Literal["strings", "flag", "seconds"]
# How a nearer layer changes what the layers below it say. A project file may make things stricter, never laxer.
Rule = Literal["add", "narrow", "raise", "lower", "replace"]
HOST_KEYS: dict[str, tuple[Kind, Rule]] = {
    "load": ("strings", "add"),
    "allow": ("strings", "narrow"),
    "deny": ("strings", "add"),
    "strict": ("flag", "raise"),
    "import_timeout": ("seconds", "replace"),
}
SECTION_KEYS: dict[str, tuple[Kind, Rule]] = {
    "guard": ("flag", "raise"),
    "required": ("flag", "raise"),
    "timeout_cap": ("seconds", "lower"),
}
INVARIANT_KEYS: dict[str, tuple[Kind, Rule]] = {
    "enabled": ("flag", "raise"),
    "allow": ("strings", "replace"),
    "block": ("strings", "replace"),
}
_TOP = ("hooks", "invariants", "plugins")
YES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def check_shape(layer: Layer) -> None:
    """Refuse what no layer may have: unknown tables, unknown host keys, tables where values belong."""
    for name, value in layer.tables.items():
        if name not in _TOP:
            raise _error(layer, (name,), "unknown table", did_you_mean(name, _TOP))
        if not isinstance(value, dict):
            raise _error(layer, (name,), "must be a table", f"write [{name}]")
    for name, value in table_at(layer, "plugins").items():
        if name in HOST_KEYS or isinstance(value, dict):
            continue
        hint = did_you_mean(name, HOST_KEYS) + f" (settings of a plugin stand in a table, [plugins.{name}])"
        raise _error(layer, ("plugins", name), "unknown key", hint)
    for name in table_at(layer, "invariants"):
        if name not in INVARIANT_KEYS:
            raise _error(layer, ("invariants", name), "unknown key", did_you_mean(name, INVARIANT_KEYS))
    for name, value in table_at(layer, "hooks").items():
        if name != "order":
            raise _error(layer, ("hooks", name), "unknown key", did_you_mean(name, ["order"]))
        if not isinstance(value, dict):
            raise _error(layer, ("hooks", "order"), "must be a table", 'write [hooks.order] and then hook = ["plugin"]')


def checked(layer: Layer, path: KeyPath, kind: Kind) -> object:
    """The value at `path`, if it is of this kind.

    Raises:
        SettingsError: it is not.
    """
    value: object = layer.tables
    for part in path:
        value = value[part] if isinstance(value, dict) else None
    if kind == "flag" and path in layer.raw:  # variables and options: 1 and yes mean true as well
        value = YES.get(layer.raw[path].strip().lower(), value)
    expected, fits = _KINDS[kind]
    if not fits(value):
        raise _error(layer, path, f"must be {expected}, not {_shown(value)}", f"write {path[-1]} = {_EXAMPLES[kind]}")
    return value


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


_KINDS: dict[Kind, tuple[str, Callable[[object], bool]]] = {
    "strings": ("a list of non-empty texts", _is_strings),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "seconds": ("a number of seconds above 0", _is_seconds),
}
_EXAMPLES: dict[Kind, str] = {"strings": '["one", "two"]', "flag": "true", "seconds": "30"}


def _shown(value: object) -> str:
    return {dict: "a table", list: "a list of something else", bool: str(value).lower()}.get(type(value), repr(value))


def fold(old: object, new: object, rule: Rule, layer: Layer) -> object:
    """What counts when `layer` says `new` and the layers below it say `old`."""
    if rule == "add":
        return tuple(dict.fromkeys([*strings(old), *strings(new)]))
    if layer.name != "project" or old is None:
        return new
    match rule:
        case "narrow":
            return tuple(name for name in strings(old) if name in strings(new))
        case "raise":
            return old or new
        case "lower":
            return min(number(old), number(new))
        case "replace":
            return new


def table_at(layer: Layer, *path: str) -> Mapping[str, object]:
    """The table at `path`; empty when there is none."""
    found: object = layer.tables
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def strings(value: object) -> tuple[str, ...]:
    """A checked list as a tuple."""
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def number(value: object) -> float:
    """A checked number."""
    return float(value) if isinstance(value, int | float) else math.nan


def _error(layer: Layer, path: KeyPath, problem: str, hint: str) -> SettingsError:
    place = f"[{'.'.join(path[:-1])}] {path[-1]}" if path[1:] else f"[{path[0]}]"
    return SettingsError(f"{layer.origin(path)}: {place}: {problem}", hint=hint)
