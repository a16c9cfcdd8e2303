"""Trust: a project's files run code only while their content is what the user trusted."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from greenroom._settings.settings import load_settings
from greenroom._trust import Trust, pinning, printable
from greenroom.errors import SettingsError, TrustError


class Project:
    """A project with one listed file and one listed folder, and a store."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.data = root / "data"
        (self.root / "hooks" / "sub").mkdir(parents=True)
        self.file = self.root / "greenroom.toml"
        self.file.write_text("[plugins]\nload = ['./audit.py', './hooks', 'installed.mod:attr']\n")
        (self.root / "audit.py").write_text("a = 1\n")
        (self.root / "hooks" / "__init__.py").write_text("")
        (self.root / "hooks" / "sub" / "x.py").write_text("x = 1\n")
        self.trust = Trust(self.data, clock=lambda: 1_700_000_000.0)

    def add(self, path: Path | None = None) -> None:
        self.trust.add(self.trust.prepare(path or self.file))

    def refusal(self) -> TrustError:
        with pytest.raises(TrustError) as caught:
            self.trust.check(self.file)
        return caught.value


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_project_that_was_never_trusted_is_refused_with_the_command(project: Project) -> None:
    error = project.refusal()
    assert str(project.file) in str(error)
    assert f"greenroom trust add {project.file}" in str(error.hint)


def test_a_trusted_project_passes(project: Project) -> None:
    project.add()
    project.trust.check(project.file)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda root: (root / "audit.py").write_text("a = 2\n"), "audit.py (changed)"),
        (lambda root: (root / "greenroom.toml").write_text("[plugins]\nload = []"), "greenroom.toml (changed)"),
        (lambda root: (root / "hooks/sub/x.py").write_text("x = 2\n"), "hooks/sub/x.py (changed)"),
        (lambda root: (root / "hooks/new.py").touch(), "hooks/new.py (new)"),
        (lambda root: (root / "hooks/sub/x.py").unlink(), "hooks/sub/x.py (gone)"),
        (lambda root: (root / "hooks/sub/x.py").rename(root / "hooks/sub/y.py"), "hooks/sub/y.py (new)"),
        (lambda root: (root / "audit.py").unlink(), "audit.py (changed)"),
        (lambda root: (root / "hooks/native.pyc").write_bytes(b"x"), "hooks/native.pyc (new)"),
        (lambda root: (root / "hooks/empty").mkdir(), "hooks/empty (new)"),
        (lambda root: (root / "hooks/l").symlink_to("sub/x.py"), "hooks/l (new)"),
        (lambda root: ((root / "audit.py").unlink(), (root / "audit.py").mkdir()), "audit.py (changed)"),
    ],
)
def test_any_change_revokes_and_is_named(project: Project, change: Callable[[Path], object], named: str) -> None:
    project.add()
    change(project.root)
    error = project.refusal()
    assert named in str(error)
    assert f"greenroom trust add {project.file}" in str(error.hint)


