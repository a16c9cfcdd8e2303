"""Sessions that begin with somebody else's events, and what stands outside the log."""

from __future__ import annotations

import math

import msgspec
import pytest

from greenroom.sessions import (
    FORMAT_VERSION,
    Event,
    EventRefused,
    Header,
    Replace,
    Session,
    SessionDamaged,
    SessionError,
    UnreadableSession,
    derive_messages,
    header_from_json,
    header_to_json,
)
from greenroom.sessions.vocabulary import SeedEnd

START = Event(0, 5, "turn/start", b'{"turn":1,"trigger":{"kind":"message"}}')
USER = Event(
    1, 6, "user/message", b'{"message":{"id":"u","content":[{"type":"text","text":"x"}],"source":{"kind":"user"}}}',
    surface="append",
)  # fmt: skip
END = Event(2, 7, "turn/end", b'{"turn":1,"reason":{"kind":"completed"}}')
LOG = (START, USER, END)


def changed(event: Event, **fields) -> Event:
    return msgspec.structs.replace(event, **fields)


@pytest.fixture
def planted(header, vocabulary, ports):
    return lambda seed, **more: Session(more.pop("header", header), vocabulary, seed=seed, ports=ports, **more)


@pytest.mark.behaviour("D-007", "D-023", "D-081")
def test_a_session_from_an_existing_log_has_the_identical_history(session, script, planted):
    for _ in range(3):
        script.whole_turn()
    again = planted(session.tail)
    assert again.tail[: len(session)] == session.tail
    assert again.derive_messages() == session.derive_messages() == derive_messages(session.tail)


@pytest.mark.behaviour("D-008")
def test_a_supplied_seed_gets_an_end_marker_even_if_empty_and_a_fresh_session_gets_none(session, planted):
    assert len(session) == 0
    assert [event.type for event in planted(()).tail] == ["session/seed-end"]
    assert [event.type for event in planted(LOG).tail][-1] == "session/seed-end"
    assert planted(LOG).state.first_live_seq == 3


@pytest.mark.behaviour("D-083")
def test_a_seed_that_ends_with_the_marker_gets_no_second_one(planted):
    once = planted(LOG)
    assert planted(once.tail).tail == once.tail


@pytest.mark.behaviour("D-021")
@pytest.mark.parametrize("seqs", [(1, 2, 3), (0, 2, 3), (0, 1, 1), (0, 0, 1), (-1, 0, 1)])
def test_a_seed_that_is_not_contiguous_from_zero_is_refused(planted, seqs):
    wrong = next(index for index, seq in enumerate(seqs) if seq != index)
    with pytest.raises(SessionError, match=rf"^seed\[{wrong}\]: its seq"):
        planted([changed(event, seq=seq) for event, seq in zip(LOG, seqs, strict=True)])


@pytest.mark.behaviour("D-020")
@pytest.mark.parametrize("raw", [b'{"turn":NaN}', b"{", b"", b'{"turn":1}\xff', b"[1]"])
def test_a_seed_with_a_payload_that_is_no_json_of_its_type_is_refused(planted, raw):
    with pytest.raises(SessionError, match=r"^seed\[0\]: turn/start"):
        planted([changed(START, raw=raw)])


@pytest.mark.behaviour("D-022")
def test_a_seed_message_without_its_marker_is_refused(planted):
    with pytest.raises(EventRefused, match=r"^seed\[1\]: user/message: a model-visible event needs"):
        planted([START, changed(USER, surface=None)])


@pytest.mark.behaviour("D-035")
def test_a_marker_on_a_seed_event_that_is_no_message_is_refused(planted):
    with pytest.raises(EventRefused, match=r"^seed\[0\]: turn/start: is not model-visible"):
        planted([changed(START, surface="append")])


@pytest.mark.behaviour("D-026", "D-027", "D-042")
@pytest.mark.parametrize(
    "fields",
    [
        {"seq": 0.0},
        {"seq": True},
        {"time": 1.5},
        {"time": -1},
        {"time": math.nan},
        {"type": b"turn/start"},
        {"raw": "{}"},
        {"raw": {"turn": 1}},
        {"ignorable": 1},
        pytest.param({"surface": object()}, id="surface"),  # its own text has an address: another one in each process
        {"surface": {"replace": [0, 0]}},
        {"sources": "ab"},
        {"sources": (0.5,)},
    ],
    ids=repr,
)
def test_a_seed_record_with_a_wrong_envelope_is_refused(planted, fields):
    index = 1 if "surface" in fields or "sources" in fields else 0
    log = list(LOG)
    log[index] = changed(log[index], **fields)
    with pytest.raises(SessionError, match=rf"^seed\[{index}\]: "):
        planted(log)


