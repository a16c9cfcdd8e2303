"""`greenroom plugins`: every command works however broken a plugin is, and says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from greenroom._finding.discovery import Candidate
from greenroom._finding.last_outcome import write_records
from greenroom._finding.metadata import refresh_metadata
from greenroom._lifecycle import Phase, PluginMove
from greenroom._records import PluginRecord
from greenroom.cli import run

if TYPE_CHECKING:
    from conftest import Site

HOOK = "from greenroom import hookimpl\n@hookimpl\ndef activate(scope):\n    scope.undo(lambda: None)\n"
NOON = lambda: 1_700_000_000.0


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in a folder without a project."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def data(user_folders: Path) -> Path:
    folder = user_folders / "data"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def user_file(user_folders: Path) -> Path:
    (user_folders / "config").mkdir(exist_ok=True)
    return user_folders / "config/greenroom.toml"


def command(*args: str, status: int = 0) -> None:
    refresh_metadata()
    assert run(["plugins", *args]) == status


def listed(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, dict[str, Any]]:
    command("list", "--json", *args)
    rows = json.loads(capsys.readouterr().out)["plugins"]
    return {row["id"]: row for row in rows if row["state"] != "shadowed"}


def process(site: Site, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own that sees the fake distributions."""
    return subprocess.run(
        [sys.executable, "-c", "from greenroom.cli import main; main()", *args],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(site.folder), **env},
        check=False,
        timeout=50,
    )


def outcome(data: Path, name: str, *moves: PluginMove, version: str = "1.0", **fields: object) -> None:
    """Write what a host would have written about the plugin `acme-<name>:<name>`."""
    candidate = Candidate(
        id=f"acme-{name}:{name}",
        name=name,
        distribution=f"acme-{name}",
        version=version,
        origin="entry-point",
        target=f"acme_{name}",
    )
    record = PluginRecord.of(candidate)
    for move in moves:
        record.fire(move)
    for key, value in fields.items():
        setattr(record, key, value)
    write_records(data, [record], NOON)


FAILED = (PluginMove.LOAD, PluginMove.FAIL)
ACTIVE = (PluginMove.LOAD, PluginMove.LOADED, PluginMove.START, PluginMove.READY)


# --- list and info ------------------------------------------------------------------------


