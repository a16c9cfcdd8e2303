"""What closes a turn that a crash left open."""

from __future__ import annotations

import msgspec
import pytest

from greenroom.providers import ShellDetail
from greenroom.sessions import (
    Invariants,
    MemoryStore,
    Replace,
    Session,
    SessionNotLive,
    SessionOwned,
    closers,
    derive_messages,
    inspect_session,
    resume_session,
)
from greenroom.sessions.vocabulary import (
    AssistantReasoning,
    CompactionStart,
    InboxSpliced,
    Notice,
    Reason,
    RequestHeader,
    ToolRequest,
    ToolUpdate,
)
from greenroom_session_invariants import session_log


def unfinished(session) -> list:
    return [event for event in session.tail if event.seq >= session.state.turn_start]


def types(found) -> list[str]:
    return [closer.type for closer in found]


def close(session, found) -> None:
    for closer in found:
        session.append(closer.type, closer.data, surface=closer.surface, sources=closer.sources)


@pytest.mark.behaviour("D-143")
def test_a_balanced_or_empty_log_needs_nothing(session, script):
    assert closers([], session.state) == []
    script.whole_turn()
    assert closers(unfinished(session), session.state) == []


@pytest.mark.behaviour("D-144")
def test_an_open_turn_ends_as_interrupted_and_its_open_step_first(session, script):
    script.turn()
    (end,) = closers(unfinished(session), session.state)
    assert end.data.reason == Reason("interrupted")
    script.step()
    assert types(closers(unfinished(session), session.state)) == ["step/end", "turn/end"]


@pytest.mark.behaviour("D-145", "D-617")
def test_a_request_that_was_never_started_is_canceled_and_says_so(session, script):
    script.turn()
    script.step()
    script.say(requests=[ToolRequest("t1", "Bash", {"command": "ls"})])
    result, *_ = closers(unfinished(session), session.state)
    assert (result.type, result.data.call_id, result.data.status) == ("tool/result", "t1", "canceled")
    assert "not started" in result.data.output
    assert result.sources is None


@pytest.mark.behaviour("D-149", "D-150", "D-618")
def test_a_call_without_a_result_is_unknown_has_a_marker_and_cites_the_call(session, script):
    script.turn()
    script.step()
    call = script.call("t1")
    session.append("tool/update", ToolUpdate("t1", ShellDetail("ls", output="half")))
    result, *_ = closers(unfinished(session), session.state)
    assert (result.data.status, result.surface, result.sources) == ("unknown", "append", (call.seq,))
    assert result.data.detail == ShellDetail("ls", output="half")
    assert "unknown" in result.data.output


@pytest.mark.behaviour("D-146")
def test_answered_calls_and_calls_of_closed_steps_get_nothing(session, script):
    script.turn()
    script.step()
    script.call("left open in a closed step")
    script.end_step()
    script.step()
    script.call("t2")
    script.result("t2")
    assert types(closers(unfinished(session), session.state)) == ["step/end", "turn/end"]


@pytest.mark.behaviour("D-147")
def test_only_the_turn_that_is_open_is_closed(session, script):
    script.turn()
    script.step()
    script.call("t1")
    script.end_step()
    script.end()
    script.turn()
    found = closers(unfinished(session), session.state)
    assert types(found) == ["turn/end"]
    assert found[0].data.turn == 2


@pytest.mark.behaviour("D-148")
def test_unanswered_calls_are_closed_in_the_order_of_the_log(session, script):
    script.turn()
    script.step()
    script.say(requests=[ToolRequest(f"t{i}", "Bash", {}) for i in (3, 1, 2)])
    script.call("t1")
    script.call("t9")
    found = closers(unfinished(session), session.state)
    assert [(one.data.call_id, one.data.status) for one in found[:-2]] == [
        ("t3", "canceled"),
        ("t1", "unknown"),
        ("t2", "canceled"),
        ("t9", "unknown"),
    ]