@pytest.mark.behaviour("D-027")
@pytest.mark.parametrize(
    "shell",
    [
        None,
        {"seq": 0},
        ("turn/start",),
        pytest.param(object(), id="object"),
        pytest.param(type("Sub", (), {"seq": 0})(), id="one that looks alike"),
    ],
    ids=repr,
)
def test_a_seed_entry_that_is_no_event_is_refused(planted, shell):
    with pytest.raises(SessionError, match=r"^seed\[0\]: an event is an Event"):
        planted([shell])


@pytest.mark.behaviour("D-010", "D-630")
@pytest.mark.parametrize("type_name", ["user/message", "context/message", "steering/message"])
@pytest.mark.parametrize(
    "message",
    [
        b'{"content":[],"source":{"kind":"user"}}',
        b'{"id":"","content":[],"source":{"kind":"user"}}',
        b'{"id":7,"content":[],"source":{"kind":"user"}}',
        b'{"id":"u","source":{"kind":"user"}}',
        b'{"id":"u","content":"x","source":{"kind":"user"}}',
        b'{"id":"u","content":[{"type":"smell"}],"source":{"kind":"user"}}',
        b'{"id":"u","content":[{"type":"text"}],"source":{"kind":"user"}}',
        b'{"id":"u","content":[{"type":"image","media_type":"image/png"}],"source":{"kind":"user"}}',
        b'{"id":"u","content":[]}',
        b'{"id":"u","content":[],"source":{"kind":"ghost"}}',
        b'{"id":"u","content":[],"source":{"kind":"plugin"}}',
    ],
)
def test_a_malformed_message_in_a_seed_is_refused(planted, type_name, message):
    bad = changed(USER, type=type_name, raw=b'{"message":' + message + b"}")
    with pytest.raises(EventRefused, match=rf"^seed\[1\]: {type_name}"):
        planted([START, bad])


@pytest.mark.behaviour("D-010")
@pytest.mark.parametrize(
    ("type_name", "raw"),
    [
        ("assistant/message", b'{"turn":1,"step":1,"final":true}'),
        ("assistant/message", b'{"turn":0,"step":1,"text":"x","final":true}'),
        ("tool/result", b'{"turn":1,"step":1,"status":"completed","detail":{"type":"plan","text":"x"}}'),
        ("tool/result", b'{"turn":1,"step":1,"call_id":"c","status":"done","detail":{"type":"plan","text":"x"}}'),
        ("tool/result", b'{"turn":1,"step":1,"call_id":"c","status":"failed","detail":{"type":"plan","text":"x"}}'),
        ("tool/result", b'{"turn":1,"step":1,"call_id":"c","status":"completed","detail":{"type":"odd"}}'),
    ],
)
def test_a_malformed_answer_in_a_seed_is_refused(planted, type_name, raw):
    with pytest.raises(EventRefused, match=rf"^seed\[1\]: {type_name}"):
        planted([START, changed(USER, type=type_name, raw=raw)])


@pytest.mark.behaviour("D-029")
def test_whatever_the_surface_check_raises_names_the_seed_index(planted):
    with pytest.raises(SessionError, match=r"^seed\[1\]: user/message: 7 is not on the surface"):
        planted([START, changed(USER, surface=Replace((7, 7)), sources=(0,))])


@pytest.mark.behaviour("D-024")
def test_each_entry_of_a_seed_is_read_once(planted):
    reads = []

    class Fickle(list):
        def __iter__(self):
            for index, event in enumerate(LOG):
                reads.append(index)
                yield event

        def __getitem__(self, index):
            raise AssertionError("read a second time")

    assert planted(Fickle()).tail[:3] == LOG
    assert reads == [0, 1, 2]


@pytest.mark.behaviour("D-030")
def test_changing_the_seed_afterwards_does_not_change_the_session(planted):
    seed = list(LOG)
    made = planted(seed)
    seed.clear()
    assert made.tail[:3] == LOG


@pytest.mark.behaviour("D-036")
def test_seeded_events_are_frozen(planted):
    with pytest.raises(AttributeError):
        planted(LOG).tail[0].raw = b""


@pytest.mark.behaviour("D-037")
def test_deep_restored_data_needs_no_call_stack(planted):
    deep = b'{"provider":"p","kind":"k","payload":' + b"[" * 190 + b"]" * 190 + b"}"
    made = planted([Event(0, 1, "raw", deep, ignorable=True)])
    assert made.tail[0].raw == deep
    too_deep = deep.replace(b"[", b"[" * 2).replace(b"]", b"]" * 2)
    with pytest.raises(EventRefused, match=r"^seed\[0\]: raw: nested more than 200"):
        planted([Event(0, 1, "raw", too_deep, ignorable=True)])


@pytest.mark.behaviour("D-013")
def test_a_seed_is_checked_before_anything_of_it_is_taken(header, vocabulary, ports):
    class Judge:
        replayed = None

        def replay(self, events):
            Judge.replayed = events

        def stage(self, event, data):
            pass

        def commit(self):
            pass

    with pytest.raises(SessionError):
        Session(header, vocabulary, seed=[*LOG, changed(START, seq=9)], validators=[Judge()], ports=ports)
    assert Judge.replayed is None


