"""`greenroom sessions`: what people and scripts see of stored sessions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import anyio
import anyio.from_thread
import msgspec
import pytest

from greenroom.cli import run
from greenroom.providers import ShellDetail
from greenroom.sessions import Event, SessionFenced, SessionNotFound, UnreadableSession, Vocabulary, resume_session
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    Message,
    Reason,
    Text,
    ToolCall,
    ToolResult,
    Trigger,
    TurnEnd,
    TurnStart,
    UserMessage,
    UserSource,
)
from greenroom_sqlite import SqliteStore
from greenroom_testing import sample_header, sample_log

encode = msgspec.json.encode


@pytest.fixture
def db(user_folders: Path) -> Path:
    return user_folders / "data" / "sessions.db"


def use(db: Path, work):
    """Run something with the store that the commands use."""

    async def main():
        store = SqliteStore(db, barrier="normal")
        try:
            return await work(store)
        finally:
            await store.aclose()

    return anyio.run(main)


def fill(db: Path, *ids: str, events=None, blob: bytes | None = None) -> None:
    async def work(store):
        for session_id in ids:
            lease = await store.create(sample_header(session_id))
            if blob is not None:
                lease.put_blob(blob)
            lease.append(events if events is not None else sample_log(2))

    use(db, work)


def answer(capsys, *arguments: str, status: int = 0):
    assert run(["sessions", *arguments]) == status
    return capsys.readouterr().out


def answer_json(capsys, *arguments: str, status: int = 0):
    return json.loads(answer(capsys, *arguments, "--json", status=status))


def damage(db: Path, number: int = 1, seq: int = 4) -> None:
    connection = sqlite3.connect(db)
    connection.execute("UPDATE events SET raw = x'00' WHERE id = ?", ((number << 32) + 1 + seq,))
    connection.commit()
    connection.close()


def test_without_a_store_nothing_is_listed_and_nothing_is_created(capsys, db):
    assert answer(capsys, "list") == "no sessions yet\n"
    assert answer_json(capsys, "list") == []
    assert not db.exists()


def test_the_list_shows_who_where_and_how_much(capsys, db):
    fill(db, "one", "two")
    rows = {row["id"]: row for row in answer_json(capsys, "list")}
    assert rows["one"]["next_seq"] == 12
    assert rows["one"]["header"]["cwd"] == "/project"
    assert rows["two"]["error"] is None
    text = answer(capsys, "list")
    assert "one" in text
    assert "/project" in text


def test_a_damaged_session_stands_in_the_list_among_the_others(capsys, db):
    fill(db, "one", "two")
    connection = sqlite3.connect(db)
    connection.execute("UPDATE sessions SET header = x'00' WHERE id = 'one'")
    connection.commit()
    connection.close()
    rows = {row["id"]: row["error"] for row in answer_json(capsys, "list")}
    assert rows["two"] is None
    assert "checksum" in rows["one"]


def test_show_renders_a_transcript(capsys, db):
    log = [
        ("turn/start", TurnStart(1, Trigger("message"))),
        ("user/message", UserMessage(Message("u1", (Text("what is here?"),), UserSource()))),
        ("assistant/message", AssistantMessage(1, 1, "Let me ", "m1")),
        ("assistant/message", AssistantMessage(1, 1, "look.\x1b[2J", "m1", final=True)),
        ("tool/call", ToolCall(1, 1, "c1", "Bash", {"command": "ls"}, ShellDetail("ls -l"))),
        ("tool/result", ToolResult(1, 1, "c1", "completed", ShellDetail("ls -l", output="a.txt\nb.txt\n"))),
        ("turn/end", TurnEnd(1, Reason("aborted", cause="user"))),
    ]
    fill(db, "s", events=[Event(seq, 0, name, encode(data)) for seq, (name, data) in enumerate(log)])
    text = answer(capsys, "show", "last")
    assert "-- turn 1 (message)" in text
    assert "user: what is here?" in text
    assert "assistant: Let me look.\\x1b[2J" in text  # no terminal is driven by what a model wrote
    assert "tool: Bash ls -l\n  completed\n    a.txt\n    b.txt" in text
    assert "-- turn 1 ended: aborted user" in text


def test_show_as_json_gives_header_and_events_a_line_each(capsys, db):
    fill(db, "s")
    lines = [json.loads(line) for line in answer(capsys, "show", "s", "--json").rstrip("\n").split("\n")]
    assert lines[0]["id"] == "s"
    assert [line["seq"] for line in lines[1:]] == list(range(12))


def test_verify_lists_all_fails_the_damaged_one_and_says_so_in_its_exit_status(capsys, db):
    fill(db, *(f"s{number}" for number in range(51)))
    assert all(row["ok"] for row in answer_json(capsys, "verify"))
    damage(db, number=7)
    rows = answer_json(capsys, "verify", status=1)
    assert len(rows) == 51
    assert [row["session"] for row in rows if not row["ok"]] == ["s6"]
    assert "s6: error: event 4 of session s6 does not match its checksum" in answer(capsys, "verify", status=1)


def test_verify_names_the_payload_at_which_a_resume_is_refused(capsys, db):
    events = [Event(0, 1, "turn/start", b'{"turn":"one","trigger":{"kind":"message"}}')]
    fill(db, "s", events=events)
    answer_json(capsys, "repair", "s")
    assert "s: error: event 0 is no turn/start: Expected `int`, got `str`" in answer(capsys, "verify", status=1)

    async def resume(store):
        with pytest.raises(UnreadableSession, match="event 0 of session s is no turn/start"):
            await resume_session(store, "s", Vocabulary())

    use(db, resume)


def test_repair_says_what_it_would_do_and_then_does_it(capsys, db, tmp_path):
    fill(db, "s")
    damage(db)
    assert "would keep 4 events, 8 dropped" in answer(capsys, "repair", "s", "--dry-run")
    assert answer_json(capsys, "verify", status=1)[0]["ok"] is False
    report = answer_json(capsys, "repair", "s", "--backup", str(tmp_path / "copy.db"))
    assert (report["kept"], report["dropped"]) == (4, 8)
    assert (tmp_path / "copy.db").exists()
    assert answer_json(capsys, "verify")[0]["ok"] is True


def test_repair_of_the_file_brings_back_sessions_and_keeps_the_old_file(capsys, db):
    fill(db, "one", "two")
    data = bytearray(db.read_bytes())
    data[:4096] = b"\xff" * 4096
    db.write_bytes(data)
    assert "greenroom sessions repair --file" in _error(capsys, "list")
    assert answer_json(capsys, "repair", "--file", "--dry-run")["backup"] is None
    assert db.read_bytes() == bytes(data)
    report = answer_json(capsys, "repair", "--file")
    assert [(one["session_id"], one["kept"]) for one in report["sessions"]] == [("one", 12), ("two", 12)]
    assert Path(report["backup"]).read_bytes() == bytes(data)
    assert all(row["ok"] for row in answer_json(capsys, "verify"))


def _error(capsys, *arguments: str) -> str:
    assert run(["sessions", *arguments]) == 1
    return capsys.readouterr().err


def test_an_export_is_imported_as_the_same_session_with_its_blobs(capsys, db, tmp_path):
    digest = "9b1f1aecdd3d3d8ed3ac9b1e5a0a8a0e"  # replaced below by the real one
    blob = b"an image" * 1000

    async def work(store):
        nonlocal digest
        lease = await store.create(sample_header("s"))
        digest = lease.put_blob(blob).sha256
        raw = b'{"text":{"sha256":"' + digest.encode() + b'","bytes":8000}}'
        lease.append([*sample_log(1), Event(6, 9, "sample/event", raw)])

    use(db, work)
    target = tmp_path / "s.jsonl"
    assert answer_json(capsys, "export", "s", "-o", str(target))["lines"] == 9
    assert target.stat().st_mode & 0o077 == 0
    assert "exists" in _error(capsys, "import", str(target))
    assert answer_json(capsys, "import", str(target), "--id", "copy") == {"session": "copy"}

    async def compare(store):
        assert list(await store.read_from("copy")) == list(await store.read_from("s"))
        await store.delete("s")
        assert await store.read_blob("copy", digest) == blob

    use(db, compare)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda lines: [*lines[:3], *lines[4:]], "line 4: "),
        (lambda lines: [*lines[:3], "not json", *lines[3:]], "line 4: "),
        (lambda lines: lines[1:], "line 1"),
        (lambda lines: lines[:1], "no event"),
        (lambda lines: [lines[0].replace('"version":1', '"version":9'), *lines[1:]], "upgrade"),
        (lambda lines: [*lines, '{"blob":"00","data":"AAAA"}'], "blob"),
        (lambda lines: [lines[0], lines[1].replace('"turn":1', '"turn":"x"'), *lines[2:]], "line 2: turn/start"),
    ],
)
def test_an_import_that_fails_names_the_line_and_leaves_nothing(capsys, db, tmp_path, spoil, what):
    fill(db, "s")
    lines = answer(capsys, "show", "s", "--json").rstrip("\n").split("\n")
    use(db, lambda store: store.delete("s"))
    source = tmp_path / "s.jsonl"
    source.write_text("\n".join(spoil(lines)) + "\n")
    assert what in _error(capsys, "import", str(source))
    assert answer_json(capsys, "list") == []
    source.write_text("\n".join(lines))
    assert answer(capsys, "import", str(source)) == "s\n"


def test_a_fork_takes_the_beginning_and_names_its_parent(capsys, db):
    fill(db, "s", blob=b"bytes")
    assert "inside turn 1" in _error(capsys, "fork", "s", "--at", "3")
    assert answer_json(capsys, "fork", "s", "--at", "5", "--id", "child") == {"session": "child"}

    async def compare(store):
        header = await store.header("child")
        assert (header.parent_session, header.seed_length, header.origin) == ("s", 6, "fork")
        assert header.epoch != (await store.header("s")).epoch
        events = list(await store.read_from("child"))
        assert events[:-1] == sample_log(1)
        assert events[-1].type == "session/seed-end"

    use(db, compare)


def test_delete_asks_and_removes_everything(capsys, db):
    fill(db, "one", "two")
    assert "without asking: greenroom sessions delete one --yes" in _error(capsys, "delete", "one")
    assert answer_json(capsys, "delete", "one", "--yes") == {"deleted": ["one"]}
    assert [row["id"] for row in answer_json(capsys, "list")] == ["two"]

    async def gone(store):
        with pytest.raises(SessionNotFound):
            await store.header("one")

    use(db, gone)
    rows = sqlite3.connect(db)
    assert rows.execute("SELECT COUNT(*) FROM events WHERE id < ?", (2 << 32,)).fetchone() == (0,)
    rows.close()


def test_delete_looks_for_all_of_them_before_the_first_one_goes(capsys, db):
    fill(db, "one", "two")
    assert "there is no session nobody" in _error(capsys, "delete", "one", "nobody", "--yes")
    assert len(answer_json(capsys, "list")) == 2
    assert "greenroom sessions delete one two --yes" in _error(capsys, "delete", "one", "two")
    assert answer_json(capsys, "delete", "last", "one", "two", "--yes") == {"deleted": ["one", "two"]}
    assert answer_json(capsys, "list") == []


@pytest.mark.parametrize("arguments", [("show", "../x"), ("delete", "a b", "--yes"), ("fork", "s", "--id", "a/b")])
def test_what_can_be_no_id_is_named(capsys, db, arguments):
    fill(db, "s")
    assert "is no session id" in _error(capsys, *arguments)


def test_a_place_that_cannot_be_written_to_is_named(capsys, db, tmp_path):
    fill(db, "s")
    nowhere = tmp_path / "missing" / "file"
    assert f"{nowhere} cannot be written: No such file" in _error(capsys, "export", "s", "-o", str(nowhere))
    assert f"no backup can be made as {nowhere}" in _error(capsys, "repair", "s", "--backup", str(nowhere))
    assert f"no backup can be made as {db}" in _error(capsys, "repair", "s", "--backup", str(db))
    assert answer_json(capsys, "verify")[0]["ok"] is True


def test_without_a_file_there_is_none_to_repair(capsys, db):
    assert f"the store {db} cannot be repaired" in _error(capsys, "repair", "--file")
    db.parent.mkdir(parents=True)
    db.touch()
    assert f"the store {db} cannot be repaired" in _error(capsys, "repair", "--file")
    assert [each.name for each in db.parent.iterdir()] == [db.name]


def test_an_export_of_more_than_may_be_queued_is_imported(capsys, db, tmp_path):
    texts = [Event(seq, 1, "sample/event", b'"' + b"x" * 1_000_000 + b'"', ignorable=True) for seq in range(40)]
    fill(db, "s", events=texts)
    target = tmp_path / "s.jsonl"
    answer(capsys, "export", "s", "-o", str(target))
    assert answer_json(capsys, "import", str(target), "--id", "copy") == {"session": "copy"}
    assert [row["next_seq"] for row in answer_json(capsys, "list")] == [40, 40]


@pytest.mark.parametrize("command", ["show", "verify", "export", "fork", "repair"])
def test_an_unknown_session_is_named_with_what_to_do(capsys, db, command):
    fill(db, "s")
    error = _error(capsys, command, "nobody")
    assert "there is no session nobody" in error
    assert "greenroom sessions list" in error


def test_the_store_is_where_the_settings_say(capsys, db, user_folders, tmp_path):
    (user_folders / "config").mkdir()
    settings = user_folders / "config" / "greenroom.toml"
    settings.write_text(f'[plugins.sqlite]\npath = "{tmp_path / "mine.db"}"\n')
    fill(tmp_path / "mine.db", "mine")
    assert [row["id"] for row in answer_json(capsys, "list")] == ["mine"]
    settings.write_text("[plugins.sqlite]\nwindow_ms = -1\n")
    assert "window_ms" in _error(capsys, "list")


def test_a_session_with_a_live_owner_is_read_and_copied_but_neither_deleted_nor_repaired_without_force(capsys, db):
    with anyio.from_thread.start_blocking_portal() as portal:
        store = SqliteStore(db, barrier="normal", owner="somebody")
        lease = portal.call(store.create, sample_header("s"))
        lease_append(portal, lease)
        assert "somebody" in answer(capsys, "list")
        assert answer_json(capsys, "verify")[0]["ok"] is True
        assert answer(capsys, "fork", "s", "--id", "child") == "child\n"
        assert "is owned by somebody (process" in _error(capsys, "delete", "s", "--yes")
        assert "is owned by somebody (process" in _error(capsys, "repair", "s")
        assert answer_json(capsys, "repair", "s", "--force")["dropped"] == 0
        with pytest.raises(SessionFenced):
            portal.call(lease.release)
        portal.call(store.aclose)


def lease_append(portal, lease) -> None:
    async def work():
        lease.append(sample_log(1))
        await lease.flush()

    portal.call(work)
