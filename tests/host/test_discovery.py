"""Discovery lists every plugin there is, from metadata alone, and never stops at a broken one."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from greenroom._finding.discovery import Candidate, discover
from greenroom._finding.metadata import refresh_metadata
from greenroom._settings.layers import Origin
from greenroom._settings.settings import LoadEntry

if TYPE_CHECKING:
    from conftest import Site


def entry(text: str, base: Path, *, from_project: bool = False) -> LoadEntry:
    return LoadEntry(text, base, from_project, Origin("user", str(base / "greenroom.toml")))


def ids(found: list[Candidate]) -> list[str]:
    return [c.id for c in found]


def one(found: list[Candidate]) -> Candidate:
    (candidate,) = found
    return candidate


def test_an_entry_point_becomes_a_candidate_with_its_distribution(site: Site) -> None:
    site.dist("Acme_Audit", "2.1", entries={"audit": "acme_audit.plugin : hooks [extra]"})
    found = one(discover(path=site.path))
    assert (found.id, found.name, found.distribution, found.version) == (
        "acme-audit:audit",
        "audit",
        "Acme_Audit",
        "2.1",
    )
    assert (found.origin, found.target, found.location) == ("entry-point", "acme_audit.plugin:hooks", site.folder)
    assert not found.editable
    assert not found.shadowed
    assert found.problem is None


def test_discovery_looks_at_sys_path_by_default(site: Site) -> None:
    site.dist("acme-default-path", entries={"acmedefault": "acme_default_path"})
    refresh_metadata()
    assert "acme-default-path:acmedefault" in ids(discover())


def test_discovery_imports_no_plugin(site: Site) -> None:
    site.dist("acme-boom", entries={"boom": "acme_boom"}, modules={"acme_boom.py": "import os; os._exit(9)"})
    site.write("hooks/__init__.py", "import os; os._exit(9)")
    found = discover([entry("./hooks", site.folder), entry("acme_boom:x", site.folder)], path=site.path)
    assert ids(found) == ["acme-boom:boom", "local:hooks", "local:x"]
    assert "acme_boom" not in sys.modules


def test_the_order_does_not_depend_on_the_file_system(site: Site) -> None:
    for name in ["zeta", "alpha", "mid"]:
        site.dist(name, entries={"b": f"{name}:b", "a": f"{name}:a"})
    expected = ["alpha:a", "alpha:b", "mid:a", "mid:b", "zeta:a", "zeta:b"]
    assert ids(discover(path=site.path)) == expected
    assert ids(discover(path=site.path)) == expected


def test_a_folder_that_stands_on_the_path_twice_gives_each_plugin_once(site: Site) -> None:
    site.dist("acme", entries={"a": "acme"})
    assert ids(discover(path=site.path * 2)) == ["acme:a"]


def test_the_first_distribution_of_a_name_wins_and_the_stale_one_is_listed_as_shadowed(
    site: Site, tmp_path: Path
) -> None:
    site.dist("acme-audit", "2.0", entries={"audit": "new"})
    stale = type(site)(tmp_path / "stale")
    stale.dist("acme_audit", "1.0", entries={"audit": "old", "gone": "old:gone"})
    found = discover(path=site.path + stale.path)
    assert [(c.target, c.shadowed) for c in found] == [("new", False), ("old", True), ("old:gone", True)]
    assert found[1].shadowed_by == f"acme-audit 2.0 in {site.folder}"


def test_a_newer_distribution_without_the_plugin_shadows_an_older_one_that_has_it(site: Site, tmp_path: Path) -> None:
    site.dist("acme", "2.0")
    stale = type(site)(tmp_path / "stale")
    stale.dist("acme", "1.0", entries={"audit": "old"})
    assert one(discover(path=site.path + stale.path)).shadowed


def test_metadata_that_cannot_be_read_is_one_problem_and_hides_no_other(site: Site) -> None:
    site.dist("acme", entries={"a": "acme"})
    nameless = site.dist("nameless", entries={"b": "nameless"})
    (nameless / "METADATA").unlink()
    binary = site.dist("binary")
    (binary / "entry_points.txt").write_bytes(b"[greenroom]\n\xff\xfe = x\n")
    torn = site.dist("torn", entries="[greenroom]\nno target on this line\n")
    found = discover(path=site.path)
    problems = {c.id: c for c in found if c.problem}
    assert [c.id for c in found if not c.problem] == ["acme:a"]
    assert len(problems) == 3, torn
    assert "UnicodeDecodeError" in (problems["binary"].problem or "")
    assert problems["torn"].hint == "reinstall or uninstall torn"


def test_broken_metadata_of_a_distribution_without_plugins_is_nobody_s_problem(site: Site) -> None:
    other = site.dist("other", entries="[console_scripts]\na = b:c\n")
    (other / "METADATA").unlink()
    assert discover(path=site.path) == []


@pytest.mark.parametrize("name", ["load", "allow", "deny", "strict", "import_timeout", "Import-Timeout"])
def test_a_key_of_the_host_is_refused_as_a_short_name(site: Site, name: str) -> None:
    site.dist("acme", entries={name: "acme"})
    found = one(discover(path=site.path))
    assert found.problem == f"{name!r} is a key of the host in [plugins]"
    assert "acme" in (found.hint or "")


@pytest.mark.parametrize(
    ("name", "target", "says"),
    [
        ("a b", "acme", "cannot be the name"),
        ("a:b", "acme", "cannot be the name"),
        ("a", "acme-audit", "names no object"),
        ("a", "acme:", "names no object"),
        ("a", "", "names no object"),
    ],
)
def test_a_name_or_target_that_cannot_be_used_is_a_problem(site: Site, name: str, target: str, says: str) -> None:
    site.dist("acme", entries={name: target})
    assert says in (one(discover(path=site.path)).problem or "")


def test_a_distribution_that_declares_a_name_twice_is_told_so(site: Site) -> None:
    site.dist("acme", entries="[greenroom]\na = acme:one\na = acme:two\n")
    assert [c.problem for c in discover(path=site.path)] == ["acme declares the entry point 'a' twice"] * 2


def test_an_editable_install_knows_its_project_folder(site: Site, tmp_path: Path) -> None:
    project = tmp_path / "a project"
    project.mkdir()
    site.dist("acme", entries={"a": "acme"}, editable=project)
    found = one(discover(path=site.path))
    assert (found.editable, found.location, found.problem) == (True, project, None)


def test_an_editable_install_whose_folder_is_gone_says_so(site: Site, tmp_path: Path) -> None:
    site.dist("acme", entries={"a": "acme"}, editable=tmp_path / "gone")
    found = one(discover(path=site.path))
    assert found.problem == f"it is an editable install and its folder is gone: {tmp_path / 'gone'}"
    assert "pip uninstall acme" in (found.hint or "")


def pyproject(folder: Path, entries: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "acme"\n{entries}')
    return folder


def test_an_entry_point_that_changed_since_an_editable_install_asks_for_a_reinstall(site: Site, tmp_path: Path) -> None:
    project = pyproject(tmp_path / "p", '[project.entry-points.greenroom]\na = "acme:new"\n')
    site.dist("acme", entries={"a": "acme:old", "b": "acme:b"}, editable=project)
    a, b = discover(path=site.path)
    assert a.problem is None
    assert "says 'acme:new' now" in (a.hint or "")
    assert "no longer has it" in (b.hint or "")
    assert f"pip install -e {project}" in (a.hint or "")


def test_an_entry_point_that_an_editable_install_has_not_seen_yet_is_listed_with_the_remedy(
    site: Site, tmp_path: Path
) -> None:
    project = pyproject(tmp_path / "p", '[project.entry-points.greenroom]\na = "acme:new"\n')
    site.dist("acme", editable=project)
    found = one(discover(path=site.path))
    assert found.id == "acme:a"
    assert "pyproject.toml declares the entry point 'a'" in (found.problem or "")
    assert f"pip install -e {project}" in (found.hint or "")


@pytest.mark.parametrize("text", ["not toml [", '[project]\nname="acme"\ndynamic = ["entry-points"]', "", "[tool.x]"])
def test_an_editable_install_whose_pyproject_says_nothing_is_taken_as_installed(
    site: Site, tmp_path: Path, text: str
) -> None:
    project = tmp_path / "p"
    project.mkdir()
    (project / "pyproject.toml").write_text(text)
    site.dist("acme", entries={"a": "acme"}, editable=project)
    found = one(discover(path=site.path))
    assert (found.problem, found.hint) == (None, None)


def test_a_file_of_the_settings_is_found_from_the_folder_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks/audit.py").write_text("")
    found = one(discover([entry("./hooks/audit.py", tmp_path)], path=[]))
    assert (found.id, found.name, found.origin) == ("local:audit", "audit", "file")
    assert (found.distribution, found.version) == (None, None)
    assert found.target == str(tmp_path / "hooks/audit.py")


def test_a_folder_of_the_settings_is_a_package(tmp_path: Path) -> None:
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard/__init__.py").write_text("")
    found = one(discover([entry(str(tmp_path / "guard"), Path("/nowhere"))], path=[]))
    assert (found.id, found.origin, found.problem) == ("local:guard", "folder", None)


def test_a_module_of_the_settings_is_named_after_its_object(tmp_path: Path) -> None:
    found = discover([entry("mypkg.hooks:policy", tmp_path), entry("mypkg.audit", tmp_path)], path=[])
    assert [(c.id, c.origin, c.target) for c in found] == [
        ("local:policy", "module", "mypkg.hooks:policy"),
        ("local:audit", "module", "mypkg.audit"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("./missing.py", "there is no such file"),
        ("./missing", "there is no such folder"),
        ("./empty", "needs an __init__.py"),
        ("./strict.py", "is a key of the host"),
        ("./odd.py", "not a file"),
        ("my pkg", "cannot be the name"),
        ("1pkg.mod:x", "names no object"),
    ],
)
def test_an_entry_of_load_that_cannot_be_used_is_a_problem(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "odd.py").mkdir()
    (tmp_path / "strict.py").write_text("")
    found = one(discover([entry(text, tmp_path)], path=[]))
    assert says in (found.problem or "")
    assert found.hint


def test_an_entry_of_a_project_file_is_marked_so_that_its_code_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    texts = ["./a.py", "mod:b"]
    assert all(c.from_project for c in discover([entry(t, tmp_path, from_project=True) for t in texts], path=[]))
    assert not any(c.from_project for c in discover([entry(t, tmp_path) for t in texts], path=[]))


def test_the_same_file_under_two_names_is_one_plugin(tmp_path: Path) -> None:
    (tmp_path / "audit.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "audit.py")
    first, second = discover([entry("./audit.py", tmp_path), entry("./link.py", tmp_path)], path=[])
    assert not first.shadowed
    assert second.shadowed


def test_a_module_that_an_entry_point_brings_already_is_listed_as_shadowed(site: Site) -> None:
    site.dist("acme", entries={"a": "acme.hooks:policy"})
    first, second = discover([entry("acme.hooks:policy", site.folder)], path=site.path)
    assert not first.shadowed
    assert second.shadowed_by == "acme:a, which has the same target"


def test_a_distribution_that_was_written_within_one_tick_of_the_last_scan_is_seen_and_can_be_imported(
    site: Site,
) -> None:
    before = site.folder.stat()
    assert discover(path=site.path) == []
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acme_tick_module")
    site.dist("acme", entries={"a": "acme_tick_module"}, modules={"acme_tick_module.py": "x = 1"})
    os.utime(site.folder, ns=(before.st_atime_ns, before.st_mtime_ns))  # the clock did not tick
    assert ids(discover(path=site.path)) == ["acme:a"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("acme_tick_module")  # the folder's mtime is the key of the cache: the trap
    refresh_metadata()
    assert importlib.import_module("acme_tick_module").x == 1


def test_of_two_versions_in_one_folder_the_one_that_was_installed_last_counts(site: Site) -> None:
    for version, when in [("10.0", 100), ("9.0", 300), ("8.0", 200)]:
        os.utime(site.dist("acme", version, entries={"a": f"v{version[0]}"}), (when, when))
    assert [(c.version, c.shadowed) for c in discover(path=site.path)] == [
        ("9.0", False),
        ("10.0", True),
        ("8.0", True),
    ]


def test_a_refresh_drops_the_standard_library_s_cache_as_well(site: Site) -> None:
    import importlib.metadata as stdlib

    before = site.folder.stat()
    assert not list(stdlib.distributions(path=site.path))
    site.dist("acme", modules={"acme_tick.py": "x = 1"})
    os.utime(site.folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    refresh_metadata()
    assert [d.metadata["Name"] for d in stdlib.distributions(path=site.path)] == ["acme"]


def test_a_refresh_makes_the_folder_of_a_new_editable_install_importable(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    source = tmp_path / "project/src"
    source.mkdir(parents=True)
    ran = tmp_path / "ran"
    (site.folder / "acme.pth").write_text(
        f"# a comment\n{source}\nimport pathlib; pathlib.Path({str(ran)!r}).touch()\n"
    )
    refresh_metadata()
    refresh_metadata()
    assert sys.path.count(str(source)) == 1
    assert not ran.exists()
