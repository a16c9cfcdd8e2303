"""What `Session.append` accepts, refuses and promises."""

from __future__ import annotations

import math
from decimal import Decimal

import msgspec
import pytest
from pydantic import BaseModel

from greenroom.providers import ShellDetail, TodoItem
from greenroom.sessions import MAX_DEPTH, MAX_EVENT_BYTES, EventRefused, EventType, Replace, SessionNotLive
from greenroom.sessions.vocabulary import (
    AssistantMessage,
    ContextMessage,
    Message,
    Notice,
    RawMessage,
    Reason,
    Text,
    TodoWrite,
    ToolCall,
    Trigger,
    TurnEnd,
    TurnStart,
    UsageUpdated,
    UserMessage,
    UserSource,
)

NOTE = Notice("info", "hello")


def raw(payload) -> RawMessage:
    return RawMessage("fake", "k", payload)


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_events_are_numbered_densely_from_zero(session):
    assert [session.append("notice", NOTE).seq for _ in range(3)] == [0, 1, 2]
    assert len(session) == session.next_seq == 3


@pytest.mark.behaviour("D-017", "D-075", "D-079")
@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        b"bytes",
        {1, 2},
        Decimal(1),
        pytest.param(object(), id="object"),  # its own text has an address: another one in each process
        pytest.param(lambda: 0, id="function"),
        {1: "a"},
        [1, [2, {"x": math.nan}]],
    ],
    ids=repr,
)
def test_what_json_cannot_say_is_refused_and_nothing_is_written(session, value):
    with pytest.raises(EventRefused, match="raw"):
        session.append("raw", raw(value))
    assert len(session) == 0
    assert session.append("raw", raw("fine")).seq == 0


@pytest.mark.behaviour("D-017")
def test_a_number_that_is_not_finite_is_refused_in_a_typed_field_that_may_be_null(session):
    from greenroom.providers import Usage

    with pytest.raises(EventRefused, match="total_cost_usd is nan"):
        session.append("usage/updated", UsageUpdated(Usage(total_cost_usd=math.nan)))


@pytest.mark.behaviour("D-075", "D-019", "D-076")
@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**63, 1.5, -0.0, "", "é😀\u0000", [], [1, [2]], {}, {"a": {"b": [None, {"c": 1}]}}],
    ids=repr,
)
def test_every_json_value_is_kept_as_it_is(session, value):
    assert session.append("raw", raw(value)).data.payload == value


@pytest.mark.behaviour("D-080")
def test_keys_that_look_special_are_data(session):
    value = {"__proto__": {"x": 1}, "__class__": "y", "type": "z"}
    assert session.append("raw", raw(value)).data.payload == value


@pytest.mark.behaviour("D-079")
def test_a_cycle_is_refused(session):
    value: list = []
    value.append(value)
    with pytest.raises(EventRefused, match="levels deep, or in a cycle"):
        session.append("raw", raw(value))


def test_a_lone_surrogate_is_refused(session):
    with pytest.raises(EventRefused, match="lone surrogate"):
        session.append("notice", Notice("info", "half \ud83d"))


@pytest.mark.behaviour("D-078")
def test_nesting_is_accepted_up_to_the_limit_and_refused_above_it_by_name(session):
    depth = MAX_DEPTH - 1  # the payload itself is one level
    assert session.append("raw", raw(nested(depth))).data.payload == nested(depth)
    for deeper in (depth + 1, 5000, 200_000):
        with pytest.raises(EventRefused, match=f"more than {MAX_DEPTH} levels"):
            session.append("raw", raw(nested(deeper)))


def test_wide_payloads_are_not_deep(session):
    assert session.append("raw", raw([[] for _ in range(1000)])).seq == 0


def test_a_payload_above_the_limit_is_refused_by_name(session):
    fits = "x" * (MAX_EVENT_BYTES - 100)
    session.append("notice", Notice("info", fits))
    for size in (MAX_EVENT_BYTES, 100 * MAX_EVENT_BYTES):
        with pytest.raises(EventRefused, match="the limit is 1,048,576"):
            session.append("notice", Notice("info", "x" * size))


def test_an_unregistered_type_is_refused_with_the_plugin_that_should_register_it(session):
    with pytest.raises(EventRefused, match="audit/note is not a registered") as caught:
        session.append("audit/note", {"text": "x"})
    assert caught.value.plugin == "audit"


