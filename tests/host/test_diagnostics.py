"""Diagnostics: recording never makes things worse."""

from __future__ import annotations

import json
import logging
import shutil
import stat
import threading
from pathlib import Path

import pytest

from greenroom._diagnostics import Diagnostic, Diagnostics, read_diagnostics, secret_values

NOON = 1_700_000_000.25


def make(directory: Path | None, **options: object) -> Diagnostics:
    return Diagnostics(directory, clock=lambda: NOON, **options)  # type: ignore[arg-type]  # keywords of the test


def lines(directory: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (directory / "diagnostics.jsonl").read_text().splitlines()]


def test_a_record_is_one_json_line_with_what_is_known(tmp_path: Path) -> None:
    make(tmp_path).record("hook_failed", "boom", plugin="dist:audit", generation=2, session="s1", turn=4)
    assert lines(tmp_path) == [
        {
            "time": "2023-11-14T22:13:20.250Z",
            "code": "hook_failed",
            "text": "boom",
            "plugin": "dist:audit",
            "generation": 2,
            "session": "s1",
            "turn": 4,
        }
    ]


def test_a_text_with_line_separators_and_lone_surrogates_stays_one_line(tmp_path: Path) -> None:
    text = "a\nb\u2028c\ud83d"
    make(tmp_path).record("x", text)
    assert (tmp_path / "diagnostics.jsonl").read_bytes().count(b"\n") == 1
    assert [d.text for d in read_diagnostics(tmp_path)] == [text]


def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    make(tmp_path).record("x", "y")
    assert stat.S_IMODE((tmp_path / "diagnostics.jsonl").stat().st_mode) == 0o600


def test_a_removed_folder_is_contained_and_the_record_stays_in_memory(tmp_path: Path) -> None:
    diagnostics = make(tmp_path / "gone")
    diagnostics.record("x", "y")
    assert [d.code for d in diagnostics.recent] == ["x"]
    assert diagnostics.unwritten == 1


def test_a_full_disk_is_contained(tmp_path: Path) -> None:
    (tmp_path / "diagnostics.jsonl").symlink_to("/dev/full")
    diagnostics = make(tmp_path)
    diagnostics.record("x", "y")
    assert diagnostics.unwritten == 1


def test_a_folder_that_comes_back_is_written_to_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    diagnostics = make(data)
    diagnostics.record("one", "")
    shutil.rmtree(data)
    diagnostics.record("two", "")
    data.mkdir()
    diagnostics.record("three", "")
    assert [d.code for d in read_diagnostics(data)] == ["three"]


def test_the_logger_is_the_one_of_the_plugins_short_name(caplog: pytest.LogCaptureFixture) -> None:
    make(None).record("hook_failed", "boom", plugin="some-dist:audit")
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [
        ("greenroom.audit", logging.WARNING, "hook_failed: boom")
    ]


def test_a_log_filter_that_raises_is_contained() -> None:
    def broken(record: logging.LogRecord) -> bool:
        raise RuntimeError("filter")

    logger = logging.getLogger("greenroom.broken")
    logger.addFilter(broken)
    try:
        make(None).record("x", "y", plugin="broken")
    finally:
        logger.removeFilter(broken)


def test_only_the_last_thousand_stay_in_memory() -> None:
    diagnostics = make(None)
    for number in range(1_003):
        diagnostics.record(str(number), "")
    assert len(diagnostics.recent) == 1_000
    assert diagnostics.recent[0].code == "3"


def test_a_long_text_is_cut_and_says_by_how_much(tmp_path: Path) -> None:
    make(tmp_path).record("x", "a" * 20_000)
    assert (tmp_path / "diagnostics.jsonl").stat().st_size < 9_000
    assert "11808 characters more" in next(read_diagnostics(tmp_path)).text


def test_three_files_are_kept_and_read_in_order(tmp_path: Path) -> None:
    diagnostics = make(tmp_path, limit=1_000)
    for number in range(200):
        diagnostics.record(str(number), "x" * 50)
    names = sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".lock")
    assert names == ["diagnostics.jsonl", "diagnostics.jsonl.1", "diagnostics.jsonl.2"]
    assert all((tmp_path / name).stat().st_size < 1_200 for name in names)
    codes = [int(d.code) for d in read_diagnostics(tmp_path)]
    assert codes == list(range(codes[0], 200))


def test_writers_in_threads_lose_and_tear_nothing(tmp_path: Path) -> None:
    def write(name: str) -> None:
        diagnostics = make(tmp_path)  # one per thread, as one per host
        for number in range(100):
            diagnostics.record(name, f"{number} " + "x" * 3_000)

    threads = [threading.Thread(target=write, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(tmp_path)) == 400


@pytest.mark.parametrize(
    "torn",
    [
        b'{"time": "t", "code": "c", "te',
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"{}",
        b'{"time": 1, "code": "c", "text": "x"}',
        b"[" * 100_000,
        b"",
    ],
)
def test_a_torn_or_foreign_line_is_skipped(tmp_path: Path, torn: bytes) -> None:
    make(tmp_path).record("before", "")
    with (tmp_path / "diagnostics.jsonl").open("ab") as file:
        file.write(torn + b"\n")
    make(tmp_path).record("after", "")
    assert [d.code for d in read_diagnostics(tmp_path)] == ["before", "after"]


def test_a_field_of_the_wrong_type_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "diagnostics.jsonl").write_text('{"time":"t","code":"c","text":"x","plugin":7,"turn":"no"}\n')
    assert list(read_diagnostics(tmp_path)) == [Diagnostic("t", "c", "x")]


def test_a_directory_without_diagnostics_has_none(tmp_path: Path) -> None:
    assert list(read_diagnostics(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    "text",
    [
        "api_key=hunter2hunter2 failed",
        "OPENAI_API_KEY: hunter2hunter2",
        '{"token": "hunter2hunter2"}',
        "Authorization: Bearer hunter2hunter2",
        "got bearer hunter2hunter2.",
        "https://host/?access_token=hunter2hunter2&x=1",
        "key sk-hunter2hunter2 refused",
    ],
)
def test_what_looks_like_a_secret_is_hidden_everywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    diagnostics = make(tmp_path)
    diagnostics.record("x", text)
    kept = diagnostics.recent[0].text + caplog.text + (tmp_path / "diagnostics.jsonl").read_text()
    assert "hunter2" not in kept
    assert "[hidden]" in kept


def test_the_values_of_secret_variables_are_hidden() -> None:
    environ = {"MY_API_TOKEN": "abcdefgh-1", "HOME": "/home/somebody", "SHORT_KEY": "abc"}
    diagnostics = make(None, secrets=secret_values(environ))
    diagnostics.record("x", "sent abcdefgh-1 from /home/somebody abc")
    assert diagnostics.recent[0].text == "sent [hidden] from /home/somebody abc"


def test_ordinary_texts_are_not_touched() -> None:
    text = "max_tokens reached; the author token count is 17: see /a/b"
    diagnostics = make(None)
    diagnostics.record("x", text)
    assert diagnostics.recent[0].text == text
