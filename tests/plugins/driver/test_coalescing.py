"""The window inside an agent: rows of the log, on a clock that jumps."""

from __future__ import annotations

import anyio
import pytest

from greenroom import Host, hookimpl, load_settings
from greenroom.providers import (
    MessageDone,
    ReasoningDelta,
    ShellDetail,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFailed,
    TurnStarted,
)
from greenroom_driver import WINDOW, DriverFactory
from greenroom_testing import ScriptedPlugin, ScriptedProvider, accept

from .jumping import JUMPING
from .rig import Rig, plain_driver

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[JUMPING], ids=["trio"])
def anyio_backend(request):
    return request.param


@pytest.fixture
def driver_plugin():
    return plain_driver()


def thought(text: str, turn: str) -> ReasoningDelta:
    return ReasoningDelta(text=text, message_id="r", turn_id=turn)


def running(call: str, output: str, turn: str) -> ToolProgress:
    return ToolProgress(call_id=call, name="sh", turn_id=turn, detail=ShellDetail(command="make", output=output))


def started(call: str, turn: str) -> ToolStarted:
    return ToolStarted(call_id=call, name="sh", turn_id=turn, detail=ShellDetail(command="make"))


def finished(call: str, turn: str) -> ToolFinished:
    return ToolFinished(call_id=call, name="sh", turn_id=turn, detail=ShellDetail(command="make", output="done"))


def rows(rig) -> list:
    return [
        (event.type, getattr(event.data, "text", None) or event.data.call_id)
        for event in rig.of("assistant/", "tool/")
        if getattr(event.data, "text", "x")
    ]


@pytest.mark.behaviour("P-276")
async def test_a_burst_of_text_gives_no_row_before_the_window_ends_and_one_after(rig, turn):
    for piece in "abc":
        rig.session.say(piece)
    await anyio.sleep(WINDOW - 0.001)
    assert rows(rig) == []
    await anyio.sleep(0.002)
    assert rows(rig) == [("assistant/message", "abc")]


@pytest.mark.behaviour("P-277")
async def test_a_burst_of_reasoning_gives_no_row_before_the_window_ends_and_one_after(rig, turn):
    rig.session.emit(*(thought(piece, turn) for piece in "abc"))
    await anyio.sleep(WINDOW - 0.001)
    assert rows(rig) == []
    await anyio.sleep(0.002)
    assert rows(rig) == [("assistant/reasoning", "abc")]


@pytest.mark.behaviour("P-278")
async def test_a_running_call_does_not_flush_the_text_before_it(rig, turn):
    rig.session.say("a")
    rig.session.emit(running("c", "1", turn))
    await anyio.sleep(WINDOW / 2)
    assert rows(rig) == []
    await anyio.sleep(WINDOW)
    assert rows(rig) == [("assistant/message", "a"), ("tool/call", "c")]


@pytest.mark.behaviour("P-279")
async def test_of_two_hundred_states_in_a_window_the_last_is_stored(rig, turn):
    rig.session.emit(started("c", turn))
    await anyio.sleep(2 * WINDOW)
    rig.session.emit(*(running("c", str(n), turn) for n in range(200)))
    await anyio.sleep(2 * WINDOW)
    assert [event.data.detail.output for event in rig.of("tool/update")] == ["199"]


@pytest.mark.behaviour("P-280")
async def test_interleaved_calls_keep_apart_in_the_order_of_their_first_states(rig, turn):
    rig.session.emit(running("x", "1", turn), running("y", "1", turn), running("x", "2", turn), running("y", "2", turn))
    await anyio.sleep(2 * WINDOW)
    assert [(event.data.call_id, event.data.detail.output) for event in rig.of("tool/call")] == [("x", "2"), ("y", "2")]


@pytest.mark.behaviour("P-281")
async def test_a_terminal_state_is_stored_at_once_with_the_text_before_it_and_nothing_more_later(rig, turn):
    rig.session.emit(started("c", turn))
    rig.session.say("a")
    rig.session.emit(finished("c", turn))
    await rig.logged("tool/result")
    expected = [("tool/call", "c"), ("assistant/message", "a"), ("tool/result", "c")]
    assert rows(rig) == expected
    await anyio.sleep(5 * WINDOW)
    assert rows(rig) == expected