def test_unregistered_trigger_and_reason_kinds_are_refused(session):
    with pytest.raises(EventRefused, match="trigger kind 'goal' is not registered"):
        session.append("turn/start", TurnStart(1, Trigger("goal")))
    with pytest.raises(EventRefused, match="reason 'rejected' is not registered"):
        session.append("turn/end", TurnEnd(1, Reason("rejected")))
    with pytest.raises(EventRefused, match="needs message, code"):
        session.append("turn/end", TurnEnd(1, Reason("error")))
    with pytest.raises(EventRefused, match="aborts nothing"):
        session.append("turn/end", TurnEnd(1, Reason("aborted", cause="boredom")))


def test_a_payload_of_the_wrong_shape_is_refused_though_its_struct_could_be_made(session):
    with pytest.raises(EventRefused, match="notice: Expected `str`"):
        session.append("notice", Notice("info", 7))
    with pytest.raises(EventRefused, match="notice"):
        session.append("notice", Notice("loud", "x"))


def test_a_mapping_is_accepted_for_a_model_and_an_unknown_field_in_it_refused(session):
    event = session.append("notice", {"level": "info", "message": "x"})
    assert event.data == Notice("info", "x")
    with pytest.raises(EventRefused, match=r"unknown field \.colour"):
        session.append("notice", {"level": "info", "message": "x", "colour": "red"})
    with pytest.raises(EventRefused, match=r"unknown field \.items\[0\]\.colour"):
        session.append("todo/write", {"items": [{"text": "x", "status": "pending", "colour": "red"}]})


@pytest.mark.behaviour("D-031", "D-016")
def test_changing_the_payload_afterwards_does_not_change_the_log(session, script):
    script.turn()
    script.step()
    given = {"command": "ls"}
    event = session.append("tool/call", ToolCall(1, 1, "t1", "Bash", given, ShellDetail("ls")))
    given["command"] = "rm"
    event.data.input["command"] = "rm"
    assert event.data.input == {"command": "ls"}


@pytest.mark.behaviour("D-032", "D-077")
def test_a_payload_is_read_once_so_what_was_checked_is_what_is_kept(session):
    class Fickle(dict):
        reads = 0

        def items(self):
            Fickle.reads += 1
            return {"command": f"read {Fickle.reads}"}.items()

    event = session.append("raw", raw(Fickle(command="first")))
    assert event.data.payload == msgspec.json.decode(event.raw)["payload"]
    assert session.tail[0].raw == event.raw


@pytest.mark.behaviour("D-036")
def test_events_and_their_decoded_data_are_frozen(session):
    event = session.append("notice", NOTE)
    for target, name in ((event, "raw"), (event, "seq"), (event.data, "message")):
        with pytest.raises(AttributeError):
            setattr(target, name, b"")
    assert isinstance(event.raw, bytes)


@pytest.mark.behaviour("D-038")
def test_a_snapshot_of_the_tail_is_cached_and_does_not_grow(session):
    session.append("notice", NOTE)
    before = session.tail
    assert session.tail is before
    session.append("notice", NOTE)
    assert len(before) == 1
    assert len(session.tail) == 2


@pytest.mark.behaviour("D-018")
def test_a_model_visible_event_without_its_marker_is_refused(session, script):
    script.turn()
    with pytest.raises(EventRefused, match="needs surface"):
        session.append("user/message", UserMessage(script.message()))


@pytest.mark.behaviour("D-035", "D-102")
def test_a_marker_or_sources_on_another_event_are_refused(session, script):
    script.turn()
    script.step()
    for more in ({"surface": "append"}, {"sources": [0]}, {"surface": Replace((0, 0))}):
        with pytest.raises(EventRefused, match="not model-visible"):
            session.append("notice", NOTE, **more)
        with pytest.raises(EventRefused, match="not model-visible"):
            session.append("assistant/message", AssistantMessage(1, 1, "a piece", "m"), **more)


@pytest.mark.behaviour("D-033", "D-034")
@pytest.mark.parametrize(
    "surface",
    ["prepend", {"replace": [0, 1]}, 7, math.nan, Replace((0,)), Replace((0, 1.5)), Replace([0, 1]), Replace("ab")],
    ids=repr,
)
def test_an_ill_shaped_marker_is_refused(session, script, surface):
    script.turn()
    script.user()
    with pytest.raises(EventRefused, match="context/message"):
        script.context(surface=surface)
    assert len(session) == 2


