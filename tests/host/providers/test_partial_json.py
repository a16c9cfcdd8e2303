"""A JSON object that is still being written shows complete values only."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.providers import PartialObject, complete_fields

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=5), values, max_size=5)


@pytest.mark.behaviour("P-478")
@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"command": "ls", "n": 1}', {"command": "ls", "n": 1}),
        ('{"command": "l', {}),
        ('{"command": "ls"', {"command": "ls"}),
        ('{"command": "ls", "n": 12', {"command": "ls"}),
        ('{"command": "ls", "n": 12,', {"command": "ls", "n": 12}),
        ('{"a": true', {}),
        ('{"a": {"b": 1}, "c": {"d": 2', {"a": {"b": 1}}),
        ('{"a": [1, 2], "c": [3', {"a": [1, 2]}),
        ('{"a": "say \\"hi\\" {', {}),
        ('{"a": "say \\"hi\\" {", "b": "\\', {"a": 'say "hi" {'}),
        ("{", {}),
        ("[1, 2]", None),
        ('"text"', None),
        ("", None),
    ],
)
def test_only_complete_values_are_shown(text: str, fields: object) -> None:
    assert complete_fields(text) == fields


@pytest.mark.behaviour("P-460", "P-478")
@given(objects, st.data())
def test_every_prefix_shows_a_subset_of_the_whole_in_any_cut(whole: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(whole, ensure_ascii=data.draw(st.booleans()))
    partial, position = PartialObject(), 0
    while position < len(text):
        step = data.draw(st.integers(1, 9))
        grew_from = dict(partial.fields)
        grew = partial.feed(text[position : position + step])
        position += step
        assert all(whole[key] == value for key, value in partial.fields.items())
        assert grew == (len(partial.fields) > len(grew_from))
    assert partial.fields == whole


def test_an_escape_may_be_cut_between_two_pieces() -> None:
    partial = PartialObject()
    assert not partial.feed('{"a": "x\\')
    assert not partial.feed("u00")
    assert partial.feed('e9\\"", "b"')
    assert partial.fields == {"a": 'xé"'}


def test_a_surrogate_pair_may_be_cut_between_two_pieces() -> None:
    partial = PartialObject()
    partial.feed('{"a": "\\ud83d')
    partial.feed('\\ude00"')
    assert partial.fields == {"a": "\U0001f600"}


def test_what_is_no_json_stops_quietly() -> None:
    partial = PartialObject()
    assert not partial.feed("{nonsense: 1, ")
    assert not partial.feed('"a": 1}')
    assert partial.fields == {}
