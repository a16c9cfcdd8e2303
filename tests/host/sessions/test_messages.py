"""What the model sees, derived step by step and from scratch."""

from __future__ import annotations

import random
from contextlib import suppress

import msgspec
import pytest

from greenroom.providers import TodoItem
from greenroom.sessions import (
    EventType,
    HistoryNotLoaded,
    MemoryStore,
    Message,
    Replace,
    Session,
    derive_messages,
)
from greenroom.sessions.vocabulary import (
    Attachment,
    Blob,
    Image,
    InboxSpliced,
    Notice,
    PluginSource,
    RequestContext,
    SteeringMessage,
    Text,
    TodoWrite,
    ToolRequest,
    UserMessage,
    UserSource,
)


def said(messages) -> list:
    return [(one.role, "".join(block.text for block in one.content)) for one in messages]


@pytest.mark.behaviour("D-002")
def test_the_history_is_prompts_answers_and_results_in_order(session, script):
    script.whole_turn("one")
    script.whole_turn("two")
    once = [("assistant", "let me look"), ("tool", "out")]
    assert said(session.derive_messages()) == [("user", "one"), *once, ("user", "two"), *once]
    assert session.derive_messages()[1].requests == (ToolRequest("t1", "Bash", {"command": "ls"}),)


@pytest.mark.behaviour("D-005")
def test_context_and_steering_project_as_user_content_like_prompts(session, script):
    script.turn()
    script.user("prompt")
    script.context("context")
    steering = SteeringMessage(script.message("steer", "s1"))
    session.append("steering/message", steering, surface="append")
    assert said(session.derive_messages()) == [("user", "prompt"), ("user", "context"), ("user", "steer")]


def test_images_and_attachments_are_kept(session, script):
    content = (Image("image/png", blob=Blob("0" * 64, 5)), Attachment("file", "a.py", "print()"), Text("look"))
    script.turn()
    session.append("user/message", UserMessage(Message("u", content, UserSource())), surface="append")
    assert session.derive_messages()[0].content == content


def test_the_pieces_of_a_message_stand_once_at_its_final_piece(session, script):
    script.turn()
    script.step()
    script.piece("one ", "a")
    script.piece("other", "b")
    script.piece("two ", "a")
    assert session.derive_messages() == []
    script.say("three", "a")
    assert said(session.derive_messages()) == [("assistant", "one two three")]
    script.say("", "b")
    assert said(session.derive_messages())[-1] == ("assistant", "other")


def test_pieces_without_a_final_one_do_not_leak_into_the_next_step(session, script):
    script.turn()
    script.step()
    script.piece("lost ", "a")
    script.end_step()
    script.step()
    script.say("new", "a")
    assert said(session.derive_messages()) == [("assistant", "new")]


def test_pieces_that_a_rewind_cut_off_do_not_leak_into_what_follows(session, script):
    script.turn()
    script.step()
    script.piece("lost ", "a")
    assert session.derive_messages() == []
    session.recast("rewind", 2)
    script.say("new", "a")
    assert said(session.derive_messages()) == [("assistant", "new")] == said(derive_messages(session.tail))


@pytest.mark.behaviour("D-074", "D-121")
def test_boundaries_and_empty_answers_project_to_nothing(session, script):
    script.turn()
    script.step()
    script.say("", "m1")
    script.end_step()
    script.end()
    assert len(session.surface) == 1
    assert session.derive_messages() == [] == derive_messages(session.tail)


def test_an_empty_answer_that_asks_for_a_tool_is_a_message(session, script):
    script.turn()
    script.step()
    script.say("", "m1", [ToolRequest("t", "Bash", {})])
    assert len(session.derive_messages()) == 1


@pytest.mark.behaviour("D-119")
def test_replaced_nodes_are_hidden_and_log_only_events_skipped(session, script):
    script.turn()
    first = script.user("old")
    session.append("notice", Notice("info", "for people"))
    second = script.context("also old", "c0")
    script.context("summary", "c1", surface=Replace((first.seq, second.seq)))
    script.user("new", "u2")
    assert said(session.derive_messages()) == [("user", "summary"), ("user", "new")]