def test_a_change_of_the_same_size_and_time_revokes(project: Project) -> None:
    project.add()
    before = (project.root / "audit.py").stat()
    (project.root / "audit.py").write_text("a = 2\n")
    os.utime(project.root / "audit.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "audit.py (changed)" in str(project.refusal())


def test_taking_the_change_back_trusts_again(project: Project) -> None:
    project.add()
    (project.root / "audit.py").write_text("a = 2\n")
    (project.root / "audit.py").write_text("a = 1\n")
    project.trust.check(project.file)


def test_files_that_nothing_loads_and_compiled_code_do_not_matter(project: Project) -> None:
    project.add()
    (project.root / "README.md").write_text("x")
    (project.root / "hooks" / "__pycache__").mkdir()
    (project.root / "hooks" / "__pycache__" / "x.pyc").write_bytes(b"x")
    project.trust.check(project.file)


def test_a_listed_file_that_is_missing_revokes_when_it_appears(project: Project) -> None:
    (project.root / "audit.py").unlink()
    project.add()
    project.trust.check(project.file)
    (project.root / "audit.py").write_text("evil()")
    assert "audit.py (changed)" in str(project.refusal())


def test_many_changes_are_counted(project: Project) -> None:
    project.add()
    for number in range(9):
        (project.root / "hooks" / f"{number}.py").touch()
    assert "and 4 more" in str(project.refusal())


def test_a_file_outside_the_project_is_pinned_too(project: Project) -> None:
    outside = project.root.parent / "common.py"
    outside.write_text("a = 1")
    project.file.write_text("[plugins]\nload = ['../common.py']")
    project.add()
    outside.write_text("a = 2")
    assert "../common.py (changed)" in str(project.refusal())


def test_an_entry_that_the_user_names_as_well_is_still_pinned(project: Project, tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text(f"[plugins]\nload = ['{project.root}/audit.py']")
    project.add()
    (project.root / "audit.py").write_text("a = 2")
    settings = load_settings(user_file=user, project_file=project.file)
    with pytest.raises(TrustError, match="audit"):
        project.trust.check(project.file, settings.plugins.load)


def test_an_entry_that_was_read_before_the_file_changed_is_refused(project: Project) -> None:
    project.file.write_text("[plugins]\nload = ['./other.py']")
    stale = load_settings(project_file=project.file).plugins.load
    project.file.write_text("[plugins]\nload = ['./audit.py']")
    project.add()
    with pytest.raises(TrustError, match=r"other\.py \(not listed\)"):
        project.trust.check(project.file, stale)


def test_the_entries_of_a_trusted_project_are_covered(project: Project) -> None:
    project.add()
    project.trust.check(project.file, load_settings(project_file=project.file).plugins.load)


# What cannot be pinned


def test_a_link_inside_a_tree_is_pinned_by_where_it_points(project: Project) -> None:
    (project.root / "hooks" / "link.py").symlink_to("sub/x.py")
    (project.root / "hooks" / "folder").symlink_to("sub")
    project.add()
    (project.root / "hooks" / "link.py").unlink()
    (project.root / "hooks" / "link.py").symlink_to("__init__.py")
    assert "hooks/link.py (changed)" in str(project.refusal())


@pytest.mark.parametrize("target", ["../../outside", "../../outside/x.py", "/etc/passwd"])
def test_a_link_out_of_a_tree_is_refused(project: Project, target: str) -> None:
    (project.root.parent / "outside").mkdir()
    (project.root.parent / "outside" / "x.py").touch()
    (project.root / "hooks" / "link").symlink_to(target)
    with pytest.raises(TrustError, match="leads out of"):
        project.add()


def test_a_link_that_leads_out_later_is_refused(project: Project) -> None:
    project.add()
    (project.root / "hooks" / "link").symlink_to("/etc")
    assert "leads out of" in str(project.refusal())


def test_a_loop_of_links_ends(project: Project) -> None:
    (project.root / "hooks" / "loop").symlink_to("..", target_is_directory=True)
    with pytest.raises(TrustError, match="leads out of"):
        project.add()
    (project.root / "hooks" / "loop").unlink()
    (project.root / "hooks" / "loop").symlink_to(".", target_is_directory=True)
    project.add()
    project.trust.check(project.file)


@pytest.mark.parametrize("place", ["audit.py", "hooks/pipe"])
def test_a_pipe_is_refused_and_not_waited_for(project: Project, place: str) -> None:
    (project.root / place).unlink(missing_ok=True)
    os.mkfifo(project.root / place)
    with pytest.raises(TrustError, match="no regular file"):
        project.add()


def test_too_many_files_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "MAX_FILES", 2)
    with pytest.raises(TrustError, match="more than 2 files"):
        project.add()


def test_too_many_bytes_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "MAX_BYTES", 100)
    (project.root / "audit.py").write_bytes(b"#" * 200)
    with pytest.raises(TrustError, match=r"audit\.py: more than"):
        project.add()


def test_a_broken_settings_file_cannot_be_trusted(project: Project) -> None:
    project.file.write_text("[plugins\n")
    with pytest.raises(SettingsError, match="broken TOML"):
        project.add()


@pytest.mark.parametrize("name", ["gone", "audit.py"])
def test_what_is_neither_a_folder_nor_settings_cannot_be_trusted(project: Project, name: str) -> None:
    with pytest.raises(TrustError, match="nothing to trust here"):
        project.add(project.root / name)


# Folders


def test_a_folder_and_what_lies_in_it_is_trusted_for_provider_settings(project: Project) -> None:
    project.add(project.root)
    assert project.trust.trusts_folder(project.root)
    assert project.trust.trusts_folder(project.root / "hooks" / "sub")
    assert not project.trust.trusts_folder(project.root.parent)
    project.trust.check(project.file)


def test_a_neighbour_with_the_same_beginning_is_not_trusted(project: Project) -> None:
    project.add(project.root)
    assert not project.trust.trusts_folder(Path(f"{project.root}-evil"))