@pytest.mark.behaviour("P-282")
async def test_text_and_calls_are_stored_in_their_order(rig, turn):
    rig.session.say("a")
    rig.session.emit(started("x", turn))
    rig.session.say("b")
    rig.session.emit(started("y", turn))
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [
        ("assistant/message", "a"),
        ("tool/call", "x"),
        ("assistant/message", "b"),
        ("tool/call", "y"),
    ]


@pytest.mark.behaviour("P-283", "P-284")
async def test_ten_alternating_chunks_are_ten_rows(rig, turn):
    for n in range(5):
        rig.session.say(f"t{n}")
        rig.session.emit(thought(f"r{n}", turn))
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [
        row for n in range(5) for row in (("assistant/message", f"t{n}"), ("assistant/reasoning", f"r{n}"))
    ]


@pytest.mark.behaviour("P-285")
async def test_two_agents_do_not_mix(rig, turn):
    other = Rig(rig.host, rig.provider)
    mine = rig.session
    await other.create()
    other.agent.followup("go")
    await other.logged("turn/accepted")
    mine.say("a")
    other.session.say("b")
    mine.say("c")
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [("assistant/message", "ac")]
    assert rows(other) == [("assistant/message", "b")]


@pytest.mark.behaviour("P-286")
async def test_another_provider_session_breaks_the_merge_and_the_log_names_the_provider():
    one, two = ScriptedProvider("one"), ScriptedProvider("two")
    plugins = {"driver": plain_driver(), "providers": ScriptedPlugin(one, two)}
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        rig = Rig(host, one)
        one.starting = accept
        await rig.create(options={"provider": "one"})
        rig.agent.followup("go")
        await rig.logged("turn/accepted")
        rig.session.say("a")
        await rig.handle.dispose()
        agent = (await host.agents.resume(rig.agent.id, _options("two"), owner=host.scope)).agent
        two.session.emit(TurnStarted(turn_id="x"), TextDelta(text="b", message_id="m", turn_id="x"))
        await anyio.sleep(2 * WINDOW)
        said = [
            (e.type, getattr(e.data, "text", None) or getattr(e.data, "provider", None)) for e in agent.session.tail
        ]
        wanted = [item for item in said if item[0] in {"assistant/message", "request/context"} and item[1]]
        assert wanted == [
            ("request/context", "one"),
            ("assistant/message", "a"),
            ("request/context", "two"),
            ("assistant/message", "b"),
        ]


def _options(provider: str):
    from greenroom.agents import AgentOptions

    return AgentOptions(provider=provider)


@pytest.mark.behaviour("P-287")
async def test_a_turn_breaks_the_merge_and_each_piece_carries_its_turn(rig, turn):
    rig.session.say("a")
    rig.session.emit(TurnStarted(turn_id="other"), TextDelta(text="b", message_id="m", turn_id="other"))
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [("assistant/message", "a"), ("assistant/message", "b")]
    steps = {event.data.step: event.data.provider_turn for event in rig.of("step/start")}
    assert [steps[event.data.step] for event in rig.of("assistant/message") if event.data.text] == [None, "other"]


@pytest.mark.behaviour("P-288")
async def test_empty_text_leaves_no_row_and_whitespace_is_kept_to_the_byte(rig, turn):
    for piece in ("", " ", "\n", "", "\t "):
        rig.session.say(piece)
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [("assistant/message", " \n\t ")]


@pytest.mark.behaviour("P-289")
async def test_pending_chunks_stand_before_the_end_of_the_turn_which_has_a_seq_of_its_own(rig, turn):
    rig.session.say("a")
    rig.session.end()
    ended = await rig.logged("turn/end")
    [piece] = [event for event in rig.of("assistant/message") if event.data.text]
    assert piece.seq < ended.seq
    assert piece.data.text == "a"
    assert len({event.seq for event in rig.events}) == len(rig.events)


@pytest.mark.behaviour("P-290")
@pytest.mark.parametrize("how", ["close", "reload", "delete"])
async def test_the_end_of_a_provider_session_flushes_once_and_leaves_no_timer(rig, turn, how):
    rig.session.say("a")
    if how == "reload":
        await rig.agent.reopen()
    else:
        await rig.handle.dispose()
    if how == "delete":
        stored = await rig.host.sessions.store.read_from(rig.agent.id)
        await rig.host.sessions.store.delete(rig.agent.id)
        assert [event.data.text for event in stored if event.type == "assistant/message" and event.data.text] == ["a"]
    assert rows(rig) == [("assistant/message", "a")]
    length = len(rig.agent.session)
    await anyio.sleep(5 * WINDOW)
    assert rows(rig) == [("assistant/message", "a")]
    assert len(rig.agent.session) == length