@pytest.mark.behaviour("D-071")
def test_each_call_returns_a_new_list_and_a_held_one_never_grows(session, script):
    script.whole_turn()
    held = session.derive_messages()
    length = len(held)
    assert session.derive_messages() is not held
    script.whole_turn()
    assert len(held) == length
    held.clear()
    assert len(session.derive_messages()) == 2 * length


@pytest.mark.behaviour("D-073")
def test_calls_share_the_frozen_messages(session, script):
    script.whole_turn()
    assert all(a is b for a, b in zip(session.derive_messages(), session.derive_messages(), strict=True))


@pytest.mark.behaviour("D-016", "D-085")
def test_derived_messages_are_frozen_have_a_known_role_and_cannot_alter_the_log(session, script):
    script.whole_turn()
    before = [event.raw for event in session.tail]
    for message in session.derive_messages():
        assert message.role in ("user", "assistant", "tool")
        with pytest.raises(AttributeError):
            message.role = "system"
        for request in message.requests:
            request.input["command"] = "changed"
    assert [event.raw for event in session.tail] == before
    assert derive_messages(session.tail)[1].requests[0].input == {"command": "ls"}


@pytest.mark.behaviour("D-072")
def test_the_projection_of_each_event_is_the_element_of_the_whole(session, script):
    script.whole_turn()
    script.whole_turn()
    visible = [event for event in session.tail if event.surface is not None]
    alone = [derive_messages([event])[0] for event in visible]
    assert alone == session.derive_messages()


def test_a_plugins_model_visible_type_projects_without_the_plugin(session, script, vocabulary):
    class Recall(msgspec.Struct, frozen=True):
        message: Message
        score: float

    undo = vocabulary.add(EventType("memory/recall", Recall, surface=True), "memory")
    script.turn()
    recall = Recall(Message("r1", (Text("remember"),), PluginSource("memory")), 0.5)
    event = session.append("memory/recall", recall, surface="append")
    assert not event.ignorable
    undo()
    assert said(derive_messages(session.tail)) == [("user", "remember")]


class Random:
    """Writes a random but plausible log, one event at a time."""

    def __init__(self, session, script, seed):
        self.session, self.script, self.random = session, script, random.Random(seed)
        self.ids = 0

    def step(self):
        state, script = self.session.state, self.script
        self.ids += 1
        n = str(self.ids)
        if state.open_turn is None:
            return self.random.choice([script.turn, self.note, self.rewind])()
        acts = [lambda: script.user(n, n), lambda: script.context(n, n), self.note, self.replace]
        if state.open_step is None:
            return self.random.choice([*acts, script.step, script.step, script.end])()
        acts += [lambda: script.piece(n), lambda: script.piece(n, None), lambda: script.say(n), lambda: script.say("")]
        acts += [lambda: (script.call(n), script.result(n)), script.end_step, self.rewrite]
        return self.random.choice(acts)()

    def note(self):
        kind = self.random.randrange(4)
        if kind == 0 and self.session.state.open_turn:
            self.session.append("todo/write", TodoWrite((TodoItem("x", "pending"),)))
        elif kind == 1:
            self.session.append("request/context", RequestContext("p", "m"))
        else:
            self.session.append("notice", Notice("info", "x"))

    def replace(self):
        nodes = self.session.surface
        if nodes:
            first = self.random.randrange(len(nodes))
            last = self.random.randrange(first, len(nodes))
            self.ids += 1
            self.script.context("sum", str(self.ids), surface=Replace((nodes[first], nodes[last])))

    def rewrite(self):
        results = [s for s in self.session.surface if self.session.tail[s].type == "tool/result"]
        if results:
            seq = self.random.choice(results)
            data = msgspec.structs.replace(self.session.tail[seq].data, output="short")
            self.session.append("tool/result", data, surface=Replace((seq, seq)))

    def rewind(self):
        nodes = [event for event in self.session.tail if event.type == "turn/start"]
        if nodes and self.random.random() < 0.2:
            self.session.recast("rewind", self.random.choice(nodes).seq)


