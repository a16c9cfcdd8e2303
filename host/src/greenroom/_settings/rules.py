"""What the host's own keys may hold, and how a nearer layer changes what the layers below it say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from greenroom._kinds import TIMEOUT_CAP
from greenroom._settings.layers import KeyPath, Layer, did_you_mean
from greenroom.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

IMPORT_TIMEOUT: Final = 10.0  # seconds; a plugin that needs longer works at import time

Kind = Literal["strings", "flag", "seconds"]
# How a nearer layer changes what the layers below it say. A project file may make things stricter, never laxer.
Rule = Literal["add", "narrow", "raise", "lower", "replace"]


class HostKey(NamedTuple):
    """A key of the host: what it holds, how layers change it, and what counts when no layer has it."""

    kind: Kind
    rule: Rule
    default: tuple[str, ...] | bool | float | None = None


HOST_KEYS: Final = {
    "load": HostKey("strings", "add", ()),
    "allow": HostKey("strings", "narrow"),
    "deny": HostKey("strings", "add", ()),
    "strict": HostKey("flag", "raise", default=False),
    "import_timeout": HostKey("seconds", "replace", IMPORT_TIMEOUT),
}
SECTION_KEYS: Final = {
    "guard": HostKey("flag", "raise", default=False),
    "required": HostKey("flag", "raise", default=False),
    "timeout_cap": HostKey("seconds", "lower", TIMEOUT_CAP),
}
INVARIANT_KEYS: Final = {
    "enabled": HostKey("flag", "raise"),
    "allow": HostKey("strings", "replace"),
    "block": HostKey("strings", "replace"),
}
TABLES: Final = {"hooks": {"order"}, "invariants": INVARIANT_KEYS.keys(), "plugins": HOST_KEYS.keys()}
YES: Final = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def check_shape(layer: Layer) -> None:
    """Refuse what no layer may have: unknown tables, unknown host keys, tables where values belong."""
    for name, table in layer.tables.items():
        if name not in TABLES:
            raise _error(layer, (name,), "unknown table", did_you_mean(name, TABLES))
        if not isinstance(table, dict):
            raise _error(layer, (name,), "must be a table", f"write [{name}]")
        for key, value in table.items():
            if key in TABLES[name] or (name == "plugins" and isinstance(value, dict)):
                continue
            hint = did_you_mean(key, TABLES[name])
            if name == "plugins":
                hint += f" (settings of a plugin stand in a table, [plugins.{key}])"
            raise _error(layer, (name, key), "unknown key", hint)
    order = layer.at("hooks", "order")
    if order is not None and not isinstance(order, dict):
        raise _error(layer, ("hooks", "order"), "must be a table", 'write [hooks.order] and then hook = ["plugin"]')


def folded(key: HostKey, places: Iterable[tuple[Layer, KeyPath]]) -> Any:  # noqa: ANN401  # its kind says what it is
    """Return what counts of a host key: each layer that has it is laid over the ones below.

    Args:
        places: the layers, the strongest last, with where the key stands in them.

    Raises:
        SettingsError: a value is not of the key's kind.
    """
    value: Any = key.default
    for layer, path in places:
        if layer.at(*path) is None:
            continue
        new = _checked(layer, path, key.kind)
        if key.rule == "add":
            value = tuple(dict.fromkeys([*value, *new]))
        elif layer.name != "project" or value is None or key.rule == "replace":
            value = new
        elif key.rule == "narrow":
            value = tuple(name for name in value if name in new)
        else:  # of flags the higher is the stricter, of time-outs the lower
            value = max(value, new) if key.rule == "raise" else min(value, new)
    return value


def _checked(layer: Layer, path: KeyPath, kind: Kind) -> Any:  # noqa: ANN401  # the kind says what it is
    """Return the value at `path`, if it is of this kind."""
    value = layer.at(*path)
    if kind == "flag" and path in layer.raw:  # variables and options: 1 and yes mean true as well
        value = YES.get(layer.raw[path].strip().lower(), value)
    expected, example, fits = _KINDS[kind]
    if not fits(value):
        raise _error(layer, path, f"must be {expected}, not {_shown(value)}", f"write {path[-1]} = {example}")
    return tuple(value) if isinstance(value, list) else value


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


_KINDS: Final[dict[Kind, tuple[str, str, Callable[[object], bool]]]] = {
    "strings": ("a list of non-empty texts", '["one", "two"]', _is_strings),
    "flag": ("true or false", "true", lambda value: isinstance(value, bool)),
    "seconds": ("a number of seconds above 0", "30", _is_seconds),
}


def _shown(value: object) -> str:
    return {dict: "a table", list: "a list of something else", bool: str(value).lower()}.get(type(value), repr(value))


def _error(layer: Layer, path: KeyPath, problem: str, hint: str) -> SettingsError:
    place = f"[{'.'.join(path[:-1])}] {path[-1]}" if path[1:] else f"[{path[0]}]"
    return SettingsError(f"{layer.origin(path)}: {place}: {problem}", hint=hint)