@pytest.mark.behaviour("P-291")
async def test_an_old_window_never_writes_into_the_successor_of_its_id(rig, turn):
    rig.session.say("old")
    await anyio.sleep(WINDOW / 2)
    await rig.handle.dispose()
    again = (await rig.host.agents.resume(rig.agent.id, owner=rig.host.scope)).agent
    await anyio.sleep(WINDOW / 10)
    length = len(again.session)
    await anyio.sleep(5 * WINDOW)
    assert len(again.session) == length
    assert rows(rig) == [("assistant/message", "old")]


@pytest.mark.behaviour("P-292")
async def test_a_push_while_a_flush_is_written_lands_later_and_once(rig, turn):
    rig.agent.session.observe(
        lambda event: rig.session.say("late") if event.type == "assistant/message" and event.data.text == "a" else None
    )
    rig.session.say("a")
    await rig.agent.flush()
    await rig.agent.flush()
    assert rows(rig) == [("assistant/message", "a"), ("assistant/message", "late")]
    await rig.agent.flush()
    await anyio.sleep(2 * WINDOW)
    assert rows(rig) == [("assistant/message", "a"), ("assistant/message", "late")]


@pytest.mark.behaviour("P-262", "P-293")
async def test_flushing_the_factory_drains_every_pending_agent_once_before_the_store_is_written():
    provider = ScriptedProvider()
    provider.starting = accept
    made = []

    class Plugin:
        @hookimpl
        def agent_factory(self, host):
            made.append(DriverFactory(host, leading=False))
            return made[0]

    plugins = {"driver": Plugin(), "scripted": ScriptedPlugin(provider)}
    async with Host(load_settings(), discovery=False, plugins=plugins) as host:
        rigs = [Rig(host, provider) for _ in range(3)]
        for number, rig in enumerate(rigs):
            await rig.create()
            rig.agent.followup("go")
            await rig.logged("turn/accepted")
            rig.session.say(f"piece {number}")
        await made[0].flush()
        await made[0].flush()
        for number, rig in enumerate(rigs):
            stored = await host.sessions.store.read_from(rig.agent.id)
            texts = [e.data.text for e in stored if e.type == "assistant/message"]
            assert texts == [f"piece {number}"]


@pytest.mark.behaviour("P-294")
async def test_hydration_passes_the_window_by(rig):
    rig.provider.past = [TextDelta(text=piece, message_id="m", turn_id="t") for piece in "abc"]
    before = anyio.current_time()
    await rig.agent.hydrate()
    assert anyio.current_time() == before
    assert rows(rig) == [("assistant/message", piece) for piece in "abc"]


@pytest.mark.behaviour("P-295")
async def test_a_foreground_reader_sees_the_merged_piece_then_the_end_and_then_nothing(rig):
    rig.provider.starting = accept
    stream = rig.agent.stream("go")
    await rig.logged("turn/accepted")
    for piece in "abc":
        rig.session.say(piece)
    await anyio.sleep(2 * WINDOW)
    rig.session.end()
    seen = [event async for event in stream]
    texts = [event.data.text for event in seen if event.type == "assistant/message" and event.data.text]
    assert texts == ["abc"]
    assert seen[-1].type == "turn/end"


@pytest.mark.behaviour("P-296")
async def test_each_merged_piece_is_one_row_and_one_event_in_row_order(rig, turn):
    heard = []
    rig.agent.session.observe(lambda event: heard.append(event.seq) if event.type.startswith("assistant/") else None)
    for n in range(3):
        for piece in "xyz":
            rig.session.say(piece, message_id=f"m{n}")
        rig.session.emit(MessageDone(message_id=f"m{n}"))
    await rig.settle()
    stored = rig.of("assistant/message")
    assert [event.data.text for event in stored] == ["xyz"] * 3
    assert [event.seq for event in stored] == heard == sorted(heard)


async def test_text_is_flushed_before_a_failure_too(rig, turn):
    rig.session.say("a")
    rig.session.emit(TurnFailed(turn_id=turn, error="no"))
    await rig.logged("turn/end")
    assert rows(rig) == [("assistant/message", "a")]
