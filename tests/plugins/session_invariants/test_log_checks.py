"""The companion: which events of a session are refused, and where."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from greenroom.providers import ShellDetail
from greenroom.sessions import (
    Event,
    EventType,
    Header,
    Invariants,
    InvariantsViolated,
    Message,
    Ports,
    Replace,
    Session,
    Violation,
    Vocabulary,
)
from greenroom.sessions.vocabulary import (
    CORE_TYPES,
    OUTSIDE_WHEN_STRICT,
    AgentConfig,
    AssistantMessage,
    AssistantReasoning,
    CompactionEnd,
    CompactionStart,
    ContextMessage,
    InboxSpliced,
    Notice,
    PermissionAllow,
    PermissionAnswered,
    PermissionAsked,
    PermissionRequest,
    ProviderSessionId,
    RawMessage,
    Reason,
    RequestContext,
    RequestHeader,
    SeedEnd,
    SessionRecast,
    SteeringMessage,
    StepEnd,
    StepStart,
    SubagentItem,
    SubagentRemoved,
    SubagentUpserted,
    Text,
    TodoWrite,
    ToolCall,
    ToolRequest,
    ToolResult,
    ToolSettled,
    ToolUpdate,
    Trigger,
    TurnAccepted,
    TurnEnd,
    TurnStart,
    Usage,
    UsageUpdated,
    UserAcknowledged,
    UserMessage,
    UserSource,
)
from greenroom_session_invariants import check, session_log
from greenroom_session_invariants._trace import start

LS = ShellDetail("ls")


def message(id: str = "u") -> Message:
    return Message(id, (Text("x"),), UserSource())


SAMPLES = {
    "turn/start": TurnStart(1, Trigger("message")),
    "turn/accepted": TurnAccepted(1, "p1"),
    "turn/end": TurnEnd(1, Reason("completed")),
    "step/start": StepStart(1, 1),
    "step/end": StepEnd(1, 1),
    "user/message": UserMessage(message()),
    "context/message": ContextMessage(message()),
    "steering/message": SteeringMessage(message()),
    "user/acknowledged": UserAcknowledged("u", "p"),
    "request/header": RequestHeader("initial", reveals_steps=True),
    "request/context": RequestContext("p", "m"),
    "assistant/message": AssistantMessage(1, 1, "x", "m", final=True),
    "assistant/reasoning": AssistantReasoning(1, 1, "x"),
    "tool/call": ToolCall(1, 1, "t1", "Bash", {}, LS),
    "tool/update": ToolUpdate("t1", LS),
    "tool/result": ToolResult(1, 1, "t1", "completed", LS),
    "tool/settled": ToolSettled("old", "completed", LS),
    "todo/write": TodoWrite(()),
    "permission/asked": PermissionAsked(PermissionRequest("q", "Bash")),
    "permission/answered": PermissionAnswered("q", PermissionAllow(), "user"),
    "usage/updated": UsageUpdated(Usage(input_tokens=1)),
    "compaction/start": CompactionStart("auto"),
    "compaction/end": CompactionEnd("auto"),
    "notice": Notice("info", "x"),
    "provider/session": ProviderSessionId("n"),
    "agent/config": AgentConfig(model="m"),
    "inbox/spliced": InboxSpliced("next-turn", 0, inserted=(message(),)),
    "subagent/upserted": SubagentUpserted("c"),
    "subagent/item": SubagentItem("c", {}),
    "subagent/removed": SubagentRemoved("c"),
    "session/recast": SessionRecast("e2", "repair", 0),
    "session/seed-end": SeedEnd(),
    "raw": RawMessage("p", "k", {}),
}
VISIBLE = {kind.name for kind in CORE_TYPES if kind.surface}


class Writer:
    """A session under the companion, and a short way to append samples."""

    def __init__(self, enclosure: str = "declared", seed=None) -> None:
        ids = itertools.count(1)
        self.vocabulary = Vocabulary()
        self.invariants = Invariants()
        self.undo = self.invariants.register(
            "session-invariants", [session_log(enclosure=enclosure)], distribution="greenroom-session-invariants"
        )
        header = Header(id="s", epoch="e", created_at=0)
        self.checks = self.invariants.validator(header, self.vocabulary)
        ports = Ports(new_id=lambda: f"id-{next(ids)}")
        self.session = Session(header, self.vocabulary, seed=seed, validators=[self.checks], ports=ports)

    def __call__(self, name: str, data=None, **more) -> Event:
        data = SAMPLES[name] if data is None else data
        if name in VISIBLE and not (name == "assistant/message" and not data.final):
            more.setdefault("surface", "append")
        return self.session.append(name, data, **more)

    def all(self, *names) -> Writer:
        for name in names:
            self(*name) if isinstance(name, tuple) else self(name)
        return self

    @property
    def trace(self):
        return self.checks._slots[0].trace

    def refuses(self, name: str, data=None, why: str | None = None, **more) -> InvariantsViolated:
        before, trace = len(self.session), self.trace
        with pytest.raises(InvariantsViolated, match=why) as caught:
            self(name, data, **more)
        assert len(self.session) == before
        assert self.trace is trace
        return caught.value


@pytest.fixture
def log() -> Writer:
    return Writer()


@pytest.fixture
def step() -> Writer:
    """A log with an open turn and an open step."""
    return Writer().all("turn/start", "step/start")


def test_every_type_of_the_vocabulary_has_a_sample():
    assert set(SAMPLES) == {kind.name for kind in CORE_TYPES}


@pytest.mark.behaviour("D-152", "D-151")
def test_a_legal_sequence_of_turns_steps_and_tools_passes(log):
    for turn in (1, 2):
        log("turn/start", TurnStart(turn, Trigger("message")))
        log("user/message")
        for step in (1, 2):
            log("step/start", StepStart(turn, step))
            log("assistant/message", AssistantMessage(turn, step, "piece", "m"))
            call = f"t{turn}{step}"
            request = (ToolRequest(call, "Bash", {}),)
            log("assistant/message", AssistantMessage(turn, step, "last", "m", final=True, requests=request))
            log("tool/call", ToolCall(turn, step, call, "Bash", {}, LS))
            log("tool/update", ToolUpdate(call, LS))
            log("tool/result", ToolResult(turn, step, call, "completed", LS))
            log("step/end", StepEnd(turn, step))
        log("turn/end", TurnEnd(turn, Reason("completed")))
    assert len(log.session) == 34


@pytest.mark.behaviour("D-155")
def test_a_seq_that_does_not_increase_is_a_violation(log):
    trace = start(log.session.header, log.vocabulary, strict=False)
    first = Event(5, 0, "turn/start", b"")
    trace = check(trace, first, SAMPLES["turn/start"])
    for seq in (5, 4, 0):
        assert check(trace, Event(seq, 0, "step/start", b""), SAMPLES["step/start"]) == Violation(
            f"step/start: seq {seq} does not follow 5"
        )
    assert type(check(trace, Event(6, 0, "step/start", b""), SAMPLES["step/start"])) is type(trace)


# enclosure, from the table


@pytest.mark.behaviour("D-156")
@pytest.mark.parametrize("kind", [k for k in CORE_TYPES if k.enclosure in ("turn", "step")], ids=lambda k: k.name)
def test_a_type_that_belongs_into_a_turn_is_refused_outside_and_says_whose_check_it_is(log, kind):
    error = log.refuses(kind.name, why=f"{kind.name}: ")
    (violation,) = error.exceptions
    assert violation.distribution == "greenroom-session-invariants"
    assert violation.plugin == "session-invariants"


@pytest.mark.parametrize("kind", [k for k in CORE_TYPES if k.enclosure == "step"], ids=lambda k: k.name)
def test_a_type_that_belongs_into_a_step_is_refused_between_steps(log, kind):
    log("turn/start")
    log.refuses(kind.name, why="outside a step")


@pytest.mark.parametrize("kind", [k for k in CORE_TYPES if k.enclosure == "free"], ids=lambda k: k.name)
def test_a_free_type_may_stand_anywhere(kind):
    for opened in ((), ("turn/start",), ("turn/start", "step/start")):
        log = Writer().all(*opened)
        if kind.name == "permission/answered":
            log("permission/asked")
        log(kind.name)


@pytest.mark.behaviour("D-164")
@pytest.mark.parametrize("kind", CORE_TYPES, ids=lambda k: k.name)
def test_strict_refuses_everything_outside_a_turn_but_what_opens_one_and_pure_bookkeeping(kind):
    log = Writer("strict")
    if kind.name in OUTSIDE_WHEN_STRICT:
        log(kind.name)
    else:
        log.refuses(kind.name)
        log("turn/start")
        if kind.name == "permission/answered":
            log("permission/asked")
        if kind.enclosure == "free":
            log(kind.name)


class Memo(msgspec.Struct, frozen=True):
    text: str


@pytest.mark.behaviour("D-164")
@pytest.mark.parametrize("enclosure", ["turn", "step", "free"])
@pytest.mark.parametrize("switch", ["declared", "strict"])
def test_a_plugins_type_is_judged_by_the_enclosure_that_it_registered(enclosure, switch):
    log = Writer(switch)
    log.vocabulary.add(EventType("memo/note", Memo, enclosure=enclosure), "memo")
    if enclosure == "free" and switch == "declared":
        log("memo/note", Memo("x"))
    else:
        error = log.refuses("memo/note", Memo("x"), "outside a turn")
        assert error.exceptions[0].event_owner == "memo"
        assert "greenroom-session-invariants" in str(error)
        assert "an event of memo" in str(error)
    log("turn/start")
    if enclosure == "step":
        log.refuses("memo/note", Memo("x"), "outside a step")
        log("step/start")
    log("memo/note", Memo("x"))


# turns and steps


@pytest.mark.behaviour("D-156")
def test_turns_are_numbered_one_after_the_other_and_do_not_nest(log):
    log.refuses("turn/start", TurnStart(2, Trigger("message")), "turn 2 follows turn 0")
    log("turn/start")
    log.refuses("turn/start", TurnStart(2, Trigger("message")), "turn 1 is still open")
    log.refuses("turn/end", TurnEnd(2, Reason("completed")), "turn 2 is not open")
    log("turn/end")
    log.refuses("turn/end", why="turn 1 is not open")
    log.refuses("turn/start", why="turn 1 follows turn 1")
    log("turn/start", TurnStart(2, Trigger("message")))


@pytest.mark.behaviour("D-157")
def test_steps_are_numbered_from_one_in_each_turn_and_do_not_nest(log):
    log("turn/start")
    log.refuses("step/start", StepStart(1, 2), "step 2 follows step 0")
    log.refuses("step/start", StepStart(2, 1), "names turn 2")
    log("step/start")
    log.refuses("step/start", StepStart(1, 2), "step 1 is still open")
    log.refuses("step/end", StepEnd(1, 2), "step 2 is not open")
    log.refuses("turn/end", why="step 1 is still open")
    log.all("step/end", "turn/end", ("turn/start", TurnStart(2, Trigger("message"))))
    log("step/start", StepStart(2, 1))


@pytest.mark.behaviour("D-158")
@pytest.mark.parametrize("name", ["assistant/message", "assistant/reasoning", "tool/call", "tool/result"])
def test_what_names_a_step_must_name_the_open_one(step, name):
    for place in ({"turn": 2}, {"step": 2}):
        step.refuses(name, msgspec.structs.replace(SAMPLES[name], **place), "names (turn|step) 2")


# tool calls


@pytest.mark.behaviour("D-159")
def test_a_result_without_a_call_is_refused(step):
    step.refuses("tool/result", why="no unanswered call t1")
    step.refuses("tool/update", why="no call t1")


@pytest.mark.behaviour("D-160")
def test_a_rewritten_result_needs_an_open_turn_and_nothing_else(step):
    step("tool/call")
    seq = step("tool/result").seq
    where = Replace((seq, seq))
    short = msgspec.structs.replace(SAMPLES["tool/result"], output="short")
    step("step/end")
    seq = step("tool/result", short, surface=where).seq
    step("turn/end")
    step.refuses("tool/result", short, "outside a turn", surface=Replace((seq, seq)))
    step("turn/start", TurnStart(2, Trigger("message")))
    step("tool/result", short, surface=Replace((seq, seq)))


@pytest.mark.behaviour("D-161")
def test_a_result_for_a_request_that_never_started_and_open_calls_at_the_end_of_a_step_pass(step):
    asked = (ToolRequest("t1", "Bash", {}),)
    step("assistant/message", AssistantMessage(1, 1, "", "m", final=True, requests=asked))
    step("tool/result", ToolResult(1, 1, "t1", "canceled", LS, output="not started"))
    step("tool/call", ToolCall(1, 1, "t2", "Bash", {}, LS))
    step.all("step/end", "turn/end")


@pytest.mark.behaviour("D-162")
@pytest.mark.parametrize("reveals", [True, False])
def test_a_result_answers_its_own_step_where_steps_are_revealed_and_its_turn_elsewhere(reveals):
    log = Writer()
    log("request/header", RequestHeader("initial", reveals_steps=reveals))
    log.all("turn/start", "step/start", "tool/call", "step/end", ("step/start", StepStart(1, 2)))
    late = ToolResult(1, 2, "t1", "completed", LS)
    if reveals:
        log.refuses("tool/result", late, "is one of step 1")
    else:
        log("tool/result", late)


def test_a_result_cannot_answer_a_call_of_an_earlier_turn(step):
    step.all("tool/call", "step/end", "turn/end", ("turn/start", TurnStart(2, Trigger("message"))))
    step("step/start", StepStart(2, 1))
    step.refuses("tool/result", ToolResult(2, 1, "t1", "completed", LS), "no unanswered call")


def test_the_status_of_an_ended_call_stays(step):
    step.all("tool/call", "tool/result")
    step.refuses("tool/result", ToolResult(1, 1, "t1", "failed", LS, error="x"), "has ended as completed")
    step.refuses("tool/update", why="has ended as completed")
    step.refuses("tool/call", why="has a result already")
    step.refuses("tool/settled", ToolSettled("t1", "completed", LS), "has ended as completed")


def test_a_running_call_is_neither_started_again_nor_settled(step):
    step("tool/call")
    step.refuses("tool/call", why="runs already")
    step.refuses("tool/settled", ToolSettled("t1", "completed", LS), "has no result yet")


def test_a_call_that_was_closed_as_unknown_is_settled_once(step):
    step.all("tool/call", ("tool/result", ToolResult(1, 1, "t1", "unknown", LS)))
    step("tool/settled", ToolSettled("t1", "completed", LS))
    step.refuses("tool/settled", ToolSettled("t1", "completed", LS), "has ended as completed")
    step.all("step/end", "turn/end")
    step("tool/settled", ToolSettled("from long ago", "completed", LS))


def test_a_call_is_requested_once(step):
    asked = AssistantMessage(1, 1, "", "m", final=True, requests=(ToolRequest("t1", "Bash", {}),))
    step("assistant/message", asked)
    step.refuses("assistant/message", asked, "requested before")
    step("tool/call")


# questions


def test_questions_and_answers_pair_up(log):
    log.refuses("permission/answered", why="no open question q")
    log("permission/asked")
    log.refuses("permission/asked", why="open already")
    log("permission/answered")
    log.refuses("permission/answered", why="no open question q")
    log("permission/asked")


@pytest.mark.parametrize("end", [Reason("error", message="m", code="c"), Reason("aborted", cause="user")])
def test_a_question_that_names_a_turn_is_answered_before_that_turn_fails_or_is_canceled(log, end):
    question = PermissionAsked(PermissionRequest("q", "Bash"), 1)
    log.refuses("permission/asked", question, "turn 1, which is not open")
    log.all("turn/start", ("permission/asked", question))
    log("permission/asked", PermissionAsked(PermissionRequest("free", "Bash")))
    log.refuses("turn/end", TurnEnd(1, end), "questions q of this turn")
    log.all("permission/answered", ("turn/end", TurnEnd(1, end)))
    log("permission/answered", PermissionAnswered("free", PermissionAllow(), "user"))


def test_a_turn_that_recovery_closes_takes_its_questions_along(log):
    log.all("turn/start", ("permission/asked", PermissionAsked(PermissionRequest("q", "Bash"), 1)))
    log("turn/end", TurnEnd(1, Reason("interrupted")))
    log.refuses("permission/answered", why="no open question")


# inbox, compaction, recast


def test_a_splice_must_fit_the_inbox(log):
    log.refuses("inbox/spliced", InboxSpliced("next-turn", 0, removed=1), "outside the next-turn list of 0")
    log("inbox/spliced", InboxSpliced("next-turn", 0, inserted=(message("a"), message("b"))))
    log.refuses("inbox/spliced", InboxSpliced("next-turn", 3, inserted=(message("c"),)), "outside")
    log.refuses("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message("a"),)), "ids a are pending")
    log.refuses("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message("x"), message("x"))), "ids x")
    log.refuses("inbox/spliced", InboxSpliced("next-step", 0), "removes or inserts")
    log.refuses("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message("c"),), outcome="canceled"), "outcome")
    log("inbox/spliced", InboxSpliced("next-turn", 0, removed=1, inserted=(message("a"),), outcome="canceled"))
    log("inbox/spliced", InboxSpliced("next-turn", 1, removed=1))
    log("inbox/spliced", InboxSpliced("next-step", 0, inserted=(message("b"),)))
    assert log.session.state.inbox == log.trace.inbox


def test_a_compaction_lies_inside_one_turn(log):
    log("turn/start")
    log.refuses("compaction/end", why="no compaction is open")
    log("compaction/start")
    log.refuses("compaction/start", why="open already")
    log.refuses("turn/end", why="a compaction is still open")
    log.all("compaction/end", "turn/end")


def test_a_recast_does_not_keep_what_is_not_there_yet(log):
    log("notice")
    log.refuses("session/recast", SessionRecast("e", "rewind", 2), "keep_before 2 is in the future")
    log("session/recast", SessionRecast("e", "rewind", 1))


# vetoes, seeds, reload


@pytest.mark.behaviour("D-153")
def test_a_later_veto_does_not_advance_the_trace(step):
    from greenroom.sessions import Invariant

    before = step.trace
    undo = step.invariants.register("other", [Invariant("no", lambda trace, event, data: Violation("no"))])
    step.checks.replay(step.session.tail)
    assert step.trace == before
    with pytest.raises(InvariantsViolated):
        step("tool/call")
    assert step.trace == before
    undo()
    step("tool/call")
    step("tool/result")


@pytest.mark.behaviour("D-154")
def test_a_failing_observer_does_not_hold_the_trace_back(step):
    step.session.observe(lambda event: 1 / 0)
    step.all("tool/call", "tool/result")
    assert step.trace.closed == {"t1": "completed"}


@pytest.mark.behaviour("D-163")
def test_seeded_sessions_are_replayed_tracked_apart_and_rebuilt_on_a_reload(step):
    step("tool/call")
    one, two = Writer(seed=step.session.tail), Writer(seed=step.session.tail[:1])
    one("tool/result")
    two.refuses("tool/result", why="outside a step")
    assert two.trace.turn == one.trace.turn == 1
    rebuilt = one.trace
    one.undo()
    one.session.append("tool/result", SAMPLES["tool/result"], surface="append")  # nobody checks it now
    one.invariants.register("session-invariants", [session_log()])
    one.checks.replay(one.session.tail[:-1])
    assert one.trace == rebuilt


def test_a_log_that_breaks_the_rules_is_reported_event_by_event():
    bad = [
        Event(0, 0, "todo/write", msgspec.json.encode(SAMPLES["todo/write"])),
        Event(1, 0, "turn/start", msgspec.json.encode(SAMPLES["turn/start"])),
        Event(2, 0, "step/end", msgspec.json.encode(SAMPLES["step/end"])),
        Event(3, 0, "turn/end", msgspec.json.encode(SAMPLES["turn/end"])),
    ]
    found = Writer().checks.judge(bad)
    assert ["todo/write: stands outside a turn" in str(found[0]), "step 1 is not open" in str(found[1])] == [True, True]
    assert len(found) == 2
