"""Where things are, whatever the environment says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from greenroom._paths import (
    data_directory,
    make_data_directory,
    project_settings_file,
    user_settings_file,
    write_atomically,
)


def test_the_data_directory_is_the_one_the_variable_names(tmp_path: Path) -> None:
    assert data_directory({"GREENROOM_HOME": str(tmp_path / "x")}) == tmp_path / "x"


def test_a_relative_variable_becomes_an_absolute_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert data_directory({"GREENROOM_HOME": "state"}) == tmp_path / "state"


def test_a_tilde_in_a_variable_is_the_home_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_settings_file({"GREENROOM_CONFIG_DIR": "~/conf"}) == tmp_path / "conf" / "greenroom.toml"


@pytest.mark.parametrize("environ", [{}, {"GREENROOM_HOME": ""}])
def test_without_a_value_the_data_directory_is_the_platforms(environ: dict[str, str]) -> None:
    path = data_directory(environ)
    assert path.is_absolute()
    assert path.name == "greenroom"


@pytest.mark.parametrize("environ", [{}, {"GREENROOM_CONFIG_DIR": ""}])
def test_without_a_value_the_user_file_is_in_the_platforms_config(environ: dict[str, str]) -> None:
    path = user_settings_file(environ)
    assert path.is_absolute()
    assert path.parts[-2:] == ("greenroom", "greenroom.toml")


def test_asking_for_the_data_directory_creates_nothing(tmp_path: Path) -> None:
    assert not data_directory({"GREENROOM_HOME": str(tmp_path / "x")}).exists()


def test_the_data_directory_is_created_for_its_owner_only(tmp_path: Path) -> None:
    made = make_data_directory(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_the_nearest_project_file_above_is_found(tmp_path: Path) -> None:
    (tmp_path / "greenroom.toml").touch()
    nearer = tmp_path / "a" / "greenroom.toml"
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    nearer.touch()
    assert project_settings_file(tmp_path / "a" / "b" / "c") == nearer


def test_a_file_in_the_folder_of_the_repository_is_still_found(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "greenroom.toml").touch()
    assert project_settings_file(tmp_path / "sub") == tmp_path / "greenroom.toml"


@pytest.mark.parametrize("kind", ["folder", "file of a worktree"])
def test_the_search_does_not_leave_the_repository(tmp_path: Path, kind: str) -> None:
    (tmp_path / "greenroom.toml").touch()
    repository = tmp_path / "repository"
    (repository / "sub").mkdir(parents=True)
    (repository / ".git").mkdir() if kind == "folder" else (repository / ".git").write_text("gitdir: x")
    assert project_settings_file(repository / "sub") is None


def test_the_search_ends_at_the_home_directory(tmp_path: Path) -> None:
    (tmp_path / "greenroom.toml").touch()
    (tmp_path / "home" / "work").mkdir(parents=True)
    assert project_settings_file(tmp_path / "home" / "work", home=tmp_path / "home") is None


def test_a_folder_that_is_gone_has_no_project_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert project_settings_file(tmp_path / "gone" / "deeper") is None


def test_an_atomic_write_keeps_the_mode_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("old")
    file.chmod(0o644)
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_new_file_is_for_its_owner_only(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x", b"new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


def test_an_atomic_write_goes_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "x")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "x").read_bytes() == b"new"


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "x", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"