def test_a_plugin_that_no_host_has_tried_is_discovered(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.dist("acme-new", entries={"new": "acme_new"})
    row = listed(capsys)["acme-new:new"]
    assert (row["state"], row["time"], row["version"]) == ("discovered", None, "1.0")


def test_the_last_outcome_is_shown_with_its_time(site: Site, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.dist("acme-bad", entries={"bad": "acme_bad"})
    outcome(data, "bad", *FAILED, phase=Phase.IMPORT, error="No module named 'torch'", hint="pip install torch")
    row = listed(capsys)["acme-bad:bad"]
    assert (row["state"], row["phase"], row["error"]) == ("failed", "import", "No module named 'torch'")
    assert row["hint"] == "pip install torch"
    assert row["time"] == "2023-11-14T22:13:20+00:00"
    command("list")
    text = capsys.readouterr().out
    assert "import: No module named 'torch'" in text
    assert "2023-11-14 22:13:20 UTC" in text


def test_the_outcome_of_another_version_says_nothing_about_this_one(
    site: Site, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-up", "2.0", entries={"up": "acme_up"})
    outcome(data, "up", *FAILED, version="1.0")
    assert listed(capsys)["acme-up:up"]["state"] == "discovered"


def test_what_discovery_knows_is_newer_than_the_last_outcome(
    site: Site, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-gone", entries={"gone": "acme_gone"}, editable=tmp_path / "gone")
    outcome(data, "gone", *ACTIVE)
    row = listed(capsys)["acme-gone:gone"]
    assert (row["state"], row["phase"]) == ("failed", "discover")
    assert "its folder is gone" in row["error"]


def test_blocked_conflicting_and_shadowed_plugins_are_all_listed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ["acme-one", "acme-two"]:
        site.dist(name, entries={"same": name.replace("-", "_")})
    site.dist("acme-denied", entries={"denied": "acme_denied"})
    stale = type(site)(tmp_path / "stale")
    stale.dist("acme-denied", "0.1", entries={"denied": "acme_old"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(stale.folder)])
    user_file.write_text('[plugins]\ndeny = ["denied"]\n')
    rows = listed(capsys)
    assert "taken twice" in rows["acme-one:same"]["error"]
    assert "acme-two:same" in rows["acme-one:same"]["error"]
    assert rows["acme-denied:denied"]["state"] == "blocked"
    command("list")
    text = capsys.readouterr().out
    assert "shadowed" in text
    assert f"used instead: acme-denied 1.0 in {site.folder}" in text


def test_unknown_names_in_the_lists_are_warnings(
    site: Site, user_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user_file.write_text('[plugins]\ndeny = ["acme-nobody"]\n')
    command("list")
    assert "warning: deny names 'acme-nobody'" in capsys.readouterr().err


def test_info_shows_one_plugin_by_id_short_name_or_distribution(
    site: Site, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-info", entries={"info": "acme_info"})
    outcome(data, "info", *ACTIVE, load_seconds=0.25)
    shown = []
    for name in ["acme-info:info", "info", "Acme_Info"]:
        command("info", name, "--json")
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["state"] == "active"
    assert shown[0]["record"]["load_seconds"] == 0.25
    command("info", "info")
    text = capsys.readouterr().out
    assert "state:        active" in text
    assert f"location:     {site.folder}" in text
    assert "editable:     no" in text
    assert "True" not in text
    assert "False" not in text


def test_names_in_the_order_of_hooks_that_nobody_has_are_warnings(
    site: Site, user_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-known", entries={"known": "acme_known"}, modules={"acme_known.py": HOOK})
    user_file.write_text('[hooks.order]\nactivate = ["known", "acme-known:known", "knwon"]\n')
    said = "[hooks.order] activate: no plugin is called 'knwon'; did you mean 'known'?"
    for arguments in (["plugins", "list"], ["plugins", "check", "known"], ["settings", "show"]):
        refresh_metadata()
        assert run(arguments) == 0
        warned = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
        assert warned == [f"warning: {said}"]
    assert run(["doctor"]) == 0
    assert said in capsys.readouterr().out
    user_file.write_text("[hooks.order]\nactivte = []\n")
    assert run(["settings", "show"]) == 0
    said = "[hooks.order]: there is no hook 'activte', so no host starts; did you mean 'activate'?"
    assert said in capsys.readouterr().err


def test_a_name_that_nobody_has_or_two_have_is_an_error_that_lists_ids(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ["acme-one", "acme-two"]:
        site.dist(name, entries={"same": "acme"})
    command("info", "nobody", status=1)
    assert "acme-one:same" in capsys.readouterr().err
    command("info", "same", status=1)
    assert "may mean acme-one:same or acme-two:same" in capsys.readouterr().err


# --- commands that import nothing ---------------------------------------------------------


def test_a02_a_plugin_that_ends_the_process_at_import_can_be_listed_disabled_and_uninstalled(
    site: Site, user_file: Path
) -> None:
    site.dist("acme-exit", entries={"exit": "acme_exit"}, modules={"acme_exit.py": "import os\nos._exit(9)\n"})
    for args in (
        ["list"],
        ["list", "--json"],
        ["info", "exit"],
        ["disable", "exit"],
        ["uninstall", "exit", "--dry-run"],
    ):
        done = process(site, "plugins", *args)
        assert done.returncode == 0, done.stderr
        assert "exit" in done.stdout
    assert tomllib.loads(user_file.read_text())["plugins"]["deny"] == ["acme-exit:exit"]


def test_a03_a_denied_plugin_is_never_imported(site: Site, user_file: Path) -> None:
    site.dist("acme-denied", entries={"denied": "acme_denied"})
    site.write("acme_denied.py", "import pathlib, os\npathlib.Path(os.environ['RAN']).touch()\n" + HOOK)
    ran = site.folder / "ran"
    user_file.write_text('[plugins]\ndeny = ["acme-denied"]\n')
    code = (
        "import anyio, json, sys\nfrom greenroom import Host, load_settings\n"
        "import pathlib\n"
        f"settings = load_settings(user_file=pathlib.Path({str(user_file)!r}))\n"
        "async def main():\n"
        "    async with Host(settings) as host:\n"
        "        print(host.plugin('denied').state, 'acme_denied' in sys.modules)\n"
        "anyio.run(main)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(site.folder), "RAN": str(ran)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == ["blocked", "False"], done.stderr
    assert not ran.exists()


@pytest.mark.parametrize("switch", [("--no-plugins",), ("--no-plugins=acme-panic",)])
def test_no_plugins_holds_for_the_listing_as_for_a_host(
    site: Site, switch: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-panic", entries={"panic": "acme_panic"})
    refresh_metadata()
    assert run([*switch, "plugins", "list", "--json"]) == 0
    rows = {r["id"]: r for r in json.loads(capsys.readouterr().out)["plugins"]}
    assert rows["acme-panic:panic"]["state"] == "blocked"


def test_a06_a_thousand_distributions_are_listed_without_importing_one(site: Site) -> None:
    for number in range(1_000):
        entries = {f"p{number}": "acme_bomb"} if number % 100 == 0 else None
        site.dist(f"acme-{number}", entries=entries)
    site.write("acme_bomb.py", "import os\nos._exit(9)\n")
    done = process(site, "plugins", "list", "--json")
    assert done.returncode == 0, done.stderr
    rows = [r for r in json.loads(done.stdout)["plugins"] if r["target"] == "acme_bomb"]
    assert len(rows) == 10
    assert process(site, "--help").returncode == 0


# --- enable and disable -------------------------------------------------------------------


def deny_list(user_file: Path) -> list[str]:
    return list(tomllib.loads(user_file.read_text())["plugins"].get("deny", []))


def test_disable_and_enable_edit_the_user_s_file_by_full_id_and_keep_the_rest(
    site: Site, user_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-sw", entries={"sw": "acme_sw"})
    user_file.write_text("# mine\n[plugins]\nstrict = false  # for now\n")
    command("disable", "sw")
    command("disable", "acme-sw")
    assert deny_list(user_file) == ["acme-sw:sw"]
    assert "# for now" in user_file.read_text()
    command("enable", "Acme-SW:sw")
    assert deny_list(user_file) == []
    assert user_file.read_text().startswith("# mine\n")
    assert "acme-sw:sw is enabled" in capsys.readouterr().out


def test_disable_makes_the_file_if_there_is_none(site: Site, user_file: Path) -> None:
    site.dist("acme-sw", entries={"sw": "acme_sw"})
    command("disable", "sw")
    assert deny_list(user_file) == ["acme-sw:sw"]


def test_enable_keeps_the_others_of_a_denied_distribution_denied(site: Site, user_file: Path) -> None:
    site.dist("acme-multi", entries={"a": "acme_m:a", "b": "acme_m:b", "c": "acme_m:c"})
    user_file.write_text('[plugins]\ndeny = ["acme-multi"]\n')
    command("enable", "b")
    assert deny_list(user_file) == ["acme-multi:a", "acme-multi:c"]


def test_enable_adds_to_an_allow_list(site: Site, user_file: Path) -> None:
    site.dist("acme-al", entries={"al": "acme_al"})
    user_file.write_text('[plugins]\nallow = ["other"]\n')
    command("enable", "al")
    assert tomllib.loads(user_file.read_text())["plugins"]["allow"] == ["other", "acme-al:al"]


def test_enable_says_when_another_list_still_blocks_the_plugin(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site.dist("acme-still", entries={"still": "acme_still"})
    monkeypatch.setenv("GREENROOM_NO_PLUGINS", "still")
    command("enable", "still", status=1)
    assert "acme-still:still is still blocked: denied" in capsys.readouterr().err


def test_a_conflict_is_resolved_by_disabling_one_by_its_full_id(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ["acme-one", "acme-two"]:
        site.dist(name, entries={"same": name.replace("-", "_")})
    assert listed(capsys)["acme-two:same"]["state"] == "failed"
    command("disable", "acme-one:same")
    capsys.readouterr()
    assert listed(capsys)["acme-two:same"]["state"] == "discovered"


# --- check --------------------------------------------------------------------------------


def checked(site: Site, *args: str) -> tuple[int, dict[str, dict[str, Any]], str]:
    """Check plugins in the environment of the fake distributions only."""
    done = process(site, "--set", f"plugins.allow={json.dumps(ALLOWED)}", "plugins", "check", "--json", *args)
    assert done.stdout, done.stderr
    return done.returncode, {r["id"]: r for r in json.loads(done.stdout)["plugins"]}, done.stderr


ALLOWED = ["acme-good", "acme-bad", "acme-exit", "acme-loud", "acme-hang"]


def test_check_loads_in_another_process_and_reports_each_plugin(site: Site) -> None:
    site.dist("acme-good", entries={"good": "acme_good"}, modules={"acme_good.py": HOOK})
    site.dist("acme-bad", entries={"bad": "acme_bad"}, modules={"acme_bad.py": "import acme_nothing"})
    status, rows, _ = checked(site)
    assert status == 1
    assert rows["acme-good:good"]["state"] == "active"
    assert (rows["acme-bad:bad"]["state"], rows["acme-bad:bad"]["phase"]) == ("failed", "import")
    assert "acme_nothing" in rows["acme-bad:bad"]["hint"]
    status, rows, _ = checked(site, "good")
    assert (status, list(rows)) == (0, ["acme-good:good"])


def test_check_names_the_plugin_that_ends_the_process(site: Site) -> None:
    site.dist("acme-good", entries={"good": "acme_good"}, modules={"acme_good.py": HOOK})
    site.dist("acme-exit", entries={"exit": "acme_exit"}, modules={"acme_exit.py": "import os\nos._exit(9)\n"})
    status, rows, _ = checked(site)
    assert status == 1
    assert rows["acme-good:good"]["state"] == "active"
    assert rows["acme-exit:exit"]["state"] == "failed"
    assert "ended with exit status 9" in rows["acme-exit:exit"]["error"]
    assert "plugins disable acme-exit:exit" in rows["acme-exit:exit"]["hint"]


def test_check_bounds_a_plugin_that_never_returns_and_names_it(site: Site) -> None:
    endless = "import threading\n" + HOOK.replace("scope.undo(lambda: None)", "threading.Event().wait()")
    site.dist("acme-hang", entries={"hang": "acme_hang"}, modules={"acme_hang.py": endless})
    status, rows, _ = checked(site, "--timeout", "1.5")
    assert status == 1
    assert "did not end within 1.5 s" in rows["acme-hang:hang"]["error"]


def test_what_a_plugin_prints_does_not_spoil_the_json_of_check(site: Site) -> None:
    site.dist("acme-loud", entries={"loud": "acme_loud"}, modules={"acme_loud.py": "print('[LOUD]')\n" + HOOK})
    status, rows, err = checked(site)
    assert (status, rows["acme-loud:loud"]["state"]) == (0, "active")
    assert "[LOUD]" in err


def test_a_blocked_plugin_fails_a_check_only_if_it_was_asked_for(site: Site) -> None:
    site.dist("acme-good", entries={"good": "acme_good"}, modules={"acme_good.py": HOOK})
    site.dist("acme-other", entries={"other": "acme_other"})
    status, rows, _ = checked(site)
    assert (status, rows["acme-other:other"]["state"]) == (0, "blocked")
    status, rows, _ = checked(site, "other")
    assert (status, list(rows)) == (1, ["acme-other:other"])


def test_check_reports_each_plugin_although_a_strict_host_would_not_start(site: Site, user_file: Path) -> None:
    site.dist("acme-good", entries={"good": "acme_good"}, modules={"acme_good.py": HOOK})
    site.dist("acme-bad", entries={"bad": "acme_bad"}, modules={"acme_bad.py": "1 / 0"})
    user_file.write_text("[plugins]\nstrict = true\n")
    status, rows, _ = checked(site)
    assert status == 1
    assert "ZeroDivisionError" in rows["acme-bad:bad"]["error"]
    assert rows["acme-good:good"]["error"].startswith("the host does not start (strict plugins)")


def test_check_runs_nothing_of_a_project_that_is_not_trusted(site: Site) -> None:
    Path("hook.py").write_text("import pathlib\npathlib.Path('ran').touch()\n" + HOOK)
    Path("greenroom.toml").write_text('[plugins]\nload = ["./hook.py"]\n')
    done = process(site, "plugins", "check")
    assert done.returncode == 1
    assert "greenroom trust add" in done.stdout
    assert not Path("ran").exists()


def test_the_next_listing_shows_what_check_has_found(site: Site) -> None:
    site.dist("acme-bad", entries={"bad": "acme_bad"}, modules={"acme_bad.py": "import sys; sys.exit(3)"})
    site.dist("acme-good", entries={"good": "acme_good"}, modules={"acme_good.py": HOOK})
    checked(site)
    rows = {r["id"]: r for r in json.loads(process(site, "plugins", "list", "--json").stdout)["plugins"]}
    assert rows["acme-good:good"]["state"] == "active"
    assert "called sys.exit(3)" in rows["acme-bad:bad"]["error"]
