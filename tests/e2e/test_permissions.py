"""A question that one process asks a person is seen and answered from another one."""

from __future__ import annotations

import json
from pathlib import Path

from .terminal import FULL_SPEED, Terminal, greenroom

RUN = (*FULL_SPEED, "run", "--provider", "replay", "show me")


def test_a_question_on_a_terminal_can_be_answered_from_another_one(tmp_path: Path) -> None:
    with Terminal(*RUN, cwd=tmp_path) as terminal:
        terminal.wait_for(r"allow Edit words.py\? \[y/N\] ")
        listed = greenroom("permissions", "list", "--json", cwd=tmp_path)
        [question] = json.loads(listed.stdout)
        assert question["request"]["name"] == "Edit"
        done = greenroom("permissions", "allow", "last", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        terminal.wait_for("The test passes")
        assert terminal.end() == 0


def test_with_nobody_at_work_there_is_nothing_to_answer(tmp_path: Path) -> None:
    assert greenroom(*RUN, cwd=tmp_path).returncode == 0
    assert "no agent waits" in greenroom("permissions", "list", cwd=tmp_path).stdout
    done = greenroom("permissions", "deny", "last", cwd=tmp_path)
    assert done.returncode == 1
    assert "is driven by nobody" in done.stderr
