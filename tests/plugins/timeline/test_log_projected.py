"""`greenroom log --projected`: what it prints of a session, and how it answers to cursors and limits of all sorts."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from greenroom.errors import GreenroomError
from greenroom.timeline import Cursor, TimelineService
from greenroom_driver.cli import log
from greenroom_driver.cli._entries import cursor_of, print_entries

pytestmark = pytest.mark.anyio


class Printed:
    """The command's work on a world, without a process: what it writes, and the world's session."""

    def __init__(self, world, capsys):
        self.world, self._capsys = world, capsys

    @asynccontextmanager
    async def host(self):
        services = {TimelineService: self.world.timeline}
        yield SimpleNamespace(service=services.get, sessions=self.world.sessions)

    async def text(self, after=None, limit=0, session="s"):
        """Its lines, and what it says beside them."""
        await print_entries(self, session, after, limit, as_json=False)
        read = self._capsys.readouterr()
        return read.out.splitlines(), read.err

    async def pages(self, after=None, limit=0):
        await print_entries(self, "s", after, limit, as_json=True)
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]


@pytest.fixture
async def printed(small_world, capsys):
    log = await small_world.create()
    log.turn()
    log.user("u", "what is here?")
    log.think("a list ", "r")
    log.think("should do", "r", final=True)
    log.call("c", "ls")
    log.update("c", "total 4")
    log.result("c", "failed", error="no such folder\nat all")
    for word in ("There ", "is ", "nothing."):
        log.piece(word, "m", final=word == "nothing.")
    log.fail("gone")
    await log.session.flush()
    printed = Printed(small_world, capsys)
    printed.log = log
    return printed


LINES = [
    "> what is here?",
    "a list should do",
    "✗ Bash ls → no such folder",
    "There is nothing.",
    "error: gone (x)",
]


async def test_every_entry_is_a_line_and_the_last_one_names_the_cursor_to_go_on_from(printed):
    end = (await printed.world.timeline.fetch("s")).end
    assert await printed.text() == (LINES, f"cursor {end.epoch}:{end.seq}\n")


async def test_what_came_after_a_cursor_is_printed_once(printed):
    _, said = await printed.text()
    after = cursor_of(said.split()[-1])
    assert (await printed.text(after))[0] == []
    printed.log.notice("one more")
    await printed.log.session.flush()
    assert (await printed.text(after))[0] == ["! one more"]


async def test_a_cursor_in_the_middle_of_a_message_gives_it_whole(printed):
    [message] = [e for e in (await printed.pages())[0]["entries"] if e["type"] == "assistant/message"]
    middle = Cursor((await printed.world.timeline.fetch("s")).epoch, message["seq"] + 1)
    assert message["seq"] < middle.seq < message["end"]
    assert (await printed.text(middle))[0] == LINES[3:]


async def test_a_limit_is_the_last_entries_or_the_first_ones_behind_a_cursor(printed):
    epoch = (await printed.world.timeline.fetch("s")).epoch
    assert (await printed.text(limit=2))[0] == LINES[-2:]
    assert (await printed.text(Cursor(epoch, -1), limit=2))[0] == LINES[:2]


@pytest.mark.parametrize("limit", [0, -1, 10**9])
async def test_limits_of_nothing_less_than_nothing_and_far_too_much_are_everything(printed, limit):
    start = Cursor((await printed.world.timeline.fetch("s")).epoch, -1)
    assert (await printed.text(limit=limit))[0] == (await printed.text(start, limit=limit))[0] == LINES


async def test_a_long_session_comes_in_pages_of_json_that_make_the_whole(printed):
    for number in range(450):
        printed.log.notice(str(number))
    pages = await printed.pages()
    assert len(pages) == 3
    assert [page.get("has_newer", False) for page in pages] == [True, True, False]
    whole = await printed.world.timeline.fetch("s", limit=0, view="projected")
    assert [entry["seq"] for page in pages for entry in page["entries"]] == [entry.seq for entry in whole.entries]
    assert len((await printed.text(limit=401))[0]) == 401


async def test_a_cursor_of_another_epoch_is_said_to_be_stale_and_the_end_is_printed(printed):
    lines, said = await printed.text(Cursor("another", 3))
    assert lines == LINES
    assert "the session was started over since then" in said
    [page] = await printed.pages(Cursor("another", 3))
    assert page["stale_cursor"] is page["reset"] is True


async def test_a_cursor_in_the_future_is_an_error_that_names_the_end(printed):
    end = (await printed.world.timeline.fetch("s")).end
    with pytest.raises(GreenroomError, match=rf"{end.epoch}:999 lies past the end of session s") as caught:
        await printed.text(Cursor(end.epoch, 999))
    assert caught.value.hint == f"the end is {end.epoch}:{end.seq}"


async def test_a_long_text_and_a_running_call_are_printed_too(printed):
    printed.log.turn()
    blob = printed.log.session.put_blob(b"x" * 70_000)
    printed.log.piece("first ", "n")
    printed.log.piece(blob, "n", final=True)
    printed.log.call("d", "sleep 60")
    assert (await printed.text(limit=2))[0] == ["first [70000 bytes]", "… Bash sleep 60"]


async def test_without_a_timeline_it_is_said_what_is_missing(printed):
    printed.world.timeline = None
    with pytest.raises(GreenroomError, match="no plugin folds sessions into entries"):
        await printed.text()


@pytest.mark.parametrize("text", ["", "x", ":", ":3", "x:", "x:-2", "x:1.5", "x:+1", "x:²"])
def test_what_is_no_cursor_is_refused_and_told_how_one_is_written(text):
    done = CliRunner().invoke(log, ["last", "--projected", "--after", text])
    assert done.exit_code == 2
    assert "EPOCH:SEQ" in done.output


@pytest.mark.parametrize(
    "options", [["--follow", "--projected"], ["--after", "x:1"], ["--limit", "3"], ["--projected", "--limit", "many"]]
)
def test_options_that_do_not_go_together_are_refused(options):
    assert CliRunner().invoke(log, ["last", *options]).exit_code == 2


def test_the_help_shows_an_example():
    assert "Example: greenroom log last --projected" in CliRunner().invoke(log, ["--help"]).output