def test_an_unknown_type_in_a_seed_is_kept_when_ignorable_and_names_its_plugin_otherwise(planted):
    stranger = Event(0, 1, "gone/note", b'{"x":1}', ignorable=True)
    assert planted([stranger]).tail[0] == stranger
    with pytest.raises(UnreadableSession, match=r"^seed\[0\].*gone/note") as caught:
        planted([changed(stranger, ignorable=False)])
    assert caught.value.plugin == "gone"


def test_unknown_kinds_of_trigger_and_reason_are_kept_as_data_on_reading(planted):
    log = [
        changed(START, raw=b'{"turn":1,"trigger":{"kind":"goal"}}'),
        changed(END, seq=1, raw=b'{"turn":1,"reason":{"kind":"bored","data":{"x":1}}}'),
    ]
    made = planted(log)
    assert made.tail[0].data.trigger.kind == "goal"
    assert made.state.last_reason.reason.kind == "bored"


@pytest.mark.behaviour("D-090", "D-661")
@pytest.mark.parametrize(
    ("type_name", "raw"),
    [
        ("request/header", b'{"reason":"fallback","reveals_steps":false}'),
        ("request/header", b'{"reason":"initial"}'),
        ("request/header-delta", b"{}"),
        ("agent/mode", b'{"name":"x"}'),
    ],
)
def test_shapes_that_are_no_part_of_the_format_are_refused_in_seeds_and_appends(planted, session, type_name, raw):
    with pytest.raises(SessionError):
        planted([Event(0, 1, type_name, raw)])
    with pytest.raises(SessionError):
        session.append(type_name, msgspec.json.decode(raw))


@pytest.mark.behaviour("D-068")
def test_a_todo_list_replays_identically_from_a_seed(session, script, planted):
    from greenroom.providers import TodoItem
    from greenroom.sessions.vocabulary import TodoWrite

    script.turn()
    session.append("todo/write", TodoWrite((TodoItem("a", "completed"),)))
    assert planted(session.tail).tail[1].data == session.tail[1].data


# the header


@pytest.mark.behaviour("D-051")
def test_a_session_without_more_has_a_minimal_header_of_the_current_version(vocabulary):
    header = Session(Header(id="s", epoch="e", created_at=0), vocabulary).header
    assert header.version == FORMAT_VERSION
    assert header_to_json(header) == b'{"version":1,"id":"s","epoch":"e","created_at":0}'


@pytest.mark.behaviour("D-052", "D-627")
def test_directory_parent_origin_and_depth_stand_in_the_header_and_round_trip():
    header = Header(
        id="s", epoch="e", created_at=1, cwd="/w", provider="p", parent_session="q", seed_length=4, origin="subagent",
        delegation_depth=2,
    )  # fmt: skip
    assert header_from_json(header_to_json(header)) == header


@pytest.mark.behaviour("D-039")
def test_a_header_is_frozen_and_detached_from_the_fields_it_was_made_of():
    fields = {"version": 1, "id": "s", "epoch": "e", "created_at": 1}
    header = header_from_json(fields)
    fields["id"] = "t"
    assert header.id == "s"
    with pytest.raises(AttributeError):
        header.id = "t"


@pytest.mark.behaviour("D-041", "D-053", "D-040", "D-615", "D-660")
@pytest.mark.parametrize(
    "fields",
    [
        {"id": ""},
        {"id": "a/b"},
        {"id": ".."},
        {"id": "x" * 129},
        {"id": 7},
        {"epoch": ""},
        {"created_at": 1.5},
        {"created_at": -1},
        {"created_at": "now"},
        {"cwd": "relative/path"},
        {"delegation_depth": 0},
        {"seed_length": -1},
        {"origin": "elsewhere"},
        {"parent_session": 5},
        {"cwd": math.nan},
    ],
    ids=repr,
)
def test_a_header_with_a_wrong_scalar_is_refused(registry, fields):
    good = {"version": 1, "id": "s", "epoch": "e", "created_at": 1}
    with pytest.raises(SessionDamaged, match="malformed"):
        header_from_json({**good, **fields})
    with pytest.raises(ValueError, match="no session"):
        registry.new_header(**{"session_id": "s", **fields})


@pytest.mark.behaviour("D-643")
def test_a_header_of_another_version_is_refused_before_anything_else_is_looked_at():
    with pytest.raises(UnreadableSession, match="format 2") as caught:
        header_from_json(b'{"version":2,"shape":"of the future"}', place="sessions.db")
    assert "upgrade greenroom" in caught.value.hint
    assert "sessions.db" in str(caught.value)
    for older in (b'{"version":0,"id":"s"}', b'{"id":"s"}', b'{"version":"1"}', b'{"version":true}'):
        with pytest.raises(SessionDamaged, match="no usable version"):
            header_from_json(older)


def test_seed_end_has_no_data():
    assert msgspec.json.encode(SeedEnd()) == b"{}"