@pytest.mark.behaviour("D-120")
def test_surface_fields_stand_on_model_visible_events_only(session, script):
    script.turn()
    event = script.user()
    assert (event.surface, event.sources) == ("append", None)
    assert session.tail[0].surface is None


@pytest.mark.behaviour("D-118")
def test_sources_and_range_are_snapshots(session, script):
    script.turn()
    first, second = script.user(id="a"), script.user(id="b")
    sources = [first.seq, second.seq]
    event = script.context(surface=Replace((first.seq, second.seq)), sources=sources)
    sources.append(99)
    assert event.sources == (first.seq, second.seq)


def test_a_replacement_without_sources_cites_what_it_replaces(script):
    script.turn()
    first, second = script.user(id="a"), script.user(id="b")
    assert script.context(surface=Replace((first.seq, second.seq))).sources == (first.seq, second.seq)


@pytest.mark.behaviour("D-056")
def test_a_failing_observer_is_reported_and_neither_undoes_nor_starves(header, vocabulary):
    from greenroom.sessions import Ports, Session

    reports, seen = [], []
    session = Session(header, vocabulary, ports=Ports(report=lambda error, what: reports.append((error, what))))
    session.observe(lambda event: 1 / 0)
    session.observe(seen.append)
    event = session.append("notice", NOTE)
    assert seen == [event] == list(session.tail)
    assert isinstance(reports[0][0], ZeroDivisionError)
    assert "seq 0" in reports[0][1]


@pytest.mark.behaviour("D-060")
def test_an_append_by_an_observer_is_refused_and_later_observers_see_the_original_order(session):
    refused, seen = [], []

    def greedy(event):
        try:
            session.append("notice", Notice("info", "from an observer"))
        except EventRefused as error:
            refused.append(str(error))
            raise

    session.observe(greedy)
    session.observe(lambda event: seen.append(event.data.message))
    session.append("notice", Notice("info", "one"))
    session.append("notice", Notice("info", "two"))
    assert seen == ["one", "two"]
    assert len(refused) == 2
    assert "observers may not append" in refused[0]


@pytest.mark.behaviour("D-059")
def test_observers_are_resolved_before_the_commit(session):
    late = []

    class Judge:
        def stage(self, event, data):
            if not late:
                late.append("added")
                session.observe(late.append)

        def commit(self):
            pass

    session.validate_with([Judge()])
    session.append("notice", NOTE)
    assert late == ["added"]
    second = session.append("notice", NOTE)
    assert late == ["added", second]


def test_an_observer_leaves_with_its_undo_which_may_be_called_twice(session):
    seen = []
    undo = session.observe(seen.append)
    session.observe(seen.append)
    undo()
    undo()
    session.append("notice", NOTE)
    assert len(seen) == 1


@pytest.mark.behaviour("D-057")
def test_a_veto_sees_the_candidate_and_leaves_nothing_behind(session, script):
    candidates, seen = [], []

    class Judge:
        committed = 0

        def stage(self, event, data):
            candidates.append((event, data))
            if event.type == "notice":
                raise EventRefused("no notices")

        def commit(self):
            Judge.committed += 1

    session.validate_with([Judge()])
    session.observe(seen.append)
    with pytest.raises(EventRefused, match="no notices"):
        session.append("notice", NOTE)
    assert (len(session), session.tail, seen, Judge.committed) == (0, (), [], 0)
    assert script.turn() == 1
    assert [event.seq for event, _ in candidates] == [0, 0]
    assert Judge.committed == 1
    with pytest.raises(AttributeError):
        candidates[0][0].seq = 5


@pytest.mark.behaviour("D-058")
def test_a_vetoed_replacement_is_never_published(session, script):
    script.turn()
    first = script.user()

    class Judge:
        def stage(self, event, data):
            raise EventRefused("no")

        def commit(self):
            pass

    session.validate_with([Judge()])
    with pytest.raises(EventRefused):
        script.context(surface=Replace((first.seq, first.seq)))
    assert list(session.surface) == [first.seq]
    assert session.surface.replacements == 0
    assert len(session.derive_messages()) == 1


def test_a_sealed_session_refuses(session):
    session.seal()
    with pytest.raises(SessionNotLive):
        session.append("notice", NOTE)


