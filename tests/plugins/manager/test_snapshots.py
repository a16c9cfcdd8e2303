"""What a client is shown of an agent, as objects and as JSON."""

from __future__ import annotations

import json
from datetime import datetime

import anyio
import msgspec
import pytest

from greenroom.agents import (
    STATE_NAMES,
    AgentRecord,
    AgentSettings,
    AgentSnapshot,
    Closed,
    Failed,
    Initializing,
    Resting,
    Running,
    Unread,
)
from greenroom.errors import GreenroomError
from greenroom.providers import (
    Handle,
    PermissionAction,
    PermissionRequest,
    PermissionRequested,
    RuntimeInfo,
    ShellDetail,
    Usage,
)
from greenroom_manager._payload import from_wire, iso, list_item, payload
from greenroom_manager._row import decode, encode
from greenroom_manager._snapshot import snapshot, stored_state

from .house import house

STATES = [Initializing(), Running(3, "earlier"), Running(None), Failed("no"), Resting(), Resting("earlier"), Closed()]


def record(**fields):
    return AgentRecord(**{"id": "0123456789ab", "provider": "p", "created_at": 1, "updated_at": 2, **fields})


def shown(state=None, **fields):
    questions = fields.pop("questions", ())
    return AgentSnapshot(record=record(**fields), state=state or Closed(), questions=questions)


@pytest.mark.behaviour("P-309")
def test_a_record_holds_everything_that_is_kept_and_is_cut_off_from_what_it_was_made_of():
    labels, data, features = {"k": ["v"][0]}, {"deep": {"list": [1]}}, {"f": True}
    made = record(
        state="error",
        last_error="no",
        labels=labels,
        settings=AgentSettings(model="m", mode="plan", thinking="high", features=features),
        runtime=RuntimeInfo(model="m-1", mode="plan", context_window=9),
        native=Handle(native_id="n", data=data),
        usage=Usage(input_tokens=1),
        completed_at=4,
    )
    stored = decode(made.id, encode(made))
    assert stored == made
    labels["k"] = data["deep"]["list"][0] = features["f"] = "changed"
    assert (stored.labels, stored.native.data, stored.settings.features) == (
        {"k": "v"},
        {"deep": {"list": [1]}},
        {"f": True},
    )


@pytest.mark.behaviour("P-310")
@pytest.mark.parametrize(
    ("runtime", "mode"), [(None, "plan"), (RuntimeInfo(model="m"), "plan"), (RuntimeInfo(mode="auto"), "auto")]
)
def test_the_mode_is_the_reported_one_else_the_one_that_was_asked_for(runtime, mode):
    one = payload(shown(settings=AgentSettings(mode="plan"), runtime=runtime))
    assert (one["mode"], one["title"]) == (mode, None)


@pytest.mark.behaviour("P-311")
def test_settings_are_null_when_nothing_was_asked_for():
    assert payload(shown())["settings"] is None
    assert payload(shown(settings=AgentSettings(mode="plan")))["settings"] == {"mode": "plan"}
    assert "settings" not in msgspec.json.decode(encode(record()))


@pytest.mark.behaviour("P-313")
def test_the_payload_is_json_with_iso_times_and_copies_and_without_what_a_client_must_not_see():
    action = PermissionAction(id="y", label="Yes", behavior="allow", variant="primary")
    request = PermissionRequest(
        id="q",
        name="Bash",
        input={"command": "ls", "list": [1]},
        detail=ShellDetail(command="ls", output="x" * 99_999),
        suggestions=({"rule": "always"},),
        actions=(action,),
    )
    made = shown(
        Resting(),
        created_at=1_700_000_000_123,
        updated_at=1_700_000_001_000,
        archived_at=1_700_000_002_000,
        labels={"k": "v"},
        environment={"API_TOKEN": "secret"},
        unread=Unread("finished", 1_700_000_003_000),
        questions=(request,),
    )
    one = payload(made)
    text = json.dumps(one)
    assert "secret" not in text
    assert "x" * 999 not in text
    assert one["created_at"] == "2023-11-14T22:13:20.123Z"
    for time in (one["updated_at"], one["archived_at"], one["unread"]["since"]):
        assert datetime.fromisoformat(time).tzinfo is not None
    assert one["questions"] == [
        {
            "id": "q",
            "name": "Bash",
            "kind": "tool",
            "title": None,
            "description": None,
            "input": {"command": "ls", "list": [1]},
            "actions": [{"id": "y", "label": "Yes", "behavior": "allow"}],
        }
    ]
    one["labels"]["k"] = one["questions"][0]["input"]["list"][0] = "changed"
    assert (made.record.labels, request.input) == ({"k": "v"}, {"command": "ls", "list": [1]})


@pytest.mark.behaviour("P-315")
def test_title_mode_model_and_thinking_are_null_where_nothing_is_known():
    one = payload(shown())
    assert [one[name] for name in ("title", "mode", "model", "thinking", "runtime", "native")] == [None] * 6