@pytest.mark.behaviour("D-069", "D-070", "D-081", "D-082")
@pytest.mark.parametrize("seed", range(20))
def test_the_incremental_history_equals_a_derivation_from_scratch_after_every_append(session, script, seed):
    writer = Random(session, script, seed)
    for _ in range(150):
        before = len(session)
        with suppress(HistoryNotLoaded):  # a replacement of something that a rewind left unknown
            writer.step()
        if len(session) == before:
            continue
        assert session.derive_messages() == derive_messages(session.tail)
        assert session.surface.complete
    assert [event.seq for event in session.tail] == list(range(len(session)))
    again = Session(session.header, session.vocabulary, seed=session.tail)
    assert again.derive_messages() == session.derive_messages() == derive_messages(session.tail)


@pytest.mark.behaviour("D-084")
@pytest.mark.parametrize("seed", range(10))
def test_events_that_are_no_messages_never_affect_the_history(session, script, seed):
    writer = Random(session, script, seed)
    for _ in range(100):
        writer.step()
    silent = ("notice", "todo/write", "request/context")
    kept = [event for event in session.tail if event.type not in silent]
    assert len(kept) < len(session)
    assert derive_messages(kept) == derive_messages(session.tail)


@pytest.mark.behaviour("X-001")
def test_a_parked_injection_that_was_consumed_reads_like_a_one_shot_turn(header, vocabulary, scripted):
    message = Message("i1", (Text("the job is done"),), PluginSource("jobs"))
    parked, own = Session(header, vocabulary), Session(header, vocabulary)
    for session in (parked, own):
        scripted(session).whole_turn("one")

    parked.append("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message,)))
    script = scripted(parked)
    script.turn()
    parked.append("inbox/spliced", InboxSpliced("next-step", 0, removed=1))
    parked.append("context/message", {"message": msgspec.to_builtins(message)}, surface="append")
    script.user("two", "u2")
    script.end()

    script = scripted(own)
    script.turn("injection")
    own.append("context/message", {"message": msgspec.to_builtins(message)}, surface="append")
    script.end()
    script.turn()
    script.user("two", "u2")
    script.end()
    assert parked.derive_messages() == own.derive_messages()
    assert len(own.derive_messages()) == 5


@pytest.mark.anyio
async def test_a_long_session_keeps_a_bounded_tail_and_reads_the_rest_from_its_store(header, vocabulary, scripted):
    store = MemoryStore()
    session = Session(header, vocabulary)
    session.connect(store, await store.create(header))
    script = scripted(session)
    for _ in range(300):
        script.whole_turn()
    assert len(session.tail) == 1024 < len(session)
    events = await session.events()
    assert [event.seq for event in events] == list(range(len(session)))
    assert await session.events(5, 9) == events[5:9]
    assert await session.events(len(session) - 3) == events[-3:]
    assert {event.type for event in await session.events(types=["turn/end"])} == {"turn/end"}
    assert await session.find("t1") == [4, 5]
    with pytest.raises(HistoryNotLoaded, match="load_history"):
        session.derive_messages()
    await session.load_history()
    assert session.derive_messages() == derive_messages(events)
    script.whole_turn()
    assert session.derive_messages() == derive_messages(await session.events())
    first = session.surface[0]
    script.turn()
    script.context("all of it", "sum", surface=Replace((first, session.surface[-1])))
    assert len(session.derive_messages()) == 1


@pytest.mark.anyio
async def test_large_events_do_not_make_the_tail_large(header, vocabulary):
    store = MemoryStore()
    session = Session(header, vocabulary)
    session.connect(store, await store.create(header))
    for _ in range(20):
        session.append("notice", Notice("info", "x" * 1_000_000))
    assert sum(len(event.raw) for event in session.tail) <= 4 * 1024 * 1024
    assert len(await session.events()) == 20
