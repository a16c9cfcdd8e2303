"""What commands print: the same facts on a terminal, in a pipe and as JSON."""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType

import pytest

from greenroom.cli import confirm, emit_json, fail, interactive, table
from greenroom.errors import GreenroomError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    path: Path


def test_a_table_in_a_pipe_has_aligned_columns(capsys) -> None:
    table(("name", "n"), [("a", 1), ("longer", None), ("é", True)])
    assert capsys.readouterr().out == "name    n\na       1\nlonger  -\né       yes\n"


def test_wide_and_combining_characters_keep_the_columns(capsys) -> None:
    table(("a", "b"), [("漢字", "x"), ("e\u0301", "y")])
    assert capsys.readouterr().out.splitlines()[1:] == ["漢字  x", "e\u0301     y"]


def test_an_empty_table_is_its_header(capsys) -> None:
    table(("a", "b"), [])
    assert capsys.readouterr().out == "a  b\n"


def test_control_characters_in_a_cell_are_escaped(capsys) -> None:
    table(("a",), [("\x1b[31mred\nline",)])
    assert capsys.readouterr().out == "a\n\\x1b[31mred\\nline\n"


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        table(("a", "b"), [("x",)])


def test_a_table_on_a_terminal_shows_the_same_cells_and_no_markup_is_read(monkeypatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    table(("name", "n"), [("[bold]x[/bold]", 1)])
    assert "[bold]x[/bold]" in screen.getvalue()


def test_without_rich_a_table_on_a_terminal_is_plain(monkeypatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    table(("a",), [("x",)])
    assert screen.getvalue() == "a\nx\n"


def test_json_takes_what_commands_have(capsys) -> None:
    emit_json(
        {
            "point": Point(1, Path("/a")),
            "time": datetime(2026, 1, 2, tzinfo=UTC),
            "day": date(2026, 1, 2),
            "set": {"b", "a"},
            "colour": Colour.RED,
            "map": MappingProxyType({"k": (1, 2)}),
            "text": "é\u2028\ud83d",
        }
    )
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {
        "point": {"x": 1, "path": "/a"},
        "time": "2026-01-02T00:00:00+00:00",
        "day": "2026-01-02",
        "set": ["a", "b"],
        "colour": "red",
        "map": {"k": [1, 2]},
        "text": "é\u2028\ud83d",
    }


def test_json_of_something_else_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        emit_json(object())


def test_fail_is_an_error_with_a_hint() -> None:
    with pytest.raises(GreenroomError) as caught:
        fail("no", hint="do this")
    assert (caught.value.args[0], caught.value.hint) == ("no", "do this")


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_without_a_terminal_nobody_is_asked(monkeypatch, stream: io.StringIO | None) -> None:
    monkeypatch.setattr(sys, "stdin", stream)
    assert not interactive()
    with pytest.raises(GreenroomError, match="there is no terminal") as caught:
        confirm("Really?", instead="greenroom do --yes")
    assert "greenroom do --yes" in str(caught.value.hint)


def test_a_closed_input_is_no_terminal(monkeypatch) -> None:
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stdin", closed)
    assert not interactive()
