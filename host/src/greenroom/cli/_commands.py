"""The commands that installed distributions bring, read from their metadata; nothing of them is imported.

A scan of its own: for 1,000 distributions it takes a third of what `importlib.metadata` takes with its
import, and `--help` pays it each time. It sees what is unpacked in folders of `sys.path`, as every installer does it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

GROUP = "greenroom.commands"
PLUGINS = "greenroom"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SUFFIXES = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command that a distribution declares.

    Attributes:
        name: what is typed.
        target: `module:attr`.
        distribution: the normalised name of the distribution.
        plugins: the short names of the plugins in the same distribution.
    """

    name: str
    target: str
    distribution: str
    plugins: tuple[str, ...]


def plugin_commands(path: Iterable[str] | None = None) -> dict[str, list[PluginCommand]]:
    """Every declared command by name; more than one of a name is a clash. Metadata that cannot be read is left out."""
    found: dict[str, list[PluginCommand]] = {}
    for distribution, groups in _distributions(sys.path if path is None else path):
        plugins = tuple(groups.get(PLUGINS, ()))
        for name, target in groups.get(GROUP, {}).items():
            if _NAME.fullmatch(name):
                found.setdefault(name, []).append(PluginCommand(name, target, distribution, plugins))
    return {name: sorted(commands, key=lambda c: c.distribution) for name, commands in sorted(found.items())}


def _distributions(path: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Mapping[str, str]]]]:
    """The entry points of each distribution; the first one of a name on the path is the one that counts."""
    seen: set[str] = set()
    for folder in dict.fromkeys(path):
        try:
            names = sorted(entry for entry in os.listdir(folder or ".") if entry.endswith(_SUFFIXES))  # noqa: PTH208 names only, and pathlib would double the time
        except OSError:
            continue
        for name in names:
            distribution = re.sub(r"[-_.]+", "-", name.rpartition(".")[0].partition("-")[0]).lower()
            if distribution not in seen:
                seen.add(distribution)
                if text := _read(os.path.join(folder, name, "entry_points.txt")):  # noqa: PTH118 see above
                    yield distribution, parse_entry_points(text)


def _read(file: str) -> str:
    try:
        with open(file, "rb") as content:  # noqa: PTH123 see above
            data = content.read()
    except OSError:
        return ""
    return data.decode("utf-8", "replace") if GROUP.encode() in data else ""


def parse_entry_points(text: str) -> dict[str, dict[str, str]]:
    """The groups of an `entry_points.txt`."""
    groups: dict[str, dict[str, str]] = {}
    group: dict[str, str] = {}
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            group = groups.setdefault(line[1:-1].strip(), {})
        elif "=" in line:
            name, _, target = line.partition("=")
            group[name.strip()] = target.partition("[")[0].strip()  # without extras
    return groups
