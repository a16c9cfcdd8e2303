"""The vocabulary as data, what plugins add to it, and what is folded from it."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import BaseModel

from greenroom.errors import NameTaken
from greenroom.sessions import (
    FOLDED_TYPES,
    EndReason,
    Event,
    EventRefused,
    EventType,
    InboxState,
    Message,
    Replace,
    Session,
    SessionError,
    TriggerKind,
    UnreadableSession,
    Vocabulary,
    event_from_json,
    event_key,
    event_to_json,
    same_request,
)
from greenroom.sessions.vocabulary import (
    CORE_TYPES,
    AgentConfig,
    HeaderTool,
    InboxSpliced,
    Notice,
    PermissionAllow,
    PermissionAnswered,
    PermissionAsked,
    PermissionRequest,
    ProviderSessionId,
    Reason,
    RequestContext,
    RequestHeader,
    Trigger,
    TurnEnd,
    TurnStart,
)


class Note(msgspec.Struct, frozen=True):
    text: str


class Visible(msgspec.Struct, frozen=True):
    message: Message


class Model(BaseModel):
    text: str


# the table


@pytest.mark.parametrize("kind", CORE_TYPES, ids=lambda kind: kind.name)
def test_a_model_visible_type_is_enclosed_and_never_ignorable(kind):
    if kind.surface:
        assert kind.enclosure in ("turn", "step")
        assert not kind.ignorable
    assert kind.model.__doc__
    assert kind.model.__struct_config__.frozen


@pytest.mark.parametrize("kind", CORE_TYPES, ids=lambda kind: kind.name)
def test_a_constructor_refuses_an_unknown_field(kind):
    with pytest.raises(TypeError):
        kind.model(no_such_field=1)


def test_a_decoder_ignores_what_a_newer_writer_added():
    event = Event(0, 1, "notice", b'{"level":"info","message":"x","colour":"red","nested":{"a":[1]}}')
    assert event.data == Notice("info", "x")


def test_what_a_resume_folds_is_a_part_of_the_table():
    assert {kind.name for kind in CORE_TYPES if kind.folded} == FOLDED_TYPES
    assert "assistant/message" not in FOLDED_TYPES


@pytest.mark.parametrize(
    ("type_name", "raw", "key"),
    [
        ("tool/call", b'{"turn":1,"call_id":"t1"}', "t1"),
        ("tool/settled", b'{"call_id":"t1"}', "t1"),
        ("user/message", b'{"message":{"id":"u1"}}', "u1"),
        ("user/acknowledged", b'{"message_id":"u1"}', "u1"),
        ("assistant/message", b'{"text":"x","message_id":"m1"}', "m1"),
        ("assistant/message", b'{"text":"x"}', None),
        ("notice", b'{"message_id":"no"}', None),
        ("memo/note", b'{"call_id":"no"}', None),
    ],
)
def test_the_key_of_an_event_is_a_function_of_its_bytes(type_name, raw, key):
    assert event_key(type_name, raw) == key


@pytest.mark.parametrize("surface", [None, "append", Replace((1, 2))])
@pytest.mark.parametrize("sources", [None, (), (1, 2)])
@pytest.mark.parametrize("ignorable", [False, True])
def test_an_event_round_trips_as_a_line_with_its_bytes_untouched(surface, sources, ignorable):
    raw = '{"text":"é \\u0041  spaced", "n": 1.0}'.encode()
    event = Event(3, 7, "memo/note", raw, ignorable, surface, sources)
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"seq":-1,"time":1,"type":"x","data":{}}', b'{"seq":0,"time":1,"data":{}}',
             b'{"seq":0,"time":1,"type":"x"}', b'{"seq":0,"time":1,"type":"x","data":{"a":NaN}}',
             b'{"seq":0.5,"time":1,"type":"x","data":{}}', b'{"seq":0,"time":1,"type":"x","data":{},"surface":"odd"}'],
)  # fmt: skip
def test_a_line_that_is_no_event_is_refused(line):
    with pytest.raises(EventRefused, match="not an event"):
        event_from_json(line)


# registration


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (EventType("note", Note), "<plugin>/<name>"),
        (EventType("Memo/Note", Note), "<plugin>/<name>"),
        (EventType("turn/note", Note), "host's own"),
        (EventType("notice/x", Note), "host's own"),
        (EventType("memo/note", Note, enclosure="opens"), "enclosure"),
        (EventType("memo/note", Visible, enclosure="free", surface=True), "enclosed in a turn"),
        (EventType("memo/note", Note, surface=True), "message: Message"),
        (EventType("memo/note", Model, surface=True), "message: Message"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_type_that_may_not_be_registered_is_refused_with_its_plugin(kind, why):
    with pytest.raises(SessionError, match=why) as caught:
        Vocabulary().add(kind, "memo")
    assert caught.value.plugin == "memo"


@pytest.mark.parametrize(
    "item", [EventType("memo/note", Note), TriggerKind("goal"), EndReason("bored")], ids=lambda item: item.name
)
def test_a_name_is_registered_once_and_free_again_after_its_undo(vocabulary, item):
    undo = vocabulary.add(item, "one")
    with pytest.raises(NameTaken, match="registered by one and by two"):
        vocabulary.add(item, "two")
    undo()
    again = vocabulary.add(item, "two")
    undo()
    with pytest.raises(NameTaken):
        vocabulary.add(item, "three")
    again()


@pytest.mark.parametrize("item", [TriggerKind("message"), EndReason("completed")])
def test_the_hosts_own_kinds_cannot_be_taken(vocabulary, item):
    with pytest.raises(NameTaken, match="registered by greenroom"):
        vocabulary.add(item, "one")


def test_registered_kinds_open_and_end_turns(vocabulary, session):
    vocabulary.add(TriggerKind("goal"), "goals")
    vocabulary.add(EndReason("bored", ("reason",)), "goals")
    session.append("turn/start", TurnStart(1, Trigger("goal")))
    with pytest.raises(EventRefused, match="bored needs reason"):
        session.append("turn/end", TurnEnd(1, Reason("bored")))
    session.append("turn/end", TurnEnd(1, Reason("bored", reason="enough")))


def test_the_owner_of_a_type_is_who_registered_it_or_whose_prefix_it_bears(vocabulary):
    vocabulary.add(EventType("memo/note", Note), "acme-memo")
    assert vocabulary.owner_of("memo/note") == "acme-memo"
    assert vocabulary.owner_of("gone/note") == "gone"
    assert vocabulary.owner_of("turn/start") is None
    assert vocabulary["memo/note"].ignorable


def test_a_model_visible_type_is_never_ignorable(vocabulary):
    vocabulary.add(EventType("memo/recall", Visible, surface=True), "memo")
    assert not vocabulary["memo/recall"].ignorable


def test_a_session_with_a_type_that_cannot_be_skipped_names_the_missing_plugin(vocabulary):
    vocabulary.check_readable({"turn/start": False, "gone/note": True}, "s")
    with pytest.raises(UnreadableSession, match="other/fact") as caught:
        vocabulary.check_readable({"gone/note": True, "other/fact": False}, "s")
    assert "install or enable: other" in caught.value.hint


# what is folded


@pytest.mark.behaviour("D-087", "D-088")
def test_absent_and_empty_parts_of_a_request_header_are_the_same_and_the_order_of_tools_counts():
    a, b = (HeaderTool(name, "p", {"type": "object"}) for name in "ab")
    bare = RequestHeader("initial", reveals_steps=True)
    assert bare == RequestHeader("initial", True, sections=(), tools=(), config={})
    assert b"tools" not in msgspec.json.encode(RequestHeader("initial", True, tools=()))
    full = RequestHeader("initial", True, tools=(a, b), config={"x": 1})
    assert same_request(full, RequestHeader("change", True, tools=(a, b), config={"x": 1}))
    for other in (
        RequestHeader("initial", True, tools=(b, a), config={"x": 1}),
        RequestHeader("initial", False, tools=(a, b), config={"x": 1}),
        RequestHeader("initial", True, tools=(a, b), config={"x": 2}),
        bare,
    ):
        assert not same_request(full, other)
    assert not same_request(None, bare)


@pytest.mark.behaviour("D-089")
def test_the_latest_whole_request_header_counts(session):
    assert session.state.header is None
    for reason in ("initial", "change"):
        header = RequestHeader(reason, reveals_steps=True, config={"model": reason})
        session.append("request/header", header)
        assert session.state.header == header


@pytest.mark.behaviour("D-091")
def test_the_request_context_is_none_then_the_latest_also_from_a_seed(session, vocabulary):
    assert session.state.context is None
    with session.atomic():
        session.append("request/context", RequestContext("p", "m"))
        session.append("request/context", RequestContext("p", "m2", 1000))
    assert session.state.context == RequestContext("p", "m2", 1000)
    with pytest.raises(AttributeError):
        session.state.context.model = "m3"
    again = Session(session.header, vocabulary, seed=session.tail)
    assert again.state.context == session.state.context
    again.append("request/context", RequestContext("p", "m4"))
    assert again.state.context.model == "m4"


def test_a_request_context_without_provider_or_model_is_refused(session):
    for fields in ({"provider": "", "model": "m"}, {"provider": "p"}, {"provider": "p", "model": ""}):
        with pytest.raises(EventRefused, match="request/context"):
            session.append("request/context", fields)


@pytest.mark.behaviour("D-014")
def test_a_thinking_level_round_trips_and_an_empty_one_is_refused(session):
    session.append("agent/config", AgentConfig(thinking="high"))
    assert session.state.config.thinking == "high"
    for wrong in ("", 3, ["high"]):
        with pytest.raises(EventRefused, match="agent/config"):
            session.append("agent/config", {"thinking": wrong})


def test_a_configuration_is_merged_and_a_label_that_is_none_is_removed(session):
    session.append("agent/config", AgentConfig(model="a", labels={"x": "1", "y": "2"}))
    session.append("agent/config", AgentConfig(title="t", labels={"x": None}, features={"fast": True}))
    assert session.state.config == AgentConfig(model="a", title="t", labels={"y": "2"}, features={"fast": True})
    session.append("agent/config", AgentConfig(labels={"y": None}))
    assert session.state.config.labels is None


def test_position_epoch_and_native_id_follow_the_log(session, script):
    script.turn()
    script.step()
    assert (session.state.open_turn, session.state.open_step, session.state.turn_start) == (1, 1, 0)
    script.end_step()
    script.end()
    assert (session.state.open_turn, session.state.last_turn, session.state.next_turn()) == (None, 1, 2)
    session.append("provider/session", ProviderSessionId("n1"))
    assert session.state.native_id == "n1"
    epoch = session.recast("rewind", 0).data.epoch
    assert (session.epoch, session.state.keep_before) == (epoch, 0)


def test_open_questions_end_with_their_answer_or_with_the_turn_that_failed(session, script):
    script.turn()
    for id_, turn in (("a", 1), ("b", 1), ("c", None)):
        session.append("permission/asked", PermissionAsked(PermissionRequest(id_, "Bash"), turn))
    session.append("permission/answered", PermissionAnswered("a", PermissionAllow(), "user"))
    assert set(session.state.asked) == {"b", "c"}
    script.end("error", message="m", code="c")
    assert set(session.state.asked) == {"c"}


def test_splices_move_the_two_lists(session, scripted):
    message = scripted.message
    session.append("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(message("a", "a"), message("b", "b"))))
    session.append("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message("c", "c"),)))
    session.append("inbox/spliced", InboxSpliced("next-turn", 0, removed=1))
    inbox = session.state.inbox
    assert [[one.id for one in inbox.list_of(target)] for target in ("next-turn", "next-step")] == [["b"], ["c"]]
    with pytest.raises(EventRefused, match="pending already"):
        inbox.spliced(InboxSpliced("next-step", 0, inserted=(message("b", "b"),)))
    assert InboxState().ids == frozenset()
