"""Plugins are installed by the tool of the environment, and what was asked for can be restored."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from greenroom import __version__
from greenroom.cli import run as command_line
from greenroom.cli._installer import (
    Installer,
    Request,
    find_installer,
    forget_request,
    missing,
    named,
    read_requests,
    remember,
    run,
)
from greenroom.errors import GreenroomError

if TYPE_CHECKING:
    from conftest import Site

UV = Installer("uv", ("uv", "pip"), "/env/bin/python")
PIP = Installer("pip", ("/env/bin/python", "-m", "pip"), "/env/bin/python")


def choice(prefix: Path, *, uv: bool, pip: bool) -> str:
    found = find_installer(prefix=str(prefix), python="py", which=lambda _: "/bin/uv" if uv else None, has_pip=pip)
    return found.tool


# --- which tool ---------------------------------------------------------------------------


def test_an_environment_that_uv_made_is_changed_by_uv(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.9.1\n")
    assert choice(tmp_path, uv=True, pip=True) == "uv"


def test_a_tool_environment_of_uv_is_changed_by_uv(tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").write_text("")
    assert choice(tmp_path, uv=True, pip=True) == "uv"


def test_any_other_environment_is_changed_by_its_pip(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nprompt = uv\n")
    assert choice(tmp_path, uv=True, pip=True) == "pip"
    assert choice(tmp_path / "no-venv", uv=False, pip=True) == "pip"


def test_without_pip_uv_is_used_and_without_both_the_error_says_what_to_do(tmp_path: Path) -> None:
    assert choice(tmp_path, uv=True, pip=False) == "uv"
    with pytest.raises(GreenroomError, match="neither uv nor pip") as caught:
        choice(tmp_path, uv=False, pip=False)
    assert "ensurepip" in (caught.value.hint or "")


def test_an_environment_of_uv_without_uv_on_the_path_falls_back_to_pip(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("uv = 1\n")
    assert choice(tmp_path, uv=False, pip=True) == "pip"


# --- commands -----------------------------------------------------------------------------


def test_the_command_names_the_environment_and_holds_the_version_of_the_host() -> None:
    requests = [Request("acme>=1"), Request("/p/acme", editable=True)]
    pin = f"greenroom=={__version__}"
    wanted = ["acme>=1", "--editable", "/p/acme", pin]
    assert UV.install(requests) == ["uv", "pip", "install", "--python", "/env/bin/python", *wanted]
    assert PIP.install(requests) == ["/env/bin/python", "-m", "pip", "install", "--no-input", *wanted]
    assert UV.uninstall("acme") == ["uv", "pip", "uninstall", "--python", "/env/bin/python", "acme"]
    assert PIP.uninstall("acme") == ["/env/bin/python", "-m", "pip", "uninstall", "--yes", "acme"]


def test_a_requirement_knows_its_distribution_and_a_path_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme").mkdir()
    (tmp_path / "a.whl").touch()
    assert Request.of("Acme_Audit[big]>=2") == Request("Acme_Audit[big]>=2", distribution="Acme_Audit")
    assert Request.of("acme") == Request("acme", distribution="acme"), "a folder of that name is not meant"
    assert Request.of("./acme[x]") == Request(f"{tmp_path}/acme[x]")
    assert Request.of("acme", editable=True) == Request(f"{tmp_path}/acme", editable=True)
    assert Request.of("a.whl") == Request(f"{tmp_path}/a.whl")
    assert Request.of("git+https://example.org/x").distribution is None
    assert Request.of("acme @ https://example.org/x.whl").distribution == "acme"


def test_the_output_of_the_installer_is_passed_on_and_a_failure_is_an_error() -> None:
    said: list[str] = []
    code = "import sys; print('one'); print('two', file=sys.stderr); print(repr(sys.stdin.read())); sys.exit(3)"
    with pytest.raises(GreenroomError, match="failed with exit code 3"):
        run([sys.executable, "-c", code], said.append)
    assert set(said) == {"one", "two", "''"}, "stdin is empty, so nothing can wait for an answer"


def test_an_installer_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GreenroomError, match="cannot be started"):
        run([str(tmp_path / "nothing")], print)


# --- what was asked for -------------------------------------------------------------------


def test_requests_are_kept_once_for_each_distribution_and_forgotten_by_its_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    remember(data, [Request("acme-audit", distribution="acme-audit"), Request("/p/x")])
    remember(data, [Request("Acme_Audit==2", distribution="Acme_Audit"), Request("/p/x", distribution="x")])
    assert read_requests(data) == [
        Request("Acme_Audit==2", distribution="Acme_Audit"),
        Request("/p/x", distribution="x"),
    ]
    forget_request(data, "ACME.audit")
    assert [r.distribution for r in read_requests(data)] == ["x"]
    assert (data / "requested.json").stat().st_mode & 0o077 == 0, "an URL may hold a password"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"requested": 3}', b'{"requested": [{}]}', b"\xff"])
def test_a_file_that_cannot_be_read_asks_for_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "requested.json").write_bytes(content)
    assert read_requests(tmp_path) == []


def test_missing_is_what_no_installed_distribution_has_the_name_of(site: Site) -> None:
    site.dist("acme-here")
    here, gone, unknown = (
        Request("Acme_Here>=1", distribution="Acme_Here"),
        Request("acme-gone", distribution="acme-gone"),
        Request("/p/x"),
    )
    assert missing([here, gone, unknown]) == [gone, unknown]


def test_a_path_is_named_after_what_it_has_installed(site: Site, tmp_path: Path) -> None:
    site.dist("acme-local", editable=tmp_path / "acme")
    (site.dist("acme-broken") / "direct_url.json").write_text("[")
    known = Request("other", distribution="other")
    assert named([known, Request(str(tmp_path / "acme"), editable=True), Request("/nowhere")]) == [
        known,
        Request(str(tmp_path / "acme"), editable=True, distribution="acme-local"),
        Request("/nowhere"),
    ]


# --- the commands -------------------------------------------------------------------------


@pytest.fixture
def data(user_folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return user_folders / "data"


def test_a_dry_run_prints_the_command_and_does_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["plugins", "install", "acme-no-such>=1", "--dry-run"]) == 0
    line = capsys.readouterr().out
    assert f"install --python {sys.executable} 'acme-no-such>=1' greenroom=={__version__}" in line or (
        f"pip install --no-input 'acme-no-such>=1' greenroom=={__version__}" in line
    )
    assert not data.exists()


def test_install_without_a_name_is_wrong_usage(data: Path) -> None:
    assert command_line(["plugins", "install"]) == 2


def test_the_list_says_what_is_missing_and_sync_would_install_it(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["plugins", "sync"]) == 0
    assert "nothing is missing" in capsys.readouterr().out
    remember(data, [Request("acme-no-such>=1", distribution="acme-no-such"), Request("pluggy", distribution="pluggy")])
    assert command_line(["plugins", "list"]) == 0
    assert "1 installed earlier and missing now: acme-no-such" in capsys.readouterr().err
    assert command_line(["plugins", "sync", "--dry-run"]) == 0
    line = capsys.readouterr().out
    assert "acme-no-such>=1" in line
    assert "pluggy" not in line


def test_uninstall_refuses_what_no_package_brought(
    site: Site, data: Path, user_folders: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (user_folders / "config").mkdir()
    (tmp_path / "own.py").write_text("")
    (user_folders / "config/greenroom.toml").write_text(f'[plugins]\nload = ["{tmp_path}/own.py"]\n')
    assert command_line(["plugins", "uninstall", "own"]) == 1
    assert "was not installed by a package" in capsys.readouterr().err


def test_uninstall_takes_the_distribution_with_all_its_plugins(
    site: Site, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-two", entries={"a": "x", "b": "y"})
    assert command_line(["plugins", "uninstall", "acme-two", "--dry-run"]) == 0
    assert capsys.readouterr().out.endswith(" acme-two\n")


# --- for real -----------------------------------------------------------------------------

PLUGIN = """
from greenroom import hookimpl

