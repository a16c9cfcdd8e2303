"""Install and uninstall plugins with the tool of this environment, and remember what was asked for.

Upgrading a tool with uv or pipx makes its environment anew and drops every plugin, so the
requests are kept in the data directory, from where `greenroom plugins sync` restores them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from greenroom._finding.metadata import installed, normalize, refresh_metadata
from greenroom._paths import make_data_directory, write_atomically
from greenroom._version import __version__
from greenroom.errors import GreenroomError

FILE: Final = "requested.json"
LOCK_SECONDS: Final = 10.0  # whoever holds the lock longer hangs; a change of the file takes milliseconds


@dataclass(frozen=True, slots=True)
class Installer:
    """How to change the environment that this host runs in.

    Attributes:
        tool: uv or pip.
        command: what stands in front of `install` and `uninstall`.
        python: the interpreter of the environment.
    """

    tool: Literal["uv", "pip"]
    command: tuple[str, ...]
    python: str

    def install(self, requests: Iterable[Request]) -> list[str]:
        """Return the command that installs, and that cannot change the version of the host.

        The version stands there as a requirement of its own: a constraint that needs no file,
        so that a printed command can be copied.
        """
        wanted = [
            part for r in requests for part in (("--editable", r.requirement) if r.editable else (r.requirement,))
        ]
        return [*self.command, "install", *self._options("--no-input"), *wanted, f"greenroom=={__version__}"]

    def uninstall(self, distribution: str) -> list[str]:
        """Return the command that removes a distribution."""
        return [*self.command, "uninstall", *self._options("--yes"), distribution]

    def _options(self, pip: str) -> list[str]:
        return ["--python", self.python] if self.tool == "uv" else [pip]


@dataclass(frozen=True, slots=True)
class Request:
    """Something that the user asked to have installed.

    Attributes:
        requirement: as pip takes it; a path is absolute.
        editable: whether it was to be an editable install.
        distribution: the name of what it installed, or None if that could not be told.
    """

    requirement: str
    editable: bool = False
    distribution: str | None = None

    @classmethod
    def of(cls, text: str, *, editable: bool = False) -> Request:
        """Read what a person wrote; an existing path is made absolute, so that it holds in every folder."""
        path = Path(text.partition("[")[0]).expanduser()
        if path.exists() and (editable or "/" in text or text.startswith(".") or path.suffix == ".whl"):
            extras = text[len(text.partition("[")[0]) :]
            return cls(f"{path.resolve()}{extras}", editable)
        return cls(text, editable, None if editable else _name_in(text))


def find_installer(
    *,
    prefix: str = sys.prefix,
    python: str = sys.executable,
    which: Callable[[str], str | None] = shutil.which,
    has_pip: bool | None = None,
) -> Installer:
    """Choose uv for an environment that uv made, or one without pip; else pip.

    Raises:
        GreenroomError: there is neither.
    """
    pip = find_spec("pip") is not None if has_pip is None else has_pip
    uv = which("uv")
    if uv and (not pip or _made_by_uv(Path(prefix))):
        return Installer("uv", ("uv", "pip"), python)
    if pip:
        return Installer("pip", (python, "-m", "pip"), python)
    hint = f"install uv (https://docs.astral.sh/uv/), or pip: {python} -m ensurepip"
    raise GreenroomError(f"neither uv nor pip can install into {prefix}", hint=hint)


def _made_by_uv(prefix: Path) -> bool:
    if (prefix / "uv-receipt.toml").exists():  # `uv tool install`
        return True
    try:
        lines = (prefix / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def run(command: Sequence[str], say: Callable[[str], None]) -> None:
    """Run an installer; it asks nothing, and its output goes to `say` line by line.

    Raises:
        GreenroomError: it cannot be started, or it failed.
    """
    try:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as child:
            for line in child.stdout or ():
                say(line.rstrip("\n"))
    except OSError as error:
        raise GreenroomError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    if child.returncode != 0:
        text = f"{' '.join(command)} failed with exit code {child.returncode}"
        raise GreenroomError(text, hint="its output above says why; nothing was recorded")


def read_requests(data_dir: Path) -> list[Request]:
    """Return what was asked for, in order; nothing if the file is missing or cannot be read."""
    try:
        items = json.loads((data_dir / FILE).read_bytes())["requested"]
        return [Request(str(i["requirement"]), bool(i["editable"]), i["distribution"]) for i in items]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember(data_dir: Path, requests: Iterable[Request]) -> None:
    """Record requests, each in place of an earlier one for the same distribution or requirement."""
    new = list(requests)

    def change(known: list[Request]) -> list[Request]:
        names = {normalize(r.distribution) for r in new if r.distribution}
        texts = {r.requirement for r in new}
        kept = [r for r in known if r.requirement not in texts and normalize(r.distribution or "") not in names]
        return [*kept, *new]

    _change(data_dir, change)


def forget_request(data_dir: Path, distribution: str) -> None:
    """Remove what was asked for a distribution."""
    name = normalize(distribution)
    _change(data_dir, lambda known: [r for r in known if normalize(r.distribution or "") != name])


def _change(data_dir: Path, change: Callable[[list[Request]], list[Request]]) -> None:
    from filelock import FileLock, Timeout  # a listing needs none

    make_data_directory(data_dir)
    try:
        with FileLock(data_dir / f".{FILE}.lock", timeout=LOCK_SECONDS):
            known = read_requests(data_dir)
            changed = change(known)
            if changed != known:
                content = {"format": 1, "requested": [asdict(r) for r in changed]}
                write_atomically(data_dir / FILE, json.dumps(content, indent=1).encode())
    except Timeout as error:
        raise GreenroomError(f"another process is changing {data_dir / FILE}", hint="try again") from error


def missing(requests: Iterable[Request]) -> list[Request]:
    """Return the requests whose distribution is not installed; one without a known name counts as missing."""
    there = {dist.key for dist in installed()}
    return [r for r in requests if r.distribution is None or normalize(r.distribution) not in there]


def named(requests: Iterable[Request]) -> list[Request]:
    """Fill in what the requests have installed, for those that are a path or an URL."""
    refresh_metadata()
    found = []
    for request in requests:
        name = request.distribution
        if name is None:
            path = Path(request.requirement.partition("[")[0])
            name = _installed_from(path.as_uri() if path.is_absolute() else request.requirement)
        found.append(replace(request, distribution=name))
    return found


def _installed_from(url: str) -> str | None:
    for dist in installed():
        with suppress(ValueError, AttributeError):  # broken metadata of somebody else
            if json.loads(dist.read("direct_url.json") or "{}").get("url") == url:
                return dist.name_and_version()[0]
    return None


def _name_in(text: str) -> str | None:
    from packaging.requirements import InvalidRequirement, Requirement  # a listing needs none

    try:
        return Requirement(text).name
    except InvalidRequirement:
        return None
