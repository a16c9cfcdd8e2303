"""Write a new plugin from the files in `greenroom/templates/plugin`, which are plain text with {{words}}."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from greenroom._settings.settings import RESERVED_NAMES
from greenroom._version import API_VERSION, __version__
from greenroom.errors import GreenroomError

PREFIX: Final = "greenroom-"
# Under their real names the one would apply to our own repository, the other be collected as a test of ours.
RENAMED: Final = {"gitignore": ".gitignore", "plugin_test.py": "test_plugin.py"}


@dataclass(frozen=True, slots=True)
class Project:
    """A project that was written.

    Attributes:
        folder: where.
        distribution: what is installed.
        package: what is imported.
        name: the short name of the plugin.
    """

    folder: Path
    distribution: str
    package: str
    name: str


def write_plugin(text: str, into: Path) -> Project:
    """Write a plugin into a new folder below `into`.

    Args:
        text: the name of the distribution; a single word gets `greenroom-` in front of it. The
            short name of the plugin is derived from it, so that no two templates share one.
        into: an existing folder.

    Raises:
        GreenroomError: the name cannot be used, or the folder is there already; nothing was written.
    """
    project = _project(text, into)
    if project.folder.exists():
        raise GreenroomError(f"{project.folder} is there already", hint="choose another name, or another place: --into")
    words = {
        "distribution": project.distribution,
        "package": project.package,
        "name": project.name,
        "host": __version__,
        "api": API_VERSION,
    }
    try:
        _copy(files("greenroom") / "templates" / "plugin", project.folder, words)
    except OSError as error:
        raise GreenroomError(f"{project.folder} cannot be written: {error.strerror or error}") from error
    return project


def _project(text: str, into: Path) -> Project:
    name = re.sub(r"[-_.]+", "-", text).lower()
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        hint = "use letters, digits and dashes, a letter first"
        raise GreenroomError(f"{text!r} cannot be the name of a distribution", hint=hint)
    distribution = name if "-" in name else PREFIX + name
    short = distribution.removeprefix(PREFIX)
    if short.replace("-", "_") in RESERVED_NAMES:
        raise GreenroomError(f"{short!r} is a key of the host in [plugins]", hint="choose another name")
    return Project(into / distribution, distribution, distribution.replace("-", "_"), short)


def _copy(source: Traversable, target: Path, words: dict[str, str]) -> None:
    target.mkdir()
    for item in source.iterdir():
        name = words["package"] if item.name == "PACKAGE" else RENAMED.get(item.name, item.name)
        if item.is_dir():
            if item.name != "__pycache__":
                _copy(item, target / name, words)
            continue
        content = item.read_text(encoding="utf-8")
        for word, value in words.items():
            content = content.replace("{{" + word + "}}", value)
        (target / name).write_text(content, encoding="utf-8")
