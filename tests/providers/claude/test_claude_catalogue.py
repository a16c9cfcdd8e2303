"""Models, modes and commands, from what the agent answers to `initialize`."""

from __future__ import annotations

from typing import Any

import pytest
from claude_recordings import VERSIONS, rows

from greenroom_claude._catalogue import catalogue, model_of, plain_model
from greenroom_claude._history import last_prompt_id


def initialized(folder: str) -> Any:
    said = (frame for direction, frame in rows(f"{folder}/simple_text") if direction == "out")
    answer = next(frame for frame in said if frame["type"] == "control_response")
    return answer["response"]["response"]


@pytest.mark.behaviour("P-477")
@pytest.mark.parametrize("folder", VERSIONS)
def test_exactly_one_model_is_the_default(folder: str) -> None:
    models = catalogue(initialized(folder)).models
    assert [model.id for model in models if model.default] == ["default"]
    assert len(models) > 2


@pytest.mark.behaviour("P-477")
def test_each_catalogue_is_a_new_one() -> None:
    answer = initialized("claude")
    assert catalogue(answer) == catalogue(answer)
    assert catalogue(answer) is not catalogue(answer)
    answer["models"].clear()
    assert catalogue(answer).models == ()


@pytest.mark.behaviour("P-477")
@pytest.mark.parametrize(
    ("ident", "plain"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5[1m]"),
        ("claude-opus-4-8[1m]", "claude-opus-4-8[1m]"),
        ("haiku", "haiku"),
    ],
)
def test_an_id_loses_its_date_and_keeps_its_long_context(ident: str, plain: str) -> None:
    assert plain_model(ident) == plain


@pytest.mark.behaviour("P-477")
def test_the_model_in_use_is_found_under_its_name_in_the_catalogue() -> None:
    offered = {
        "models": [
            {"value": "default", "resolvedModel": "claude-opus-5-5"},
            {"value": "opus", "resolvedModel": "claude-opus-5-5-20260101"},
            {"value": "sonnet[1m]", "resolvedModel": "claude-sonnet-5-5[1m]"},
            {"value": "only", "resolvedModel": "claude-only-1"},
        ]
    }
    assert model_of("claude-opus-5-5-20260303", offered) == "opus"
    assert model_of("claude-sonnet-5-5-20260303[1m]", offered) == "sonnet[1m]"
    assert model_of("claude-sonnet-5-5", offered) is None
    assert model_of("no-such-model", offered) is None
    assert model_of(None, offered) is None


def test_a_model_offers_its_thinking_levels() -> None:
    models = {model.id: model for model in catalogue(initialized("claude")).models}
    assert models["sonnet"].thinking[:3] == ("low", "medium", "high")


@pytest.mark.behaviour("P-476")
@pytest.mark.parametrize("folder", VERSIONS)
def test_the_commands_include_rewind_once(folder: str) -> None:
    names = [command.name for command in catalogue(initialized(folder)).commands]
    assert names.count("rewind") == 1
    assert len(names) > 3


@pytest.mark.behaviour("P-476")
def test_a_rewind_goes_to_the_latest_message_that_a_person_wrote() -> None:
    history = [
        {"type": "user", "uuid": "first", "message": {"content": "one"}},
        {"type": "assistant", "uuid": "a", "parentUuid": "first", "message": {"id": "m", "content": []}},
        {"type": "user", "uuid": "latest", "parentUuid": "a", "message": {"content": "two"}},
        {"type": "user", "uuid": "note", "parentUuid": "latest", "isMeta": True, "message": {"content": "a reminder"}},
    ]
    assert last_prompt_id(history) == "latest"


@pytest.mark.parametrize(
    "junk", [None, 3, {}, {"models": 1, "commands": [3, {}]}, {"models": [{}, {"value": ""}, None]}]
)
def test_an_answer_that_is_not_what_it_should_be_offers_little(junk) -> None:
    found = catalogue(junk)
    assert found.models == ()
    assert [command.name for command in found.commands] == ["rewind"]