@pytest.mark.behaviour("D-065", "D-066", "D-067")
def test_the_latest_todo_list_is_the_current_one_and_no_message(session, script):
    script.turn()
    items = [TodoItem("a", "pending")]
    session.append("todo/write", TodoWrite(tuple(items)))
    items.append(TodoItem("b", "completed"))
    session.append("todo/write", TodoWrite(tuple(items)))
    lists = [event.data.items for event in session.tail if event.type == "todo/write"]
    assert [len(one) for one in lists] == [1, 2]
    assert session.derive_messages() == []
    assert list(session.surface) == []


class Note(BaseModel):
    text: str
    weight: float | None = None
    extra: object = None


class Point(msgspec.Struct, frozen=True):
    x: float | None
    more: dict = {}


@pytest.mark.parametrize("model", [Note, Point])
def test_a_plugin_brings_its_own_type_as_a_struct_or_a_pydantic_model(session, vocabulary, model):
    vocabulary.add(EventType("audit/note", model, enclosure="free"), "audit")
    payload = Note(text="x", weight=1.5) if model is Note else Point(1.5, {"a": 1})
    event = session.append("audit/note", payload)
    assert event.ignorable
    assert vocabulary.decode(event) == payload
    assert isinstance(event.data, dict)


@pytest.mark.behaviour("D-011")
def test_free_parts_of_a_plugin_payload_are_snapshotted_and_not_judged(session, vocabulary):
    vocabulary.add(EventType("audit/point", Point, enclosure="free"), "audit")
    free = {"anything": [1, {"goes": None}]}
    event = session.append("audit/point", Point(1.0, free))
    free["anything"].append("later")
    assert vocabulary.decode(event).more == {"anything": [1, {"goes": None}]}


@pytest.mark.parametrize(
    "payload", [Note(text="x", weight=math.nan), Note(text="x", extra=math.inf)], ids=["typed", "any"]
)
def test_a_pydantic_model_cannot_smuggle_a_nan(session, vocabulary, payload):
    vocabulary.add(EventType("audit/note", Note, enclosure="free"), "audit")
    with pytest.raises(EventRefused):
        session.append("audit/note", payload)


def test_an_event_of_a_removed_type_is_refused_and_the_written_ones_stay(session, vocabulary):
    undo = vocabulary.add(EventType("audit/point", Point, enclosure="free"), "audit")
    event = session.append("audit/point", Point(1.0))
    undo()
    with pytest.raises(EventRefused):
        session.append("audit/point", Point(2.0))
    assert event.data == {"x": 1.0, "more": {}}


def test_a_clock_that_goes_backwards_changes_no_order(header, vocabulary):
    from greenroom.sessions import Ports, Session

    times = iter([50, 20, 30])
    session = Session(header, vocabulary, ports=Ports(clock=lambda: next(times)))
    for _ in range(3):
        session.append("notice", NOTE)
    assert [(event.seq, event.time) for event in session.tail] == [(0, 50), (1, 20), (2, 30)]


@pytest.mark.behaviour("D-003", "D-004")
@pytest.mark.parametrize(
    "reason",
    [
        Reason("max_tokens"),
        Reason("aborted", cause="user"),
        Reason("aborted", cause="hook", reason="too late"),
        Reason("blocked", by="policy", reason="no"),
        Reason("error", message="boom", code="x", diagnostic="d"),
        Reason("completed"),
    ],
    ids=lambda reason: f"{reason.kind}-{reason.cause}",
)
def test_every_end_of_a_turn_round_trips(session, script, vocabulary, reason):
    from greenroom.sessions import Session, event_from_json, event_to_json

    script.turn()
    session.append("turn/end", TurnEnd(1, reason))
    seed = [event_from_json(event_to_json(event)) for event in session.tail]
    again = Session(session.header, vocabulary, seed=seed)
    assert again.tail[1].data.reason == reason == again.state.last_reason.reason


@pytest.mark.behaviour("D-006")
def test_an_identified_context_message_keeps_id_source_and_content(session, script):
    from greenroom.sessions.vocabulary import PluginSource

    script.turn()
    message = Message("ctx-7", (Text("a"), Text("b")), PluginSource("clock"))
    event = session.append("context/message", ContextMessage(message), surface="append")
    assert event.data.message == message
    (derived,) = session.derive_messages()
    assert (derived.id, derived.source, derived.content) == (message.id, message.source, message.content)
    assert UserSource() != derived.source