@pytest.mark.behaviour("P-316")
@pytest.mark.parametrize("state", STATES)
def test_every_state_stands_in_the_payload_by_its_name(state):
    one = payload(shown(state))
    assert one["state"] == STATE_NAMES[type(state)]
    assert one["turn"] == getattr(state, "turn", None)
    assert one["last_error"] == getattr(state, "last_error", None)


@pytest.mark.behaviour("P-317")
def test_the_handle_in_the_payload_is_plain_and_a_copy():
    data = {"path": "/tmp/x", "deep": {"n": [1]}}
    one = payload(shown(native=Handle(native_id="n", data=data)))
    assert one["native"] == {"native_id": "n", "data": data}
    one["native"]["data"]["deep"]["n"].append(2)
    assert data["deep"]["n"] == [1]
    assert payload(shown(native=Handle(native_id="n")))["native"] == {"native_id": "n"}


@pytest.mark.behaviour("P-318")
def test_there_is_no_usage_when_none_was_reported():
    assert payload(shown())["usage"] is None
    assert "usage" not in msgspec.json.decode(encode(record()))


@pytest.mark.behaviour("P-314")
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_usage_that_is_no_number_is_left_out_of_the_payload(bad):
    assert payload(shown(usage=Usage(input_tokens=1, total_cost_usd=bad)))["usage"] is None


@pytest.mark.behaviour("P-319")
def test_the_usage_in_the_payload_keeps_how_full_the_context_window_is():
    one = payload(shown(usage=Usage(input_tokens=1, context_max=200, context_used=0)))
    assert one["usage"] == {"input_tokens": 1, "context_max": 200, "context_used": 0}


@pytest.mark.behaviour("P-322")
def test_features_stand_in_the_payload_as_asked_for_and_as_reported():
    settings, runtime = AgentSettings(features={"fast": True}), RuntimeInfo(features={"fast": False})
    one = payload(shown(settings=settings, runtime=runtime))
    assert (one["settings"]["features"], one["runtime"]["features"]) == ({"fast": True}, {"fast": False})


@pytest.mark.behaviour("P-323")
def test_a_stored_agent_is_shown_without_abilities_and_questions_with_its_own_time_and_whether_it_can_be_had():
    one = payload(snapshot(record(updated_at=1_700_000_000_000), None, available=False), capabilities=["steer"])
    assert (one["capabilities"], one["questions"], one["live"], one["available"]) == ([], [], False, False)
    assert one["updated_at"] == "2023-11-14T22:13:20.000Z"
    assert payload(snapshot(record(), None))["available"] is True


@pytest.mark.behaviour("P-324")
def test_an_item_of_a_listing_has_a_short_id_and_the_model_that_runs():
    settings = AgentSettings(model="asked")
    item = list_item(shown(settings=settings, runtime=RuntimeInfo(model="runs")))
    assert (item["short_id"], item["model"]) == ("0123456", "runs")
    assert list_item(shown(settings=settings))["model"] == "asked"


@pytest.mark.parametrize("name", STATE_NAMES.values())
def test_nothing_that_nobody_drives_is_shown_as_running(name):
    assert stored_state(record(state=name, last_error="x"), elsewhere=False) == Closed("x")


def test_what_another_process_drives_is_shown_as_its_record_says():
    shown_as = [stored_state(record(state=name), elsewhere=True) for name in STATE_NAMES.values()]
    assert [STATE_NAMES[type(state)] for state in shown_as] == list(STATE_NAMES.values())


@pytest.mark.parametrize("state", STATES)
def test_what_another_host_sends_of_an_agent_is_shown_as_our_own(state):
    question = PermissionRequest(id="q", name="Bash", input={"a": 1})
    made = AgentSnapshot(
        record=record(
            title="t", settings=AgentSettings(model="m"), native=Handle(native_id="n"), runtime=RuntimeInfo()
        ),
        state=state,
        questions=(question,),
        live=True,
        available=False,
    )
    view = {
        "record": msgspec.to_builtins(made.record),
        "state": {"name": STATE_NAMES[type(state)], **msgspec.to_builtins(state)},
        "questions": msgspec.to_builtins(made.questions),
        "live": True,
        "available": False,
    }
    assert from_wire(json.loads(json.dumps(view))) == made


@pytest.mark.parametrize("view", [{}, {"record": {}, "state": {}}, {"record": 3, "state": {"name": "idle"}}])
def test_what_is_not_understood_of_another_host_is_one_clear_error(view):
    with pytest.raises(GreenroomError, match="not understood"):
        from_wire(view)


def test_a_time_that_is_not_known_is_null():
    assert iso(None) is None


@pytest.mark.anyio
async def test_the_questions_of_a_live_agent_are_shown_until_they_are_answered(anyio_backend):
    async with house() as home:
        agent = await home.create()
        request = PermissionRequest(id="q", name="Bash", kind="question")
        home.provider.session.emit(PermissionRequested(request=request))
        await anyio.wait_all_tasks_blocked()
        [one] = (await home.directory.find(agent.id)).questions
        assert (one.id, (await home.directory.list())[0].questions) == ("q", (one,))
        await home.directory.close(agent.id)
        assert (await home.directory.find(agent.id)).questions == ()
