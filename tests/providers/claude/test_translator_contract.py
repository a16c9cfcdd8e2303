"""What holds for every recording of both versions, whole or damaged."""

from __future__ import annotations

import random

import pytest
from claude_mutations import mutate
from claude_recordings import check, names, processes, translate

from greenroom import providers as p


@pytest.mark.parametrize("name", names())
def test_every_turn_of_a_recording_ends_once_and_its_calls_have_results(name: str) -> None:
    for conversation in processes(name):
        check(translate(conversation))


@pytest.mark.parametrize("name", names())
def test_nothing_in_a_recording_is_unknown_or_malformed(name: str) -> None:
    for conversation in processes(name):
        assert [event for event in translate(conversation) if isinstance(event, p.Raw)] == []


@pytest.mark.parametrize("name", names())
def test_the_end_of_a_recording_comes_from_the_agent_not_from_the_closing_pipe(name: str) -> None:
    cut = {"kill_and_resume_1", "bad_stdin", "resume_twice_same_id"}  # their process ended in the middle
    failed = [event for conv in processes(name) for event in translate(conv) if isinstance(event, p.TurnFailed)]
    by_pipe = [event for event in failed if event.code == "process_exited"]
    assert bool(by_pipe) == (name.split("/")[1] == "kill_and_resume_1")
    assert not (by_pipe and name.split("/")[1] not in cut)


def test_damaged_frames_never_raise_and_every_turn_still_ends_once(soak_count) -> None:
    conversations = [conversation for name in names() for conversation in processes(name)]
    for seed in range(soak_count(1_000)):
        rng = random.Random(seed)
        check(translate(mutate(rng.choice(conversations), rng)))


@pytest.mark.parametrize(
    "frame",
    [None, 7, "text", [], {}, {"type": None}, {"type": []}, {"type": "no_such_type", "x": 1}, {"type": "system"},
     {"type": "system", "subtype": "brand_new", "x": 1}, {"type": "assistant"}, {"type": "stream_event", "event": 3},
     {"type": "control_request", "request_id": "r", "request": {"subtype": "brand_new"}}],
)  # fmt: skip
def test_a_frame_that_nobody_knows_is_kept_as_it_came(frame) -> None:
    events = translate([("out", frame)])
    assert [event.payload for event in events if isinstance(event, p.Raw)] == [frame]


@pytest.mark.parametrize("name", ["claude/simple_text", "claude/subagent_background", "claude/interrupt_tool"])
def test_a_turn_that_is_cut_anywhere_ends_with_the_pipe(name: str) -> None:
    (conversation,) = processes(name)
    for cut in range(len(conversation)):
        check(translate(conversation[:cut]))
