"""docs/protocol.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from greenroom_control._errors import CLASSES, OWN
from greenroom_control._table import METHODS
from greenroom_control._wire import MAX_LINE, PROTOCOL, read_incoming, read_request

TEXT = (Path(__file__).resolve().parents[3] / "docs/protocol.md").read_text()


def _rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    part = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_every_method_is_documented_and_none_else() -> None:
    assert [row[0].strip("`") for row in _rows("Methods")] == list(METHODS)


@pytest.mark.parametrize("row", _rows("Methods"), ids=lambda row: row[0].strip("`"))
def test_the_parameters_of_a_method_are_those_of_the_code(row: list[str]) -> None:
    method = METHODS[row[0].strip("`")]
    fields = msgspec.structs.fields(method.params)
    assert re.findall(r"`([^`]+)`", row[1]) == [field.name + ("" if field.required else "?") for field in fields]


def test_every_code_is_documented_with_its_meaning() -> None:
    assert {row[0].strip("`"): row[1] for row in _rows("Errors")} == OWN
    named = TEXT.split("named after the errors of greenroom")[1].split("\n## ")[0]
    assert re.findall(r"`(\w+)`", named) == list(CLASSES)


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"at most {MAX_LINE >> 20} MiB" in TEXT
    assert f'{{"protocol":{PROTOCOL}}}' in TEXT


def test_the_lines_of_the_example_are_of_the_protocol() -> None:
    lines = re.findall(r"^    ([→←]) (\{.*\})$", TEXT, re.MULTILINE)
    assert len(lines) > 5
    for arrow, line in lines:
        whole = line.replace("{…}", "{}").encode()
        if arrow == "→":
            request = read_request(whole)
            METHODS[request.method].read(request.params)
        else:
            assert read_incoming(whole).id is not None
