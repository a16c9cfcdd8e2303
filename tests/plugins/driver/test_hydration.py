"""The provider's history is reconciled with the log: nothing is doubled, nothing is lost, a failure changes nothing."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from greenroom import hookimpl
from greenroom.agents import AgentError
from greenroom.providers import (
    Capability,
    Compaction,
    MessageDone,
    Notice,
    ProviderError,
    ReasoningDelta,
    SubAgent,
    TextDelta,
    Todo,
    TodoItem,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UnknownDetail,
    UserEcho,
)
from greenroom.sessions import Session
from greenroom.sessions import vocabulary as v
from greenroom_testing import ScriptedSession

pytestmark = pytest.mark.anyio
ROWS = ("user/message", "assistant/", "tool/call", "tool/result", "todo/", "notice", "compaction/")


def asked(text: str, ident: str, turn: str | None = None) -> UserEcho:
    return UserEcho(text=text, provider_message_id=ident, turn_id=turn)


def turn(number: int, prompt: str, *events, time: int | None = None) -> list:
    """One turn of a history."""
    name = f"t{number}"
    made = [TurnStarted(turn_id=name), asked(prompt, f"u{number}", name), *events, TurnCompleted(turn_id=name)]
    return [msgspec.structs.replace(event, time=time) for event in made]


def said(text: str, ident: str) -> MessageDone:
    return MessageDone(message_id=ident, text=text)


def rows(rig) -> list[tuple[str, str]]:
    """What a reader sees, in short."""
    shown = []
    for event in rig.of(*ROWS):
        data = event.data
        if event.type == "user/message":
            shown.append(("user", data.message.content[0].text))
        elif event.type.startswith("assistant/"):
            if data.text:
                shown.append((event.type.partition("/")[2], data.text))
        else:
            shown.append((event.type, getattr(data, "call_id", getattr(data, "message", ""))))
    return shown


async def talk(rig, prompt: str, reply: str, ident: str) -> str:
    """One live turn whose ids are those of the history; returns the id of our message."""

    async def starting(session: ScriptedSession, request):
        mine, name = request.messages[-1].id, session.turn
        session.emit(UserEcho(text="", provider_message_id=f"u{ident}", client_message_id=mine, turn_id=name))
        session.emit(TextDelta(text=reply, message_id=f"m{ident}", turn_id=name))
        session.emit(MessageDone(message_id=f"m{ident}", turn_id=name))
        session.end(turn=name)

    rig.provider.starting = starting
    await rig.agent.run(prompt)
    await rig.agent.when_idle()
    return rig.of("user/message")[-1].data.message.id


@asynccontextmanager
async def unchanged(rig):
    """Nothing is logged inside."""
    length = len(rig.agent.session)
    yield
    assert [event.type for event in rig.events if event.seq >= length] == []


# --- nothing is doubled -------------------------------------------------------------------


@pytest.mark.behaviour("P-235", "P-050")
async def test_what_was_said_live_is_not_added_again(rig):
    await talk(rig, "first", "one", "1")
    await talk(rig, "second", "two", "2")
    rig.provider.past = [*turn(1, "first", said("one", "m1")), *turn(2, "second", said("two", "m2"))]
    async with unchanged(rig):
        done = await rig.agent.hydrate()
    assert (done.found, done.known, done.added) == (4, 4, 0)


@pytest.mark.behaviour("P-214")
async def test_a_refresh_that_is_repeated_adds_nothing(rig):
    await talk(rig, "first", "one", "1")
    rig.provider.past = [
        *turn(1, "first", said("one", "m1")),
        *turn(2, "elsewhere", said("two", "m2"), Notice(message="printed"), Todo(items=(TodoItem("a"),))),
        *turn(3, "also", ToolStarted(call_id="c", name="Bash"), ToolFinished(call_id="c", name="Bash", output="x")),
    ]
    first = await rig.agent.hydrate()
    assert (first.known, first.added) == (2, 6)
    assert rows(rig)[2:] == [
        ("user", "elsewhere"), ("message", "two"), ("notice", "printed"), ("todo/write", ""),
        ("user", "also"), ("tool/call", "c"), ("tool/result", "c"),
    ]  # fmt: skip
    async with unchanged(rig):
        again = await rig.agent.hydrate()
    assert (again.known, again.added) == (8, 0)


async def test_a_provider_without_ids_is_matched_by_content_and_order(rig):
    past = [UserEcho(text="go", provider_message_id=""), TextDelta(text="yes"), TurnCompleted()]
    rig.provider.past = [*past, *past]
    assert (await rig.agent.hydrate()).added == 4
    async with unchanged(rig):
        assert (await rig.agent.hydrate()).added == 0
    rig.provider.past = [*past, *past, *past]
    assert (await rig.agent.hydrate()).added == 2
    assert [text for _, text in rows(rig)] == ["go", "yes"] * 3


@pytest.mark.behaviour("P-042")
async def test_a_resume_leaves_the_timeline_as_it_is_and_asks_for_no_history(rig, host):
    await talk(rig, "first", "one", "1")
    before = rows(rig)

    class Silent(ScriptedSession):
        def history(self):
            raise AssertionError("nobody asked for the history")

    await rig.handle.dispose()
    rig.provider.session_type = Silent
    rig.handle = await host.agents.resume(rig.agent.id, owner=host.scope)
    await rig.settle()
    assert rows(rig) == before
    assert rig.of("session/recast") == []


# --- how it is written --------------------------------------------------------------------


@pytest.mark.behaviour("P-231")
async def test_the_order_of_pieces_thoughts_and_calls_is_kept(rig):
    rig.provider.past = turn(
        1,
        "go",
        ReasoningDelta(text="hm", message_id="r"),
        TextDelta(text="I look", message_id="m1"),
        ToolStarted(call_id="c1", name="Read"),
        ToolFinished(call_id="c1", name="Read", output="x"),
        TextDelta(text="I see", message_id="m2"),
    )
    await rig.agent.hydrate()
    assert rows(rig) == [
        ("user", "go"), ("reasoning", "hm"), ("message", "I look"),
        ("tool/call", "c1"), ("tool/result", "c1"), ("message", "I see"),
    ]  # fmt: skip
    assert rig.reasons() == ["completed"]
    assert rig.of("turn/start")[0].data.trigger.kind == "import"


@pytest.mark.behaviour("P-232")
@pytest.mark.parametrize("ident", [None, "m"])
async def test_a_thought_between_pieces_of_an_answer_stays_between_them(rig, ident):
    rig.provider.past = turn(
        1, "go", TextDelta(text="a", message_id=ident), ReasoningDelta(text="b"), TextDelta(text="c", message_id=ident)
    )
    await rig.agent.hydrate()
    assert rows(rig) == [("user", "go"), ("message", "a"), ("reasoning", "b"), ("message", "c")]


@pytest.mark.behaviour("P-234")
async def test_events_of_the_past_keep_their_time(rig):
    rig.provider.past = [*turn(1, "go", said("a", "m1"), time=1_000), *turn(2, "on", said("b", "m2"), time=2_000)]
    await rig.agent.hydrate()
    imported = [event for event in rig.events if event.type.startswith(("turn/", "step/", "user/", "assistant/"))]
    assert [event.time for event in imported] == [1_000] * (len(imported) // 2) + [2_000] * (len(imported) // 2)


class Listening:
    """Hears of states and inboxes."""

    def __init__(self):
        self.heard = []

    @hookimpl
    def agent_status(self, agent):
        self.heard.append(agent.status)

    @hookimpl
    def agent_inbox_claimed(self, agent, message, turn):
        self.heard.append(message)


@pytest.mark.behaviour("P-233")
async def test_hydration_is_immediate_and_nobody_is_told_of_a_run(rig):
    listening = Listening()
    await rig.agent.mount(listening, name="listening")
    rig.provider.past = turn(1, "go", *(TextDelta(text=piece, message_id="m") for piece in "abc"))
    before = anyio.current_time()
    await rig.agent.hydrate()
    assert [text for kind, text in rows(rig) if kind == "message"] == ["a", "b", "c"]
    assert anyio.current_time() - before < 0.05  # the window of the coalescer is longer
    assert listening.heard == []
    assert rig.session.requests == []
    assert type(rig.agent.state).__name__ == "Resting"


async def test_a_turn_ends_as_it_ended(rig):
    rig.provider.past = [TurnStarted(turn_id="t"), asked("go", "u", "t"), TurnFailed(turn_id="t", error="no credit")]
    await rig.agent.hydrate()
    (end,) = rig.of("turn/end")
    assert (end.data.reason.kind, end.data.reason.message) == ("error", "no credit")


async def test_a_message_that_joined_a_turn_stays_in_it(rig):
    rig.provider.past = turn(1, "go", said("a", "m1"), asked("be brief", "u9", "t1"), said("b", "m2"))
    await rig.agent.hydrate()
    assert len(rig.of("turn/start")) == 1
    assert [text for _, text in rows(rig)] == ["go", "a", "be brief", "b"]


@pytest.mark.behaviour("P-239")
@pytest.mark.parametrize(("ident", "kept"), [("", None), ("  \n", None), (" u1 ", "u1"), ("u1", "u1")])
async def test_a_blank_id_of_a_message_counts_as_none_and_a_real_one_is_kept(rig, ident, kept):
    rig.provider.past = [asked("hello", ident), TextDelta(text="hi"), TurnCompleted()]
    await rig.agent.hydrate()
    (message,) = rig.of("user/message")
    known = [event.data.provider_message_id for event in rig.of("user/acknowledged")]
    assert (message.data.message.id.strip(), known) == (kept or message.data.message.id, [kept] if kept else [])


@pytest.mark.behaviour("P-243")
async def test_a_live_message_without_an_id_is_recorded(rig):
    rig.session.emit(UserEcho(text="typed elsewhere", provider_message_id=" "), TurnStarted(turn_id="x"))
    rig.session.say("answer", turn="x")
    rig.session.end(turn="x")
    await rig.logged("turn/end")
    assert rows(rig) == [("user", "typed elsewhere"), ("message", "answer")]


@pytest.mark.behaviour("P-230")
async def test_every_row_of_a_huge_history_is_bounded_and_its_texts_are_reachable(rig, host):
    huge = "x" * (1 << 20)
    rig.provider.past = turn(
        1,
        huge,
        said(huge, "m"),
        ToolStarted(call_id="c", name="Write", input={"content": huge, "path": "p", "many": ["y" * 900] * 20}),
        ToolFinished(call_id="c", name="Write", output=huge, raw={"stdout": huge}),
        Todo(items=tuple(TodoItem(huge[:9_000]) for _ in range(400))),
        Notice(message=huge),
        SubAgent(action="upsert", child_id="k", call_id="c", title="child"),
        SubAgent(action="item", child_id="k", item=TextDelta(text=huge)),
        Compaction(phase="start"),
        Compaction(phase="end", summary=huge),
    )
    done = await rig.agent.hydrate()
    assert done.refused == 0
    sizes = {event.type: len(event.raw) for event in rig.events}
    assert max(sizes.values()) <= 64 * 1024 + 512, sizes
    (result,) = rig.of("tool/result")
    store = host.sessions.store
    assert await store.read_blob(rig.agent.id, result.data.output.sha256) == huge.encode()
    (call,) = rig.of("tool/call")
    assert await store.read_blob(rig.agent.id, call.data.input["content"]["sha256"]) == huge.encode()
    assert call.data.input["path"] == "p"
    (prompt,) = rig.of("user/message")
    assert await store.read_blob(rig.agent.id, prompt.data.message.content[0].text.sha256) == huge.encode()
    assert "".join(event.data.text for event in rig.of("assistant/message")) == huge
    async with unchanged(rig):
        await rig.agent.hydrate()


async def test_a_long_history_is_taken_over_as_a_short_one_is(rig):
    rig.provider.past = [e for n in range(600) for e in turn(n, f"prompt {n}", said(f"answer {n}", f"m{n}"))]
    assert (await rig.agent.hydrate()).added == 1_200
    assert rig.agent.session.state.last_turn == 600
    async with unchanged(rig):
        assert (await rig.agent.hydrate()).known == 1_200


async def test_a_summary_that_the_provider_has_is_not_handed_to_it(rig, host):
    rig.provider.past = turn(1, "go", Compaction(phase="start"), Compaction(phase="end", summary="what was said"))
    await rig.agent.hydrate()
    await rig.handle.dispose()
    rig.handle = await host.agents.resume(rig.agent.id, owner=host.scope)
    await rig.agent.run("on")
    assert [message.content[0].text for message in rig.session.requests[-1].messages] == ["on"]


# --- failure ------------------------------------------------------------------------------


class Breaking(ScriptedSession):
    """Its history breaks in the middle as long as it is told to."""

    broken = True

    async def history(self):
        for count, event in enumerate(self.provider.past):
            if self.broken and count == 2:
                raise ProviderError("the file is gone")
            yield event


@pytest.mark.behaviour("P-238")
async def test_a_replay_that_fails_changes_nothing_and_one_that_works_later_replaces_all(rig, host):
    rig.provider.session_type = Breaking
    await rig.agent.reopen()
    await talk(rig, "first", "one", "1")
    rig.provider.past = turn(1, "first, as the provider knows it", said("one!", "m1"))
    async with unchanged(rig):
        with pytest.raises(ProviderError, match="the file is gone"):
            await rig.agent.hydrate()
        with pytest.raises(ProviderError, match="the file is gone"):
            await rig.agent.reopen(rehydrate=True)
    assert any("the file is gone" in row.text for row in host.diagnostics.recent)
    Breaking.broken = False
    try:
        await rig.agent.reopen(rehydrate=True)
    finally:
        Breaking.broken = True
    (recast,) = rig.of("session/recast")
    behind = [row for event, row in zip(rig.of("user/message"), rows(rig), strict=False) if event.seq > recast.seq]
    assert len(behind) == 1
    assert rows(rig)[-2:] == [("user", "first, as the provider knows it"), ("message", "one!")]


async def test_an_empty_replay_changes_nothing_and_is_reported(rig, host):
    await talk(rig, "first", "one", "1")
    rig.provider.past = []
    async with unchanged(rig):
        assert (await rig.agent.hydrate()).found == 0
        with pytest.raises(AgentError, match="is empty"):
            await rig.agent.reopen(rehydrate=True)
    assert [row.code for row in host.diagnostics.recent].count("history_empty") == 2


async def test_an_empty_replay_of_a_new_conversation_is_nothing_to_report(rig, host):
    assert (await rig.agent.hydrate()).found == 0
    assert [row.code for row in host.diagnostics.recent if row.code == "history_empty"] == []


async def test_what_the_log_does_not_take_is_skipped_and_reported(rig, host):
    deep: object = "x"
    for _ in range(300):
        deep = [deep]
    rig.provider.past = turn(1, "go", ToolFinished(call_id="c", name="Odd", input=deep), said("on", "m"))
    done = await rig.agent.hydrate()
    assert done.refused == 1
    assert rows(rig) == [("user", "go"), ("message", "on")]
    assert "event_refused" in [row.code for row in host.diagnostics.recent]
    assert rig.reasons() == ["completed"]


async def test_a_provider_that_keeps_no_history_says_so(rig):
    rig.provider.capabilities -= {Capability.HISTORY}
    rig.agent._driver.connection.spec = rig.provider.spec
    with pytest.raises(AgentError, match="keeps no history"):
        await rig.agent.hydrate()


# --- after a crash ------------------------------------------------------------------------


def crashed(host) -> Session:
    """A log as recovery leaves it: an answer without its end, a call without a result, a prompt nobody acknowledged."""
    log = Session(host.sessions.new_header(), host.sessions.vocabulary)
    log.append("provider/session", v.ProviderSessionId("native-1"))
    log.append("turn/start", v.TurnStart(1, v.Trigger("message")))
    message = v.Message("ours", (v.Text("go"),), v.UserSource())
    log.append("user/message", v.UserMessage(message), surface="append")
    log.append("step/start", v.StepStart(1, 1))
    log.append("tool/call", v.ToolCall(1, 1, "c", "Bash", {}, UnknownDetail({})))
    log.append("assistant/message", v.AssistantMessage(1, 1, "Once", "m1"))
    last = v.AssistantMessage(1, 1, "", "m1", final=True, interrupted=True)
    log.append("assistant/message", last, surface="append")
    lost = v.ToolResult(1, 1, "c", "unknown", UnknownDetail({}))
    log.append("tool/result", lost, surface="append")
    log.append("step/end", v.StepEnd(1, 1))
    log.append("turn/end", v.TurnEnd(1, v.Reason("interrupted")))
    return log


PAST = turn(
    1,
    "go",
    ToolStarted(call_id="c", name="Bash"),
    said("Once upon a time", "m1"),
    ToolFinished(call_id="c", name="Bash", output="done"),
    said("The end", "m2"),
)


async def test_what_a_crash_cut_off_is_told_to_the_rows_that_lack_it(rig, host):
    await rig.create(seed=crashed(host).tail)
    rig.provider.past = PAST
    done = await rig.agent.hydrate()
    assert (done.known, done.completed, done.added) == (3, 3, 1)
    (told,) = rig.of("user/acknowledged")
    assert (told.data.message_id, told.data.provider_message_id) == ("ours", "u1")
    (settled,) = rig.of("tool/settled")
    assert (settled.data.status, settled.data.output) == ("completed", "done")
    texts = [(event.data.message_id, event.data.text) for event in rig.of("assistant/message") if event.data.text]
    assert texts == [("m1", "Once"), ("m1", " upon a time"), ("m2", "The end")]
    async with unchanged(rig):
        await rig.agent.hydrate()


async def test_a_call_that_was_settled_by_the_history_is_not_settled_again(rig):
    rig.session.emit(TurnStarted(turn_id="x"), ToolStarted(call_id="c", name="Bash", turn_id="x"))
    rig.session.end(turn="x")
    await rig.logged("turn/end")
    await rig.agent.when_idle()
    rig.provider.past = [TurnStarted(turn_id="x"), ToolFinished(call_id="c", name="Bash"), TurnCompleted(turn_id="x")]
    await rig.agent.hydrate()
    rig.session.emit(ToolFinished(call_id="c", name="Bash"))
    await rig.settle()
    assert len(rig.of("tool/settled")) == 1


# --- a new line ---------------------------------------------------------------------------


@pytest.mark.behaviour("P-063")
async def test_a_rehydrate_begins_a_new_line_with_the_providers_history_and_the_log_keeps_the_old_one(rig, host):
    await talk(rig, "first", "one", "1")
    old, epoch = rows(rig), rig.agent.session.epoch
    rig.provider.past = turn(1, "first", said("one", "m1"))
    await rig.agent.reopen(rehydrate=True)
    (recast,) = rig.of("session/recast")
    assert (recast.data.reason, recast.data.keep_before) == ("rehydrate", 0)
    assert rig.agent.session.epoch == recast.data.epoch != epoch
    assert rows(rig) == old + old
    stored = await host.sessions.store.read_from(rig.agent.id, types=["session/recast"])
    assert [event.seq for event in stored] == [recast.seq]
    await rig.agent.session.load_history()
    assert len(rig.agent.session.derive_messages()) == 2  # the model is shown the new line only


@pytest.mark.behaviour("P-052")
async def test_a_reload_keeps_line_and_epoch_and_a_hydration_after_it_adds_nothing(rig):
    await talk(rig, "first", "one", "1")
    rig.provider.past = turn(1, "first", said("one", "m1"))
    epoch = rig.agent.session.epoch
    await rig.agent.reopen()
    async with unchanged(rig):
        assert (await rig.agent.hydrate()).added == 0
    assert rig.agent.session.epoch == epoch


def child(ident: str, call: str) -> list:
    return [
        ToolStarted(call_id=call, name="Task"),
        SubAgent(action="upsert", child_id=ident, call_id=call, title=ident),
        SubAgent(action="item", child_id=ident, item=TextDelta(text="I work")),
        SubAgent(action="upsert", child_id=ident, status="completed"),
        ToolFinished(call_id=call, name="Task"),
    ]


@pytest.mark.behaviour("P-066")
async def test_sub_agents_are_cleared_before_a_rehydrate_and_those_of_the_history_are_restored(rig):
    rig.provider.past = turn(1, "go", *child("kept", "c1"), *child("lost", "c2"))
    await rig.agent.hydrate()
    heard = []
    rig.agent.session.observe(lambda event: heard.append((event.type, event.data.child_id))
                              if event.type.startswith("subagent/") else None)  # fmt: skip
    rig.provider.past = turn(1, "go", *child("kept", "c1"))
    await rig.agent.reopen(rehydrate=True)
    (recast,) = rig.of("session/recast")
    removed = list(rig.of("subagent/removed"))
    assert {event.data.child_id for event in removed} == {"kept", "lost"}
    assert all(event.seq < recast.seq for event in removed)
    behind = [event for event in rig.of("subagent/upserted", "subagent/item") if event.seq > recast.seq]
    assert {event.data.child_id for event in behind} == {"kept"}
    assert [event.data.status for event in behind if event.type == "subagent/upserted"][-1] == "completed"
    assert heard[-3:] == [("subagent/upserted", "kept"), ("subagent/item", "kept"), ("subagent/upserted", "kept")]


async def test_a_sub_agent_that_is_known_is_not_told_again_and_one_that_is_not_is(rig):
    rig.provider.past = turn(1, "go", *child("a", "c1"))
    await rig.agent.hydrate()
    before = len(rig.of("subagent/"))
    async with unchanged(rig):
        await rig.agent.hydrate()
    rig.provider.past = turn(1, "go", *child("a", "c1"), SubAgent(action="upsert", child_id="b", call_id="c1"))
    await rig.agent.hydrate()
    assert [event.data.child_id for event in rig.of("subagent/")[before:]] == ["b"]