def test_everything_is_closed_in_the_order_of_the_lifecycle(session, script):
    for name in ("a", "b", "c"):
        waiting = script.message(name, name)
        session.append("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(waiting,)))
    script.turn()
    session.append("inbox/spliced", InboxSpliced("next-turn", 0, removed=2))
    script.user("c entered", "c")
    session.append("compaction/start", CompactionStart("auto"))
    script.step()
    script.piece("half an answer", "m1")
    session.append("assistant/reasoning", AssistantReasoning(1, 1, "hm", "m2"))
    script.call("t1")
    found = closers(unfinished(session), session.state)
    assert types(found) == [
        "assistant/message",
        "assistant/reasoning",
        "tool/result",
        "step/end",
        "compaction/end",
        "inbox/spliced",
        "turn/end",
    ]
    assert found[0].data.interrupted
    assert found[0].data.final
    assert found[4].data.error
    splice = found[5].data
    assert (splice.target, splice.start) == ("next-turn", 0)
    assert [message.id for message in splice.inserted] == ["b"]
    close(session, found)
    assert [message.id for message in session.state.inbox.next_turn] == ["b", "a"]


def test_a_claimed_message_that_is_pending_again_is_not_put_back_twice(session, script):
    message = script.message("x", "x")
    session.append("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message,)))
    script.turn()
    session.append("inbox/spliced", InboxSpliced("next-step", 0, removed=1))
    session.append("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(message,)))
    assert types(closers(unfinished(session), session.state)) == ["turn/end"]


def test_a_message_that_was_canceled_inside_the_turn_is_not_put_back(session, script):
    session.append("inbox/spliced", InboxSpliced("next-step", 0, inserted=(script.message("x", "x"),)))
    script.turn()
    session.append("inbox/spliced", InboxSpliced("next-step", 0, removed=1, outcome="canceled"))
    assert types(closers(unfinished(session), session.state)) == ["turn/end"]


def test_a_crash_in_the_middle_of_the_closers_leaves_only_the_rest_to_do(header, vocabulary, scripted):
    def broken() -> Session:
        session = Session(header, vocabulary)
        script = scripted(session)
        session.append("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(script.message("a", "a"),)))
        script.turn()
        session.append("inbox/spliced", InboxSpliced("next-turn", 0, removed=1))
        script.step()
        script.piece("half")
        script.call("t1")
        script.call("t2")
        return session

    whole = broken()
    expected = closers(unfinished(whole), whole.state)
    assert expected == closers(unfinished(whole), whole.state)
    for done in range(len(expected) + 1):
        session = broken()
        close(session, expected[:done])
        assert closers(unfinished(session), session.state) == expected[done:]


@pytest.mark.parametrize("point", range(1, 30))
def test_a_log_cut_anywhere_is_closed_to_what_the_companion_accepts(header, vocabulary, scripted, point):
    invariants = Invariants()
    invariants.register("session-invariants", [session_log()])
    session = Session(header, vocabulary, validators=[invariants.validator(header, vocabulary)])
    script = scripted(session)
    session.append("request/header", RequestHeader("initial", reveals_steps=True))
    script.whole_turn()
    script.turn()
    session.append("compaction/start", CompactionStart("auto"))
    script.user("x", "u9")
    script.step()
    script.piece("a", "m9")
    script.say("b", "m9", [ToolRequest("x1", "Bash", {}), ToolRequest("x2", "Bash", {})])
    script.call("x1")
    script.result("x1")
    script.call("x2")
    script.piece("more", "m10")
    events = session.tail[:point]
    again = Session(header, vocabulary, validators=[invariants.validator(header, vocabulary)])
    for event in events:
        again.append(event.type, event.data, surface=event.surface, sources=event.sources)
    close(again, closers(unfinished(again), again.state))
    assert again.state.open_turn is None
    assert again.state.open_step is None
    assert again.tail[: len(events)] == tuple(
        msgspec.structs.replace(event, time=mine.time) for event, mine in zip(events, again.tail, strict=False)
    )


# with a store


@pytest.fixture
async def crashed(registry, store, scripted):
    """A medium with a session whose owner was killed inside a turn."""
    session = (await registry.create(registry.new_header("s"))).session
    script = scripted(session)
    script.whole_turn()
    script.turn()
    script.user("x", "u9")
    script.step()
    script.call("t9")
    await session.flush()
    session.append("notice", Notice("info", "never flushed"))
    store.kill()
    return store


def revived(store: MemoryStore) -> MemoryStore:
    return MemoryStore(store._medium)


@pytest.mark.anyio
@pytest.mark.behaviour("D-616", "D-645")
async def test_an_interrupted_turn_is_preserved_and_closed_on_resume(crashed, vocabulary, ports):
    before = list(crashed._medium.sessions["s"].events)
    session = await resume_session(revived(crashed), "s", vocabulary, ports=ports)
    events = await session.events()
    assert events[: len(before)] == before
    assert [event.type for event in events[len(before) :]] == [
        "session/recast", "tool/result", "step/end", "turn/end",
    ]  # fmt: skip
    assert session.append("notice", Notice("info", "goes on")).seq == len(events)
    await session.load_history()
    assert session.derive_messages() == derive_messages(await session.events())


@pytest.mark.anyio
async def test_a_lease_that_was_taken_over_starts_a_new_epoch_before_anything_else(crashed, vocabulary, ports):
    stored = len(crashed._medium.sessions["s"].events)
    session = await resume_session(revived(crashed), "s", vocabulary, ports=ports)
    recast = (await session.events(stored))[0]
    assert (recast.seq, recast.type) == (stored, "session/recast")
    assert (recast.data.reason, recast.data.keep_before) == ("repair", stored)
    assert session.epoch == recast.data.epoch != session.header.epoch


@pytest.mark.anyio
async def test_a_clean_release_recasts_nothing_and_writes_nothing(registry, store, vocabulary, scripted):
    entered = await registry.create(registry.new_header("s"))
    scripted(entered.session).whole_turn()
    await entered.close()
    length, epoch = len(entered.session), entered.session.epoch
    session = await resume_session(store, "s", vocabulary)
    assert (len(session), session.epoch) == (length, epoch)


@pytest.mark.anyio
async def test_closers_are_stamped_with_the_time_of_the_last_event(crashed, vocabulary, ports):
    stored = crashed._medium.sessions["s"].events
    last = stored[-1]
    session = await resume_session(revived(crashed), "s", vocabulary, ports=ports)
    assert {event.time for event in session.tail[-3:]} == {last.time}


@pytest.mark.anyio
@pytest.mark.behaviour("D-655")
async def test_looking_at_a_session_leaves_its_turn_open_and_recovery_is_committed_once(crashed, vocabulary, ports):
    store = revived(crashed)
    stored = list(store._medium.sessions["s"].events)
    seen = await inspect_session(store, "s", vocabulary)
    assert seen.state.open_turn == 2
    assert store._medium.sessions["s"].events == stored
    with pytest.raises(SessionNotLive):
        seen.append("notice", Notice("info", "x"))
    first = await resume_session(store, "s", vocabulary, ports=ports)
    await first.lease.release()
    second = await resume_session(store, "s", vocabulary, ports=ports)
    assert len(second) == len(first)


@pytest.mark.anyio
@pytest.mark.behaviour("D-625", "D-634")
async def test_a_live_owners_turn_is_never_closed(registry, store, vocabulary, scripted):
    session = (await registry.create(registry.new_header("s"))).session
    scripted(session).turn()
    await session.flush()
    other = revived(store)
    with pytest.raises(SessionOwned, match="owned by"):
        await resume_session(other, "s", vocabulary)
    assert session.state.open_turn == 1
    assert len(await store.read_from("s")) == 1


@pytest.mark.anyio
async def test_a_dead_owners_process_is_ended_before_closers_are_written(registry, store, vocabulary, scripted):
    from greenroom.sessions import ProcessNotEnded, ProviderProcess

    session = (await registry.create(registry.new_header("s"))).session
    scripted(session).turn()
    await session.flush()
    await session.lease.set_process(ProviderProcess(4711, 5.0))
    store.kill()
    other, seen = revived(store), []

    async def refuses(dead):
        seen.append(dead)
        raise ProcessNotEnded("4711 does not end", session_id="s")

    with pytest.raises(ProcessNotEnded):
        await resume_session(other, "s", vocabulary, end_process=refuses)
    assert len(other._medium.sessions["s"].events) == 1
    assert (seen[0].process.pid, seen[0].marker) == (4711, "s:1")

    async def ends(dead):
        assert len(other._medium.sessions["s"].events) == 1

    again = await resume_session(other, "s", vocabulary, end_process=ends)
    assert again.state.open_turn is None
    assert (await other.entry("s")).process is None


@pytest.mark.anyio
async def test_a_failed_resume_gives_the_lease_back(store, registry, vocabulary, scripted):
    from greenroom.sessions import UnreadableSession

    entered = await registry.create(registry.new_header("s"))
    scripted(entered.session).whole_turn()
    await entered.close()
    events = store._medium.sessions["s"].events
    events.append(msgspec.structs.replace(events[0], seq=len(events), type="gone/fact", raw=b"{}"))
    with pytest.raises(UnreadableSession, match="gone/fact") as caught:
        await resume_session(store, "s", vocabulary)
    assert "install or enable: gone" in caught.value.hint
    assert (await store.entry("s")).owner is None


@pytest.mark.anyio
@pytest.mark.parametrize("type_name", ["turn/end", "step/start"])
async def test_a_payload_that_does_not_fit_its_type_refuses_the_session(
    store, registry, vocabulary, scripted, type_name
):
    from greenroom.sessions import UnreadableSession

    entered = await registry.create(registry.new_header("s"))
    scripted(entered.session).turn()
    await entered.close()
    events = store._medium.sessions["s"].events
    events.append(msgspec.structs.replace(events[0], seq=len(events), type=type_name, raw=b'{"turn":"x"}'))
    with pytest.raises(UnreadableSession, match=f"is no {type_name}"):
        await resume_session(store, "s", vocabulary)
    assert (await store.entry("s")).owner is None


@pytest.mark.anyio
async def test_an_unknown_ignorable_type_is_skipped_on_resume(store, registry, vocabulary, scripted):
    entered = await registry.create(registry.new_header("s"))
    scripted(entered.session).whole_turn()
    await entered.close()
    events = store._medium.sessions["s"].events
    events.append(msgspec.structs.replace(events[0], seq=len(events), type="gone/note", raw=b"{}", ignorable=True))
    session = await resume_session(store, "s", vocabulary)
    assert session.tail[-1].type == "gone/note"


@pytest.mark.anyio
async def test_free_events_behind_an_unclosed_turn_stay_and_closers_go_behind_the_last_event(
    registry, store, vocabulary, scripted
):
    session = (await registry.create(registry.new_header("s"))).session
    scripted(session).turn()
    note = session.append("notice", Notice("info", "x"))
    await session.flush()
    store.kill()
    again = await resume_session(revived(store), "s", vocabulary)
    assert (await again.events(note.seq))[0] == note
    assert again.tail[-1].type == "turn/end"


def test_a_rewritten_result_is_no_answer_to_a_call(session, script):
    script.turn()
    script.step()
    script.call("t1")
    seq = script.result("t1").seq
    script.call("t2")
    script.result("t1", "short", surface=Replace((seq, seq)))
    assert [one.data.call_id for one in closers(unfinished(session), session.state) if one.type == "tool/result"] == [
        "t2"
    ]