def test_a_link_in_a_trusted_folder_does_not_trust_where_it_leads(project: Project) -> None:
    (project.root.parent / "outside").mkdir()
    (project.root / "out").symlink_to(project.root.parent / "outside")
    project.add(project.root)
    assert not project.trust.trusts_folder(project.root / "out")


def test_an_unknown_folder_is_not_trusted(project: Project) -> None:
    assert not project.trust.trusts_folder(None)


def test_a_trusted_file_does_not_trust_its_folder(project: Project) -> None:
    project.add(project.file)
    assert not project.trust.trusts_folder(project.root)


def test_a_folder_without_settings_can_be_trusted(project: Project) -> None:
    project.add(project.root / "hooks")
    assert [item.path for item in project.trust.items()] == [project.root / "hooks"]


def test_what_is_trusted_is_what_was_shown_not_what_came_after(project: Project) -> None:
    shown = project.trust.prepare(project.file)
    (project.root / "audit.py").write_text("evil()")
    project.trust.add(shown)
    assert "audit.py (changed)" in str(project.refusal())


# The store


def test_the_store_is_for_its_owner_only(project: Project) -> None:
    project.add()
    assert stat.S_IMODE(project.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((project.data / "trust.json").stat().st_mode) == 0o600


def test_items_are_listed_with_their_time(project: Project) -> None:
    project.add(project.root)
    assert [(item.path, item.content is None, item.time) for item in project.trust.items()] == [
        (project.root, True, "2023-11-14T22:13:20Z"),
        (project.file, False, "2023-11-14T22:13:20Z"),
    ]


@pytest.mark.parametrize("gone", [False, True])
def test_removing_a_folder_removes_its_file_too(project: Project, gone: bool) -> None:
    project.add(project.root)
    if gone:
        project.root.rename(project.root.parent / "moved")
    assert project.trust.remove(project.root)
    assert project.trust.items() == ()
    assert not project.trust.remove(project.root)


def test_removing_the_file_leaves_the_folder(project: Project) -> None:
    project.add(project.root)
    assert project.trust.remove(project.file)
    assert project.trust.trusts_folder(project.root)
    project.refusal()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 2, "folders": {}, "files": {}}',
        b'{"version": 1}',
        b"\xff",
        b"[" * 100_000,
    ]
    + [json.dumps({"version": 1, "folders": {}, "files": {"/x": bad}}).encode() for bad in (1, {}, {"content": []})],
)
def test_a_damaged_store_trusts_nothing_and_says_what_to_do(project: Project, damage: bytes) -> None:
    project.add(project.root)
    (project.data / "trust.json").write_bytes(damage)
    assert "damaged" in str(project.refusal())
    with pytest.raises(TrustError, match="damaged"):
        project.trust.trusts_folder(project.root)
    with pytest.raises(TrustError, match="remove"):
        project.add()


def test_a_store_that_others_may_write_trusts_nothing(project: Project) -> None:
    project.add()
    (project.data / "trust.json").chmod(0o666)
    assert "others may write" in str(project.refusal())


def test_a_store_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrustError, match="cannot be written") as caught:
        Trust(tmp_path / "file" / "data", clock=lambda: 0.0).add([])
    assert "GREENROOM_HOME" in str(caught.value.hint)


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(12)]
    for folder in folders:
        folder.mkdir()

    def add(folder: Path) -> None:
        trust = Trust(tmp_path / "data", clock=lambda: 0.0)
        trust.add(trust.prepare(folder))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, folders))
    assert {item.path for item in Trust(tmp_path / "data", clock=lambda: 0.0).items()} == set(folders)


def test_one_project_reached_over_a_link_is_one_project(project: Project) -> None:
    (project.root.parent / "link").symlink_to(project.root)
    project.add()
    file = project.root.parent / "link" / "greenroom.toml"
    project.trust.check(file, load_settings(project_file=file).plugins.load)


def test_a_hostile_name_cannot_write_to_the_terminal(project: Project) -> None:
    project.add()
    (project.root / "hooks" / "\x1b[2Jx\n.py").touch()
    (project.root / "hooks" / os.fsdecode(b"\xff.py")).touch()
    message = str(project.refusal())
    assert "\x1b" not in message
    assert "\\x1b[2Jx\\n.py" in message
    assert "\\udcff.py" in message
    assert printable("/a/b c") == "/a/b c"