@hookimpl
def activate(scope):
    scope.undo(lambda: None)
"""


def wheel(folder: Path) -> Path:
    """Write a wheel by hand, so that nothing is built and nothing is downloaded."""
    info = "acme_real-1.0.dist-info"
    contents = {
        "acme_real.py": PLUGIN,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-real\nVersion: 1.0\nRequires-Dist: greenroom\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[greenroom]\nreal = acme_real\n",
    }
    record = ""
    for name, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = folder / "acme_real-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return path


def environment(folder: Path, tool: str) -> Path:
    """Make an environment that holds what this one holds, mostly by links, and return its interpreter."""
    base = Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))
    linked = [base / "pip"] if tool == "pip" and (base / "pip").is_dir() else []
    if tool == "uv":
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, folder], check=True)
    else:  # linking the base interpreter's pip saves half of the time of installing it
        options = ["--without-pip"] if linked else []
        subprocess.run([sys.executable, "-m", "venv", *options, folder], check=True)
    python = folder / "bin/python"
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    target = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    for item in [*linked, *Path(sysconfig.get_path("purelib")).iterdir()]:
        if item.suffix == ".dist-info" and not (target / item.name).exists():
            shutil.copytree(item, target / item.name)  # uv does not look through links here
        elif not (target / item.name).exists():
            (target / item.name).symlink_to(item)
    return python


@pytest.mark.skipif(os.name == "nt", reason="links into another environment need rights there")
@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_a_plugin_is_installed_listed_restored_and_uninstalled_for_real(
    tmp_path: Path, user_folders: Path, tool: str
) -> None:
    if tool == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not installed")
    file = wheel(tmp_path)
    python = environment(tmp_path / "env", tool)
    offline = {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env = {**os.environ, **offline}

    def greenroom(*args: str) -> str:
        code = "from greenroom.cli import main; main()"
        done = subprocess.run(
            [python, "-c", code, "plugins", *args], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    assert "new plugins: acme-real:real" in greenroom("install", f"./{file.name}")
    assert read_requests(user_folders / "data") == [Request(str(file), distribution="acme-real")]
    greenroom("uninstall", "real")
    assert "acme-real" not in greenroom("list")
    assert read_requests(user_folders / "data") == []
    remember(user_folders / "data", [Request(str(file), distribution="acme-real")])
    assert "installed: acme-real" in greenroom("sync")
    assert json.loads(greenroom("check", "real", "--json"))["plugins"][0]["state"] == "active"
