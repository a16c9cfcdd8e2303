"""A plugin's record shows its live generation, and the file shows the last outcome to other processes."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from greenroom._finding.discovery import Candidate
from greenroom._finding.last_outcome import LastOutcome, read_records, write_records
from greenroom._lifecycle import Phase, PluginMove
from greenroom._records import PluginRecord
from greenroom.errors import IllegalMove

CANDIDATE = Candidate(
    id="acme-audit:audit", name="audit", distribution="acme-audit", version="2.0", origin="entry-point", target="acme:x"
)
CLOCK = lambda: 1_700_000_000.0


def failed() -> PluginRecord:
    record = PluginRecord.of(CANDIDATE)
    record.fire(PluginMove.LOAD)
    record.fire(PluginMove.FAIL)
    record.phase, record.error, record.hint = Phase.IMPORT, "No module named 'torch'", "pip install torch"
    record.load_seconds = 0.25
    return record


def test_a_new_record_is_discovered_and_carries_what_the_candidate_says() -> None:
    record = PluginRecord.of(CANDIDATE)
    assert record.state == "discovered"
    assert record.phase == "discover"
    assert (record.id, record.name, record.distribution, record.version) == (
        "acme-audit:audit",
        "audit",
        "acme-audit",
        "2.0",
    )
    assert (record.generation, record.error, record.stale) == (0, None, False)


def test_a_record_moves_by_the_table_of_the_lifecycle_and_names_itself() -> None:
    record = failed()
    with pytest.raises(IllegalMove, match="acme-audit:audit: cannot ready while failed"):
        record.fire(PluginMove.READY)
    assert record.fire(PluginMove.LOAD) == "loading"


def test_json_has_every_field_and_is_plain_data() -> None:
    data = failed().to_json()
    assert set(data) == {f.name for f in fields(PluginRecord)} - {"machine"} | {"state"}
    assert json.loads(json.dumps(data)) == data
    assert (data["state"], data["phase"], data["error"]) == ("failed", "import", "No module named 'torch'")


def test_what_one_process_writes_another_reads_with_its_time(tmp_path: Path) -> None:
    write_records(tmp_path, [failed()], CLOCK)
    last = read_records(tmp_path)
    assert last == LastOutcome(datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), {"acme-audit:audit": failed().to_json()})


def test_the_file_is_replaced_as_a_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    write_records(tmp_path, [failed()], CLOCK)
    with (tmp_path / "plugins.json").open() as reader:
        write_records(tmp_path, [], CLOCK)
        assert json.load(reader)["plugins"], "who has the old file open still reads the old file"
    assert [p.name for p in tmp_path.iterdir()] == ["plugins.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"time": "never", "plugins": []}',
        b'{"time": 3, "plugins": []}',
        b'{"plugins": []}',
        b'{"time": "2026-01-01T00:00:00+00:00", "plugins": 3}',
    ],
)
def test_a_file_that_cannot_be_read_is_no_outcome(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "plugins.json").write_bytes(content)
    assert read_records(tmp_path) is None


def test_a_torn_file_is_no_outcome_at_any_length(tmp_path: Path) -> None:
    write_records(tmp_path, [failed()], CLOCK)
    whole = (tmp_path / "plugins.json").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "plugins.json").write_bytes(whole[:length])
        assert read_records(tmp_path) is None, length


def test_no_file_is_no_outcome(tmp_path: Path) -> None:
    assert read_records(tmp_path / "missing") is None


def test_of_a_newer_file_what_is_known_is_taken(tmp_path: Path) -> None:
    content = {
        "format": 7,
        "time": "2030-01-01T00:00:00",
        "new": True,
        "plugins": [{"id": "a:b", "state": "pondering", "x": 1}, "what", {"no": "id"}, {"id": 3}],
    }
    (tmp_path / "plugins.json").write_text(json.dumps(content))
    last = read_records(tmp_path)
    assert last is not None
    assert last.time == datetime(2030, 1, 1, tzinfo=UTC)
    assert last.plugins == {"a:b": {"id": "a:b", "state": "pondering", "x": 1}}
